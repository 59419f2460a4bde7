//! `serve --poll` compared with the same server with `--poll off`: one read at a time, all hits.

use crate::adaptive;
use crate::client::{Client, NullServer, Waiting, Window};
use crate::contestant::Contestant;
use crate::fio::fio;
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, fill, pause_ms};
use crate::sides::{Pairs, Side, in_turns, median, verdict, wall_ns};
use anyhow::{Context, Result};
use lane::Random;
use serde_json::Value;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The volume's size, in MiB; all of it is cached.
    #[arg(long, default_value_t = 256)]
    mib: u64,
    /// Pairs of runs for each comparison.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 1500)]
    run_ms: u32,
    /// Parts to measure: adaptive, writes, fixed, wait.
    #[arg(long, value_delimiter = ',', default_value = "adaptive,writes,fixed,wait")]
    parts: Vec<String>,
}

const FIO_MIN: f64 = 1.5;
const SPIN_MIN: f64 = 8.0;
/// Maximum time from the last request until the server sleeps, in milliseconds.
const IDLE_MAX_MS: f64 = 50.0;

/// The two servers, with a client each.
struct TestRig {
    polling: Program,
    sleeping: Program,
    to_polling: Client,
    to_sleeping: Client,
    random: Random,
}

impl TestRig {
    fn new(
        overdrive: &Overdrive,
        processors: &Processors,
        file: &str,
        mib: u64,
    ) -> Result<TestRig> {
        let memory = format!("{}M", mib * 2);
        let hot = |socket: &str, more: &[&str]| -> Result<Program> {
            // Hits are measured: without `--guard off`, a first pass over a fast file would not be
            // cached.
            let fixed =
                ["--read-only", "--no-holder", "--guard", "off", "--memory", memory.as_str()];
            let options = [&fixed, more].concat();
            let program = overdrive.serve(&processors.of_servers(), socket, file, &options)?;
            program.connect()?.read_all()?;
            Ok(program)
        };
        let (polling, sleeping) =
            (hot("polling", &["--poll"])?, hot("sleeping", &["--poll", "off"])?);
        let (to_polling, to_sleeping) = (polling.connect()?, sleeping.connect()?);
        Ok(TestRig { polling, sleeping, to_polling, to_sleeping, random: Random::new(1) })
    }

