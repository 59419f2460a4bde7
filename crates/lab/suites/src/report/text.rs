//! An outcome as a table for a terminal.

use crate::outcome::{Outcome, Row};
use crate::suite;
use block::printable;
use report::words::{figure, time};
use std::fmt::Write;

/// Returns the notes on a row.
pub(super) fn notes(row: &Row) -> String {
    let mut notes = Vec::new();
    match row.cold {
        Some(true) => notes.push("cold".to_owned()),
        Some(false) => notes.push("warm".to_owned()),
        None => {}
    }
    if let Some(flush_ns) = row.flush_ns {
        notes.push(format!("flush {}", time(flush_ns as f64)));
    }
    if row.is_near_ceiling() {
        notes.push("near the ceiling".to_owned());
    }
    if row.is_disturbed() {
        let percent = 100.0 * row.kept_waiting;
        notes.push(format!("delayed by this machine for {percent:.0} % of the time"));
    }
    if row.partial {
        notes.push("not complete".to_owned());
    }
    if let Some(doubt) = &row.doubt {
        notes.push(format!("IN DOUBT: {doubt}"));
    }
    if let Some(punctual) = row.punctual {
        let p99 = time(punctual.p99_ns as f64);
        match punctual.is_valid() {
            true => notes.push(format!("starts late by {p99} at p99")),
            false => notes.push(format!("INVALID: starts late by {p99} at p99")),
        }
        if punctual.waited > 0.0 {
            notes.push(format!("{:.1} % of starts had to wait", 100.0 * punctual.waited));
        }
    }
    if let Some(how) = &row.shortened {
        notes.push(format!("shortened: {how}"));
    }
    if !row.prepared.is_empty() {
        notes.push(row.prepared.clone());
    }
    notes.join(", ")
}

/// Returns the latencies that a table shows.
pub(super) fn latencies(row: &Row) -> [String; 5] {
    let Some(latency) = row.latency.as_ref().filter(|latency| latency.count() > 0) else {
        return Default::default();
    };
    [
        time(latency.mean_ns()),
        time(latency.quantile_ns(0.5) as f64),
        time(latency.quantile_ns(0.99) as f64),
        time(latency.quantile_ns(0.9999) as f64),
        time(latency.max_ns() as f64),
    ]
}

/// Returns the table, with the method above it.
pub fn text(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let title = plan.target.title();
    let mut text = format!("{} on {}", plan.suite.name, printable(title));
    match &plan.cache {
        Some(cache) => _ = write!(text, " with {} of cache", cache.memory),
        None => text.push_str(", bare"),
    }
    _ = writeln!(text, ", in {} time", outcome.time);
    let sentences = outcome.method.iter().map(|sentence| printable(sentence));
    sentences.for_each(|sentence| _ = writeln!(text, "{}", wrapped(&sentence)));
    text.push('\n');
    match outcome.rows.is_empty() {
        true => text.push_str("Nothing was measured.\n"),
        false => text.push_str(&table(&outcome.rows)),
    }
    let suite = suite::find(plan.suite.name);
    if let Some(block) = suite.and_then(|suite| suite.block(outcome)) {
        _ = write!(text, "\n{block}");
    }
    text
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let heads = ["test", "", "", "mean", "p50", "p99", "p99.99", "max", ""];
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let [mean, p50, p99, p9999, max] = latencies(row);
        let (test, unit) = (row.test.clone(), row.unit.to_owned());
        [test, figure(row.value), unit, mean, p50, p99, p9999, max, notes(row)]
    }));
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let mut padded = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            _ = match column {
                0 | 2 | 8 => write!(padded, "{cell:<width$}  "),
                _ => write!(padded, "{cell:>width$}  "),
            };
        }
        _ = writeln!(text, "{}", padded.trim_end());
    }
    text
}

/// Wraps a sentence at 100 characters.
fn wrapped(sentence: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in sentence.split(' ') {
        if length + word.len() > 99 {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.chars().count();
    }
    lines
}
