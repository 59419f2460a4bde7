//! Generated traces of reviews: AnandTech's storage benches, The Tech Report's DriveBench, PCMark.
//!
//! The traces themselves were never published. Each is generated from its published properties (see
//! [`crate::generated`]) and replayed: at its times with limited idle times, or as fast as
//! possible. A slow target does not delay later requests: they wait, and that is part of their
//! service time.

use super::Suite;
use super::parts::{REST_NS, lay_out, seed};
use crate::generated::{Generated, Pace, Profile as Trace, Requests, Scale, Workload};
use crate::halt::Halt;
use crate::outcome::{Outcome, Punctual, Row};
use crate::plan::{Plan, Profile};
use crate::test_rig::TestRig;
use block::Size;
use load::{End, Latency, Limit, Ordered, Record, RunOptions};
use report::words::time;

/// See the module documentation.
pub(super) struct Replay(&'static Profile);

/// Returns the profile of a suite that replays a generated trace.
const fn of(
    name: &'static str,
    about: &'static str,
    preparation: &'static str,
    span_bytes: u64,
) -> Profile {
    let span_bytes = Some(span_bytes);
    Profile { name, about, takes_state: true, preparation, time_ns: 0, span_bytes }
}

static DRIVEBENCH1_PROFILE: Profile = of(
    "drivebench1",
    "The Tech Report's DriveBench 1.0: traces of five jobs beside a desktop, as fast as possible",
    "laid-out",
    16 << 30,
);
static DRIVEBENCH2_PROFILE: Profile = of(
    "drivebench2",
    "The Tech Report's DriveBench 2.0: two weeks of a desktop, idle times limited to a second",
    "laid-out",
    100 << 30,
);
static HEAVY_PROFILE: Profile = of(
    "heavy",
    "AnandTech Storage Bench 2011, Heavy workload, idle times limited to 25 ms",
    "laid-out",
    60 << 30,
);
static LIGHT_PROFILE: Profile = of(
    "light",
    "AnandTech Storage Bench 2011, Light workload, idle times limited to 25 ms",
    "laid-out",
    30 << 30,
);
static DESTROYER_PROFILE: Profile = of(
    "destroyer",
    "AnandTech Storage Bench 2013, the Destroyer, idle times limited to 25 ms",
    "laid-out",
    230 << 30,
);
static PCMARK_PROFILE: Profile = of(
    "pcmark",
    "PCMark 8, storage: traces of ten applications, idle times limited to a second",
    "laid-out",
    8 << 30,
);

/// The Tech Report's DriveBench 1.0.
pub(super) static DRIVEBENCH1: Replay = Replay(&DRIVEBENCH1_PROFILE);
/// The Tech Report's DriveBench 2.0.
pub(super) static DRIVEBENCH2: Replay = Replay(&DRIVEBENCH2_PROFILE);
/// AnandTech Storage Bench 2011, Heavy.
pub(super) static HEAVY: Replay = Replay(&HEAVY_PROFILE);
/// AnandTech Storage Bench 2011, Light.
pub(super) static LIGHT: Replay = Replay(&LIGHT_PROFILE);
/// AnandTech Storage Bench 2013.
pub(super) static DESTROYER: Replay = Replay(&DESTROYER_PROFILE);
/// PCMark 8, storage.
pub(super) static PCMARK: Replay = Replay(&PCMARK_PROFILE);

/// Maximum number of requests with times in flight, as in `trace replay`.
const TIMED_DEPTH: u32 = 256;
/// Time in which the tasks of a replay in real time are made, before the first request is due.
const LEAD_NS: u64 = 50_000_000;
/// Service times whose shares are rows: those of the reviews, and the decades between them.
const WITHIN_NS: [(u64, &str); 4] =
    [(100_000, "0.1 ms"), (1_000_000, "1 ms"), (10_000_000, "10 ms"), (SLOW_NS, "100 ms")];

impl Suite for Replay {
    fn profile(&self) -> &'static Profile {
        self.0
    }

    fn is_generated(&self) -> bool {
        true
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        let trace = Trace::find(self.0.name).expect("each of these suites has a trace");
        let pace = trace.pace.clone();
        let is_alone = trace.workloads.len() == 1;
        let chosen: Vec<(u64, &Workload)> =
            (0..).zip(&trace.workloads).filter(|(_, it)| selects(plan, it, is_alone)).collect();
        // Scales that the trace cannot have are reported before anything is written.
        for (number, workload) in &chosen {
            Requests::new(workload, &scale(plan, &pace, *number)).map_err(Halt::Plan)?;
        }
        lay_out(rig, plan, outcome)?;
        say(outcome, plan, &trace);
        for (number, workload) in chosen {
            let scale = scale(plan, &pace, number);
            let requests = Requests::new(workload, &scale).map_err(Halt::Plan)?;
            let shortened = shortened(workload, &scale, &requests);
            let bytes = requests.bytes();
            if number > 0 {
                rig.rest(REST_NS)?;
                rig.empty_cache()?;
            }
            let record = replay(rig, &workload.name, requests, &pace, bytes)?;
            let prefix = if is_alone { String::new() } else { format!("{}: ", workload.name) };
            add_rows(rig, outcome, &prefix, &record, shortened.as_ref());
        }
        Ok(())
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let mean = |what: &str| {
            let row = outcome.rows.iter().find(|row| row.test.ends_with(what))?;
            row.latency.as_ref().map(Latency::mean_ns)
        };
        let (reads, writes) = (mean(READS_MEAN)?, mean(WRITES_MEAN)?);
        Some(format!("Reads take {} on average, writes {}.", time(reads), time(writes)))
    }
}

