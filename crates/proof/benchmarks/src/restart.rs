//! The time from kill -9 to the first answer of the next server, and the hits in its first second.

use crate::client::Client;
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{ProgramOptions, TemporaryPath, paint};
use crate::sides::{median, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use lane::Random;
use std::fs::File;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Dirty data, in MiB.
    #[arg(long, value_delimiter = ',', default_value = "64,1024")]
    dirty_mib: Vec<u64>,
    /// Cached data that is read before the kill, in MiB; 0: skip this part.
    #[arg(long, default_value_t = 1024)]
    clean_mib: u64,
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 4096)]
    memory_mib: u64,
    /// Number of kills.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

const SERVING_MAX_MS: f64 = 1000.0;
/// Writes of this length are buffered.
const WRITE_BYTES: usize = 64 << 10;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let processors = Processors::split()?;
    let all = format!("{},{}", processors.of_servers(), processors.of_client());
    for &dirty_mib in &arguments.dirty_mib {
        let mut found = Vec::new();
        for round in 0..arguments.rounds {
            let file = arguments.program_options.file(&format!("restart-{round}"));
            let made = File::create(file.path())?;
            // Sparse, and larger than the memory, which would otherwise be limited to its size.
            made.set_len(arguments.memory_mib << 20)?;
            found.push(run_once(&overdrive, &all, &file, dirty_mib, arguments)?);
        }
        let times = |time: fn(&Round) -> f64| -> (f64, f64) {
            let all: Vec<f64> = found.iter().map(time).collect();
            (median(all.clone()), all.iter().copied().fold(0.0, f64::max))
        };
        let (middle, most) = times(|round| round.served_ms);
        let (exit_middle, exit_most) = times(|round| round.exit_ms);
        println!(
            "{dirty_mib} MiB dirty of {} MiB of memory, killed {} times: the next server's first \
             answer after {middle:.0} ms (at most {most:.0})  target at most {SERVING_MAX_MS}: {}",
            arguments.memory_mib,
            arguments.rounds,
            verdict(most <= SERVING_MAX_MS)
        );
        println!(
            "  of that, the killed one took {exit_middle:.0} ms (at most {exit_most:.0}) to be gone"
        );
    }
    if arguments.clean_mib > 0 {
        print_clean(&overdrive, &all, arguments)?;
    }
    Ok(())
}

/// Maximum loss of hits by a kill, in percent of the reads.
const LOSS_MAX: f64 = 1.0;
/// Time for which hits are counted.
const COUNTED_NS: u64 = 1_000_000_000;

/// Compares the hits before and after kills, and the first answers with kept and dropped blocks.
fn print_clean(overdrive: &Overdrive, processors: &str, arguments: &Arguments) -> Result<()> {
    let rounds = |is_kept| -> Result<Vec<CleanRound>> {
        let round = |_| run_clean(overdrive, processors, arguments, is_kept);
        (0..arguments.rounds).map(round).collect()
    };
    let (kept, dropped) = (rounds(true)?, rounds(false)?);
    let middle = |rounds: &[CleanRound], value: fn(&CleanRound) -> f64| {
        median(rounds.iter().map(value).collect())
    };
    let loss = kept.iter().map(|round| round.before - round.after).fold(0.0, f64::max);
    println!(
        "{} MiB read, killed {} times: {:.2} % hits before, {:.2} % in the first second after \
         (medians; {:.2} % if the blocks are dropped)  target at most {LOSS_MAX} less: {}",
        arguments.clean_mib,
        arguments.rounds,
        middle(&kept, |round| round.before),
        middle(&kept, |round| round.after),
        middle(&dropped, |round| round.after),
        verdict(loss <= LOSS_MAX)
    );
    println!(
        "  the next server's first answer after {:.0} ms, {:.0} ms if the blocks are dropped",
        middle(&kept, |round| round.served_ms),
        middle(&dropped, |round| round.served_ms)
    );
    Ok(())
}

/// The result of one kill with clean blocks.
struct CleanRound {
    /// Hits in the second before, in percent of the reads.
    before: f64,
    /// Hits in the first second of the next server.
    after: f64,
    /// Time from the kill to the first answer.
    served_ms: f64,
}

