//! A trace's properties as one JSON object, `overdrive.trace-info/1`. Keys are only ever added.

use crate::depths::DEPTHS;
use crate::info::{Info, Named, REUSE_BYTES};
use crate::sizes::SIZES;
use serde_json::{Value, json};
use std::path::Path;

/// The name of the schema.
pub const SCHEMA: &str = "overdrive.trace-info/1";

/// Returns the object. Sizes are in bytes or in blocks of 4 KiB, times in nanoseconds.
pub fn object(path: &Path, info: &Info) -> Value {
    let amounts = &info.amounts;
    let [flushes, discards, zeros, advice] = info.operations;
    let has_answers = info.depths.known > 0;
    json!({
        "schema": SCHEMA,
        "trace": path.display().to_string(),
        "format": info.format.name(),
        "complete": info.is_complete,
        "begin_ns": info.begin_ns,
        "requests": amounts.requests(),
        "reads": amounts.reads,
        "writes": amounts.writes,
        "others": amounts.others,
        "flushes": flushes,
        "discards": discards,
        "zeros": zeros,
        "advice": advice,
        "fua": info.fua,
        "bytes_read": amounts.bytes_read,
        "bytes_written": amounts.bytes_written,
        "block_accesses": info.block_accesses,
        "footprint_blocks": info.footprint.blocks,
        "footprint_exact": info.footprint.is_exact,
        "sequential_reads": info.sequential[0],
        "sequential_writes": info.sequential[1],
        "duration_ns": info.has_times.then_some(info.duration_ns),
        "busy_ns": has_answers.then_some(info.depths.busy_ns),
        "idle_ns": has_answers.then(|| info.duration_ns.saturating_sub(info.depths.busy_ns)),
        "answered": info.depths.known,
        "service_mean_ns": service_mean_ns(info),
        "depth_mean": info.depths.mean(),
        "sizes": sizes(info),
        "depths": has_answers.then(|| depths(info)),
        "reuse": reuse(info),
        "devices": info.devices.iter().map(named).collect::<Vec<_>>(),
        "processes": info.processes.iter().map(named).collect::<Vec<_>>(),
        "unsorted": info.unsorted,
        "merged": info.notes.merged,
        "dropped": info.notes.dropped,
        "cut": info.notes.is_cut,
        "joined": info.notes.joined,
        "other_events": info.notes.other_events,
        "skipped_lines": info.notes.skipped_lines,
        "padding_bytes": info.notes.padding_bytes,
    })
}

/// Returns the mean time until an answer. None: no duration is known.
pub fn service_mean_ns(info: &Info) -> Option<f64> {
    let known = info.depths.known;
    (known > 0).then(|| info.depths.in_flight_ns as f64 / known as f64)
}

fn sizes(info: &Info) -> Vec<Value> {
    let counts = info.sizes.reads.iter().zip(&info.sizes.writes);
    let size = |((name, _), (reads, writes)): (&(&str, u64), (&u64, &u64))| json!({ "size": name, "reads": reads, "writes": writes });
    SIZES.iter().zip(counts).map(size).collect()
}

fn depths(info: &Info) -> Vec<Value> {
    let counts = DEPTHS.iter().zip(&info.depths.requests);
    counts.map(|((name, _), requests)| json!({ "depth": name, "requests": requests })).collect()
}

fn reuse(info: &Info) -> Value {
    let within = REUSE_BYTES.iter().zip(&info.reuse.within);
    let within = within.map(|(bytes, count)| json!({ "bytes": bytes, "block_accesses": count }));
    json!({
        "within": within.collect::<Vec<_>>(),
        "longer": info.reuse.longer,
        "first": info.reuse.first,
    })
}

fn named(named: &Named) -> Value {
    let amounts = &named.amounts;
    json!({
        "name": named.name,
        "reads": amounts.reads,
        "writes": amounts.writes,
        "others": amounts.others,
        "bytes_read": amounts.bytes_read,
        "bytes_written": amounts.bytes_written,
    })
}
