//! Adaptive polling, the default, compared with `--poll off` and nbdkit: it must answer single
//! reads faster, and cost nothing under other loads.

use crate::client::{Waiting, Window};
use crate::contestant::Contestant;
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::program::{fill, pause_ms};
use crate::rivals;
use crate::sides::{Pairs, Side, in_turns, verdict};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// The parameters of the measurement.
pub(crate) struct Plan {
    pub(crate) mib: u64,
    pub(crate) pairs: usize,
    pub(crate) run_ms: u64,
}

/// Minimum rates for one read at a time, relative to nbdkit: without polling, and with it.
const OFF_MIN: f64 = 1.0;
const ADAPTIVE_MIN: f64 = 1.3;
/// Minimum rate for one write at a time, relative to nbdkit.
const WRITES_MIN: f64 = 1.0;
/// Blocks that are written.
const WRITTEN_BLOCKS: u64 = 4096;
/// Maximum processor time relative to no polling, for loads that gain nothing from it.
const COST_MAX: f64 = 1.1;
/// Maximum polling time without an answer, in percent of the server's time.
const VAIN_MAX_PERCENT: f64 = 2.0;
/// The load of a client with a fixed rate, in reads per second.
const OWN_TIME_RATE: u64 = 20_000;
/// Reads under way.
const DEPTHS: [usize; 2] = [4, 32];

struct TestRig {
    adaptive: Contestant,
    off: Contestant,
    nbdkit: Contestant,
}

impl TestRig {
    fn new(
        overdrive: &Overdrive,
        processors: &Processors,
        backing: &str,
        mib: u64,
    ) -> Result<TestRig> {
        let (on, memory) = (processors.of_servers(), format!("{}M", mib * 2));
        let hot = |name, more: &[&str]| -> Result<Contestant> {
            // Hits are measured: without `--guard off`, a first pass over a fast file would not be
            // cached.
            let fixed =
                ["--read-only", "--no-holder", "--guard", "off", "--memory", memory.as_str()];
            let program = overdrive.serve(&on, name, backing, &[&fixed, more].concat())?;
            program.connect()?.read_all()?;
            Contestant::new(name, program)
        };
        let socket = overdrive.directory().join("nbdkit");
        let nbdkit = rivals::nbdkit_memory(&on, &socket, mib << 20)?;
        Ok(TestRig {
            adaptive: hot("adaptive", &[])?,
            off: hot("off", &["--poll", "off"])?,
            nbdkit: Contestant::new("nbdkit memory", nbdkit)?,
        })
    }
}

pub(crate) fn run(
    overdrive: &Overdrive,
    processors: &Processors,
    backing: &str,
    plan: &Plan,
) -> Result<()> {
    let mut rig = TestRig::new(overdrive, processors, backing, plan.mib)?;
    processors.take_clients()?;
    let one = Window::one(Waiting::Blocked, plan.run_ms);
    let TestRig { adaptive, off, nbdkit } = &mut rig;
    speed("one at a time, --poll off against nbdkit memory", off, nbdkit, one, plan, OFF_MIN)?;
    let what = "one at a time, adaptive against nbdkit memory";
    speed(what, adaptive, nbdkit, one, plan, ADAPTIVE_MIN)?;
    let what = "one at a time, adaptive against --poll off";
    speed(what, adaptive, off, one, plan, 1.0)?;
    let found = in_turns(plan.pairs, |side| {
        let contestant = if side == Side::A { &mut *adaptive } else { &mut *off };
        Ok(contestant.paced(OWN_TIME_RATE, plan.run_ms)?.1)
    })?;
    cost(&format!("{OWN_TIME_RATE} a second"), &Pairs::of(&found, |used| *used));
    for reads in DEPTHS {
        let window = Window { reads, ..one };
        let found = in_turns(plan.pairs, |side| {
            let contestant = if side == Side::A { &mut *adaptive } else { &mut *off };
            Ok(contestant.reads(window)?.1)
        })?;
        cost(&format!("depth {reads}"), &Pairs::of(&found, |used| *used));
    }
    vain(rig)
}