/// Returns the hits of random reads of one second, in percent.
fn hits(
    overdrive: &Overdrive,
    client: &mut Client,
    blocks: u64,
    random: &mut Random,
) -> Result<f64> {
    let counted = || -> Result<(u64, u64)> {
        let counters = overdrive.counted()?;
        Ok((counters.get("read_hits"), counters.get("read_misses")))
    };
    let (before, mut read) = (counted()?, vec![0; 4096]);
    let end = wall_ns() + COUNTED_NS;
    while wall_ns() < end {
        client.read(random.below(blocks) * 4096, &mut read)?;
    }
    let after = counted()?;
    let (hits, misses) = (after.0 - before.0, after.1 - before.1);
    Ok(100.0 * hits as f64 / (hits + misses).max(1) as f64)
}

/// Kills a server once. Unless `is_kept`, another program opens the image while it is down.
fn run_clean(
    overdrive: &Overdrive,
    processors: &str,
    arguments: &Arguments,
    is_kept: bool,
) -> Result<CleanRound> {
    let file = arguments.program_options.file("restart-clean");
    File::create(file.path())?.set_len(arguments.memory_mib << 20)?;
    let backing = file.path().display().to_string();
    let memory = format!("{}M", arguments.memory_mib);
    let server = overdrive.serve(processors, "restart", &backing, &["--memory", &memory])?;
    let mut client = server.connect()?;
    let mut chunk = vec![0; 1 << 20];
    for mib in 0..arguments.clean_mib {
        client.read(mib << 20, &mut chunk)?;
    }
    let (blocks, mut random) = (arguments.clean_mib << 8, Random::new(1));
    let before = hits(overdrive, &mut client, blocks, &mut random)?;
    drop(client);
    let start = wall_ns();
    server.kill()?;
    if !is_kept {
        File::open(file.path())?;
    }
    let next = overdrive.serve(processors, "restart", &backing, &["--memory", &memory])?;
    let mut client = next.connect()?;
    client.read(0, &mut chunk[..4096])?;
    let served_ms = (wall_ns() - start) as f64 / 1e6;
    let after = hits(overdrive, &mut client, blocks, &mut random)?;
    drop(client);
    next.stop()?;
    Ok(CleanRound { before, after, served_ms })
}

/// The result of one kill.
struct Round {
    /// Time from the kill to the first answer.
    served_ms: f64,
    /// Time from the kill until the process was gone.
    exit_ms: f64,
}

fn run_once(
    overdrive: &Overdrive,
    processors: &str,
    file: &TemporaryPath,
    dirty_mib: u64,
    arguments: &Arguments,
) -> Result<Round> {
    let backing = file.path().display().to_string();
    let memory = format!("{}M", arguments.memory_mib);
    // Above three quarters of the dirty limit the writes would be write-through.
    let dirty = format!("{}M", (dirty_mib * 2).min(arguments.memory_mib * 3 / 4));
    let options = [
        "--memory",
        &memory,
        "--dirty-bytes",
        &dirty,
        "--flush-target",
        "0",
        "--dirty-age",
        "1000s",
        "--write",
        "back-now",
    ];
    // Writeback starts at a quarter of the dirty limit. On the first server it is so slow that none
    // of it has been answered when the server is killed; on the next one it is not delayed.
    let slow = ["--delay", "write=60s,flush=60s,servers=1", "--retry-time", "1000s"];
    let first = [&options[..], &slow].concat();
    let server = overdrive.serve(processors, "restart", &backing, &first)?;
    let mut client = server.connect()?;
    let mut chunk = vec![0; WRITE_BYTES];
    for offset in (0..dirty_mib << 20).step_by(WRITE_BYTES) {
        paint(&mut chunk, offset);
        client.write(offset, &chunk)?;
    }
    let held = (overdrive.counted()?.get("blocks_dirty") * 4096) >> 20;
    if held < dirty_mib {
        println!("  only {held} of {dirty_mib} MiB are dirty at the kill");
    }
    ensure!(held > 0, "nothing is dirty");
    drop(client);
    let start = wall_ns();
    server.kill()?;
    let gone = wall_ns();
    let next = overdrive.serve(processors, "restart", &backing, &options)?;
    let mut client = next.connect()?;
    // The last block written: certainly not on the backing.
    let offset = (dirty_mib << 20) - WRITE_BYTES as u64;
    let mut read = vec![0; WRITE_BYTES];
    client.read(offset, &mut read).context("the first read after the kill")?;
    let served = wall_ns();
    paint(&mut chunk, offset);
    ensure!(read == chunk, "an acknowledged write is lost");
    next.kill()?;
    overdrive.discard()?;
    let ms = |ns: u64| ns as f64 / 1e6;
    Ok(Round { served_ms: ms(served - start), exit_ms: ms(gone - start) })
}
