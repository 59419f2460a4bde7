//! The JSON object.

use super::Shown;
use advice::load::{Process, ProcessGain};
use serde_json::{Value, json};

pub(super) const SCHEMA: &str = "overdrive.advise/1";

pub(super) fn object(shown: &Shown) -> Value {
    let Shown { facts, premises, advice, .. } = shown;
    let machine = premises.machine.as_ref();
    let sizes = advice.sizes.iter().map(|gain| {
        json!({
            "memory_bytes": gain.memory_bytes,
            "hit_ratio": gain.hit_ratio,
            "read_hit_ratio": gain.read_hit_ratio,
            "write_hit_ratio": gain.write_hit_ratio,
            "saved_ns": gain.saved_ns,
            "read_saved_ns": gain.read_saved_ns,
            "saved_ns_per_day": gain.saved_ns_per_day,
            "spare": gain.is_spare,
            "displaced_active_bytes": gain.displaced.map(|it| it.active_bytes),
            "displaced_inactive_bytes": gain.displaced.map(|it| it.inactive_bytes),
        })
    });
    let durabilities = advice.durabilities.iter().map(|gain| {
        json!({
            "durability": gain.name,
            "present": gain.is_present,
            "saved_ns": gain.saved_ns,
            "saved_ns_per_day": gain.saved_ns_per_day,
        })
    });
    let processes = facts.processes.iter().zip(&advice.processes);
    let processes = processes.map(|(process, gains)| process_object(process, gains));
    json!({
        "schema": SCHEMA,
        "target": shown.target,
        "kind": shown.kind,
        "source": shown.source,
        "verdict": advice.verdict,
        "leave_it": advice.leaves_it,
        "recommendation": advice.recommendation,
        "reason": advice.reason,
        "duration_ns": facts.duration_ns,
        "reads": facts.reads,
        "writes": facts.writes,
        "others": facts.others,
        "flushes": facts.flushes,
        "read_bytes": facts.read_bytes,
        "write_bytes": facts.write_bytes,
        "read_ns": premises.latency.read_ns,
        "write_ns": premises.latency.write_ns,
        "flush_ns": premises.latency.flush_ns,
        "latency_source": premises.latency.source.name(),
        "busy_ns": advice.busy_ns,
        "readahead_ns": advice.readahead_ns,
        "sequential_share": facts.sequential_share,
        "strided_share": facts.strided_share,
        "ahead_reads": facts.ahead_reads,
        "background_writes": facts.background_writes,
        "lost_events": facts.lost,
        "overwritten_blocks": facts.overwritten_blocks,
        "sample_rate": facts.sample_rate,
        "sizes": sizes.collect::<Vec<_>>(),
        "durabilities": durabilities.collect::<Vec<_>>(),
        "processes": processes.collect::<Vec<_>>(),
        "compress_ratio": shown.compression.map(|found| found.0),
        "compress_stored_share": shown.compression.map(|found| found.1),
        "memory_bytes": machine.map(|machine| machine.memory_bytes),
        "available_bytes": machine.map(|machine| machine.available_bytes),
        "active_file_bytes": machine.map(|machine| machine.active_file_bytes),
        "free_bytes": machine.map(|machine| machine.free_bytes),
        "inactive_file_bytes": machine.map(|machine| machine.inactive_file_bytes),
        "spare_bytes": machine.map(|machine| machine.spare_bytes()),
        "refaults": premises.refaults,
        "unseen": advice.unseen,
    })
}

fn process_object(process: &Process, gains: &[ProcessGain]) -> Value {
    let sizes = gains.iter().map(|gain| {
        json!({
            "memory_bytes": gain.memory_bytes,
            "read_hit_ratio": gain.read_hit_ratio,
            "write_hit_ratio": gain.write_hit_ratio,
            "read_saved_ns": gain.read_saved_ns,
        })
    });
    json!({
        "name": process.name,
        "counts": process.counts,
        "reads": process.reads,
        "writes": process.writes,
        "read_bytes": process.read_bytes,
        "write_bytes": process.write_bytes,
        "read_ns": process.read_times.ns(),
        "sizes": sizes.collect::<Vec<_>>(),
    })
}
