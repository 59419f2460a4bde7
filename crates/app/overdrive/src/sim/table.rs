//! An outcome as a table for a terminal, which the page uses in part.

use block::Size;
use report::words::grouped;
use simulator::{BLOCK_BYTES, Outcome, Plan, Run, TRUSTED_SLOTS};

/// Maximum number of devices that the table names.
const DEVICES_SHOWN: usize = 8;

pub(super) fn lines(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let facts = facts(plan, outcome).into_iter();
    let mut lines: Vec<String> = facts.map(|(what, value)| format!("{what:<11}{value}")).collect();
    lines.push(String::new());
    lines.extend(aligned(&rows(plan, outcome)));
    lines.extend(mistrust(outcome));
    lines
}

/// Explains the mark of some rows, if any row has it.
pub(super) fn mistrust(outcome: &Outcome) -> Option<String> {
    let is_marked = outcome.runs.iter().any(|run| !run.is_trusted());
    let least = grouped(TRUSTED_SLOTS);
    is_marked.then(|| format!("? fewer than {least} sampled slots: too few for reliable results"))
}

/// Returns the facts about the trace.
pub(super) fn facts(plan: &Plan, outcome: &Outcome) -> Vec<(&'static str, String)> {
    let counts = &outcome.counts;
    let mut facts = vec![
        ("trace", format!("{} ({})", plan.path.display(), outcome.format.name())),
        (
            "requests",
            format!(
                "{}: {} reads, {} writes{}; {} others touch no block",
                grouped(counts.requests),
                grouped(counts.reads),
                grouped(counts.writes),
                if plan.reads_only { ", which do not count" } else { "" },
                grouped(counts.others)
            ),
        ),
        ("accesses", format!("{} blocks of 4 KiB", grouped(counts.block_accesses))),
        (
            "footprint",
            format!(
                "{}{} blocks, {}",
                if outcome.footprint.is_exact { "" } else { "about " },
                grouped(outcome.footprint.blocks),
                Size(outcome.footprint.blocks * BLOCK_BYTES)
            ),
        ),
    ];
    let sampled = &outcome.sampled;
    if !sampled.rate.is_all() {
        facts.push((
            "sample",
            format!(
                "{} of the blocks, {} accesses: all miss ratios are estimates (~)",
                sampled.rate,
                grouped(sampled.block_accesses)
            ),
        ));
    }
    let (shown, more) = outcome.devices.split_at(outcome.devices.len().min(DEVICES_SHOWN));
    let more = match more.len() {
        0 => String::new(),
        count => format!(" and {} more", grouped(count as u64)),
    };
    let count = grouped(outcome.devices.len() as u64);
    facts.push(("devices", format!("{count}: {}{more}", shown.join(", "))));
    let notes = &outcome.notes;
    for (count, what) in [
        (notes.merged, "requests were merged into others by the kernel"),
        (notes.late, "requests came too late to be put in the order of their times"),
        (notes.dropped, "requests were lost during recording"),
        (u64::from(notes.is_cut), "truncated recording: its complete blocks were read"),
        (notes.joined, "outputs of blkparse follow the first; they are used in this order"),
        (notes.other_events, "events of blkparse of other kinds are not counted"),
        (
            notes.skipped_lines,
            "lines without a request were skipped (headings, comments, statistics)",
        ),
        (notes.padding_bytes, "zero bytes after the compressed data were skipped"),
    ] {
        if count > 0 {
            facts.push(("note", format!("{} {what}", grouped(count))));
        }
    }
    facts
}

/// Returns one row per size, with one column per policy.
pub(super) fn rows(plan: &Plan, outcome: &Outcome) -> Vec<Vec<String>> {
    let sizes = plan.memories.len();
    let is_sample = !outcome.sampled.rate.is_all();
    let mut heads = vec!["memory".to_owned(), "size".to_owned()];
    heads.extend(is_sample.then(|| "sampled".to_owned()));
    heads.extend(plan.policies.iter().map(|choice| choice.name.to_owned()));
    let mut rows = vec![heads];
    for size in 0..sizes {
        let of_size = || outcome.runs.iter().skip(size).step_by(sizes);
        let Some(first) = of_size().next() else { continue };
        let mut row = vec![given_size(&first.memory), Size(first.slots * BLOCK_BYTES).to_string()];
        row.extend(is_sample.then(|| sampled(first)));
        let about = if is_sample { "~" } else { "" };
        row.extend(of_size().map(|run| format!("{about}{:.4}", outcome.miss_ratio(run))));
        rows.push(row);
    }
    rows
}

/// Returns the number of simulated slots, with a mark if it is too small.
fn sampled(run: &Run) -> String {
    let mark = if run.is_trusted() { "" } else { "? " };
    format!("{mark}{}", grouped(run.sampled_slots))
}

/// Returns a size as it was given; bytes are in the next column.
fn given_size(memory: &str) -> String {
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
