//! An outcome as a table for a terminal.

use crate::outcome::{Outcome, Row};
use crate::suite;
use block::printable;
use report::notes::Notes;
use report::terminal::{Column, Fit, Line, Look, Span, Table, Text, fits, sentence_width};
use report::words::{figure, time};

/// Returns the notes on a row.
pub(super) fn notes(row: &Row) -> Vec<String> {
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
        notes.push(format!("prepared by {}", row.prepared));
    }
    notes
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

/// Returns the table, with the method above it, in lines that fit this width.
pub fn text(outcome: &Outcome, width: Option<usize>) -> Text {
    let plan = &outcome.plan;
    let cache = match &plan.cache {
        Some(cache) => format!(" with {} of cache", cache.memory),
        None => ", bare".to_owned(),
    };
    let (title, time) = (plan.target.title(), outcome.time);
    let name = suite::title(plan.suite.name);
    let title = format!("{name} on {}{cache}, in {time} time", printable(title));
    let mut text = Text::default();
    text.extend(Line::heading(title).wrapped(sentence_width(width), 0));
    for sentence in &outcome.method {
        text.extend(Line::from(&*printable(sentence)).wrapped(sentence_width(width), 0));
    }
    text.push("");
    match outcome.rows.is_empty() {
        true => text.push("Nothing was measured."),
        false => table(&mut text, &outcome.rows, width),
    }
    let suite = suite::find(plan.suite.name);
    if let Some(block) = suite.and_then(|suite| suite.block(outcome)) {
        text.push("");
        block.lines().for_each(|line| text.push(line));
    }
    text
}

/// Returns the look of a row's notes.
fn look(row: &Row) -> Look {
    let is_invalid = row.punctual.is_some_and(|punctual| !punctual.is_valid());
    match row.doubt.is_some() || is_invalid {
        true => Look::Bad,
        false if row.is_disturbed() || row.partial => Look::Doubtful,
        false => Look::Plain,
    }
}

/// Widest table; wider ones are hard to read, and do not fit most windows.
const WIDTH_MAX: usize = 100;

/// Adds the table. Notes that all rows share follow it, others are a column if there is room, and
/// otherwise below their rows.
fn table(text: &mut Text, rows: &[Row], width: Option<usize>) {
    let width = Some(width.unwrap_or(WIDTH_MAX).min(WIDTH_MAX));
    let all: Vec<Vec<String>> = rows.iter().map(notes).collect();
    let shared = Notes::of(&all).shared;
    let beside = table_of(rows, &shared, true);
    text.extend(match fits(&beside, width) {
        true => beside.lines(width),
        false => table_of(rows, &shared, false).lines(width),
    });
    if !shared.is_empty() {
        let line = format!("All rows: {}.", shared.join(", "));
        text.push("");
        text.extend(Line::from(&*printable(&line)).wrapped(sentence_width(width), 0));
    }
}

/// Latencies that are left out of a narrow table, in this order.
const LEFT_OUT: [&str; 3] = ["p50", "p99", "mean"];

/// Returns the column of a latency.
fn latency(head: &str) -> Column {
    let column = Column::number(head);
    match LEFT_OUT.iter().position(|one| *one == head) {
        Some(turn) => column.left_out(turn),
        None => column,
    }
}

fn table_of(rows: &[Row], shared: &[String], has_notes: bool) -> Table {
    let mut columns = vec![
        Column::text("test", Fit::Wrap(TEST_MIN)),
        Column::number("value"),
        Column::text("unit", Fit::Whole),
    ];
    columns.extend(["mean", "p50", "p99", "p99.99", "max"].map(latency));
    let has_notes = has_notes && rows.iter().any(|row| !own_notes(row, shared).is_empty());
    if has_notes {
        columns.push(Column::text("notes", Fit::Whole));
    }
    let mut table = Table::new(2, columns);
    for row in rows {
        let (test, unit) = (printable(&row.test), printable(row.unit));
        let mut cells: Vec<Span> = vec![(&*test).into(), figure(row.value).into(), (&*unit).into()];
        cells.extend(latencies(row).map(Span::from));
        let notes = Span::new(look(row), &*printable(&own_notes(row, shared)));
        if has_notes {
            cells.push(notes.clone());
        }
        table.push(cells);
        if !has_notes && !notes.text.is_empty() {
            table.push_note(Line::of(notes));
        }
    }
    table
}

/// Returns the notes on a row that not all rows share.
fn own_notes(row: &Row, shared: &[String]) -> String {
    let own = notes(row).into_iter().filter(|note| !shared.contains(note));
    own.collect::<Vec<_>>().join(", ")
}

/// Minimum width of the names of tests.
const TEST_MIN: usize = 16;