/// Compares writes, one at a time, to a part of the volume that memory holds.
pub(crate) fn writes(
    overdrive: &Overdrive,
    processors: &Processors,
    backing: &str,
    plan: &Plan,
) -> Result<()> {
    let (on, memory) = (processors.of_servers(), format!("{}M", plan.mib * 2));
    let serve = |name, poll: &[&str]| -> Result<Contestant> {
        let fixed = ["--no-holder", "--guard", "off", "--memory", memory.as_str()];
        let path = format!("{backing}.{name}");
        fill(Path::new(&path), plan.mib << 20)?;
        let program = overdrive.serve(&on, name, &path, &[&fixed, poll].concat());
        // The server has it open.
        std::fs::remove_file(&path)?;
        let mut contestant = Contestant::new(name, program?)?;
        // Writes of a client that has never flushed are written through.
        contestant.client.flush()?;
        Ok(contestant)
    };
    let socket = overdrive.directory().join("nbdkit-writes");
    let nbdkit = rivals::nbdkit_memory(&on, &socket, plan.mib << 20)?;
    let mut nbdkit = Contestant::new("nbdkit memory", nbdkit)?;
    let mut adaptive = serve("adaptive-writes", &[])?;
    let mut off = serve("off-writes", &["--poll", "off"])?;
    let mut fixed = serve("fixed-writes", &["--poll"])?;
    processors.take_clients()?;
    let adaptive = &mut adaptive;
    for (what, theirs, least) in [
        ("one write at a time, adaptive against nbdkit memory", &mut nbdkit, WRITES_MIN),
        ("one write at a time, adaptive against --poll off", &mut off, 1.0),
        ("one write at a time, adaptive against --poll", &mut fixed, 0.0),
    ] {
        let run = |one: &mut Contestant| one.writes(plan.run_ms, WRITTEN_BLOCKS);
        compare(what, adaptive, theirs, plan, least, run)?;
    }
    Ok(())
}

/// Compares the speed of reads and its cost.
fn speed(
    what: &str,
    ours: &mut Contestant,
    theirs: &mut Contestant,
    window: Window,
    plan: &Plan,
    least: f64,
) -> Result<()> {
    compare(what, ours, theirs, plan, least, |contestant| contestant.reads(window))
}

/// Compares the speed of a run and its cost.
fn compare(
    what: &str,
    ours: &mut Contestant,
    theirs: &mut Contestant,
    plan: &Plan,
    least: f64,
    run: impl Fn(&mut Contestant) -> Result<(f64, f64)>,
) -> Result<()> {
    let found =
        in_turns(plan.pairs, |side| run(if side == Side::A { &mut *ours } else { &mut *theirs }))?;
    let periods = Pairs::of(&found, |(period, _)| *period);
    let used = Pairs::of(&found, |(_, used)| *used);
    println!(
        "{what}: {:.0} against {:.0} a second, for {:.0} against {:.0} ns of processor a request",
        1e9 / periods.a(),
        1e9 / periods.b(),
        used.a(),
        used.b()
    );
    println!(
        "  ratio {}  target at least {least}: {}",
        periods.speed_words(),
        periods.level(least)
    );
    Ok(())
}

/// Prints the server's processor time per request, for loads where polling must cost nothing.
fn cost(load: &str, used: &Pairs) {
    let (_, middle, _) = used.speed();
    println!(
        "{load}, adaptive against --poll off: {:.0} against {:.0} ns of processor a request\n  \
         ratio {}  target at most {COST_MAX}: {}",
        used.a(),
        used.b(),
        used.cost_words(),
        verdict(1.0 / middle <= COST_MAX)
    );
}

/// Prints the adaptive server's own counters.
fn vain(rig: TestRig) -> Result<()> {
    let Contestant { program, client, .. } = rig.adaptive;
    drop(client);
    pause_ms(100);
    let said = program.context("it is a program")?.stop()?;
    let served: Value = serde_json::from_str(&said).context(said)?;
    let number = |name: &str| served[name].as_f64().unwrap_or(0.0);
    let share = |ns: f64| 100.0 * ns / number("served_ns").max(1.0);
    let vain = share(number("poll_vain_ns"));
    println!(
        "of all its time, adaptive polled {:.1} %, and {vain:.2} % in vain  target at most \
         {VAIN_MAX_PERCENT} %: {}",
        share(number("poll_spent_ns")),
        verdict(vain <= VAIN_MAX_PERCENT)
    );
    Ok(())
}
