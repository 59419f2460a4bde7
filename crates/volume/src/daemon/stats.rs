//! What a volume has counted, as JSON.

use super::site::Site;
use cache::Snapshot;
use pool::{MemberState, MemberStatistics};
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
    let members = site.volume.pool().map(|pool| pool.statistics()).unwrap_or_default();
    let members: Vec<Value> = members.iter().map(member).collect();
    let faults = uring::faults();
    json!({
        "schema": "overdrive.volume-stats/1",
        "volume": site.name,
        "state": site.state(),
        "clients": site.clients(),
        "held_changes": site.volume.valve().held(),
        "counters": counters,
        "latencies": latencies,
        "members": members,
        "process": {
            "page_faults_minor": faults.minor,
            "page_faults_major": faults.major,
        },
    })
}

fn member(counted: &MemberStatistics) -> Value {
    json!({
        "state": match counted.state {
            MemberState::Good => "good",
            MemberState::Slow => "slow",
            MemberState::Failed => "failed",
        },
        "reads": counted.reads,
        "writes": counted.writes,
        "trims": counted.trims,
        "errors": counted.errors,
        "written_bytes": counted.written_bytes,
        "free_bytes": counted.free_bytes,
        "in_flight": counted.in_flight,
        "latency_ns": counted.latency_ns,
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
