//! An outcome as one JSON object, `overdrive.sim/1`. Keys are only ever added.

use crate::blocks::BLOCK_BYTES;
use crate::map_file::class_name;
use crate::outcome::{ClassAccesses, Hinted, Outcome, Run};
use crate::plan::Plan;
use serde_json::{Value, json};

/// The name of the schema.
pub const SCHEMA: &str = "overdrive.sim/1";

/// Returns the object. Sizes are in bytes or in blocks of 4 KiB, ratios from 0 to 1.
pub fn object(plan: &Plan, outcome: &Outcome) -> Value {
    let trace = plan.path.display().to_string();
    let counts = &outcome.counts;
    let run = |run: &Run| {
        json!({
            "trace": trace,
            "policy": run.policy,
            "memory": run.memory,
            "memory_bytes": run.slots * BLOCK_BYTES,
            "requests": counts.requests,
            "block_accesses": counts.block_accesses,
            "block_misses": run.block_misses,
            "miss_ratio": outcome.miss_ratio(run),
            "sampled_slots": run.sampled_slots,
            "trusted": run.is_trusted(),
            "compress": run.tiered.and(plan.compress.as_ref()).map(|sizes| sizes.name()),
            "compress_block_misses": run.tiered.map(|tiered| tiered.block_misses),
            "compress_miss_ratio": run.tiered.map(|tiered| outcome.ratio(tiered.block_misses)),
            "compressed_hits": run.tiered.map(|tiered| tiered.compressed_hits),
            "compressed_blocks": run.tiered.map(|tiered| tiered.compressed_blocks),
            "compressed_slots": run.tiered.map(|tiered| tiered.compressed_slots),
            "map_block_misses": run.hinted.map(|hinted| hinted.block_misses),
            "map_miss_ratio": run.hinted.map(|hinted| outcome.ratio(hinted.block_misses)),
            "map_followed": run.hinted.map(|hinted| hinted.are_followed),
            "map_classes": run.hinted.map(|hinted| classes(&hinted)),
        })
    };
    json!({
        "schema": SCHEMA,
        "trace": trace,
        "format": outcome.format.name(),
        "complete": outcome.is_complete,
        "count": if plan.reads_only { "reads" } else { "all" },
        "shards": plan.shards,
        "requests": counts.requests,
        "reads": counts.reads,
        "writes": counts.writes,
        "others": counts.others,
        "block_accesses": counts.block_accesses,
        "footprint_blocks": outcome.footprint.blocks,
        "footprint_exact": outcome.footprint.is_exact,
        "devices": outcome.devices,
        "merged": outcome.notes.merged,
        "late": outcome.notes.late,
        "dropped": outcome.notes.dropped,
        "cut": outcome.notes.is_cut,
        "joined": outcome.notes.joined,
        "other_events": outcome.notes.other_events,
        "skipped_lines": outcome.notes.skipped_lines,
        "padding_bytes": outcome.notes.padding_bytes,
        "sample_rate": outcome.sampled.rate.share(),
        "sampled_block_accesses": outcome.sampled.block_accesses,
        "compress_ratio": plan.compress.as_ref().map(|sizes| sizes.ratio()),
        "compress_stored_share": plan.compress.as_ref().map(|sizes| sizes.stored_share()),
        "runs": outcome.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

/// Returns the accesses to the blocks of each class that has any.
fn classes(hinted: &Hinted) -> Vec<Value> {
    let all = hinted.classes.iter().enumerate().filter(|(_, class)| class.accesses > 0);
    let object = |(number, class): (usize, &ClassAccesses)| {
        json!({
            "class": class_name(number),
            "block_accesses": class.accesses,
            "block_misses": class.misses,
        })
    };
    all.map(object).collect()
}
