//! An outcome as a table for a terminal, which the page uses in part.

use block::{Size, printable};
use report::terminal::{Column, Line, Span, Table, Text, fits};
use report::words::grouped;
use simulator::{BLOCK_BYTES, Outcome, Plan, Run, TRUSTED_SLOTS, class_name};
use std::ops::Range;

/// Maximum number of devices that the table names.
const DEVICES_SHOWN: usize = 8;

/// Blanks before the second line of a fact.
const INDENT: usize = 11;

pub(super) fn lines(plan: &Plan, outcome: &Outcome, width: Option<usize>) -> Text {
    let mut lines = Text::default();
    for (what, value) in facts(plan, outcome) {
        let value = printable(&value);
        lines.extend(Line::from(format!("{what:<INDENT$}{value}")).fitted(width, INDENT));
    }
    let common = if outcome.sampled.rate.is_all() { 2 } else { 3 };
    for table in tables(&rows(plan, outcome), common, width) {
        lines.push("");
        lines.extend(table.lines(width));
    }
    if let Some(rows) = tiered_rows(plan, outcome) {
        for table in tables(&rows, 2, width) {
            lines.push("");
            lines.extend(table.lines(width));
        }
    }
    for rows in hinted_rows(plan, outcome).into_iter().chain(class_rows(outcome)) {
        for table in tables(&rows, if rows[0][0] == "class" { 1 } else { 2 }, width) {
            lines.push("");
            lines.extend(table.lines(width));
        }
    }
    if let Some(sentence) = gain(plan, outcome) {
        lines.push("");
        lines.extend(Line::from(sentence).fitted(width, 0));
    }
    mistrust(outcome).into_iter().for_each(|line| lines.push(line));
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

/// Returns one row per size, with one column per policy that was simulated with compression: the
/// miss ratio, and the change of the misses. None: there is no such policy.
pub(super) fn tiered_rows(plan: &Plan, outcome: &Outcome) -> Option<Vec<Vec<String>>> {
    compared_rows(plan, outcome, "compressed", |run| Some(run.tiered?.block_misses))
}

/// Returns the same for policies that were simulated with a map.
pub(super) fn hinted_rows(plan: &Plan, outcome: &Outcome) -> Option<Vec<Vec<String>>> {
    compared_rows(plan, outcome, "with map", |run| Some(run.hinted?.block_misses))
}

/// Returns one row per size, with one column per policy that was also simulated in another way:
/// `misses` returns the misses of a run in that way.
fn compared_rows(
    plan: &Plan,
    outcome: &Outcome,
    way: &str,
    misses: impl Fn(&Run) -> Option<u64>,
) -> Option<Vec<Vec<String>>> {
    let sizes = plan.memories.len();
    let about = if outcome.sampled.rate.is_all() { "" } else { "~" };
    let compared: Vec<&[Run]> =
        outcome.runs.chunks(sizes).filter(|runs| misses(&runs[0]).is_some()).collect();
    let first = compared.first()?;
    let mut heads = vec!["memory".to_owned(), "size".to_owned()];
    heads.extend(compared.iter().map(|runs| format!("{} {way}", runs[0].policy)));
    let mut rows = vec![heads];
    for size in 0..sizes {
        let run = &first[size];
        let mut row = vec![given_size(&run.memory), Size(run.slots * BLOCK_BYTES).to_string()];
        row.extend(compared.iter().filter_map(|runs| {
            let misses = misses(&runs[size])?;
            let change = change_to(&runs[size], misses);
            Some(format!("{about}{:.4} ({change:+.1} %)", outcome.ratio(misses)))
        }));
        rows.push(row);
    }
    Some(rows)
}

/// Returns one row per class of a map, with the accesses to its blocks, and one column per run with
/// the share of them that missed. None: no run has a map.
pub(super) fn class_rows(outcome: &Outcome) -> Option<Vec<Vec<String>>> {
    let hinted: Vec<_> = outcome.runs.iter().filter_map(|run| Some((run, run.hinted?))).collect();
    let (_, first) = hinted.first()?;
    let mut heads = vec!["class".to_owned(), "accesses".to_owned()];
    heads.extend(hinted.iter().map(|(run, hinted)| {
        let suspended = if hinted.are_followed { "" } else { " (suspended)" };
        format!("{} {}{suspended}", run.policy, Size(run.slots * BLOCK_BYTES))
    }));
    let mut rows = vec![heads];
    for (class, accesses) in first.classes.iter().enumerate().filter(|(_, it)| it.accesses > 0) {
        let mut row = vec![class_name(class), grouped(accesses.accesses)];
        row.extend(hinted.iter().map(|(_, hinted)| {
            format!("{:.4}", hinted.classes[class].misses as f64 / accesses.accesses as f64)
        }));
        rows.push(row);
    }
    Some(rows)
}

/// Returns the change of a run's misses by compression, in percent.
fn change(run: &Run) -> Option<f64> {
    Some(change_to(run, run.tiered?.block_misses))
}

/// Returns the change from a run's misses to these, in percent.
fn change_to(run: &Run, misses: u64) -> f64 {
    (misses as f64 / run.block_misses.max(1) as f64 - 1.0) * 100.0
}

/// Returns a sentence on the changes by compression, if that was requested.
pub(super) fn gain(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let sizes = plan.compress.as_ref()?;
    let changes = || outcome.runs.iter().filter_map(|run| Some((run, change(run)?)));
    let by_change = |one: &(&Run, f64), other: &(&Run, f64)| one.1.total_cmp(&other.1);
    let place = |run: &Run| format!("{}, {}", run.policy, Size(run.slots * BLOCK_BYTES));
    let blocks = format!(
        "a mean ratio of {:.2}; {:.0} % of the blocks are small enough to be stored",
        sizes.ratio(),
        sizes.stored_share() * 100.0
    );
    let (Some(best), Some(worst)) = (changes().min_by(by_change), changes().max_by(by_change))
    else {
        return Some("Compression: none of the policies can be served.".to_owned());
    };
    let range = match changes().count() {
        1 => format!("{:+.1} %", best.1),
        _ => format!(
            "{:+.1} % ({}) to {:+.1} % ({})",
            best.1,
            place(best.0),
            worst.1,
            place(worst.0)
        ),
    };
    Some(format!("Compression changes the misses by {range}: {blocks}."))
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

/// Returns one table with all policies, or several, each of which fits the width; the first columns
/// are in each.
fn tables(rows: &[Vec<String>], common: usize, width: Option<usize>) -> Vec<Table> {
    let columns = rows.first().map_or(0, Vec::len);
    let mut tables = Vec::new();
    let mut first = common;
    while first < columns {
        let has_room = |last: &usize| fits(&table(rows, common, first..*last), width);
        let last = (first + 1..=columns).rev().find(has_room).unwrap_or(first + 1);
        tables.push(table(rows, common, first..last));
        first = last;
    }
    tables
}

/// Returns the table of these columns beside the common ones.
fn table(rows: &[Vec<String>], common: usize, columns: Range<usize>) -> Table {
    let shown = |row: &[String]| [&row[..common], &row[columns.clone()]].concat();
    let (heads, rows) = rows.split_first().expect("there are heads");
    let mut table = Table::new(2, shown(heads).into_iter().map(Column::number).collect());
    rows.iter().for_each(|row| table.push(shown(row).into_iter().map(Span::from).collect()));
    table
}

#[cfg(test)]
mod tests {
    use super::super::examples::outcome;
    use super::*;
    use simulator::{BlockSizes, Outcome, Plan, Tiered};
    use std::sync::Arc;

    /// Returns the same outcome with compression, by which half as many accesses miss.
    fn compressed(policies: &[&str], misses: &[&[u64]]) -> (Plan, Outcome) {
        let (mut plan, mut outcome) = outcome(policies, misses);
        plan.compress = BlockSizes::of_ratio(2.5).map(Arc::new);
        for run in outcome.runs.iter_mut().filter(|run| run.policy != "opt") {
            run.tiered = Some(Tiered {
                block_misses: run.block_misses / 2,
                compressed_hits: 30,
                compressed_blocks: 20,
                compressed_slots: 10,
            });
        }
        (plan, outcome)
    }

    #[test]
    fn policies_without_room_are_in_another_table() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let rows: Vec<Vec<String>> = vec![
            row(&["memory", "size", "lru", "fifo", "sieve"]),
            row(&["1 %", "16 MiB", "0.1234", "0.2345", "0.3456"]),
        ];
        let texts = |width| -> Vec<Vec<String>> {
            let tables = tables(&rows, 2, Some(width));
            let text = |table: &Table| table.lines(None).iter().map(Line::to_string).collect();
            tables.iter().map(text).collect()
        };
        assert_eq!(texts(100).len(), 1);
        let narrow = texts(30);
        assert_eq!(narrow.len(), 2);
        assert_eq!(narrow[0][0], "memory    size     lru    fifo");
        assert_eq!(narrow[1], ["memory    size   sieve", "   1 %  16 MiB  0.3456"]);
        assert_eq!(texts(1).len(), 3, "one policy at least");
    }

    #[test]
    fn compression_has_a_table_and_a_sentence() {
        let (plan, outcome) = compressed(&["opt", "lru"], &[&[100, 50], &[400, 300]]);
        let rows = tiered_rows(&plan, &outcome).expect("lru has it");
        assert_eq!(rows[0], ["memory", "size", "lru compressed"]);
        assert_eq!(rows[2], ["", "8 MiB", "0.1500 (-50.0 %)"]);
        let text = lines(&plan, &outcome, None).to_string();
        assert!(text.contains("Compression changes the misses by -50.0 % (lru, 4 MiB)"), "{text}");
        assert!(text.contains("a mean ratio of 2.50; 100 % of the blocks"), "{text}");
        let object = simulator::json::object(&plan, &outcome);
        let runs = object["runs"].as_array().expect("runs");
        assert_eq!((&runs[0]["compress"], &runs[3]["compress"]), (&().into(), &"2.5".into()));
        assert_eq!(runs[3]["compress_block_misses"], 150);
        assert_eq!(runs[3]["block_misses"], 300, "without");
        let of_none = gain(&plan, &compressed(&["opt"], &[&[1]]).1).expect("a sentence");
        assert!(of_none.contains("none of the policies"), "{of_none}");
    }
}
