//! Block accesses per second that one core simulates, for every policy.
//!
//! A zipf stream over four times the cache, drawn in advance, is read once to fill the cache and
//! then several times; the fastest time counts, since other load on the machine can only make it
//! slower. With `--sampled`: the error of a sample.

mod sampling;

use crate::sides::{verdict, wall_ns};
use crate::zipf::Zipf;
use ::policy::{Kind, Simulation};
use anyhow::{Result, bail};
use lane::Random;
use simulator::Lru;
use std::hint::black_box;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Sizes of the caches, in MiB of 4 KiB blocks.
    #[arg(long, value_delimiter = ',', default_value = "64,1024")]
    mib: Vec<u32>,
    /// Accesses of each run, in millions.
    #[arg(long, default_value_t = 4)]
    millions: usize,
    /// Runs that are timed.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The stream's exponent.
    #[arg(long, default_value_t = 1.0)]
    exponent: f64,
    /// Policies by their names; all if none is given.
    #[arg(long, value_delimiter = ',')]
    policies: Vec<String>,
    /// Instead: compare samples of these traces with the whole, each FILE or FILE=FORMAT; of a
    /// generated one if none is named.
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    sampled: Option<Vec<String>>,
}

/// Blocks of the stream for each slot of the cache.
const TIMES: u64 = 4;

/// Returns the target of a simulation in millions of accesses per second.
fn target(kind: Kind) -> f64 {
    if kind == Kind::Lru { 15.0 } else { 10.0 }
}

fn kinds(names: &[String]) -> Result<Vec<Kind>> {
    if names.is_empty() {
        return Ok(Kind::ALL.to_vec());
    }
    let known = Kind::ALL.map(Kind::name).join(", ");
    let by_name = |name: &String| match Kind::by_name(name) {
        Some(kind) => Ok(kind),
        None => bail!("--policies {name}: there is none of this name, only {known}"),
    };
    names.iter().map(by_name).collect()
}

/// Counts the misses of a policy.
enum Counted {
    /// Serves all sizes of LRU together; here there is one.
    Lru(Lru),
    Policy(Box<Simulation>),
}

impl Counted {
    fn new(kind: Kind, slots: u32) -> Counted {
        match kind {
            Kind::Lru => Counted::Lru(Lru::new(&[slots])),
            _ => Counted::Policy(Box::new(Simulation::new(kind, slots))),
        }
    }

    /// Returns the number of these blocks that miss.
    fn read_all(&mut self, slots: u32, blocks: &[u64]) -> u64 {
        match self {
            Counted::Policy(simulation) => {
                blocks.iter().filter(|block| !simulation.read(**block)).count() as u64
            }
            Counted::Lru(lru) => {
                let misses = |lru: &Lru| lru.misses(slots).expect("its only size");
                let before = misses(lru);
                lru.access_all(blocks);
                misses(lru) - before
            }
        }
    }
}

/// Returns the nanoseconds of the fastest run, and the share of its accesses that missed.
fn measure(kind: Kind, slots: u32, stream: &[u64], runs: usize) -> (u64, f64) {
    let mut counted = Counted::new(kind, slots);
    black_box(counted.read_all(slots, stream));
    let timed = (0..runs.max(1)).map(|_| {
        let begun = wall_ns();
        let missed = black_box(counted.read_all(slots, stream));
        (wall_ns() - begun, missed as f64 / stream.len() as f64)
    });
    timed.min_by_key(|run| run.0).expect("one run at least")
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(traces) = &arguments.sampled {
        return sampling::run(traces, arguments.runs);
    }
    let kinds = kinds(&arguments.policies)?;
    for &mib in &arguments.mib {
        if !(1..=64 * 1024).contains(&mib) {
            bail!("--mib {mib}: 1 to 65536");
        }
        let slots = mib * 256;
        let mut random = Random::new(u64::from(mib));
        let zipf = Zipf::new(u64::from(slots) * TIMES, arguments.exponent, &mut random);
        let drawn = zipf.draw(arguments.millions.max(1) * 1_000_000, &mut random);
        let stream: Vec<u64> = drawn.into_iter().map(u64::from).collect();
        println!(
            "{mib} MiB ({slots} slots), zipf {} over {TIMES} times as many blocks",
            arguments.exponent
        );
        for &kind in &kinds {
            let (time_ns, missed) = measure(kind, slots, &stream, arguments.runs);
            let millions = stream.len() as f64 / time_ns as f64 * 1e3;
            println!(
                "  {:<13} {millions:>6.1} million accesses a second, {missed:.4} missed  target {}: {}",
                kind.name(),
                target(kind),
                verdict(millions >= target(kind)),
            );
        }
    }
    Ok(())
}
