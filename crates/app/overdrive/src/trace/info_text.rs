//! A trace's properties as lines for a terminal, which the page uses in part.

use block::{Size, printable};
use report::terminal::{Column, Fit, Line, Span, Table, Text};
use report::words::{grouped, time};
use simulator::BLOCK_BYTES;
use std::path::Path;
use traces::json::service_mean_ns;
use traces::{DEPTHS, Info, Named, REUSE_BYTES, SIZES};

/// Blanks before the second line of a fact.
const INDENT: usize = 12;
/// Devices and processes that are shown.
const SHOWN: usize = 12;

pub(super) fn lines(path: &Path, info: &Info, width: Option<usize>) -> Text {
    let mut lines = Text::default();
    for (name, value) in facts(path, info) {
        let value = printable(&value);
        lines.extend(Line::from(format!("{name:<INDENT$}{value}")).fitted(width, INDENT));
    }
    for rows in tables(info) {
        lines.push("");
        lines.extend(table(&rows).lines(width));
    }
    lines
}

/// Returns a share in percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 / whole.max(1) as f64 * 100.0)
}

/// Returns the facts that are single figures.
pub(super) fn facts(path: &Path, info: &Info) -> Vec<(&'static str, String)> {
    let amounts = &info.amounts;
    let data = amounts.reads + amounts.writes;
    let mut facts = vec![
        ("trace", format!("{} ({})", path.display(), info.format.name())),
        ("requests", requests(info)),
        ("read", format!("{:.2} GB", amounts.bytes_read as f64 / 1e9)),
        ("written", format!("{:.2} GB", amounts.bytes_written as f64 / 1e9)),
        ("footprint", footprint(info)),
        (
            "sequential",
            format!(
                "{} of all: {} of the reads, {} of the writes",
                percent(info.sequential.iter().sum(), data),
                percent(info.sequential[0], amounts.reads),
                percent(info.sequential[1], amounts.writes)
            ),
        ),
    ];
    if info.has_times {
        facts.push(("duration", time(info.duration_ns as f64)));
    }
    match (info.depths.mean(), service_mean_ns(info)) {
        (Some(depth), Some(service_ns)) => {
            let (busy_ns, idle_ns) = (info.depths.busy_ns, idle_ns(info));
            facts
                .push(("busy", format!("{}, idle {}", time(busy_ns as f64), time(idle_ns as f64))));
            facts.push(("service", format!("{} mean", time(service_ns))));
            facts.push(("depth", format!("{depth:.2} mean at arrival")));
        }
        _ => facts.push(("depth", "unknown: the trace has no answers".to_owned())),
    }
    facts.extend(notes(info));
    facts
}

fn idle_ns(info: &Info) -> u64 {
    info.duration_ns.saturating_sub(info.depths.busy_ns)
}

fn requests(info: &Info) -> String {
    let amounts = &info.amounts;
    let mut text = format!(
        "{}: {} reads, {} writes",
        grouped(amounts.requests()),
        grouped(amounts.reads),
        grouped(amounts.writes)
    );
    let names = ["flushes", "discards", "writes of zeros", "advice"];
    for (name, count) in names.into_iter().zip(info.operations).filter(|(_, count)| *count > 0) {
        text += &format!(", {} {name}", grouped(count));
    }
    let known: u64 = info.operations.iter().sum();
    if amounts.others > known {
        text += &format!(", {} others", grouped(amounts.others - known));
    }
    text
}

fn footprint(info: &Info) -> String {
    let about = if info.footprint.is_exact { "" } else { "about " };
    let blocks = info.footprint.blocks;
    format!("{about}{} blocks of 4 KiB, {}", grouped(blocks), Size(blocks * BLOCK_BYTES))
}

