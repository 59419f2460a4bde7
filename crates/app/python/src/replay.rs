//! A trace's requests on a modelled drive behind a cache, in virtual time.

use crate::errors::{DeviceError, of_trace, usage};
use crate::{bench, call, names};
use block::{Discard, Size};
use load::{Latency, Limit, Ordered, Record, Replay, RunOptions};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use suites::{Halt, Modelled, Plan, Preparation, Profile, Rig, Target, TestRig};
use trace::{Format, Trace};
use traces::replay::{Map, Room, read};

static PROFILE: Profile = Profile {
    name: "trace replay",
    about: "The requests of a trace",
    takes_state: true,
    preparation: "fresh",
    time_ns: 0,
    span_bytes: None,
};

/// Requests with recorded times in flight, and their maximum size, as of the command.
const TIMED_DEPTH: u32 = 256;
const IO_BYTES_MAX: u64 = 2 << 20;

/// The parameters of a replay.
struct Parameters {
    trace: PathBuf,
    format: Option<Format>,
    depth: Option<u32>,
    map: Option<Map>,
    state: Preparation,
}

/// Replays a trace on a modelled drive with a cache in front, whose own work takes no time: so the
/// result is the same on all machines. Without `depth`, requests start at their recorded times.
/// Returns the latencies as JSON.
#[pyfunction]
#[pyo3(signature = (trace, drive, *, format, cache, policy, depth, map, state))]
#[allow(clippy::too_many_arguments, reason = "a function of Python; its parameters have names")]
pub(crate) fn replay(
    py: Python<'_>,
    trace: PathBuf,
    drive: &str,
    format: Option<&str>,
    cache: Option<u64>,
    policy: &str,
    depth: Option<u32>,
    map: Option<&str>,
    state: &str,
) -> PyResult<String> {
    let refused =
        |parameter: &str, text: &str, what: &str| usage(&format!("{parameter} {text}: {what}"));
    let map = map.map(|name| {
        let names = || stack::unknown("mapping", name, Map::ALL.map(Map::name).into_iter());
        Map::by_name(name).ok_or_else(|| refused("map", name, &names()))
    });
    let state = Preparation::parse(state).map_err(|what| refused("state", state, &what))?;
    let parameters =
        Parameters { trace, format: names::format(format)?, depth, map: map.transpose()?, state };
    let target = bench::target(drive, None)?;
    let policy = match policy {
        "default" => block::CacheSpec::default().policy,
        name => name.parse().map_err(|what: String| refused("policy", name, &what))?,
    };
    let cache = cache.map(|bytes| block::CacheSpec { policy, ..suites::usual_cache(Size(bytes)) });
    host::want_huge_allocations();
    call::run(py, |signals| run(&parameters, target, cache, signals))?
}

fn run(
    parameters: &Parameters,
    target: Target,
    cache: Option<block::CacheSpec>,
    signals: &mut call::Signals,
) -> PyResult<String> {
    let plan = Plan { cache, state: parameters.state.clone(), ..Plan::new(&PROFILE, target) };
    let rig = Modelled::new(&plan.target, plan.prices).map_err(|what| usage(&what))?;
    let limits = rig.device().limits();
    let room = Room {
        bytes: limits.bytes(),
        unit_bytes: limits.block_logical_bytes.into(),
        io_bytes_max: u64::from(limits.io_max_bytes).min(IO_BYTES_MAX),
        reads_only: false,
        discards: limits.discard != Discard::Ignored,
    };
    let trace = placed(parameters, &plan.target, &room, signals)?;
    let path = parameters.trace.as_path();
    let halted = |halt: Halt| failure(path, &plan.target, &halt);
    let mut rig = TestRig::with_rig(Box::new(rig), &plan, signals).map_err(halted)?;
    let prepared = rig.prepare(&plan.state, room.bytes / 4096 * 4096, plan.target.options.seed);
    prepared.map_err(halted)?;
    let record = replayed(parameters.depth, &mut rig, trace).map_err(halted)?;
    match rig.halt() {
        Some(halt) => Err(halted(halt.clone())),
        None => Ok(object(&record).to_string()),
    }
}

/// Reads the trace and places its requests on the drive.
fn placed(
    parameters: &Parameters,
    target: &Target,
    room: &Room,
    signals: &mut call::Signals,
) -> PyResult<Trace> {
    let Parameters { trace: path, format, depth, map, .. } = parameters;
    let shown = path.display();
    let has_memory = |bytes: u64| host::check_memory_available(bytes);
    let recorded = read(path, *format, &[], room, signals, &has_memory).map_err(of_trace)?;
    if depth.is_none() && recorded.requests() > 1 && recorded.is_timeless() {
        return Err(usage(&format!("{shown}: has no times; give a depth")));
    }
    let needed = recorded.bytes();
    let placed = recorded.place(room, *map, &has_memory).map_err(|what| usage(&what))?;
    match placed {
        Some((trace, _)) if !trace.events().is_empty() => Ok(trace),
        Some(_) => Err(usage(&format!("{shown}: no request fits on the drive"))),
        None => {
            let (needed, holds, target) = (Size(needed), Size(room.bytes), &target.text);
            let message = format!(
                "{shown}: needs {needed}, but {target} has only {holds}; map it by wrap, scale or \
                 clip"
            );
            Err(usage(&message))
        }
    }
}

fn replayed(depth: Option<u32>, rig: &mut TestRig<'_>, trace: Trace) -> Result<Record, Halt> {
    let end = trace.events().iter().map(|event| event.first + u64::from(event.sectors)).max();
    let (steps, end) = (trace.events().len() as u64, end.unwrap_or(0));
    let terms = |depth: u32| RunOptions {
        limit: Limit::requests(steps),
        interval_ns: u64::MAX,
        ..RunOptions::depth(depth)
    };
    let source = Replay::new(trace, rig.top().limits().bytes(), 1)?;
    match depth {
        Some(depth) => rig.run_source("replay", Ordered::new(source.untimed()), end, terms(depth)),
        None => rig.run_source("replay", Ordered::new(source.after(0)), end, terms(TIMED_DEPTH)),
    }
}

fn object(record: &Record) -> Value {
    let all: Latency = record.all();
    json!({
        "requests": all.count(),
        "mean_ns": all.mean_ns(),
        "p50_ns": all.quantile_ns(0.5),
        "p99_ns": all.quantile_ns(0.99),
        "p99_99_ns": all.quantile_ns(0.9999),
        "max_ns": all.max_ns(),
        "elapsed_ns": record.elapsed_ns(),
    })
}

/// Returns the exception for the reason why a replay is not complete.
fn failure(path: &Path, target: &Target, halt: &Halt) -> PyErr {
    let message = format!("{} on {}: {halt}", path.display(), target.text);
    match halt {
        Halt::Interrupted | Halt::Unanswered => PyKeyboardInterrupt::new_err(()),
        Halt::Failed(_) | Halt::Wrong(_) => DeviceError::new_err(message),
        Halt::Load(_) | Halt::Plan(_) => usage(&message),
    }
}
