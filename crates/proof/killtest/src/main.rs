//! The crash laboratory's second level as a command: `cargo xtask kills` runs it.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use killtest::lossy::Flushes;
use killtest::plan::{Mode, Only};
use killtest::{Outcome, RunOptions, Tally, backing};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Exit status if a promise was broken.
const EXIT_INTEGRITY: u8 = 7;
/// Duration in seconds, if no other limit is given.
const SECONDS: u64 = 40;

/// Kills the real daemon under stamped load, cuts its power, and judges the remaining data.
#[derive(Parser)]
#[command(name = "killtest", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Hidden>,
    /// Run for this many seconds [default: 40, unless --kills or --cuts is given].
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Run until the daemon was killed this many times.
    #[arg(long, value_name = "N")]
    kills: Option<u64>,
    /// Run until the power was cut this many times.
    #[arg(long, value_name = "N")]
    cuts: Option<u64>,
    /// Seed of all choices; the exact moment of a kill also depends on the machine.
    #[arg(long, value_parser = number, default_value = "0x0dd5", value_name = "N")]
    seed: u64,
    /// The program under test [default: the `overdrive` beside this one].
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Use only this event, repeatedly.
    #[arg(long, value_enum, value_name = "EVENT")]
    only: Option<Only>,
    /// To test the judge: serve without a holder. Kills must then be found to lose data.
    #[arg(long)]
    no_holder: bool,
    /// Durability of the daemons.
    #[arg(long, value_enum, default_value_t = Mode::Mixed, value_name = "WHAT")]
    durability: Mode,
    /// The write buffers of the daemons, in turn: sizes, or `default` for their own default. With a
    /// small one, writers are throttled, and write through.
    #[arg(long, value_delimiter = ',', default_value = "default", value_name = "SIZE,...")]
    dirty_bytes: Vec<String>,
    /// The write modes of the daemons, in turn [default: chosen, most of them back-now and back].
    #[arg(long, value_delimiter = ',', value_name = "MODE,...",
        value_parser = ["back", "back-now", "through", "none"])]
    write: Vec<String>,
    /// Whether the daemons compress evicted blocks, in turn. Three of four stamps are compressible.
    #[arg(long, value_delimiter = ',', value_name = "HOW,...",
        value_parser = ["off", "auto", "lz4", "zstd"])]
    compress: Vec<String>,
    /// Memory of the daemons, in MiB. The volume has 32: a smaller memory evicts more blocks. Some
    /// daemons have half as much again.
    #[arg(long, default_value_t = 16, value_name = "N",
        value_parser = clap::value_parser!(u64).range(4..=1024))]
    memory_mib: u64,
    /// To test the judge: the daemons serve with this durability, but are judged by --durability.
    #[arg(long, value_parser = ["flush", "ordered", "scratch"], value_name = "WHAT")]
    serve_as: Option<String>,
    /// To test the judge: the backing answers flushes and does nothing, or only carries out one
    /// some flushes earlier. Cuts must then be found to lose data, or to break the order.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "never",
        default_value_t = Flushes::Honest, hide_default_value = true, value_name = "HOW")]
    lying_backing: Flushes,
    /// How many times slower than most this machine is, for example an emulated one: all time
    /// limits are multiplied by this, and kills are delayed by it.
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    slower: u32,
    /// If files cannot be mounted (no nbdfuse, no /dev/fuse), print that and succeed, but not under
    /// CI.
    #[arg(long)]
    if_possible: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Hidden {
    /// The backing's process.
    #[command(hide = true)]
    Backing {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        bytes: u64,
        #[arg(long)]
        seed: u64,
        #[arg(long, value_enum)]
        flushes: Flushes,
    },
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a number; write it like 7 or 0x7f"))
}

impl Arguments {
    fn options(&self) -> anyhow::Result<RunOptions> {
        let counted = self.kills.is_some() || self.cuts.is_some();
        let seconds = self.seconds.or((!counted).then_some(SECONDS));
        let program = match &self.program {
            Some(program) => std::path::absolute(program)?,
            None => std::env::current_exe()?.with_file_name("overdrive"),
        };
        anyhow::ensure!(
            program.is_file(),
            "{}: is not there; build it with 'cargo build -p overdrive', or name it by --program",
            program.display()
        );
        Ok(RunOptions {
            program,
            seed: self.seed,
            time: seconds.map(Duration::from_secs),
            kills: self.kills,
            cuts: self.cuts,
            only: self.only,
            no_holder: self.no_holder,
            mode: self.durability,
            dirty_bytes: self.dirty_bytes.clone(),
            write: self.write.clone(),
            compress: self.compress.clone(),
            memory_mib: self.memory_mib,
            serve_as: self.serve_as.clone(),
            slower: self.slower,
            flushes: self.lying_backing,
        })
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let &Some(Hidden::Backing { ref socket, bytes, seed, flushes }) = &arguments.command {
        let options = backing::DiskOptions { socket, bytes, seed, flushes };
        let commands = std::io::stdin().as_fd().try_clone_to_owned();
        return match commands.and_then(|commands| backing::serve(&options, commands)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        };
    }
    if arguments.if_possible
        && std::env::var_os("CI").is_none()
        && let Err(why) = killtest::stage::can_mount()
    {
        println!("skipped: {why:#}");
        return ExitCode::SUCCESS;
    }
    let shows = std::io::stderr().is_terminal() && !arguments.json;
    let outcome = arguments.options().and_then(|options| {
        killtest::run(options, &mut |tally| {
            if shows {
                show(tally);
            }
        })
    });
    if shows {
        eprint!("\r{:70}\r", "");
    }
    match outcome {
        Ok(outcome) => print_outcome(&arguments, &outcome),
        Err(error) => failed(&format!("{error:#}")),
    }
}

fn failed(why: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("kills: {why}");
    ExitCode::FAILURE
}

fn show(tally: &Tally) {
    let Tally { kills, cuts, requests, .. } = tally;
    eprint!("\r{kills} kills, {cuts} power cuts, {requests} requests   ");
}

fn print_outcome(arguments: &Arguments, outcome: &Outcome) -> ExitCode {
    let Outcome { tally, violations, said, time } = outcome;
    if arguments.json {
        let (median, most) = tally.serving_ms();
        let (age, oldest) = tally.ages_ms();
        let object = serde_json::json!({
            "schema": "overdrive.kills/1",
            "seed": arguments.seed,
            "seconds": time.as_secs_f64(),
            "tally": tally,
            "serving_ms_median": median,
            "serving_ms_max": most,
            "age_ms_median": age,
            "age_ms_max": oldest,
            "violations": violations,
            "said": (!violations.is_empty()).then_some(said),
        });
        println!("{object:#}");
    } else {
        println!("{}", tally.report(time.as_secs_f64()));
        for violation in violations {
            println!("VIOLATION: {} (seed {:#x})", violation.what, arguments.seed);
            println!("  sector {}, found {}", violation.sector, violation.found);
            println!("  it may hold: {}", violation.expected.join("; "));
            violation.history.iter().for_each(|line| println!("  {line}"));
        }
        if !violations.is_empty() {
            println!("The daemon said:\n{said}");
        }
        println!("{} violations", violations.len());
    }
    match violations.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_INTEGRITY),
    }
}
