//! The JSON object.

use super::Shown;
use serde_json::{Value, json};

pub(super) const SCHEMA: &str = "overdrive.advise/1";

pub(super) fn object(shown: &Shown) -> Value {
    let Shown { facts, premises, advice, machine, .. } = shown;
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
        })
    });
    let durabilities = advice.durabilities.iter().map(|gain| {
        json!({
            "durability": gain.name,
            "saved_ns": gain.saved_ns,
            "saved_ns_per_day": gain.saved_ns_per_day,
        })
    });
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
        "overwritten_blocks": facts.overwritten_blocks,
        "sample_rate": facts.sample_rate,
        "sizes": sizes.collect::<Vec<_>>(),
        "durabilities": durabilities.collect::<Vec<_>>(),
        "compress_ratio": shown.compression.map(|found| found.0),
        "compress_stored_share": shown.compression.map(|found| found.1),
        "memory_bytes": machine.map(|machine| machine.memory_bytes),
        "available_bytes": machine.map(|machine| machine.available_bytes),
        "active_file_bytes": machine.map(|machine| machine.active_file_bytes),
        "spare_bytes": premises.spare_bytes,
        "refaults": shown.refaults,
        "unseen": advice.unseen,
    })
}
