//! `--watch`: rates in each interval.

use super::{Chosen, time};
use crate::terminal;
use block::Size;
use daemon::control::statistics::Statistics;
use live::Interval;
use report::terminal::{Column, Fit, Line, Look, Span, Table};
use serde::Serialize;
use serde_json::{Map, Value, json};
use stack::Failure;
use std::path::PathBuf;
use std::time::Duration;

/// Lines between two headings.
const PAGE: usize = 20;

/// Returns an interval as cells of the table.
fn cells(interval: &Interval<'_>) -> [String; 10] {
    let (reads, hits) = interval.reads();
    let [read_rate, change_rate, write_rate] = interval.client_rates();
    let share = match reads {
        0 => "-".to_owned(),
        reads => format!("{:.1}", 100.0 * hits as f64 / reads as f64),
    };
    let after = interval.after;
    [
        after.volume.clone(),
        format!("{read_rate:.0}"),
        share,
        format!("{change_rate:.0}"),
        Size(write_rate as u64).to_string(),
        format!("{:.0}", interval.rate(|stats| stats.backing.reads)),
        format!("{:.0}", interval.rate(|stats| stats.backing.changes)),
        format!("{:.1}", interval.rate(|stats| stats.backing.flushes)),
        Size(after.counters.blocks_dirty * 4096).to_string(),
        time(after.counters.flush_predicted_ns),
    ]
}

/// Returns the growth per second of each number of a group, by its name.
fn rates<T: Serialize>(
    interval: &Interval<'_>,
    group: impl Fn(&Statistics) -> &T,
) -> Map<String, Value> {
    let numbers = |stats| match serde_json::json!(group(stats)) {
        Value::Object(numbers) => numbers,
        _ => Map::new(),
    };
    let (before, after) = (numbers(interval.before), numbers(interval.after));
    let rate = |name: &String, after: &Value| {
        let before = before.get(name).and_then(Value::as_u64).unwrap_or(0);
        after.as_u64().unwrap_or(0).saturating_sub(before) as f64 / interval.seconds()
    };
    after.iter().map(|(name, after)| (name.clone(), rate(name, after).into())).collect()
}

/// Returns an interval as an object.
fn json(interval: &Interval<'_>) -> Value {
    let (before, after) = (interval.before, interval.after);
    json!({
        "schema": "overdrive.volume-rates/1",
        "volume": after.volume,
        "seconds": interval.seconds(),
        // For gauges the change: their values are in `stats`.
        "counters_per_second": rates(interval, |stats| &stats.counters),
        "backing_per_second": rates(interval, |stats| &stats.backing),
        // Of this interval alone.
        "latencies": after.latencies.since(&before.latencies),
        "blocks_dirty": after.counters.blocks_dirty,
        "state": after.state,
    })
}

/// The columns and their minimum widths, so that lines of different times are aligned. "B." marks
/// requests to the backing.
const HEADING: [(&str, usize); 10] = [
    ("VOLUME", 12),
    ("READS/S", 8),
    ("HIT%", 5),
    ("CHANGES/S", 9),
    ("WRITTEN/S", 9),
    ("B.READS/S", 9),
    ("B.CHANGES/S", 11),
    ("B.FLUSHES/S", 11),
    ("DIRTY", 9),
    ("TO-FLUSH", 8),
];

/// Columns that are left out if the terminal is too narrow, in this order.
const LEFT_OUT: [&str; 5] = ["B.FLUSHES/S", "B.CHANGES/S", "TO-FLUSH", "WRITTEN/S", "CHANGES/S"];