const READS_MEAN: &str = "mean service time of reads";
const WRITES_MEAN: &str = "mean service time of writes";

/// Whether a plan has a workload: by the name of one of its rows, which begin with the workload's.
fn selects(plan: &Plan, workload: &Workload, is_alone: bool) -> bool {
    let Some(only) = &plan.only else { return true };
    let prefix = format!("{}: ", workload.name).to_ascii_lowercase();
    is_alone || only.to_ascii_lowercase().starts_with(&prefix)
}

/// Returns the parameters of a workload's trace on the plan's target.
fn scale(plan: &Plan, pace: &Pace, number: u64) -> Scale {
    let idle_ns_max = match pace {
        Pace::InFlight(_) => 0,
        Pace::IdleMax(idle) => idle.value.saturating_mul(1000),
    };
    Scale {
        scale: plan.trace_scale,
        seed: seed(plan, 3000 + number),
        disk_bytes: plan.span(),
        idle_ns_max,
    }
}

fn say(outcome: &mut Outcome, plan: &Plan, trace: &Trace) {
    let pace = match &trace.pace {
        Pace::InFlight(depth) => format!("as fast as possible, {} in flight", depth.value),
        Pace::IdleMax(idle) => {
            format!("at their times, idle times limited to {}", time(idle.value as f64 * 1e3))
        }
    };
    outcome.say(format!(
        "The trace of {} was never published. It was generated from its published properties, and \
         assumed ones where there are none; 'overdrive trace generate {}' lists them. Requests \
         were sent {pace}. Service time counts from the time when a request was due.",
        trace.title, trace.name
    ));
    if plan.trace_scale < 1.0 {
        outcome.say(format!(
            "The trace and the used part of the disk are {} of the whole.",
            plan.trace_scale
        ));
    }
}

/// Describes how a trace is smaller than the reviewers'. None: it is not.
fn shortened(workload: &Workload, scale: &Scale, requests: &Requests) -> Option<String> {
    let mut how = Vec::new();
    if scale.scale != 1.0 {
        how.push(format!("scale {}", scale.scale));
    }
    let usual = workload.footprint_bytes.value as f64 * scale.scale.min(1.0);
    if ((requests.end() * 512) as f64) < 0.99 * usual {
        let (has, usual) = (Size(requests.end() * 512), Size(usual as u64));
        how.push(format!("on {has} instead of {usual}"));
    }
    (!how.is_empty()).then(|| how.join(", "))
}

