//! `overdrive trace replay`.

use super::replay_options::Options;
use super::{failure, replay_text};
use crate::bench::{plan, prices};
use crate::progress::Stages;
use crate::terminal;
use crate::watch::Watch;
use replay::{Error, PROFILE};
use stack::{Exit, Failure};
use std::process::ExitCode;
use suites::{Halt, Modelled, Plan, Preparation, Rig, Target};

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    // The tables of a modelled drive are accessed at random.
    host::want_huge_allocations();
    let watch = || Watch::new(Stages::with_time_left());
    // A file that is made must be removed if the program is interrupted while it is allocated.
    let early = options.live.makes_file().then(watch).transpose()?;
    let (plan, rig) = set_up(options)?;
    let mut watch = early.map_or_else(watch, Ok)?;
    let of_replay = options.of_replay();
    let replayed = replay::run(&of_replay, &plan, rig, &mut watch);
    watch.finish();
    let (replayed, halt) = replayed.map_err(|error| match error {
        Error::Trace(error) => failure(error),
        Error::Usage(message) => usage(message),
        Error::Halt(halt) => halted(options, &halt),
    })?;
    match options.json {
        true => {
            let object = replay::json::object(&of_replay, &plan, &replayed, halt.as_ref());
            daemon::say!("{object}");
        }
        false => terminal::print(replay_text::lines(options, &replayed, terminal::width())),
    }
    match halt {
        Some(halt) => Err(halted(options, &halt)),
        None if replayed.is_complete => Ok(ExitCode::SUCCESS),
        None => {
            let trace = options.trace.display();
            let message = format!("{trace}: is cut off; the results are for its beginning");
            Err(Failure::new(Exit::Negative, message))
        }
    }
}

/// Opens the target. Returns it with its plan.
fn set_up(options: &Options) -> Result<(Plan, Box<dyn Rig>), Failure> {
    let is_model = stack::below_limits(&options.target).starts_with("model:");
    let cache = options.cache.map(suites::usual_cache);
    let cache = cache.map(|usual| plan::with_settings(&options.settings, usual));
    if is_model {
        options.live.check_unused()?;
        let target = Target::parse(&options.target).map_err(|error| usage(error.to_string()))?;
        let filled = || Preparation::parse("filled").expect("a preset");
        let state = options.state.clone().unwrap_or_else(filled);
        let mut plan = Plan { cache, state, ..Plan::new(&PROFILE, target) };
        if plan.cache.is_some() {
            plan.prices = prices::find(options.prices.as_deref())?;
        }
        let rig = Modelled::new(&plan.target, plan.prices).map_err(usage)?;
        return Ok((plan, Box::new(rig)));
    }
    if options.prices.is_some() {
        let what = "they are only used in virtual time; omit them for a real target";
        return Err(usage(format!("--prices: {what}")));
    }
    let opened = options.live.open_as(&options.target, options.live.is_read_only())?;
    if opened.reads_only && options.state.is_some() {
        let what = "writes to the target, which is only read; omit it, or add --destroy";
        return Err(usage(format!("--state: {what}")));
    }
    let state = options.state.clone().unwrap_or_default();
    let plan = Plan { cache, state, ..Plan::new(&PROFILE, opened.target) };
    let plan = if opened.reads_only { plan.reading() } else { plan };
    Ok((plan, Box::new(opened.rig)))
}

/// Returns the failure for the reason why a replay is not complete.
fn halted(options: &Options, halt: &Halt) -> Failure {
    let target = &options.target;
    match halt {
        Halt::Interrupted => {
            Failure::new(Exit::Negative, "trace replay: interrupted; the replay is not complete")
        }
        Halt::Unanswered => {
            Failure::new(Exit::Negative, format!("{target}: the replay is not complete: {halt}"))
        }
        Halt::Failed(error) => {
            let message = format!("{target}: it failed; the replay is not complete: {error}");
            Failure::new(Exit::Io, message)
        }
        Halt::Wrong(mismatch) => {
            let message = format!("{target}: it returns other data than was written: {mismatch}");
            Failure::new(Exit::Integrity, message)
        }
        Halt::Load(_) | Halt::Plan(_) => {
            usage(format!("{target}: the trace cannot be replayed on it: {halt}"))
        }
    }
}
