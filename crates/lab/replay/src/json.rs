//! A replay's results as one JSON object, `overdrive.trace-replay/1`. Keys are only ever added.

use crate::{Options, Replayed};
use load::Latency;
use serde_json::{Map, Value, json};
use suites::{Halt, Plan};
use traces::replay::Changes;

/// Service times whose shares are shown: those of the reviews, and the decades between them.
pub const SHARES_NS: [u64; 4] = [100_000, 1_000_000, 10_000_000, 100_000_000];
/// The service time above which reviews call a request slow.
pub const SLOW_NS: u64 = 100_000_000;
/// The name of the schema.
const SCHEMA: &str = "overdrive.trace-replay/1";

/// Returns the object. Times are nanoseconds, sizes bytes.
pub fn object(options: &Options, plan: &Plan, replayed: &Replayed, halt: Option<&Halt>) -> Value {
    let Replayed { record, changes, punctual, .. } = replayed;
    let seconds = |ns: u64| ns.max(1) as f64 / 1e9;
    let mb = record.bytes as f64 / 1e6;
    let counters: Map<String, Value> =
        replayed.counters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let drive: Map<String, Value> =
        replayed.drive.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let mut object = json!({
        "schema": SCHEMA,
        "trace": options.trace.display().to_string(),
        "target": plan.target.text,
        "target_bytes": replayed.target_bytes,
        "time": replayed.time,
        "cache_bytes": plan.cache.as_ref().map(|cache| cache.memory.0),
        "times": times(options),
        "speed": options.speed,
        "idle_ns_max": options.idle_us_max.map(|us| us.saturating_mul(1000)),
        "depth": options.depth,
        "map": options.map.map(|map| map.name()),
        "prepared": replayed.prepared,
        "complete": replayed.is_complete,
        "valid": replayed.is_valid(),
        "end": halt.map(ToString::to_string),
        "planned": replayed.planned,
        "requests": record.requests(),
        "all": latency(&record.all()),
        "reads": latency(&record.reads),
        "writes": latency(&record.writes),
        "flushes": latency(&record.flushes),
        "trims": latency(&record.trims),
        "bytes": record.bytes,
        "elapsed_ns": record.elapsed_ns(),
        "busy_ns": record.busy_ns,
        "depth_mean": record.depth_mean(),
        "mb_per_second": mb / seconds(record.elapsed_ns()),
        "mb_per_second_busy": mb / seconds(record.busy_ns),
        "lateness_p99_ns": punctual.map(|punctual| punctual.p99_ns),
        "lateness_p99_ns_max": punctual.map(|punctual| punctual.p99_ns_max),
        "waited": punctual.map(|punctual| punctual.waited),
        "held": record.held_starts,
        "remarks": replayed.remarks,
        "cache": counters,
        "drive": drive,
    });
    changed(changes, &mut object);
    object
}

/// Adds the counts of requests that were changed or left out.
fn changed(changes: &Changes, object: &mut Value) {
    let counts = [
        ("left_out", changes.left_out),
        ("not_reads", changes.not_reads),
        ("beyond", changes.beyond),
        ("extended", changes.extended),
        ("split", changes.split),
        ("unsorted", changes.unsorted),
        ("dropped", changes.dropped),
    ];
    for (name, count) in counts {
        object[name] = count.into();
    }
}

/// Returns the kind of the replay's times.
fn times(options: &Options) -> &'static str {
    match (options.depth, options.dependent) {
        (Some(_), _) => "depth",
        (None, true) => "dependent",
        (None, false) => "recorded",
    }
}

fn latency(latency: &Latency) -> Value {
    if latency.count() == 0 {
        return json!({ "requests": 0 });
    }
    let within = |ns: &u64| json!({ "ns": ns, "share": 1.0 - latency.share_above(*ns) });
    json!({
        "requests": latency.count(),
        "mean_ns": latency.mean_ns(),
        "stdev_ns": latency.stdev_ns(),
        "min_ns": latency.min_ns(),
        "p50_ns": latency.quantile_ns(0.5),
        "p99_ns": latency.quantile_ns(0.99),
        "p99_99_ns": latency.quantile_ns(0.9999),
        "max_ns": latency.max_ns(),
        "within": SHARES_NS.iter().map(within).collect::<Vec<_>>(),
        "above_100_ms": latency.share_above(SLOW_NS),
    })
}
