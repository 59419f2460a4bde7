//! `overdrive trace replay`.

use super::replay_options::{Options, Replayed};
use super::{failure, replay_json, replay_text};
use crate::bench::{plan, prices};
use crate::progress::Stages;
use crate::terminal;
use crate::watch::Watch;
use block::{Discard, Limits, Size};
use host::RealTime;
use load::{Dependent, Limit, Ordered, Record, Replay, RunOptions};
use stack::{Exit, Failure};
use std::process::ExitCode;
use suites::{Halt, Modelled, Plan, Preparation, Profile, Punctual, Rig, Target, TestRig};
use trace::Trace;
use traces::replay::{Changes, Recorded, Room, read};

static PROFILE: Profile = Profile {
    name: "trace replay",
    about: "The requests of a trace",
    takes_state: true,
    preparation: "fresh",
    time_ns: 0,
    span_bytes: None,
};

/// Maximum number of requests with recorded times in flight, as in the suites: more than hosts
/// send.
const TIMED_DEPTH: u32 = 256;

/// Time in which the tasks of a replay in real time are made, before the first request is due.
const LEAD_NS: u64 = 50_000_000;

/// Maximum duration: 100 years of 365 days. Clocks count 584 years in nanoseconds.
const DURATION_NS_MAX: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;

/// Maximum size of a request: hosts split longer ones before a device receives them.
const IO_BYTES_MAX: u64 = 2 << 20;

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
    let replayed = prepare_and_replay(options, &plan, rig, &mut watch);
    watch.finish();
    let (replayed, halt) = replayed?;
    match options.json {
        true => daemon::say!("{}", replay_json::object(options, &replayed, halt.as_ref())),
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

fn room(limits: &Limits, reads_only: bool) -> Room {
    Room {
        bytes: limits.bytes(),
        unit_bytes: limits.block_logical_bytes.into(),
        io_bytes_max: u64::from(limits.io_max_bytes).min(IO_BYTES_MAX),
        reads_only,
        discards: limits.discard != Discard::Ignored,
    }
}

/// Reads the trace, with its times and addresses as requested. Returns also its changes, and
/// whether it is complete.
fn read_trace(
    options: &Options,
    room: &Room,
    watch: &mut Watch,
) -> Result<(Trace, Changes, bool), Failure> {
    let Options { trace, format, device, .. } = options;
    let has_memory = |bytes: u64| {
        let checked = host::check_memory_available(bytes);
        checked.map_err(|what| format!("{}: {what}; replay a part of it", trace.display()))
    };
    let mut recorded = read(trace, *format, device, room, watch, &has_memory).map_err(failure)?;
    check(options, &recorded)?;
    if let Some(idle_us) = options.idle_max {
        recorded.cap_idle(idle_us.saturating_mul(1000));
    }
    if let Some(speed) = options.speed {
        recorded.hurry(speed);
    }
    if is_timed(options) && recorded.duration_ns() > DURATION_NS_MAX {
        let message = format!(
            "{}: lasts longer than 100 years with these times; use --depth, --idle-max or another \
             --speed",
            trace.display()
        );
        return Err(usage(message));
    }
    let (is_complete, needed) = (recorded.is_complete, recorded.bytes());
    let placed = recorded.place(room, options.map, &has_memory).map_err(usage)?;
    let Some((events, changes)) = placed else {
        let (trace, target) = (trace.display(), &options.target);
        let (needed, holds) = (Size(needed), Size(room.bytes));
        let message = format!(
            "{trace}: needs {needed}, but {target} has only {holds}; add --map wrap, scale or clip"
        );
        return Err(usage(message));
    };
    if events.events().is_empty() {
        let message = format!("{}: no request fits on the target", trace.display());
        return Err(usage(message));
    }
    Ok((events, changes, is_complete))
}

fn is_timed(options: &Options) -> bool {
    options.depth.is_none() && !options.dependent
}

/// Refuses times that the trace does not have.
fn check(options: &Options, recorded: &Recorded) -> Result<(), Failure> {
    let trace = options.trace.display();
    let unanswered = recorded.unanswered();
    if options.dependent && unanswered > 0 {
        let all = recorded.requests();
        return Err(usage(format!(
            "--dependent: {unanswered} of {all} requests of {trace} have no recorded answer; use \
             --depth or the recorded times"
        )));
    }
    if is_timed(options) && recorded.requests() > 1 && recorded.is_timeless() {
        return Err(usage(format!("{trace}: has no times; use --depth")));
    }
    Ok(())
}

/// Replays the trace. After an interrupt or a failure of the device, the results are those of the
/// part that ran.
fn prepare_and_replay(
    options: &Options,
    plan: &Plan,
    rig: Box<dyn Rig>,
    watch: &mut Watch,
) -> Result<(Replayed, Option<Halt>), Failure> {
    let room = room(rig.device().limits(), plan.reads_only);
    let (trace, changes, is_complete) = read_trace(options, &room, watch)?;
    let mut rig = TestRig::with_rig(rig, plan, watch).map_err(|halt| halted(options, &halt))?;
    let prepared = rig.prepare(&plan.state, room.bytes / 4096 * 4096, plan.target.options.seed);
    prepared.map_err(|halt| halted(options, &halt))?;
    let planned = trace.events().len() as u64;
    let record = replay(options, &mut rig, trace).map_err(|halt| halted(options, &halt))?;
    let halt = rig.halt().cloned();
    let replayed = Replayed {
        planned,
        changes,
        is_complete: is_complete && halt.is_none(),
        punctual: Punctual::of(&record),
        target_bytes: room.bytes,
        time: rig.time(),
        prepared: rig.prepared().to_string(),
        remarks: rig.remarks().to_vec(),
        counters: rig.cache_counters(),
        drive: rig.health(),
        record,
    };
    Ok((replayed, halt))
}

fn replay(options: &Options, rig: &mut TestRig, trace: Trace) -> Result<Record, Halt> {
    let steps = trace.events().len() as u64;
    let end = trace.events().iter().map(|event| event.first + u64::from(event.sectors)).max();
    let end = end.unwrap_or(0);
    let terms = |depth: u32| RunOptions {
        limit: Limit::requests(steps),
        // Two weeks have a million seconds: too many for a series.
        interval_ns: u64::MAX,
        ..RunOptions::depth(depth)
    };
    if options.dependent {
        let source = Ordered::new(Dependent::new(&trace));
        drop(trace);
        return rig.run_source("replay", source, end, terms(TIMED_DEPTH));
    }
    let source = Replay::new(trace, rig.top().limits().bytes(), 1)?;
    match options.depth {
        Some(depth) => rig.run_source("replay", Ordered::new(source.untimed()), end, terms(depth)),
        None => {
            let is_real = rig.time() == "real";
            let lead_ns = if is_real { LEAD_NS } else { 0 };
            let source = Ordered::new(source.after(lead_ns));
            let _first = is_real.then(RealTime::take);
            let mut record = rig.run_source("replay", source, end, terms(TIMED_DEPTH))?;
            record.start_ns = record.end_ns.min(record.start_ns + lead_ns);
            Ok(record)
        }
    }
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
