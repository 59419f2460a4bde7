//! `--compress auto` against off, while programs keep every processor busy and while they do not:
//! random reads of twice the memory, of a file in the page cache (a hit of the tier hardly saves
//! anything) and behind a delay.
//!
//! A server that waits for its backing less often sleeps less, and then the kernel's scheduler may
//! give it another part of a processor that it shares. Hence a control runs beside the two: without
//! compression, with the memory for as many hits as the server that compresses.

use super::{Arguments, Hogs};
use crate::fio::{FioRun, Load, fio_load};
use crate::overdrive::{Counted, Overdrive};
use crate::processors::Processors;
use crate::program::{Program, TemporaryPath};
use crate::sides::{Pairs, median, verdict};
use anyhow::{Context, Result};
use lane::Random;
use std::io::Write;
use std::path::Path;

/// Bytes of a block that are random; the rest is text.
const NOISE_BYTES: usize = 1200;
/// Minimum speed of the server that compresses.
const SPEED_MIN: f64 = 0.95;
/// Time in which 64 MiB of cache fill, without busy programs.
const FILL_MS: u64 = 3000;
/// Queue depth of the load that fills them.
const FILL_DEPTH: u32 = 32;
/// Time of a load before its rate is measured.
const SETTLE_MS: u32 = 2000;

/// Writes blocks of text behind random bytes.
fn fill(path: &Path, blocks: u64) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    let (mut file, mut random) = (std::io::BufWriter::new(file), Random::new(1));
    for number in 0..blocks {
        let mut block = format!("block {number} of a file that is text. ").repeat(200).into_bytes();
        block[..NOISE_BYTES].fill_with(|| random.below(256) as u8);
        file.write_all(&block[..4096])?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}

/// Runs every comparison.
pub(super) fn run(overdrive: &Overdrive, arguments: &Arguments) -> Result<()> {
    let file = arguments.program_options.file("guard-compressed");
    fill(file.path(), file_bytes(arguments) / 4096)?;
    let slow = arguments.delays_us.iter().map(|us| Some(format!("read={us}us,servers=32")));
    let delays: Vec<Option<String>> = [None].into_iter().chain(slow).collect();
    let (processors, split) = (Processors::all()?, Processors::split()?);
    for busy in [arguments.busy, 0] {
        for delay in &delays {
            println!(
                "{}: --compress auto against off, {} busy programs on {} processors",
                delay.as_deref().unwrap_or("page cache"),
                busy * processors.len(),
                processors.len()
            );
            let (processors, split) = (&processors[..], &split);
            Row { overdrive, arguments, file: &file, delay, busy, processors, split }.run()?;
        }
    }
    Ok(())
}

/// Bytes of the file: twice the memory.
fn file_bytes(arguments: &Arguments) -> u64 {
    arguments.memory_mib << 21
}

/// The comparisons of one backing.
struct Row<'a> {
    overdrive: &'a Overdrive,
    arguments: &'a Arguments,
    file: &'a TemporaryPath,
    delay: &'a Option<String>,
    busy: usize,
    processors: &'a [usize],
    split: &'a Processors,
}

/// A server of a comparison.
struct Contestant {
    words: String,
    server: Program,
}

/// The result of one run.
struct Run {
    fio: FioRun,
    /// For each request.
    sleeps: f64,
    /// Time that the server has waited for a processor, for each request.
    waited_ns: f64,
}

