//! The guard over a slow backing: it must not treat a cold cache as a useless one.
//!
//! Each run has a server of its own, so that its cache is cold. Two comparisons, of reads and of
//! writes: blocks that are accessed repeatedly, with the guard, relative to `--guard off`; and a
//! set four times the memory, each block once, relative to the same server without a cache. Both
//! while programs keep every processor busy, and without them.

use super::{Arguments, Hogs};
use crate::fio::{FioRun, Load, fio_load};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::sides::{Pairs, Side, in_turns};
use anyhow::Result;

/// Busy programs on each processor.
const BUSY: usize = 2;
/// Memory of the cache, in MiB: so small that it warms up within a run.
const MEMORY_MIB: u64 = 32;
/// Minimum speed of the server with the guard relative to the other, while processors are busy.
const SPEED_MIN: f64 = 0.95;
/// The same while they are not: there is no loss.
const QUIET_MIN: f64 = 1.0;

/// The kinds of comparison.
#[derive(Clone, Copy)]
enum Row {
    /// Three quarters of the memory at random, relative to `--guard off`.
    Again,
    /// Four times the memory, each block once, relative to no cache.
    Once,
}

impl Row {
    fn words(self) -> &'static str {
        match self {
            Row::Again => "asked for again, against --guard off",
            Row::Once => "each block once, against no cache",
        }
    }

    fn load(self, kind: &str, depth: u32) -> Load {
        let bytes = match self {
            Row::Again => (MEMORY_MIB << 20) / 4 * 3,
            Row::Once => (MEMORY_MIB << 20) * 4,
        };
        let once = matches!(self, Row::Once);
        Load { bytes: Some(bytes), once, ..Load::new(kind, depth) }
    }

    /// Returns the options for the memory and the guard.
    fn options(self, side: Side) -> [String; 2] {
        let memory = format!("--memory={MEMORY_MIB}M");
        match (self, side) {
            (_, Side::A) => [memory, "--guard=on".to_owned()],
            (Row::Again, Side::B) => [memory, "--guard=off".to_owned()],
            (Row::Once, Side::B) => ["--memory=0".to_owned(), "--guard=off".to_owned()],
        }
    }
}

/// Runs a load over a cold cache. Returns the result, and the time that the guard has bypassed the
/// cache.
fn run_cold(
    overdrive: &Overdrive,
    split: &Processors,
    delay: &str,
    options: &[String; 2],
    load: &Load,
    run_ms: u32,
) -> Result<(FioRun, u64)> {
    let [memory, guard] = options;
    let more = ["--no-holder", "--write", "back-now", "--delay", delay, memory, guard];
    let server = overdrive.serve(&split.of_servers(), "cold", "null:1T", &more)?;
    let run = fio_load(&server, &split.of_client(), load, run_ms)?;
    let bypass_ns = overdrive.guard(&server)?["bypass_ns"].as_u64().unwrap_or(0);
    Ok((run, bypass_ns))
}

/// Runs every comparison, with busy processors and without.
pub(crate) fn run(overdrive: &Overdrive, arguments: &Arguments) -> Result<()> {
    let processors = Processors::all()?;
    for (busy, target) in [(BUSY, SPEED_MIN), (0, QUIET_MIN)] {
        for delay_us in &arguments.delays_us {
            let delay =
                format!("read={delay_us}us,write={delay_us}us,flush={delay_us}us,servers=32");
            println!(
                "{delay_us} us a request, --memory {MEMORY_MIB}M, from cold; {} busy programs on {} \
                 processors",
                busy * processors.len(),
                processors.len()
            );
            let _hogs = Hogs::start(&processors, busy)?;
            for row in [Row::Again, Row::Once] {
                println!("  {}", row.words());
                rows(overdrive, row, &delay, target, arguments)?;
            }
        }
    }
    Ok(())
}

/// Runs one comparison with every load at every depth. Reads and writes are separate: mixed, a gain
/// of one could hide a loss of the other.
fn rows(
    overdrive: &Overdrive,
    row: Row,
    delay: &str,
    target: f64,
    arguments: &Arguments,
) -> Result<()> {
    let split = Processors::split()?;
    for kind in arguments.loads.iter().filter(|kind| *kind != "randrw") {
        for &depth in &arguments.depths {
            let load = row.load(kind, depth);
            let found = in_turns(arguments.pairs, |side| {
                run_cold(overdrive, &split, delay, &row.options(side), &load, arguments.run_ms)
            })?;
            print_result(&format!("{kind}, depth {depth}"), &found, target);
        }
    }
    Ok(())
}

type Found = (FioRun, u64);

fn print_result(what: &str, found: &[(Found, Found)], target: f64) {
    let periods = Pairs::of(found, |(run, _)| run.period_ns);
    let used = Pairs::of(found, |(run, _)| run.used_ns);
    let bypass_ns: u64 = found.iter().map(|((_, bypass_ns), _)| bypass_ns).sum();
    println!(
        "    {what:<20} {:>7.0} against {:>7.0} a second  ratio {}, upper {:.2}  target {target}: {}",
        1e9 / periods.a(),
        1e9 / periods.b(),
        periods.speed_words(),
        periods.speed_upper_95(),
        periods.level(target),
    );
    println!(
        "    {:<20} {:>7.0} against {:>7.0} ns of the server's processor a request; aside for {} ms a run",
        "",
        used.a(),
        used.b(),
        bypass_ns / 1_000_000 / found.len() as u64,
    );
}
