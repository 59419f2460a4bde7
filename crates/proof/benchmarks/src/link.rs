//! A backing behind a network: an NBD export with the latency and the rate of a link.
//!
//! ```text
//!   client -- overdrive, memory for a quarter -- nbdkit: delay, rate -- file
//!   client ------------------------------------- the same nbdkit: the bare link
//! ```
//!
//! A zipf load shows what the cache saves, and a stream that starts cold how much of the link's
//! rate one reader gets through it.

use crate::client::{BLOCK, Client, Waiting, Window};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, fill};
use crate::rider::Rider;
use crate::rivals;
use crate::sides::{Pairs, Side, in_turns, verdict, wall_ns};
use crate::zipf::Zipf;
use anyhow::Result;
use lane::Random;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The volume's size, in MiB; memory is a quarter of it.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// The link's latency.
    #[arg(long, default_value = "1ms")]
    delay: String,
    /// The link's rate, in bits per second, of the stream; the zipf load has no such limit.
    #[arg(long, default_value = "1G")]
    rate: String,
    /// The load's exponent.
    #[arg(long, default_value_t = 1.1)]
    exponent: f64,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u64,
    /// Maximum seconds of warming up, even if the hit ratio still changes.
    #[arg(long, default_value_t = 90)]
    warm_s: u64,
}

/// Queue depths, and the required speed relative to the bare link.
const DEPTHS: [(usize, f64); 2] = [(1, 8.0), (32, 3.0)];
/// Minimum part of the link's rate that a stream gets through the cache.
const STREAM_MIN: f64 = 0.9;
/// Reads under way with which the bare link is full: 1 MiB.
const FULL: usize = 256;

/// The two ends of the comparison.
struct Bench<'a> {
    overdrive: &'a Overdrive,
    processors: &'a Processors,
    arguments: &'a Arguments,
    file: &'a Path,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let processors = Processors::split()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let file = arguments.program_options.file("link");
    fill(file.path(), arguments.mib << 20)?;
    println!(
        "an export of {} MiB behind {} and, for the stream, {} bits a second; memory {} MiB",
        arguments.mib,
        arguments.delay,
        arguments.rate,
        arguments.mib / 4
    );
    processors.take_clients()?;
    let bench =
        Bench { overdrive: &overdrive, processors: &processors, arguments, file: file.path() };
    bench.zipf()?;
    bench.stream()
}

impl Bench<'_> {
    /// Starts the server at the other end of the link.
    fn link(&self, name: &str, more: &[String]) -> Result<(Program, String)> {
        let socket = self.overdrive.directory().join(name);
        let delay = &self.arguments.delay;
        let delays = [format!("rdelay={delay}"), format!("wdelay={delay}")];
        let on = self.processors.of_servers();
        let link = rivals::nbdkit_link(&on, &socket, self.file, &[&delays, more].concat())?;
        Ok((link, format!("nbd+unix:///?socket={}", socket.display())))
    }

    fn cache(&self, uri: &str) -> Result<Program> {
        let memory = format!("{}M", self.arguments.mib / 4);
        let options = ["--read-only", "--no-holder", "--memory", &memory];
        self.overdrive.serve(&self.processors.of_servers(), "cached", uri, &options)
    }

    fn zipf(&self) -> Result<()> {
        let Arguments { mib, exponent, pairs, run_ms, warm_s, .. } = *self.arguments;
        let zipf = Zipf::new((mib << 20) / BLOCK as u64, exponent, &mut Random::new(1));
        let (link, uri) = self.link("link", &[])?;
        let cache = self.cache(&uri)?;
        let mut to_cache = Rider::new(&cache, &zipf, 2)?;
        to_cache.warm(warm_s)?;
        let mut to_link = Rider::new(&link, &zipf, 3)?;
        for (depth, target) in DEPTHS {
            let found = in_turns(pairs, |side| match side {
                Side::A => to_cache.reads(depth, run_ms),
                Side::B => to_link.reads(depth, run_ms),
            })?;
            let periods = Pairs::of(&found, |split| split.run.period_ns());
            println!(
                "  zipf {exponent}, depth {depth}: {:.0} against {:.0} a second  ratio {}  target \
                 at least {target}: {}",
                1e9 / periods.a(),
                1e9 / periods.b(),
                periods.speed_words(),
                verdict(periods.speed().1 >= target)
            );
        }
        Ok(())
    }

    fn stream(&self) -> Result<()> {
        let (link, uri) = self.link("stream", &[format!("rate={}", self.arguments.rate)])?;
        let mut to_link = link.connect()?;
        let found = in_turns(self.arguments.pairs, |side| match side {
            Side::A => {
                let cache = self.cache(&uri)?;
                let mut to_cache = cache.connect()?;
                let start = wall_ns();
                to_cache.read_all()?;
                let took_ns = wall_ns() - start;
                Ok(took_ns as f64 / self.bytes())
            }
            Side::B => self.full_link(&mut to_link),
        })?;
        let periods = Pairs::of(&found, |byte_ns| *byte_ns);
        println!(
            "  stream of 64 KiB reads, one at a time, against {FULL} of 4 KiB on the bare link: \
             {:.0} against {:.0} MB/s  ratio {}  target at least {STREAM_MIN}: {}",
            1e3 / periods.a(),
            1e3 / periods.b(),
            periods.speed_words(),
            verdict(periods.speed().1 >= STREAM_MIN)
        );
        Ok(())
    }

    fn bytes(&self) -> f64 {
        (self.arguments.mib << 20) as f64
    }

    /// Returns the nanoseconds of a byte on the bare link, when it is full.
    fn full_link(&self, to_link: &mut Client) -> Result<f64> {
        let window =
            Window { reads: FULL, waiting: Waiting::Blocked, run_ms: self.arguments.run_ms };
        let (blocks, mut next) = (to_link.blocks(), 0);
        let in_order = || {
            next = (next + 1) % blocks;
            next
        };
        let run = to_link.reads(window, in_order, |_| ())?;
        Ok(run.period_ns() / BLOCK as f64)
    }
}
