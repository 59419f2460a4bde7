//! A replay's results as lines for a terminal.

use super::replay_options::Options;
use block::{Size, printable};
use load::Latency;
use replay::Replayed;
use replay::json::{SHARES_NS, SLOW_NS};
use report::terminal::{Column, Fit, Line, Span, Table, Text};
use report::words::{figure, grouped, time};

/// Blanks before the second line of a fact.
const INDENT: usize = 12;

pub(super) fn lines(options: &Options, replayed: &Replayed, width: Option<usize>) -> Text {
    let mut lines = Text::default();
    for (name, value) in facts(options, replayed) {
        let value = printable(&value);
        lines.extend(Line::from(format!("{name:<INDENT$}{value}")).fitted(width, INDENT));
    }
    lines.push("");
    lines.extend(table(replayed).lines(width));
    let notes = notes(options, replayed);
    if !notes.is_empty() {
        lines.push("");
    }
    for note in notes {
        lines.extend(Line::from(printable(&note).into_owned()).fitted(width, 0));
    }
    lines
}

fn facts(options: &Options, replayed: &Replayed) -> Vec<(&'static str, String)> {
    let record = &replayed.record;
    let trace = match options.map {
        Some(map) => format!("{} (--map {})", options.trace.display(), map.name()),
        None => options.trace.display().to_string(),
    };
    let cache = options.cache.map_or(String::new(), |size| format!(", behind a cache of {size}"));
    let size = Size(replayed.target_bytes);
    let prepared = match replayed.prepared.as_str() {
        "" | "fresh" => String::new(),
        steps => format!(", prepared by {steps}"),
    };
    let mb = record.bytes as f64 / 1e6;
    let rate = |ns: u64| figure(mb / (ns.max(1) as f64 / 1e9));
    let busy_percent = 100.0 * record.busy_ns as f64 / record.elapsed_ns().max(1) as f64;
    vec![
        ("trace", trace),
        ("target", format!("{} ({size}){cache}{prepared}", options.target)),
        ("times", times(options, replayed)),
        ("requests", format!("{} of {}", grouped(record.requests()), grouped(replayed.planned))),
        ("duration", time(record.elapsed_ns() as f64)),
        ("busy", format!("{}, {busy_percent:.1} % of it", time(record.busy_ns as f64))),
        ("depth", format!("{:.2} requests in flight, on average while busy", record.depth_mean())),
        (
            "rate",
            format!(
                "{} MB/s while busy, {} MB/s overall",
                rate(record.busy_ns),
                rate(record.elapsed_ns())
            ),
        ),
    ]
}

fn times(options: &Options, replayed: &Replayed) -> String {
    let clock = replayed.time;
    match (options.depth, options.dependent) {
        (Some(depth), _) => format!("as fast as possible, {depth} in flight ({clock} time)"),
        (None, true) => {
            format!("as fast as the answers that were waited for allow ({clock} time)")
        }
        (None, false) => {
            let speed = options.speed.map(|speed| format!(", {speed} times as fast"));
            let idle =
                options.idle_max.map(|us| format!(", idle at most {}", time(us as f64 * 1e3)));
            let (speed, idle) = (speed.unwrap_or_default(), idle.unwrap_or_default());
            format!("as recorded{speed}{idle} ({clock} time)")
        }
    }
}

fn table(replayed: &Replayed) -> Table {
    let record = &replayed.record;
    let mut columns = vec![Column::text("", Fit::Shorten(7))];
    let heads = ["requests", "mean", "stdev", "max"].map(str::to_owned);
    let within = SHARES_NS.map(|ns| format!("<= {}", time(ns as f64)));
    let above = format!("> {}", time(SLOW_NS as f64));
    columns.extend(heads.into_iter().chain(within).chain([above]).map(Column::number));
    let mut table = Table::new(2, columns);
    let rows = [
        ("all", &record.all()),
        ("reads", &record.reads),
        ("writes", &record.writes),
        ("flushes", &record.flushes),
        ("trims", &record.trims),
    ];
    for (name, latency) in rows.into_iter().filter(|(_, latency)| latency.count() > 0) {
        table.push(row(name, latency).into_iter().map(Span::from).collect());
    }
    table
}

fn row(name: &str, latency: &Latency) -> Vec<String> {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let mut cells = vec![
        name.to_owned(),
        grouped(latency.count()),
        time(latency.mean_ns()),
        time(latency.stdev_ns()),
        time(latency.max_ns() as f64),
    ];
    cells.extend(SHARES_NS.iter().map(|ns| percent(1.0 - latency.share_above(*ns))));
    cells.push(percent(latency.share_above(SLOW_NS)));
    cells
}

/// Returns the sentences below the table.
fn notes(options: &Options, replayed: &Replayed) -> Vec<String> {
    let mut notes = Vec::new();
    if !replayed.is_complete {
        notes.push("NOT COMPLETE: the figures are for the requests that were answered.".to_owned());
    }
    if let Some(punctual) = replayed.punctual {
        let (p99, most) = (time(punctual.p99_ns as f64), time(punctual.p99_ns_max as f64));
        match punctual.is_valid() {
            true => notes.push(format!("Requests start late by {p99} at p99.")),
            false => notes.push(format!(
                "INVALID: requests start late by {p99} at p99, more than {most}: this machine was \
                 too busy."
            )),
        }
        if punctual.waited > 0.0 {
            let percent = 100.0 * punctual.waited;
            notes.push(format!("{percent:.1} % of starts had to wait: 256 were in flight."));
        }
    }
    let changes = &replayed.changes;
    // In a replay by dependency nearly all requests wait.
    let held = if options.dependent { 0 } else { replayed.record.held_starts };
    let counts = [
        (held, "requests waited for earlier ones that they overlap"),
        (
            changes.left_out,
            "requests were left out: unknown, empty, or not supported by the target",
        ),
        (changes.not_reads, "requests were left out: they do not read"),
        (changes.beyond, "requests were left out: they do not fit on the target"),
        (changes.extended, "requests were extended to whole blocks of the target"),
        (changes.split, "requests were split: they are longer than the target supports, or 2 MiB"),
        (changes.unsorted, "requests were out of order by more than 65,536 requests"),
        (changes.dropped, "requests were lost during recording"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    notes.extend(counts.map(|(count, what)| format!("{} {what}.", grouped(count))));
    notes.extend(replayed.remarks.iter().cloned());
    notes
}
