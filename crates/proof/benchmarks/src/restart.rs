//! The time from kill -9 to the first answer of the next server.

use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{ProgramOptions, TemporaryPath, paint};
use crate::sides::{median, verdict, wall_ns};
use anyhow::{Context, Result, ensure};
use std::fs::File;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Dirty data, in MiB.
    #[arg(long, value_delimiter = ',', default_value = "64,1024")]
    dirty_mib: Vec<u64>,
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
    Ok(())
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
