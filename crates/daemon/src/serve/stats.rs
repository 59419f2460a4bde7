//! What a volume has counted, as JSON.

use super::site::Site;
use drives::Victims;
use histogram::Snapshot;
use pool::{MemberState, MemberStatistics};
use serde_json::{Map, Value, json};
use stack::{Counts, Kind};
use std::sync::atomic::{AtomicU64, Ordering};

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
            "bypass_ns": standing.bypass_ns,
        })
    });
    let members = site.volume.pool().map(|pool| pool.statistics()).unwrap_or_default();
    let members: Vec<Value> = members.iter().map(member).collect();
    let faults = uring::faults();
    json!({
        "schema": "overdrive.volume-stats/1",
        "volume": site.name,
        // On this daemon's own clock, for rates.
        "now_ns": now_ns,
        "memory_bytes": site.row().memory_bytes,
        "write": site.row().write,
        "durability": site.shared().map(|shared| shared.settings().durability),
        "state": site.state(),
        "clients": site.clients(),
        "held_changes": site.volume.valve().held(),
        "counters": counters,
        "latencies": latencies,
        "guard": guard,
        "backing": backing(site, now_ns),
        "model": site.volume.model().map(|drive| model(drive)),
        "members": members,
        "process": {
            "page_faults_minor": faults.minor,
            "page_faults_major": faults.major,
        },
    })
}

/// What was asked of the backing, whether there is a cache or not. Latencies are means; 0: not measured.
fn backing(site: &Site, now_ns: u64) -> Value {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Some(counts) = site.volume.counts() else {
        let counted = site.shared().map(|shared| shared.counters(now_ns)).unwrap_or_default();
        return json!({
            "reads": counted.read_misses,
            "changes": counted.writes_through + counted.runs_written + counted.zeroes_written,
            "flushes": counted.flushes_backing,
            "errors": counted.errors_read + counted.errors_write + counted.errors_flush,
            "read_mean_ns": counted.backing_read_ns,
        });
    };
    let mean = |kind: &Kind| load(&kind.summed_ns) / load(&kind.requests).max(1);
    let Counts { reads, writes, zeroes, discards, flushes } = counts;
    let changes = [writes, zeroes, discards];
    let errors = changes.into_iter().chain([reads, flushes]).map(|kind| load(&kind.errors));
    json!({
        "reads": load(&reads.requests),
        "changes": changes.map(|kind| load(&kind.requests)).iter().sum::<u64>(),
        "flushes": load(&flushes.requests),
        "errors": errors.sum::<u64>(),
        "read_mean_ns": mean(reads),
        "read_bytes": load(&reads.bytes),
        "write_bytes": load(&writes.bytes),
        "zero_bytes": load(&zeroes.bytes),
        "discard_bytes": load(&discards.bytes),
        "write_mean_ns": mean(writes),
        "flush_mean_ns": mean(flushes),
    })
}

/// What a modelled drive has done, and how late its answers were.
fn model(drive: &modelled::Shared) -> Value {
    let report = drive.report();
    let mut told = json!({
        "drive": drive.model().name,
        "title": drive.model().title,
        "power": if report.is_on { "on" } else { "off" },
        "reads": report.reads,
        "writes": report.writes,
        "trims": report.trims,
        "flushes": report.flushes,
        "refused": report.refused,
        "power_cuts": report.power_cuts,
        "lost_bytes": report.slots_lost * drives::SLOT_BYTES,
        "data_bytes": report.data_bytes,
        "lateness": latency(&report.lateness),
    });
    if let Some(lately) = &report.lately {
        told["lately"] = amplified(lately);
    }
    if let (Some(health), drives::Kind::Flash(flash)) = (&report.health, &drive.model().kind) {
        told["attributes"] = health.attributes(flash.vendor).iter().map(attribute).collect();
    }
    if let (Some(health), Some(told)) = (report.health, told.as_object_mut()) {
        let [erases_least, erases_mean, erases_most] = health.erases;
        let flash = json!({
            "host_written_bytes": health.host_written_bytes,
            "host_read_bytes": health.host_read_bytes,
            "nand_written_bytes": health.nand_written_bytes,
            "write_amplification": health.write_amplification,
            "erases_least": erases_least,
            "erases_mean": erases_mean,
            "erases_most": erases_most,
            "worn_percent": health.worn_percent,
            "free_superblocks": health.free_superblocks,
        });
        told.extend(flash.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
    }
    told
}

/// What theory's own word on the amplification follows from: whoever asks works it out, for that takes
/// longer than a lane has.
fn amplified(lately: &modelled::Lately) -> Value {
    let (victims, choices) = match lately.victims {
        Victims::Greedy => ("greedy", None),
        Victims::Fifo => ("fifo", None),
        Victims::Choices(count) => ("choices", Some(count)),
        Victims::CostBenefit => ("cost-benefit", None),
    };
    json!({
        "host_written_bytes": lately.host_written_bytes,
        "write_amplification": lately.write_amplification,
        "steady": lately.is_steady,
        "alpha": lately.alpha,
        "victims": victims,
        "choices": choices,
        "superblock_slots": lately.superblock_slots,
    })
}

/// An attribute as smartctl tells it.
fn attribute(attribute: &drives::Attribute) -> Value {
    json!({
        "id": attribute.id,
        "name": attribute.name,
        "normalized": attribute.normalized,
        "raw": attribute.raw.to_string(),
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
