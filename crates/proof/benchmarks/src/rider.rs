//! A client with a zipf load, which separates hits from misses by their latencies.

use crate::client::{Client, Run, Waiting, Window};
use crate::program::Program;
use crate::zipf::Zipf;
use anyhow::Result;
use lane::Random;

/// A faster answer came from memory: the backings of these loads take at least 500 us.
const MISS_NS_MIN: u64 = 400_000;
/// Seconds without a rise of the hit ratio after which a cache is warm: the policy's shadows take
/// longer than the cache takes to fill.
const STEADY_S: u32 = 15;
/// Reads drawn in advance; a run continues where the last one ended.
pub(crate) const DRAWS: usize = 1 << 22;

/// A client and its load.
pub(crate) struct Rider {
    client: Client,
    draws: Vec<u32>,
    at: usize,
}

/// The result of a run, with hits and misses separate.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    pub(crate) run: Run,
    hits: u64,
    pub(crate) hit_ns: f64,
    misses: u64,
    pub(crate) miss_ns: f64,
}

impl Split {
    pub(crate) fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    /// Returns the mean nanoseconds of a read at this hit ratio, at the costs of this run.
    pub(crate) fn mean_ns(&self, hit_ratio: f64) -> f64 {
        hit_ratio * self.hit_ns + (1.0 - hit_ratio) * self.miss_ns
    }
}

impl Rider {
    /// Connects to a server.
    ///
    /// # Errors
    /// If it does not serve.
    pub(crate) fn new(server: &Program, zipf: &Zipf, seed: u64) -> Result<Rider> {
        let draws = zipf.draw(DRAWS, &mut Random::new(seed));
        Ok(Rider { client: server.connect()?, draws, at: 0 })
    }

    /// Keeps this number of reads under way for a time.
    ///
    /// # Errors
    /// If the server refuses one, or the connection breaks.
    pub(crate) fn reads(&mut self, depth: usize, run_ms: u64) -> Result<Split> {
        let window = Window { reads: depth, waiting: Waiting::Blocked, run_ms };
        let (draws, at) = (&self.draws, &mut self.at);
        let mut of = [(0u64, 0u64); 2];
        let next = || {
            *at = (*at + 1) % draws.len();
            draws[*at].into()
        };
        let run = self.client.reads(window, next, |took_ns| {
            let (count, sum) = &mut of[usize::from(took_ns >= MISS_NS_MIN)];
            *count += 1;
            *sum += took_ns;
        })?;
        let mean = |(count, sum): (u64, u64)| sum as f64 / count.max(1) as f64;
        let (hits, misses) = (of[0].0, of[1].0);
        Ok(Split { run, hits, hit_ns: mean(of[0]), misses, miss_ns: mean(of[1]) })
    }

    /// Reads until the hit ratio has stopped rising, at a depth that makes this quick; for at most
    /// this number of seconds.
    ///
    /// # Errors
    /// If the server refuses one, or the connection breaks.
    pub(crate) fn warm(&mut self, seconds_max: u64) -> Result<()> {
        let (mut last, mut steady) = (0.0, 0);
        for second in 1..=seconds_max {
            let ratio = self.reads(32, 1000)?.hit_ratio();
            steady = if ratio < last + 0.002 { steady + 1 } else { 0 };
            last = ratio.max(last);
            if steady == STEADY_S {
                println!("  warm after {second} s: {:.2} % hits", 100.0 * ratio);
                return Ok(());
            }
        }
        println!("  still warming up after {seconds_max} s: {:.2} % hits", 100.0 * last);
        Ok(())
    }
}
