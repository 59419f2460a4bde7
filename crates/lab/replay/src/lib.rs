//! Replays the requests of a recorded trace on the target of a suite, and measures their latencies
//! (`overdrive trace replay`).
//!
//! ```text
//!   traces::replay::read --requests--> Recorded --times, addresses--> Trace
//!   Trace --load::Replay--> suites::TestRig: a modelled drive, or a real target --> Replayed
//! ```
#![forbid(unsafe_code)]

pub mod json;

use block::{Discard, Limits, Size};
use host::RealTime;
use load::{Dependent, Limit, Ordered, Record, Replay, RunOptions};
use std::fmt;
use std::path::PathBuf;
use suites::{Halt, Plan, Profile, Punctual, Rig, TestRig};
use trace::{Format, Trace};
use traces::replay::{Changes, Map, Recorded, Room, read};

/// The profile of a replay, as if it were a suite.
pub static PROFILE: Profile = Profile {
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

/// Options of a replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The trace.
    pub trace: PathBuf,
    /// Its format. None: detected.
    pub format: Option<Format>,
    /// Only requests of these devices, by their names in the trace; empty: all.
    pub devices: Vec<String>,
    /// Run this number of times faster than recorded.
    pub speed: Option<f64>,
    /// Maximum idle time, in microseconds; longer ones are shortened.
    pub idle_us_max: Option<u64>,
    /// Without times: this number of requests in flight.
    pub depth: Option<u32>,
    /// Without times: requests wait for those that had been answered before them.
    pub dependent: bool,
    /// Mapping to a target of another size.
    pub map: Option<Map>,
}

/// Reason why a trace was not replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The trace cannot be read.
    Trace(simulator::Error),
    /// The options do not fit together, or not to the trace and its target: one sentence.
    Usage(String),
    /// The target could not be prepared.
    Halt(Halt),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Trace(error) => error.fmt(f),
            Error::Usage(message) => f.write_str(message),
            Error::Halt(halt) => halt.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// The results of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// Requests that were to be sent, after splits.
    pub planned: u64,
    /// Its requests and latencies.
    pub record: Record,
    /// Requests that were changed or left out.
    pub changes: Changes,
    /// Whether the whole trace was replayed.
    pub is_complete: bool,
    /// The lateness of starts; None: there are no due times.
    pub punctual: Option<Punctual>,
    /// Size of the target.
    pub target_bytes: u64,
    /// The kind of clock: `virtual` or `real`.
    pub time: &'static str,
    /// The preparation of the target.
    pub prepared: String,
    /// Sentences about the run.
    pub remarks: Vec<String>,
    /// The counters of the cache; empty without one.
    pub counters: Vec<(&'static str, u64)>,
    /// The drive's own statistics.
    pub drive: Vec<(&'static str, f64)>,
}

impl Replayed {
    /// Whether requests started on time.
    pub fn is_valid(&self) -> bool {
        self.punctual.is_none_or(|punctual| punctual.is_valid())
    }
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
    target: &str,
    watch: &mut dyn simulator::Watch,
) -> Result<(Trace, Changes, bool), Error> {
    let Options { trace, format, devices, .. } = options;
    let has_memory = |bytes: u64| {
        let checked = host::check_memory_available(bytes);
        checked.map_err(|what| format!("{}: {what}; replay a part of it", trace.display()))
    };
    let mut recorded =
        read(trace, *format, devices, room, watch, &has_memory).map_err(Error::Trace)?;
    check(options, &recorded)?;
    if let Some(idle_us) = options.idle_us_max {
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
        return Err(Error::Usage(message));
    }
    let (is_complete, needed) = (recorded.is_complete, recorded.bytes());
    let placed = recorded.place(room, options.map, &has_memory).map_err(Error::Usage)?;
    let Some((events, changes)) = placed else {
        let trace = trace.display();
        let (needed, holds) = (Size(needed), Size(room.bytes));
        let message = format!(
            "{trace}: needs {needed}, but {target} has only {holds}; add --map wrap, scale or clip"
        );
        return Err(Error::Usage(message));
    };
    if events.events().is_empty() {
        let message = format!("{}: no request fits on the target", trace.display());
        return Err(Error::Usage(message));
    }
    Ok((events, changes, is_complete))
}

fn is_timed(options: &Options) -> bool {
    options.depth.is_none() && !options.dependent
}

/// Refuses times that the trace does not have.
fn check(options: &Options, recorded: &Recorded) -> Result<(), Error> {
    let trace = options.trace.display();
    let unanswered = recorded.unanswered();
    if options.dependent && unanswered > 0 {
        let all = recorded.requests();
        return Err(Error::Usage(format!(
            "--dependent: {unanswered} of {all} requests of {trace} have no recorded answer; use \
             --depth or the recorded times"
        )));
    }
    if is_timed(options) && recorded.requests() > 1 && recorded.is_timeless() {
        return Err(Error::Usage(format!("{trace}: has no times; use --depth")));
    }
    Ok(())
}

/// Replays the trace. After an interrupt or a failure of the device, the results are those of the
/// part that ran.
///
/// # Errors
/// The trace cannot be read, or not be replayed on this target.
pub fn run(
    options: &Options,
    plan: &Plan,
    rig: Box<dyn Rig>,
    watch: &mut (impl simulator::Watch + suites::Watch),
) -> Result<(Replayed, Option<Halt>), Error> {
    let room = room(rig.device().limits(), plan.reads_only);
    let (trace, changes, is_complete) = read_trace(options, &room, &plan.target.text, watch)?;
    let mut rig = TestRig::with_rig(rig, plan, watch).map_err(Error::Halt)?;
    let prepared = rig.prepare(&plan.state, room.bytes / 4096 * 4096, plan.target.options.seed);
    prepared.map_err(Error::Halt)?;
    let planned = trace.events().len() as u64;
    let record = replay(options, &mut rig, trace).map_err(Error::Halt)?;
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