/// Returns a table with the columns of these headings.
fn table(heads: impl Iterator<Item = (&'static str, usize)>) -> Table {
    let column = |(head, least): (&'static str, usize)| {
        let column = match head {
            "VOLUME" => Column::text(head, Fit::Shorten(least)),
            _ => Column::number(head),
        };
        let column = column.at_least(least);
        match LEFT_OUT.iter().position(|one| *one == head) {
            Some(turn) => column.left_out(turn),
            None => column,
        }
    };
    Table::new(1, heads.map(column).collect())
}

/// Returns a line of the table. A long name of a volume is shortened. The width alone decides which
/// columns are left out, so that all lines have the same.
fn line(cells: [&str; 10], look: Look, width: Option<usize>) -> Line {
    let all = table(HEADING.into_iter());
    let missing = all.missing(width);
    let is_shown = |head: &str| !missing.contains(&head);
    let shown = HEADING.into_iter().filter(|(head, _)| is_shown(head));
    let mut table = table(shown).without_heads();
    let cells = HEADING.iter().zip(cells).filter(|((head, _), _)| is_shown(head));
    table.push(cells.map(|(_, cell)| Span::new(look, cell)).collect());
    table.narrowed(width).pop().unwrap_or_default()
}

#[allow(clippy::disallowed_methods, reason = "a command waits without a lane")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A watched volume, with its latest statistics.
struct Watched {
    chosen: Chosen,
    before: Statistics,
}

/// Prints lines as a table, with a heading now and then, or as objects.
struct Printer {
    as_json: bool,
    lines: usize,
}

impl Printer {
    fn print(&mut self, interval: &Interval) {
        if self.as_json {
            daemon::say!("{}", json(interval));
            return;
        }
        let width = terminal::width();
        if self.lines.is_multiple_of(PAGE) {
            terminal::print([line(HEADING.map(|(head, _)| head), Look::Heading, width)]);
        }
        let cells = cells(interval);
        terminal::print([line(cells.each_ref().map(String::as_str), Look::Plain, width)]);
        self.lines += 1;
    }
}

/// Prints one line per volume each time, until none is left or the output is closed. "B." marks
/// requests to the backing. Watching continues with a daemon that is upgraded or restarted.
///
/// # Errors
/// The last volume has ended; status 3 if its daemon has.
pub(super) fn run(
    control: Option<&PathBuf>,
    chosen: Vec<Chosen>,
    time: Duration,
    as_json: bool,
) -> Result<(), Failure> {
    let mut watched = Vec::new();
    for mut chosen in chosen {
        let before = chosen.look()?;
        watched.push(Watched { chosen, before });
    }
    let mut printer = Printer { as_json, lines: 0 };
    while !daemon::console::has_ended() {
        pause(time);
        let mut gone = Vec::new();
        watched.retain_mut(|one| match one.chosen.look() {
            Ok(after) => {
                printer.print(&Interval { before: &one.before, after: &after });
                one.before = after;
                true
            }
            Err(failure) => match one.chosen.reconnect(control, failure) {
                Ok(first) => {
                    // The new daemon counts from zero, so rates start again.
                    one.before = first;
                    let volume = &one.chosen.volume;
                    daemon::tell!("overdrive: {volume}: its daemon was restarted; rates continue");
                    true
                }
                Err(failure) => {
                    let message = format!("{}: {failure}", one.chosen.volume);
                    gone.push(Failure::new(failure.exit, message));
                    false
                }
            },
        });
        let last = if watched.is_empty() { gone.pop() } else { None };
        gone.iter().for_each(|failure| daemon::tell!("overdrive: {failure}"));
        if let Some(failure) = last {
            return Err(failure);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_was_counted_between_two_looks() {
        let at = |now_ns: u64, hits: u64, misses: u64, asked: u64| -> Statistics {
            serde_json::from_value(json!({
                "volume": "v", "now_ns": now_ns, "memory_bytes": 1, "state": "serving",
                "counters": {
                    "read_hits": hits, "read_misses": misses, "read_joins": 0, "changes": 7,
                    "asked_write_bytes": asked, "blocks_dirty": 2, "flush_predicted_ns": 0,
                },
                "backing": { "reads": misses, "changes": 0, "flushes": 0 },
                "latencies": { "hit_ns": { "sum_ns": hits * 70, "max_ns": 70, "buckets": [[71, hits]] } },
            }))
            .expect("statistics")
        };
        let (before, after) = (at(1_000_000_000, 100, 50, 0), at(3_000_000_000, 400, 150, 4 << 20));
        let interval = Interval { before: &before, after: &after };
        let cells = cells(&interval);
        assert_eq!(cells[..5], ["v", "200", "75.0", "0", "2 MiB"]);
        assert_eq!((&*cells[5], &*cells[8]), ("50", "8 KiB"));
        assert_eq!(json(&interval)["counters_per_second"]["read_hits"], 150.0);
        assert_eq!(json(&interval)["latencies"]["hit_ns"]["count"], 300);
        // The counts of a restarted daemon are lower: no impossible rates are printed.
        let row = line(cells.each_ref().map(String::as_str), Look::Plain, Some(100)).to_string();
        assert!(row.starts_with("v                 200  75.0 "), "{row}");
        let long = line(["x"; 10].map(|_| "a very long name of a volume"), Look::Plain, Some(0));
        assert!(long.to_string().starts_with("a v\u{2026}a volume "), "{long}");
        let heads = line(HEADING.map(|(head, _)| head), Look::Heading, Some(100)).to_string();
        assert!(heads.len() <= 100 && heads.find(" HIT%") == row.find(" 75.0"), "{heads}");
        let anew = Interval { before: &after, after: &before };
        assert_eq!(super::cells(&anew)[1], "0");
    }
}
