//! Hits through the whole server, compared with other servers, most of all with nbdkit's disk in
//! memory.
//!
//! All servers run at the same time and are used in turns; an unused server sleeps. The client has
//! a processor for itself, the servers share the others.

use crate::client::{NullServer, Waiting, Window};
use crate::contestant::Contestant;
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{Program, ProgramOptions, fill};
use crate::rivals;
use crate::sides::{Pairs, Side, in_turns, median, verdict};
use anyhow::{Result, ensure};
use lane::Random;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// The volume's size, in MiB; all of it is cached.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// Offered loads, in reads per second.
    #[arg(long, value_delimiter = ',', default_value = "20000,100000")]
    rates: Vec<u64>,
    /// Reads that the pipelining client has under way.
    #[arg(long, value_delimiter = ',', default_value = "32,128")]
    windows: Vec<usize>,
    /// Pairs of runs for each comparison, and rounds of the peak.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Milliseconds of each run.
    #[arg(long, default_value_t = 2000)]
    run_ms: u64,
    /// Parts to measure: loads, one, peak.
    #[arg(long, value_delimiter = ',', default_value = "loads,one,peak")]
    parts: Vec<String>,
}

/// Maximum processor time of a request, relative to nbdkit.
const COST_MAX: f64 = 0.6;
/// Minimum rate of one read at a time, relative to nbdkit.
const ONE_MIN: f64 = 1.0;
/// A measured rate below this share of the offered one has not reached it.
const REACHED: f64 = 0.99;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let processors = Processors::split()?;
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let file = arguments.program_options.file("server");
    fill(file.path(), arguments.mib << 20)?;
    let backing = file.path().display().to_string();
    let memory = format!("{}M", arguments.mib * 2);
    let hot = |socket: &str, more: &[&str]| -> Result<Program> {
        // Hits are measured: without `--guard off`, a first pass over a fast file would not be
        // cached.
        let all = ["--read-only", "--no-holder", "--guard", "off", "--memory", memory.as_str()];
        let options = [&all, more].concat();
        let program = overdrive.serve(&processors.of_servers(), socket, &backing, &options)?;
        program.connect()?.read_all()?;
        Ok(program)
    };
    let socket = overdrive.directory().join("nbdkit");
    let nbdkit = rivals::nbdkit_memory(&processors.of_servers(), &socket, arguments.mib << 20)?;
    let mut ours = Contestant::new("overdrive", hot("overdrive", &[])?)?;
    let mut theirs = Contestant::new("nbdkit memory", nbdkit)?;
    processors.take_clients()?;
    println!(
        "4 KiB reads of {} MiB, all hits; servers on processors {}, client on {}",
        arguments.mib,
        processors.of_servers(),
        processors.of_client()
    );
    let before = overdrive.counted()?;
    let wants = |part: &str| arguments.parts.iter().any(|wanted| wanted == part);
    if wants("loads") {
        loads(&mut ours, &mut theirs, arguments)?;
    }
    if wants("one") {
        one(&mut ours, &mut theirs, &processors, arguments)?;
    }
    let after = overdrive.counted()?;
    let (hits, misses) = (after.since(&before, "read_hits"), after.since(&before, "read_misses"));
    println!("overdrive counted {hits} hits and {misses} misses");
    ensure!(misses == 0, "not all of it was in memory");
    if wants("peak") {
        let others = || -> Result<Vec<Contestant>> {
            let on = processors.of_servers();
            let at = |name: &str| overdrive.directory().join(name);
            Ok(vec![
                Contestant::new("overdrive --poll", hot("poll", &["--poll"])?)?,
                Contestant::new(
                    "nbdkit file, filter cache",
                    rivals::nbdkit_cache(&on, &at("filter"), file.path())?,
                )?,
                Contestant::new("qemu-nbd", rivals::qemu_nbd(&on, &at("qemu"), file.path())?)?,
                Contestant::new(
                    "qemu-storage-daemon",
                    rivals::storage_daemon(&on, &at("daemon"), file.path())?,
                )?,
            ])
        };
        let at = overdrive.directory().join("null");
        let null = NullServer::start(&at, arguments.mib << 20, Waiting::Blocked, &processors)?;
        let (client, random) = (null.connect()?, Random::new(1));
        let ceiling = Contestant { name: "null server (ceiling)", program: None, client, random };
        let mut all = vec![ceiling, ours, theirs];
        all.extend(others()?);
        for &window in &arguments.windows {
            peak(&mut all, window, arguments)?;
        }
    }
    Ok(())
}