fn notes(info: &Info) -> impl Iterator<Item = (&'static str, String)> {
    let notes = info.notes;
    let all = [
        (info.unsorted, "requests are out of order by more than 65,536 requests"),
        (notes.merged, "requests were merged into others by the kernel"),
        (notes.dropped, "requests were lost during recording"),
        (u64::from(notes.is_cut), "truncated recording: its complete blocks were read"),
        (notes.joined, "outputs of blkparse follow the first; they are used in this order"),
        (notes.other_events, "events of blkparse of other kinds are not counted"),
        (notes.skipped_lines, "lines without a request were skipped"),
        (notes.padding_bytes, "zero bytes after the compressed data were skipped"),
    ];
    let all = all.into_iter().filter(|(count, _)| *count > 0);
    all.map(|(count, text)| ("note", format!("{} {text}", grouped(count))))
}

/// Returns the tables: rows of cells, the first of which has the heads.
pub(super) fn tables(info: &Info) -> Vec<Vec<Vec<String>>> {
    let mut tables = vec![sizes(info)];
    if info.depths.known > 0 {
        tables.push(depths(info));
    }
    tables.push(reuse(info));
    if info.devices.len() > 1 {
        tables.push(named("device", &info.devices));
    }
    if !info.processes.is_empty() {
        tables.push(named("process", &info.processes));
    }
    tables
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn sizes(info: &Info) -> Vec<Vec<String>> {
    let (reads, writes) = (info.amounts.reads, info.amounts.writes);
    let mut rows = vec![words(&["size", "all", "reads", "writes"])];
    let counts = info.sizes.reads.iter().zip(&info.sizes.writes);
    for ((name, _), (of_reads, of_writes)) in SIZES.iter().zip(counts) {
        rows.push(vec![
            (*name).to_owned(),
            percent(of_reads + of_writes, reads + writes),
            percent(*of_reads, reads),
            percent(*of_writes, writes),
        ]);
    }
    rows
}

fn depths(info: &Info) -> Vec<Vec<String>> {
    let mut rows = vec![words(&["depth", "requests", "share"])];
    for ((name, _), requests) in DEPTHS.iter().zip(info.depths.requests) {
        let share = percent(requests, info.depths.known);
        rows.push(vec![(*name).to_owned(), grouped(requests), share]);
    }
    rows
}

fn reuse(info: &Info) -> Vec<Vec<String>> {
    let mut rows = vec![words(&["reuse within", "block accesses", "share", "all up to it"])];
    let mut sum = 0;
    let all = info.block_accesses;
    for (bytes, count) in REUSE_BYTES.iter().zip(info.reuse.within) {
        sum += count;
        let name = Size(*bytes).to_string();
        rows.push(vec![name, grouped(count), percent(count, all), percent(sum, all)]);
    }
    for (name, count) in [("longer", info.reuse.longer), ("never before", info.reuse.first)] {
        rows.push(vec![name.to_owned(), grouped(count), percent(count, all), String::new()]);
    }
    rows
}

fn named(head: &str, all: &[Named]) -> Vec<Vec<String>> {
    let mut rows = vec![words(&[head, "reads", "writes", "GB read", "GB written"])];
    for Named { name, amounts } in all.iter().take(SHOWN) {
        let gb = |bytes: u64| format!("{:.2}", bytes as f64 / 1e9);
        rows.push(vec![
            printable(name).into_owned(),
            grouped(amounts.reads),
            grouped(amounts.writes),
            gb(amounts.bytes_read),
            gb(amounts.bytes_written),
        ]);
    }
    if all.len() > SHOWN {
        let more = format!("and {} more", grouped((all.len() - SHOWN) as u64));
        rows.push(vec![more, String::new(), String::new(), String::new(), String::new()]);
    }
    rows
}

fn table(rows: &[Vec<String>]) -> Table {
    let heads = rows[0].iter().enumerate().map(|(column, head)| match column {
        0 => Column::text(head, Fit::Shorten(12)),
        _ => Column::number(head),
    });
    let mut table = Table::new(2, heads.collect());
    for row in &rows[1..] {
        table.push(row.iter().map(|cell| Span::from(cell.as_str())).collect());
    }
    table
}