    /// Returns the nanoseconds between two answers.
    fn period(&mut self, polls: bool, waiting: Waiting, run_ms: u32) -> Result<f64> {
        let client = if polls { &mut self.to_polling } else { &mut self.to_sleeping };
        let (blocks, random) = (client.blocks(), &mut self.random);
        let window = Window::one(waiting, run_ms.into());
        Ok(client.reads(window, || random.below(blocks), |_| ())?.period_ns())
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let processors = Processors::split()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let file = arguments.program_options.file("poll");
    fill(file.path(), arguments.mib << 20)?;
    let backing = file.path().display().to_string();
    println!(
        "4 KiB reads, all hits; servers on processors {}, client on {}",
        processors.of_servers(),
        processors.of_client()
    );
    let wants = |part: &str| arguments.parts.iter().any(|wanted| wanted == part);
    let Arguments { mib, pairs, run_ms, .. } = *arguments;
    if wants("adaptive") {
        let plan = adaptive::Plan { mib, pairs, run_ms: run_ms.into() };
        adaptive::run(&overdrive, &processors, &backing, &plan)?;
    }
    if wants("writes") {
        let plan = adaptive::Plan { mib, pairs, run_ms: run_ms.into() };
        adaptive::writes(&overdrive, &processors, &backing, &plan)?;
    }
    if wants("fixed") {
        let mut rig = TestRig::new(&overdrive, &processors, &backing, mib)?;
        processors.take_clients()?;
        by_fio(&rig, &processors, arguments)?;
        by_own(&mut rig, &processors, arguments)?;
        ceiling(&overdrive, &processors, arguments)?;
        idle(rig, arguments)?;
    }
    if wants("wait") {
        wait(&overdrive, &processors, arguments)?;
    }
    Ok(())
}

/// Measures the cost of the ring's wait, relative to a receive that blocks on the bare socket and
/// waits for nothing else, with servers that do no lookup.
fn wait(overdrive: &Overdrive, processors: &Processors, arguments: &Arguments) -> Result<()> {
    let start = |name: &str, waiting| -> Result<Contestant> {
        let socket = overdrive.directory().join(name);
        let server = NullServer::start(&socket, arguments.mib << 20, waiting, processors)?;
        let (client, random) = (server.connect()?, Random::new(1));
        Ok(Contestant { name: "null server", program: None, client, random })
    };
    let mut ring = start("null-ring", Waiting::OnRing)?;
    let mut bare = start("null-bare", Waiting::Blocked)?;
    processors.take_clients()?;
    let window = Window::one(Waiting::Blocked, arguments.run_ms.into());
    let found = in_turns(arguments.pairs, |side| match side {
        Side::A => ring.reads(window),
        Side::B => bare.reads(window),
    })?;
    let periods = Pairs::of(&found, |(period, _)| *period);
    line("null servers: a wait on the ring, against a receive that blocks", &periods, None);
    Ok(())
}

fn line(what: &str, periods: &Pairs, target: Option<f64>) {
    let (_, middle, _) = periods.speed();
    let target = target.map_or(String::new(), |target| {
        format!("  target at least {target}: {}", verdict(middle >= target))
    });
    println!(
        "{what:<66} {:>7.0} against {:>7.0} a second  ratio {}{target}",
        1e9 / periods.a(),
        1e9 / periods.b(),
        periods.speed_words()
    );
}

fn by_fio(rig: &TestRig, processors: &Processors, arguments: &Arguments) -> Result<()> {
    for server in [&rig.polling, &rig.sleeping] {
        fio(server, &processors.of_client(), 1, 500)?;
    }
    let found = in_turns(arguments.pairs, |side| {
        let server = if side == Side::A { &rig.polling } else { &rig.sleeping };
        fio(server, &processors.of_client(), 1, arguments.run_ms)
    })?;
    let periods = Pairs::of(&found, |run| run.period_ns);
    line("fio: --poll against sleeping", &periods, Some(FIO_MIN));
    Ok(())
}

/// Compares all cases with the simplest: a client that blocks and a server that sleeps.
fn by_own(rig: &mut TestRig, processors: &Processors, arguments: &Arguments) -> Result<()> {
    let cases = [
        ("a client that spins, --poll", Waiting::Spinning, true, Some(SPIN_MIN)),
        ("a client that spins, a server that sleeps", Waiting::Spinning, false, None),
        ("a client that blocks, --poll", Waiting::Blocked, true, None),
    ];
    for (what, waiting, polls, target) in cases {
        let found = in_turns(arguments.pairs, |side| match side {
            Side::A => rig.period(polls, waiting, arguments.run_ms),
            Side::B => rig.period(false, Waiting::Blocked, arguments.run_ms),
        })?;
        let what = format!("{what}, against both asleep");
        line(&what, &Pairs::of(&found, |period| *period), target);
    }
    // On a shared processor no wake-up crosses processors: the cost of sleeping in that case.
    processors.take_servers()?;
    let together = rig.period(false, Waiting::Blocked, arguments.run_ms)?;
    processors.take_clients()?;
    println!("for comparison, both asleep on the same processors: {:.0} a second", 1e9 / together);
    Ok(())
}

/// Measures a server that spins and does no lookup, with a client that spins.
fn ceiling(overdrive: &Overdrive, processors: &Processors, arguments: &Arguments) -> Result<()> {
    let socket = overdrive.directory().join("null");
    let null = NullServer::start(&socket, arguments.mib << 20, Waiting::Spinning, processors)?;
    let mut client = null.connect()?;
    let (blocks, mut random) = (client.blocks(), Random::new(1));
    let window = Window::one(Waiting::Spinning, arguments.run_ms.into());
    let mut rates = Vec::new();
    for _ in 0..arguments.pairs {
        rates.push(client.reads(window, || random.below(blocks), |_| ())?.rate());
    }
    println!("the ceiling, a null server that spins: {:.0} a second", median(rates));
    Ok(())
}

/// Measures the processor time of the polling server when no request arrives, and prints its own
/// counters.
fn idle(mut rig: TestRig, arguments: &Arguments) -> Result<()> {
    let (start_ns, before) = (wall_ns(), rig.polling.used_ns()?);
    rig.period(true, Waiting::Spinning, arguments.run_ms)?;
    let (end_ns, busy) = (wall_ns(), rig.polling.used_ns()?);
    pause_ms(1000);
    let idle_ms = (rig.polling.used_ns()? - busy) as f64 / 1e6;
    println!(
        "while asked, it takes {:.0} % of a processor; in the second after the last request it \
         takes {idle_ms:.1} ms  target at most {IDLE_MAX_MS}: {}",
        100.0 * (busy - before) as f64 / (end_ns - start_ns) as f64,
        verdict(idle_ms <= IDLE_MAX_MS)
    );
    drop(rig.to_polling);
    let used = rig.polling.used_ns()? as f64;
    let said = rig.polling.stop()?;
    let served: Value = serde_json::from_str(&said).context(said)?;
    let spent = served["poll_spent_ns"].as_f64().unwrap_or(0.0);
    println!(
        "in all, it took {:.2} s of processors, and says that it looked for work for {:.2} s (by the \
         clock)",
        used / 1e9,
        spent / 1e9
    );
    Ok(())
}
