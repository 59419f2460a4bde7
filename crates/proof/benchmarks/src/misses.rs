//! Misses through the whole server: with a cache layer that cannot help, compared with the same
//! server without one.
//!
//! Two servers of the same program run at the same time; fio's nbd engine reads random 4 KiB blocks
//! from them in turns. Over `null:` the backing costs nothing, so the whole cost of the cache is
//! visible; the file is on the machine's disk and is read bypassing its page cache.

use crate::client::VOLUME;
use crate::fio::fio;
use crate::processors::pinned;
use crate::program::{Program, ProgramOptions, TemporaryPath, fill};
use crate::sides::{Pairs, Side, in_turns, median, verdict};
use anyhow::{Result, bail};
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The file's size, in GiB: many times the cache's.
    #[arg(long, default_value_t = 4)]
    gib: u64,
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 64)]
    memory_mib: u64,
    /// Queue depths.
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    depths: Vec<u32>,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 12)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u32,
    /// Backings: null, file.
    #[arg(long, value_delimiter = ',', default_value = "null,file")]
    backings: Vec<String>,
    /// Compare the server without a cache layer with itself, which shows the resolution of this
    /// machine.
    #[arg(long)]
    control: bool,
}

/// The required lower bound of the speed.
const SPEED_MIN: f64 = 0.95;
/// Maximum additional processor time of a miss, in nanoseconds.
const EXTRA_NS_MAX: f64 = 400.0;

/// The processor for both the server and fio. If the scheduler chose, they would sometimes share
/// one and sometimes not, and a wake-up across processors costs ten times the effect measured here.
/// On a shared processor the rate shows the time that both spend on a request.
const PROCESSOR: &str = "0";

fn start(program: &Path, backing: &str, memory: &str, socket: &Path) -> Result<Program> {
    let mut command = pinned(program, PROCESSOR);
    command
        .args(["serve", backing, "--read-only", "--quiet", "--no-holder", "--memory", memory])
        .args(["--name", VOLUME, "--nbd", &format!("unix:{}", socket.display())]);
    Program::start(command, socket)
}

/// Runs both servers in turns: A B B A ...
fn compare(a: &Program, b: &Program, depth: u32, arguments: &Arguments) -> Result<(Pairs, Pairs)> {
    for server in [a, b] {
        fio(server, PROCESSOR, depth, 1000)?;
    }
    let found = in_turns(arguments.pairs, |side| {
        let server = if side == Side::A { a } else { b };
        fio(server, PROCESSOR, depth, arguments.run_ms)
    })?;
    Ok((Pairs::of(&found, |run| run.period_ns), Pairs::of(&found, |run| run.used_ns)))
}

fn print(what: &str, periods: &Pairs, used: &Pairs) {
    let (low, middle, high) = periods.speed();
    let bound = periods.speed_lower_95();
    println!(
        "{what:<10} {:>9.0} against {:>9.0} a second  ratio {middle:.3} ({low:.3} to {high:.3}), \
         lower 95 % bound {bound:.3}  target {SPEED_MIN}: {}",
        1e9 / periods.a(),
        1e9 / periods.b(),
        verdict(bound >= SPEED_MIN),
    );
    let differences: Vec<f64> = used.differences();
    let extra = median(differences.clone());
    let (low, high) = differences
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    println!(
        "{:<10} {:>9.0} against {:>9.0} ns of processor a request  extra {extra:.0} ns ({low:.0} \
         to {high:.0})  target {EXTRA_NS_MAX:.0}: {}",
        "",
        used.a(),
        used.b(),
        verdict(extra <= EXTRA_NS_MAX),
    );
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let program = arguments.program_options.overdrive()?;
    let sockets = TemporaryPath::runtime()?;
    let file = arguments.program_options.file("misses");
    let memory = match arguments.control {
        true => "0".to_owned(),
        false => format!("{}M", arguments.memory_mib),
    };
    for kind in &arguments.backings {
        let backing = match kind.as_str() {
            "null" => "null:1T".to_owned(),
            "file" => {
                fill(file.path(), arguments.gib << 30)?;
                file.path().display().to_string()
            }
            _ => bail!("--backings {kind}: null or file"),
        };
        println!("{backing}: --memory {memory} against --memory 0");
        let with = start(&program, &backing, &memory, &sockets.path().join("with"))?;
        let without = start(&program, &backing, "0", &sockets.path().join("without"))?;
        for &depth in &arguments.depths {
            let (periods, used) = compare(&with, &without, depth, arguments)?;
            print(&format!("depth {depth}"), &periods, &used);
        }
    }
    Ok(())
}