/// Replays the requests.
fn replay(
    rig: &mut TestRig,
    stage: &str,
    requests: Requests,
    pace: &Pace,
    bytes: u64,
) -> Result<Record, Halt> {
    let limits = rig.top().limits().clone();
    let (end, count) = (requests.end(), requests.requests());
    let depth = match pace {
        Pace::InFlight(depth) => depth.value,
        Pace::IdleMax(_) => TIMED_DEPTH,
    };
    let options = RunOptions {
        limit: Limit::requests(count),
        flush: true,
        // A trace may last for days: too many seconds for a series.
        interval_ns: u64::MAX,
        ..RunOptions::depth(depth)
    };
    match pace {
        Pace::InFlight(_) => {
            let source = Ordered::new(Generated::untimed(requests, &limits));
            rig.run_trace(stage, source, end, options, bytes)
        }
        Pace::IdleMax(_) => {
            let lead_ns = if rig.time() == "real" { LEAD_NS } else { 0 };
            let source = Ordered::new(Generated::timed(requests, &limits, lead_ns));
            let mut record = rig.run_trace(stage, source, end, options, bytes)?;
            record.start_ns = record.end_ns.min(record.start_ns + lead_ns);
            Ok(record)
        }
    }
}

/// Adds the rows of the reviews.
fn add_rows(
    rig: &TestRig,
    outcome: &mut Outcome,
    prefix: &str,
    record: &Record,
    shortened: Option<&String>,
) {
    let partial = !matches!(record.end, End::Limit | End::Timeless);
    let punctual = Punctual::of(record);
    let row = |test: &str, unit: &'static str, value: f64| Row {
        shortened: shortened.cloned(),
        partial,
        punctual,
        ..Row::plain(format!("{prefix}{test}"), unit, value)
    };
    let mb = record.bytes as f64 / 1e6;
    let rate = |ns: u64| mb / (ns.max(1) as f64 / 1e9);
    let all = record.all();
    let mut rows = vec![
        Row {
            latency: Some(all.clone()),
            flush_ns: (record.flush_ns > 0).then_some(record.flush_ns),
            ..row("MB/s while busy", "MB/s", rate(record.busy_ns))
        },
        row("MB/s overall", "MB/s", rate(record.elapsed_ns())),
        Row { latency: Some(all.clone()), ..row("mean service time", "us", all.mean_ns() / 1e3) },
    ];
    for (name, latency) in [("reads", &record.reads), ("writes", &record.writes)] {
        let mean = row(&format!("mean service time of {name}"), "us", latency.mean_ns() / 1e3);
        rows.push(Row { latency: Some(latency.clone()), ..mean });
        let deviation = latency.stdev_ns() / 1e3;
        rows.push(row(&format!("standard deviation of {name}"), "us", deviation));
        for (ns, limit) in WITHIN_NS {
            let test = format!("{name} within {limit}");
            rows.push(row(&test, "%", 100.0 * (1.0 - latency.share_above(ns))));
        }
        let slow = 100.0 * latency.share_above(SLOW_NS);
        rows.push(row(&format!("{name} above 100 ms"), "%", slow));
    }
    rows.push(row("busy time", "s", record.busy_ns as f64 / 1e9));
    rows.push(row("average queue depth", "requests", record.depth_mean()));
    let selected = |row: &Row| outcome.plan.selects(&row.test);
    let rows: Vec<Row> = rows.into_iter().filter(selected).collect();
    rows.into_iter().for_each(|row| outcome.push(rig, row));
}

/// The service time above which reviews call a request slow.
const SLOW_NS: u64 = 100_000_000;
