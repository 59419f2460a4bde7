//! What is printed of a simulation: a table, or one JSON object.

use block::Size;
use serde_json::{Value, json};
use simulator::{BLOCK_BYTES, Outcome, Plan, Run, TRUSTED_SLOTS};

/// Devices that the table names.
const DEVICES_SHOWN: usize = 8;

pub(super) fn print(plan: &Plan, outcome: &Outcome, is_json: bool) {
    match is_json {
        true => daemon::say!("{}", object(plan, outcome)),
        false => lines(plan, outcome).iter().for_each(|line| daemon::say!("{line}")),
    }
}

fn object(plan: &Plan, outcome: &Outcome) -> Value {
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
        })
    };
    json!({
        "schema": "overdrive.sim/1",
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
        "sample_rate": outcome.sampled.rate.share(),
        "sampled_block_accesses": outcome.sampled.block_accesses,
        "runs": outcome.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn lines(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut lines = facts(plan, outcome);
    lines.push(String::new());
    lines.extend(aligned(&rows(plan, outcome)));
    if outcome.runs.iter().any(|run| !run.is_trusted()) {
        let least = grouped(TRUSTED_SLOTS);
        lines.push(format!("? fewer than {least} sampled slots: too few to be trusted"));
    }
    lines
}

/// What is told of the trace.
fn facts(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let counts = &outcome.counts;
    let mut facts = vec![
        format!("trace      {} ({})", plan.path.display(), outcome.format.name()),
        format!(
            "requests   {}: {} reads, {} writes{}; {} others touch no block",
            grouped(counts.requests),
            grouped(counts.reads),
            grouped(counts.writes),
            if plan.reads_only { ", which do not count" } else { "" },
            grouped(counts.others)
        ),
        format!("accesses   {} blocks of 4 KiB", grouped(counts.block_accesses)),
        format!(
            "footprint  {}{} blocks, {}",
            if outcome.footprint.is_exact { "" } else { "about " },
            grouped(outcome.footprint.blocks),
            Size(outcome.footprint.blocks * BLOCK_BYTES)
        ),
    ];
    let sampled = &outcome.sampled;
    if !sampled.rate.is_all() {
        facts.push(format!(
            "sample     {} of the blocks, {} accesses: all miss ratios are estimates (~)",
            sampled.rate,
            grouped(sampled.block_accesses)
        ));
    }
    let (shown, more) = outcome.devices.split_at(outcome.devices.len().min(DEVICES_SHOWN));
    let more = match more.len() {
        0 => String::new(),
        count => format!(" and {} more", grouped(count as u64)),
    };
    facts.push(format!("devices    {}{more}", shown.join(", ")));
    let notes = &outcome.notes;
    for (count, what) in [
        (notes.merged, "requests were merged into others by the kernel"),
        (notes.late, "requests came too late to be put in the order of their times"),
        (notes.dropped, "requests were lost while it was recorded"),
        (u64::from(notes.is_cut), "recording that was cut off: its whole blocks were read"),
    ] {
        if count > 0 {
            facts.push(format!("note       {} {what}", grouped(count)));
        }
    }
    facts
}

/// A row for each size, a column for each policy.
fn rows(plan: &Plan, outcome: &Outcome) -> Vec<Vec<String>> {
    let sizes = plan.memories.len();
    let is_sample = !outcome.sampled.rate.is_all();
    let mut heads = vec!["memory".to_owned(), "size".to_owned()];
    heads.extend(is_sample.then(|| "sampled".to_owned()));
    heads.extend(plan.policies.iter().map(|choice| choice.name.to_owned()));
    let mut rows = vec![heads];
    for size in 0..sizes {
        let of_size = || outcome.runs.iter().skip(size).step_by(sizes);
        let Some(first) = of_size().next() else { continue };
        let mut row = vec![asked(&first.memory), Size(first.slots * BLOCK_BYTES).to_string()];
        row.extend(is_sample.then(|| sampled(first)));
        let about = if is_sample { "~" } else { "" };
        row.extend(of_size().map(|run| format!("{about}{:.4}", outcome.miss_ratio(run))));
        rows.push(row);
    }
    rows
}

/// The slots that were simulated, with a mark if they are too few.
fn sampled(run: &Run) -> String {
    let mark = if run.is_trusted() { "" } else { "? " };
    format!("{mark}{}", grouped(run.sampled_slots))
}

/// A size as it was asked for; bytes are in the next column for people.
fn asked(memory: &str) -> String {
    if memory.ends_with('%') { memory.to_owned() } else { String::new() }
}

fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_groups() {
        let text = [0, 12, 999, 1000, 123_456, 1_141_869].map(grouped);
        assert_eq!(text, ["0", "12", "999", "1,000", "123,456", "1,141,869"]);
    }
}