impl Row<'_> {
    fn run(&self) -> Result<()> {
        let memory_kib = self.arguments.memory_mib << 10;
        let auto = self.serve("auto", "auto", memory_kib)?;
        let off = self.serve("off", "off", memory_kib)?;
        for &depth in &self.arguments.depths {
            let load = Load::new("randread", depth);
            let hogs = Hogs::start(self.processors, self.busy)?;
            let [of_auto, of_off] = [self.hits(&auto, &load)?, self.hits(&off, &load)?];
            drop(hogs);
            // Random reads have hits in proportion to the memory. More than the file is of no use.
            let needed_kib = (memory_kib as f64 * of_auto / of_off.max(1e-3)) as u64;
            let needed_kib = needed_kib.clamp(memory_kib / 2, file_bytes(self.arguments) >> 9);
            let control = self.serve("control", "off", needed_kib)?;
            let sides = [&auto, &off, &control];
            let hogs = Hogs::start(self.processors, self.busy)?;
            for side in sides {
                self.load(&side.server, &load, SETTLE_MS)?;
            }
            let before = self.counts(sides)?;
            let runs = self.in_turns(sides, &load)?;
            let after = self.counts(sides)?;
            drop(hogs);
            print_result(&format!("randread, depth {depth}"), &runs);
            for (side, (before, after)) in before.iter().zip(&after).enumerate() {
                print_side(&sides[side].words, &runs, side, hit_share(before, after));
            }
            println!(
                "    auto: {} blocks stored, {} answered from the tier; paused: {}; a read of the \
                 backing: {} ns, {} thousandths asleep",
                after[0].since(&before[0], "compressed_stored"),
                after[0].since(&before[0], "compressed_used"),
                after[0].get("compression_paused"),
                after[0].get("backing_read_median_ns"),
                after[0].get("backing_read_slept"),
            );
        }
        Ok(())
    }

    /// Starts a server, and fills its cache.
    fn serve(&self, name: &str, compress: &str, memory_kib: u64) -> Result<Contestant> {
        let memory = format!("{memory_kib}K");
        let more = ["--no-holder", "--read-only", "--buffered", "--memory", &memory];
        let delayed = self.delay.iter().flat_map(|delay| ["--delay", delay.as_str()]);
        let more: Vec<&str> =
            more.into_iter().chain(["--compress", compress]).chain(delayed).collect();
        let backing = self.file.path().display().to_string();
        let server = self.overdrive.serve(&self.split.of_servers(), name, &backing, &more)?;
        let fill_ms = FILL_MS * memory_kib.div_ceil(64 << 10);
        self.load(&server, &Load::new("randread", FILL_DEPTH), fill_ms as u32)?;
        Ok(Contestant { words: format!("{compress}, {} MiB", memory_kib >> 10), server })
    }

    fn load(&self, server: &Program, load: &Load, run_ms: u32) -> Result<FioRun> {
        fio_load(server, &self.split.of_client(), load, run_ms)
    }

    /// Returns the share of hits under a load.
    fn hits(&self, side: &Contestant, load: &Load) -> Result<f64> {
        self.load(&side.server, load, SETTLE_MS)?;
        let before = self.counts([side])?;
        self.load(&side.server, load, SETTLE_MS)?;
        Ok(hit_share(&before[0], &self.counts([side])?[0]))
    }

    fn counts<const N: usize>(&self, sides: [&Contestant; N]) -> Result<Vec<Counted>> {
        sides.iter().map(|side| self.overdrive.counted_by(&side.server)).collect()
    }

    /// Measures each side in turn, in the order A B C C B A A ...
    fn in_turns(&self, sides: [&Contestant; 3], load: &Load) -> Result<Vec<[Run; 3]>> {
        let measure = |side: usize| -> Result<Run> {
            let server = &sides[side].server;
            let before = (server.wake_ups()?, server.waited_ns()?);
            let fio = self.load(server, load, self.arguments.run_ms)?;
            let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / fio.requests;
            let sleeps = each(server.wake_ups()?, before.0);
            Ok(Run { fio, sleeps, waited_ns: each(server.waited_ns()?, before.1) })
        };
        (0..self.arguments.pairs)
            .map(|round| match round % 2 {
                0 => Ok([measure(0)?, measure(1)?, measure(2)?]),
                _ => {
                    let (control, off) = (measure(2)?, measure(1)?);
                    Ok([measure(0)?, off, control])
                }
            })
            .collect()
    }
}

fn hit_share(before: &Counted, after: &Counted) -> f64 {
    let [hits, misses] = ["read_hits", "read_misses"].map(|name| after.since(before, name) as f64);
    hits / (hits + misses).max(1.0)
}

/// Returns the times of two of the sides.
fn pairs(runs: &[[Run; 3]], a: usize, b: usize) -> Pairs {
    let period_ns = |round: &[Run; 3], side: usize| round[side].fio.period_ns;
    let found: Vec<(f64, f64)> =
        runs.iter().map(|round| (period_ns(round, a), period_ns(round, b))).collect();
    Pairs::of(&found, |ns| *ns)
}

fn print_result(load: &str, runs: &[[Run; 3]]) {
    let [auto, control, tier] = [pairs(runs, 0, 1), pairs(runs, 2, 1), pairs(runs, 0, 2)];
    println!(
        "  {load:<22} ratio to off {}  target {SPEED_MIN}: {}",
        auto.speed_words(),
        verdict(auto.speed().1 >= SPEED_MIN)
    );
    println!("  {:<22} off with as many hits to off {}", "", control.speed_words());
    println!("  {:<22} ratio to off with as many hits {}", "", tier.speed_words());
}

fn print_side(words: &str, runs: &[[Run; 3]], side: usize, hits: f64) {
    let of =
        |value: fn(&Run) -> f64| median(runs.iter().map(|round| value(&round[side])).collect());
    println!(
        "    {words:<14} {:>7.0} a second; a request: {:>6.0} ns of the server's processor, \
         {:>6.0} ns of waiting for it, {:>5.3} sleeps; {:>4.1} % of a processor, {:.1} % hits",
        1e9 / of(|run| run.fio.period_ns),
        of(|run| run.fio.used_ns),
        of(|run| run.waited_ns),
        of(|run| run.sleeps),
        of(|run| run.fio.used_ns / run.fio.period_ns) * 100.0,
        hits * 100.0
    );
}
