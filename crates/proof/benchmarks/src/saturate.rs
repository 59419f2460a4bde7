//! More load than a file can serve: the served volume compared with the same server without a
//! cache.
//!
//! Two loads. A trace is replayed at its own pace, independent of the answers, which is faster than
//! most disks can serve; its time ends with the last answer and the flush after it. fio writes
//! random 4 KiB blocks at queue depth 128; the flush after that is part of its time, too. Both
//! sides use the same file, each run a fresh server, in turns: A B B A.

use crate::client::Replayed;
use crate::fio::{Load, fio_load};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, TemporaryPath, fill};
use crate::sides::{Pairs, Side, in_turns, median, wall_ns};
use anyhow::{Context, Result};
use load::Replay;
use std::path::PathBuf;
use trace::Trace;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The trace: a recording, or MQSim's ASCII format, also compressed by xz. Without this the
    /// default one, if it exists.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Repetitions of the trace in each run, at other addresses each time.
    #[arg(long, default_value_t = 8)]
    repetitions: u64,
    /// The file's size, in GiB.
    #[arg(long, default_value_t = 4)]
    gib: u64,
    /// Memory of the cache.
    #[arg(long, default_value = "1G")]
    memory: String,
    /// The write mode. With `back` all writes would be write-through: neither load flushes before
    /// its end.
    #[arg(long, default_value = "back-now")]
    write: String,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Milliseconds of each run of fio.
    #[arg(long, default_value_t = 3000)]
    run_ms: u32,
}

const DEPTH: u32 = 128;
/// "At least equal within the run's spread".
const SPEED_MIN: f64 = 1.0;

/// The parts of a run.
struct TestRig<'a> {
    overdrive: Overdrive,
    processors: Processors,
    file: TemporaryPath,
    arguments: &'a Arguments,
}

impl TestRig<'_> {
    /// Starts a fresh server of the file.
    fn serve(&self, side: Side) -> Result<Program> {
        let memory = if side == Side::A { self.arguments.memory.as_str() } else { "0" };
        let path = self.file.path().display().to_string();
        let options = ["--no-holder", "--memory", memory, "--write", &self.arguments.write];
        self.overdrive.serve(&self.processors.of_servers(), "saturate", &path, &options)
    }

    /// Ends a server; describes the handling of its changes, if it has a cache.
    fn end(&self, server: Program, side: Side, words: &mut String) -> Result<()> {
        if side == Side::A {
            let counted = self.overdrive.counted()?;
            let of = |name| counted.get(name);
            *words = format!(
                "the last server with a cache: {} changes, of which {} passed (full {}, large {}, \
                 late {}); {} runs of {} blocks, {} saved; {} reads hit, {} missed",
                of("changes"),
                of("writes_through"),
                of("writes_through_full"),
                of("writes_through_large"),
                of("writes_through_late"),
                of("runs_written"),
                of("blocks_written") / of("runs_written").max(1),
                of("blocks_saved"),
                of("read_hits"),
                of("read_misses"),
            );
        }
        server.stop().map(drop)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = crate::trace::find(arguments.trace.as_deref())?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let processors = Processors::split()?;
    let file = arguments.program_options.file("saturate");
    fill(file.path(), arguments.gib << 30)?;
    processors.take_clients()?;
    let rig = TestRig { overdrive, processors, file, arguments };
    println!(
        "a file of {} GiB, --memory {} --write {} against --memory 0",
        arguments.gib, arguments.memory, arguments.write
    );
    if let Some(trace) = trace {
        replays(&rig, trace)?;
    }
    writes(&rig)
}

/// Replays the trace, open-loop.
fn replays(rig: &TestRig, trace: Trace) -> Result<()> {
    let bytes = rig.arguments.gib << 30;
    let (recorded, duration_ns) = (trace.events().len(), trace.duration_ns());
    let reads = trace.share_of_reads();
    let replay = Replay::new(trace, bytes, rig.arguments.repetitions)?;
    println!(
        "replay: {} requests, {:.0} % reads, due within {:.2} s; as recorded {recorded} requests in {:.3} s",
        replay.steps(),
        100.0 * reads,
        replay.last_due_ns() as f64 / 1e9,
        duration_ns as f64 / 1e9,
    );
    let mut words = String::new();
    let found: Vec<(Replayed, Replayed)> = in_turns(rig.arguments.pairs, |side| {
        let server = rig.serve(side)?;
        let mut client = server.connect()?;
        let replayed = client.replay(&mut replay.clone()).context("the replay")?;
        drop(client);
        rig.end(server, side, &mut words)?;
        Ok(replayed)
    })?;
    print_result("  done and flushed", &Pairs::of(&found, |replayed| replayed.took_ns as f64));
    let answered = Pairs::of(&found, |replayed| replayed.answered_ns as f64);
    println!("  answered: ratio {}", answered.speed_words());
    for (what, at) in [("p50", 0), ("p99", 1), ("p99.9", 2), ("max", 3)] {
        let of = |replayed: &Replayed| match at {
            3 => replayed.latency.max as f64 / 1e6,
            at => replayed.latency.quantiles[at] as f64 / 1e6,
        };
        let with = median(found.iter().map(|pair| of(&pair.0)).collect());
        let without = median(found.iter().map(|pair| of(&pair.1)).collect());
        println!(
            "    {what:<5} from due to answered {with:>9.2} ms, without a cache {without:>9.2}"
        );
    }
    println!("  {words}");
    Ok(())
}

/// Runs fio's random writes.
fn writes(rig: &TestRig) -> Result<()> {
    println!("fio: random writes of 4 KiB at depth {DEPTH}");
    let mut words = String::new();
    let found = in_turns(rig.arguments.pairs, |side| {
        let server = rig.serve(side)?;
        let load = Load::new("randwrite", DEPTH);
        let run = fio_load(&server, &rig.processors.of_client(), &load, rig.arguments.run_ms)?;
        let mut client = server.connect()?;
        let start = wall_ns();
        client.flush()?;
        let flush_ns = (wall_ns() - start) as f64;
        drop(client);
        rig.end(server, side, &mut words)?;
        Ok((run.period_ns, run.period_ns + flush_ns / run.requests))
    })?;
    print_result("  done and flushed, a write", &Pairs::of(&found, |(_, all)| *all));
    println!("  answered: ratio {}", Pairs::of(&found, |(answered, _)| *answered).speed_words());
    println!("  {words}");
    Ok(())
}

fn print_result(what: &str, times: &Pairs) {
    println!(
        "{what}: {:.3} ms, without a cache {:.3} ms; ratio {}, upper {:.2}  target at least \
         {SPEED_MIN:.1} within the spread: {}",
        times.a() / 1e6,
        times.b() / 1e6,
        times.speed_words(),
        times.speed_upper_95(),
        times.level(SPEED_MIN),
    );
}
