//! What a volume has counted, as JSON.

use super::site::Site;
use cache::Snapshot;
use serde_json::{Map, Value, json};

/// Everything: counters by name, latencies as quantiles.
pub(crate) fn of(site: &Site) -> Value {
    let now_ns = site.ring.lane().now();
    let mut counters = Map::new();
    let mut latencies = Map::new();
    if let Some(shared) = site.shared() {
        let counted = shared.counters(now_ns);
        counted.each(|name, value| {
            counters.insert(name.to_owned(), value.into());
        });
        shared.histograms().each(|name, snapshot| {
            latencies.insert(name.to_owned(), latency(snapshot));
        });
    }
    let guard = site.shared().map(|shared| {
        let standing = shared.guard_standing(now_ns);
        let why = |why: Option<cache::Why>| why.map(|why| why.to_string());
        json!({
            "on": standing.on,
            "reads_aside": why(standing.aside.reads),
            "writes_aside": why(standing.aside.writes),
            "times": standing.times,
            "aside_ns": standing.aside_ns,
        })
    });
    let faults = uring::faults();
    json!({
        "schema": "overdrive.volume-stats/1",
        "volume": site.name,
        "state": site.state(),
        "clients": site.clients(),
        "held_changes": site.volume.valve().held(),
        "counters": counters,
        "latencies": latencies,
        "guard": guard,
        "process": {
            "page_faults_minor": faults.minor,
            "page_faults_major": faults.major,
        },
    })
}

fn latency(snapshot: &Snapshot) -> Value {
    json!({
        "count": snapshot.count(),
        "mean_ns": snapshot.mean(),
        "p50_ns": snapshot.quantile(0.5),
        "p90_ns": snapshot.quantile(0.9),
        "p99_ns": snapshot.quantile(0.99),
        "p99_9_ns": snapshot.quantile(0.999),
        "max_ns": snapshot.max(),
    })
}
