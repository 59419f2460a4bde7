//! The cost of an idle daemon: without clients, and with an idle one.

use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, pause_ms};
use crate::sides::verdict;
use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Threads of the server.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

/// Maximum processor time of an idle daemon with an idle client, in percent.
const SHARE_MAX: f64 = 0.1;

/// Activity of a program per second.
struct Look {
    wake_ups: f64,
    percent: f64,
}

impl Look {
    fn at(program: &Program, seconds: u32) -> Result<Look> {
        let count = || -> Result<(u64, u64)> { Ok((program.wake_ups()?, program.used_ns()?)) };
        // Earlier activity settles first.
        pause_ms(1000);
        let before = count()?;
        pause_ms(u64::from(seconds) * 1000);
        let after = count()?;
        let second = |now: u64, then: u64| now.saturating_sub(then) as f64 / f64::from(seconds);
        Ok(Look { wake_ups: second(after.0, before.0), percent: second(after.1, before.1) / 1e7 })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let all: Vec<String> = Processors::all()?.iter().map(usize::to_string).collect();
    let threads = arguments.threads.to_string();
    let options = ["--no-holder", "--memory", "16M", "--threads", &threads];
    let program = overdrive.serve(&all.join(","), "idle", "ram:64M", &options)?;
    let without = Look::at(&program, arguments.seconds)?;
    let mut client = program.connect()?;
    client.read(0, &mut [0; 4096])?;
    let with = Look::at(&program, arguments.seconds)?;
    println!(
        "without a client {:.1} wake-ups a second, {:.3} % of a processor",
        without.wake_ups, without.percent
    );
    println!(
        "with an idle one {:.1} wake-ups a second, {:.3} %  target at most {SHARE_MAX} %: {}",
        with.wake_ups,
        with.percent,
        verdict(with.percent <= SHARE_MAX)
    );
    Ok(())
}