/// Compares the servers' processor time per request at fixed loads.
fn loads(ours: &mut Contestant, theirs: &mut Contestant, arguments: &Arguments) -> Result<()> {
    for &rate in &arguments.rates {
        let found = in_turns(arguments.pairs, |side| {
            let contestant = if side == Side::A { &mut *ours } else { &mut *theirs };
            contestant.paced(rate, arguments.run_ms)
        })?;
        let used = Pairs::of(&found, |(_, used)| *used);
        let rates = Pairs::of(&found, |(paced, _)| paced.rate());
        println!(
            "{rate} a second: {:.0} against {:.0} ns of processor a request",
            used.a(),
            used.b()
        );
        for (name, reached) in [(ours.name, rates.a()), (theirs.name, rates.b())] {
            if reached < REACHED * rate as f64 {
                println!("  {name} does not reach this load: {reached:.0} a second");
            }
        }
        let (_, middle, _) = used.speed();
        println!(
            "  ratio {}  target at most {COST_MAX}: {}",
            used.cost_words(),
            verdict(1.0 / middle <= COST_MAX)
        );
    }
    Ok(())
}

/// Compares one read after the other, with client and server on different processors, and on the
/// same ones.
fn one(
    ours: &mut Contestant,
    theirs: &mut Contestant,
    processors: &Processors,
    arguments: &Arguments,
) -> Result<()> {
    let window = Window::one(Waiting::Blocked, arguments.run_ms);
    for together in [false, true] {
        match together {
            true => processors.take_servers()?,
            false => processors.take_clients()?,
        }
        let found = in_turns(arguments.pairs, |side| {
            let contestant = if side == Side::A { &mut *ours } else { &mut *theirs };
            contestant.reads(window)
        })?;
        let periods = Pairs::of(&found, |(period, _)| *period);
        let used = Pairs::of(&found, |(_, used)| *used);
        let place = if together { "the servers' processors" } else { "a processor of its own" };
        println!(
            "one read at a time, client on {place}: {:.0} against {:.0} a second ({:.0} against \
             {:.0} ns of processor a request)",
            1e9 / periods.a(),
            1e9 / periods.b(),
            used.a(),
            used.b()
        );
        let (_, middle, _) = periods.speed();
        println!(
            "  ratio {}  target at least {ONE_MIN}: {}",
            periods.speed_words(),
            verdict(middle >= ONE_MIN)
        );
    }
    processors.take_clients()
}

/// Measures the maximum reads per second of every server; the order is reversed with each round.
fn peak(all: &mut [Contestant], window: usize, arguments: &Arguments) -> Result<()> {
    println!("peak, {window} reads under way, a client that spins on a processor of its own:");
    let window = Window { reads: window, waiting: Waiting::Spinning, run_ms: arguments.run_ms };
    let mut found: Vec<Vec<(f64, f64)>> = vec![Vec::new(); all.len()];
    for round in 0..arguments.pairs {
        for step in 0..all.len() {
            let index = if round % 2 == 0 { step } else { all.len() - 1 - step };
            found[index].push(all[index].reads(window)?);
        }
    }
    for (contestant, runs) in all.iter().zip(&found) {
        let rates: Vec<f64> = runs.iter().map(|(period, _)| 1e9 / period).collect();
        let low = rates.iter().copied().fold(f64::MAX, f64::min);
        let high = rates.iter().copied().fold(f64::MIN, f64::max);
        let used = match contestant.program {
            Some(_) => {
                let used = median(runs.iter().map(|(_, used)| *used).collect());
                format!(", {used:.0} ns of processor a request")
            }
            None => String::new(),
        };
        println!(
            "  {:<28} {:>8.0} a second ({low:.0} to {high:.0}){used}",
            contestant.name,
            median(rates)
        );
    }
    Ok(())
}
