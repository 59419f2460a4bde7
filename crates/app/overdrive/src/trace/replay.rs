//! `overdrive trace replay`.

use super::{failure, replay_json, replay_text};
use crate::bench::live::LiveOptions;
use crate::bench::{plan, prices};
use crate::progress::Stages;
use crate::settings::Said;
use crate::watch::Watch;
use crate::{sim, terminal};
use block::{Discard, Limits, Size};
use daemon::units;
use load::{Dependent, Limit, Ordered, Record, Replay, RunOptions};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;
use suites::{Halt, Modelled, Plan, Preparation, Profile, Punctual, Rig, Target, TestRig};
use trace::{Format, Trace};
use traces::replay::{Changes, Map, Recorded, Room, read};

/// Run the requests of a trace on a modelled drive in virtual time, or on a real target.
///
/// Requests start at their recorded times, by one clock: a slow target does not delay later ones.
/// Other times are chosen by --speed, --idle-max, --depth or --dependent. Requests that overlap are
/// answered in their order, if one of them changes data.
///
/// On a real target --destroy is required, or --read-only for the reads alone. The range that the
/// trace uses is written first; see docs/TRACES.md for the method and for each figure.
///
/// Ctrl-C ends it with the results so far; the exit status is then 1. It is 6 if the target failed,
/// and 7 if --verify found data that differs from the written data.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The trace.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(super) trace: PathBuf,

    /// A target as for 'overdrive bench': model:NAME, a file, a block device, the name of a served
    /// volume, nbd+unix:///NAME?socket=PATH, null:SIZE or ram:SIZE.
    pub(super) target: String,

    #[arg(long, value_name = "F", value_parser = sim::format, help = sim::format_help())]
    format: Option<Format>,

    /// Only requests of these devices, by their names in the trace.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    device: Vec<String>,

    /// Run this number of times faster than recorded, for example 0.5 or 10.
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(super) speed: Option<f64>,

    /// Shorten each idle time of the recording to at most TIME, as DriveBench 2.0 does.
    #[arg(long, value_name = "TIME", value_parser = units::time_us)]
    pub(super) idle_max: Option<u64>,

    /// Without times: as fast as possible, with N requests in flight, as DriveBench 1.0 does.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=2048),
        conflicts_with_all = ["speed", "idle_max", "dependent"]
    )]
    pub(super) depth: Option<u32>,

    /// Without times: a request starts when all requests are answered that had been answered before
    /// it in the recording; reads wait for reads, others for all.
    #[arg(long, conflicts_with_all = ["speed", "idle_max"])]
    pub(super) dependent: bool,

    /// Mapping to a target of another size: wrap (addresses modulo its size), scale (regions of 1
    /// MiB in proportion), clip (requests beyond its end are left out). Required if the trace does
    /// not fit.
    #[arg(long, value_name = "MAP", value_parser = map)]
    pub(super) map: Option<Map>,

    /// State of the drive before: a name, or steps as for 'overdrive bench' [default: filled for a
    /// modelled drive, otherwise fresh]
    #[arg(long, value_name = "STEPS", value_parser = Preparation::parse)]
    state: Option<Preparation>,

    /// Put a cache with this much memory in front of the target.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(super) cache: Option<Size>,

    /// Costs of the cache's work: a price list, or 'measure' to measure them again; see 'overdrive
    /// bench'.
    #[arg(long, value_name = "measure|FILE", requires = "cache")]
    prices: Option<String>,

    #[command(flatten)]
    live: LiveOptions,

    #[command(flatten)]
    settings: Said<true>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: Option<f64> = text.parse().ok().filter(|speed| (1e-6..=1e6).contains(speed));
    speed.ok_or_else(|| "write a number from 0.000001 to 1000000".to_owned())
}

fn map(text: &str) -> Result<Map, String> {
    let names = || {
        format!("there is no such mapping; choose one of {}", Map::ALL.map(Map::name).join(", "))
    };
    Map::by_name(text).ok_or_else(names)
}

/// The results of a replay.
pub(super) struct Replayed {
    /// Requests that were to be sent, after splits.
    pub(super) planned: u64,
    pub(super) record: Record,
    pub(super) changes: Changes,
    /// Whether the whole trace was replayed.
    pub(super) is_complete: bool,
    /// The lateness of starts; None: there are no due times.
    pub(super) punctual: Option<Punctual>,
    pub(super) target_bytes: u64,
    /// The kind of clock: `virtual` or `real`.
    pub(super) time: &'static str,
    /// The preparation of the target.
    pub(super) prepared: String,
    pub(super) remarks: Vec<String>,
    /// The counters of the cache; empty without one.
    pub(super) counters: Vec<(&'static str, u64)>,
    /// The drive's own statistics.
    pub(super) drive: Vec<(&'static str, f64)>,
}

impl Replayed {
    /// Whether requests started on time.
    pub(super) fn is_valid(&self) -> bool {
        self.punctual.is_none_or(|punctual| punctual.is_valid())
    }
}

static PROFILE: Profile = Profile {
    name: "trace replay",
    about: "The requests of a trace",
    takes_state: true,
    preparation: "fresh",
    time_ns: 0,
    span_bytes: None,
};

/// Maximum number of requests with recorded times in flight, as in the suites: more than hosts send.
const TIMED_DEPTH: u32 = 256;

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
    let (is_complete, needed) = (recorded.is_complete, recorded.bytes());
    let Some((events, changes)) = recorded.place(room, options.map) else {
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
    let is_timed = options.depth.is_none() && !options.dependent;
    if is_timed && recorded.requests() > 1 && recorded.is_timeless() {
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
        // Two weeks have a million seconds, and nobody sees them all.
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
        None => rig.run_source("replay", Ordered::new(source), end, terms(TIMED_DEPTH)),
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
