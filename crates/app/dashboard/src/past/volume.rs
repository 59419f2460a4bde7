//! The past of a volume: the last hour from samples of seconds, and two weeks from samples of
//! minutes.

use super::drawing::{Chart, Points, Times, axis, range};
use super::{now_s, read};
use crate::app::App;
use crate::words::{percent, percent_of, rate, size, span as words_of_time, time};
use report::axis::Axis;
use report::circumstances::utc;
use report::plot::escaped;
use report::table::{Head, TableCell, table};
use serde_json::Value;

const MIB: f64 = 1_048_576.0;

/// A part of the past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    Hour,
    Fortnight,
}

impl Span {
    /// Returns the span whose figures are in a file of this name.
    pub(crate) fn of_file(name: &str) -> Option<Span> {
        [Span::Hour, Span::Fortnight].into_iter().find(|span| span.file() == name)
    }

    /// Returns the name of the file with its figures.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Span::Hour => "hour.csv",
            Span::Fortnight => "fortnight.csv",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Span::Hour => "The last hour",
            Span::Fortnight => "The last two weeks",
        }
    }

    /// Returns the length, as the command's option.
    fn last(self) -> &'static str {
        match self {
            Span::Hour => "1h",
            Span::Fortnight => "14d",
        }
    }

    /// Returns the length in seconds.
    fn seconds(self) -> i64 {
        match self {
            Span::Hour => 3600,
            Span::Fortnight => 14 * 86_400,
        }
    }

    /// Returns the time between two points in seconds, and as the command's option. A chart has
    /// about 350 pixels.
    fn step(self) -> (i64, &'static str) {
        match self {
            Span::Hour => (20, "20s"),
            Span::Fortnight => (7200, "2h"),
        }
    }

    /// Returns the time between two points in words.
    fn step_words(self) -> &'static str {
        match self {
            Span::Hour => "20 seconds",
            Span::Fortnight => "two hours",
        }
    }

    /// Returns the time of a line of the table, in seconds.
    fn line_s(self) -> i64 {
        match self {
            Span::Hour => 300,
            Span::Fortnight => 86_400,
        }
    }

    /// Returns the number of seconds of a unit of the charts.
    fn unit_s(self) -> f64 {
        match self {
            Span::Hour => 60.0,
            Span::Fortnight => 86_400.0,
        }
    }

    fn times(self) -> Times {
        let (name, before) = match self {
            Span::Hour => ("minutes before now", 60.0),
            Span::Fortnight => ("days before now", 14.0),
        };
        let joined_within = 1.5 * self.step().0 as f64 / self.unit_s();
        Times { name, before, after: 0.0, joined_within }
    }

    /// Returns a time as a line of the table shows it.
    fn time(self, at_s: i64) -> String {
        let text = utc(u64::try_from(at_s).unwrap_or(0));
        let range = if self == Span::Hour { 11..16 } else { 0..10 };
        text.get(range).unwrap_or(&text).to_owned()
    }

    /// Returns the arguments of the command that prints all figures as CSV.
    pub(crate) fn csv_arguments(self, volume: &str) -> [&str; 9] {
        let every = if self == Span::Hour { "1s" } else { "1m" };
        ["volume", "history", "--csv", "--last", self.last(), "--every", every, "--", volume]
    }
}

/// Figures of a stretch of time, as the command names them.
#[derive(Clone, Copy, Default)]
struct Sample {
    at_s: i64,
    reads: u64,
    read_hits: u64,
    changes: u64,
    written_bytes: u64,
    written_back_bytes: u64,
    saved_bytes: u64,
    time_saved_ns: u64,
    errors: u64,
    miss_p99_ns: u64,
    flush_p99_ns: u64,
    dirty_bytes: u64,
    dirty_age_ns: u64,
    held_bytes: u64,
}

impl Sample {
    fn of(value: &Value) -> Option<Sample> {
        let number = |key: &str| value[key].as_u64().unwrap_or(0);
        Some(Sample {
            at_s: value["at_s"].as_i64()?,
            reads: number("reads"),
            read_hits: number("read_hits"),
            changes: number("changes"),
            written_bytes: number("written_bytes"),
            written_back_bytes: number("written_back_bytes"),
            saved_bytes: number("saved_bytes"),
            time_saved_ns: number("time_saved_ns"),
            errors: number("errors"),
            miss_p99_ns: number("miss_p99_ns"),
            flush_p99_ns: number("flush_p99_ns"),
            dirty_bytes: number("dirty_bytes"),
            dirty_age_ns: number("dirty_age_ns"),
            held_bytes: number("held_bytes"),
        })
    }

    /// Adds the figures of another stretch.
    fn merge(&mut self, other: &Sample) {
        self.reads = self.reads.saturating_add(other.reads);
        self.read_hits = self.read_hits.saturating_add(other.read_hits);
        self.changes = self.changes.saturating_add(other.changes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.written_back_bytes = self.written_back_bytes.saturating_add(other.written_back_bytes);
        self.saved_bytes = self.saved_bytes.saturating_add(other.saved_bytes);
        self.time_saved_ns = self.time_saved_ns.saturating_add(other.time_saved_ns);
        self.errors = self.errors.saturating_add(other.errors);
        self.miss_p99_ns = self.miss_p99_ns.max(other.miss_p99_ns);
        self.flush_p99_ns = self.flush_p99_ns.max(other.flush_p99_ns);
        self.dirty_bytes = self.dirty_bytes.max(other.dirty_bytes);
        self.dirty_age_ns = self.dirty_age_ns.max(other.dirty_age_ns);
        self.held_bytes = self.held_bytes.max(other.held_bytes);
    }
}

/// Returns the charts and tables of both spans, as HTML. A history that cannot be read is a
/// sentence.
pub(crate) async fn of_volume(app: &App, volume: &str, path: &str) -> String {
    let of = async |span: Span| {
        let (last, every) = (span.last(), span.step().1);
        let arguments =
            ["volume", "history", "--json", "--last", last, "--every", every, "--", volume];
        read(app, &arguments).await
    };
    let (hour, fortnight) = tokio::join!(of(Span::Hour), of(Span::Fortnight));
    let now_s = now_s();
    // The same reason once.
    if let (Err(why), Err(_)) = (&hour, &fortnight) {
        return format!("<p>{}</p>\n", escaped(why));
    }
    let both = [(Span::Hour, hour), (Span::Fortnight, fortnight)];
    both.into_iter().map(|(span, read)| part(span, read, path, now_s)).collect()
}

fn part(span: Span, read: Result<Value, String>, path: &str, now_s: i64) -> String {
    let heading = format!("<h3>{}</h3>\n", span.title());
    let value = match read {
        Ok(value) => value,
        Err(why) => return format!("{heading}<p>{}</p>\n", escaped(&why)),
    };
    let step_s = span.step().0;
    let samples = value["samples"].as_array().into_iter().flatten().filter_map(Sample::of);
    // The first stretch may have begun before the first sample, and the last one has not ended.
    let whole = now_s - span.seconds()..=now_s - step_s;
    let (samples, rest): (Vec<Sample>, Vec<Sample>) =
        samples.partition(|it| whole.contains(&it.at_s));
    if samples.is_empty() {
        let words = match rest.iter().any(|it| it.at_s > *whole.end()) {
            false => "No request was recorded, or no daemon served the volume.".to_owned(),
            true => format!(
                "Requests were recorded, and the first point, of {}, is not complete yet.",
                span.step_words()
            ),
        };
        return format!("{heading}<p>{words}</p>\n");
    }
    format!(
        "{heading}<div class=\"plots\">\n{}</div>\n<p><a href=\"/volume/{path}/{}\">All figures of \
         {} as CSV</a></p>\n{}",
        charts(span, &samples, now_s),
        span.file(),
        span.title().to_lowercase(),
        lines(span, &samples),
    )
}

fn charts(span: Span, samples: &[Sample], now_s: i64) -> String {
    let times = span.times();
    let step_s = span.step().0 as f64;
    let points = |of: &dyn Fn(&Sample) -> Option<f64>| -> Points {
        let before = |it: &Sample| ((it.at_s - now_s) as f64 + step_s / 2.0) / span.unit_s();
        samples.iter().filter_map(|it| Some((before(it).min(0.0), of(it)?))).collect()
    };
    let per_s = |count: u64| Some(count as f64 / step_s);
    let mib_per_s = |bytes: u64| Some(bytes as f64 / step_s / MIB);
    let some = |ns: u64| (ns > 0).then_some(ns as f64);
    let title = |title: &str| format!("{title}, {}", span.title().to_lowercase());
    let is_cached = samples.iter().any(|it| it.read_hits > 0 || it.held_bytes > 0);
    let mut html = String::new();
    if is_cached {
        let hits =
            points(&|it| (it.reads > 0).then(|| 100.0 * it.read_hits as f64 / it.reads as f64));
        html += &Chart {
            title: title("Hit ratio"),
            up: "% of reads",
            y: Axis::exact(0.0, 100.0),
            words: format!("Hit ratio: {}.", range(&hits, |it| percent(Some(it / 100.0)))),
            curves: vec![("reads from memory", hits)],
        }
        .html(times);
    }
    let (reads, changes) = (points(&|it| per_s(it.reads)), points(&|it| per_s(it.changes)));
    html += &Chart {
        title: title("Requests"),
        up: "per second",
        y: axis([&reads, &changes], 1.0),
        words: format!(
            "Reads: {} per second. Changes: {}.",
            range(&reads, rate),
            range(&changes, rate)
        ),
        curves: vec![("reads", reads), ("changes", changes)],
    }
    .html(times);
    if !is_cached {
        return html;
    }
    let ns = |it: f64| time(it as u64);
    let (misses, flushes) =
        (points(&|it| some(it.miss_p99_ns)), points(&|it| some(it.flush_p99_ns)));
    html += &Chart {
        title: title("Latency"),
        up: "time",
        y: Axis::times(misses.iter().chain(&flushes).map(|point| point.1)),
        words: format!(
            "99 % within, in the worst second: reads from the backing {}; flushes {}.",
            range(&misses, ns),
            range(&flushes, ns)
        ),
        curves: vec![("reads from the backing, 99 %", misses), ("flushes, 99 %", flushes)],
    }
    .html(times);
    let per_time = |mib: f64| format!("{}/s", size((mib * MIB) as u64));
    let written = points(&|it| mib_per_s(it.written_bytes));
    let back = points(&|it| mib_per_s(it.written_back_bytes));
    let saved = points(&|it| mib_per_s(it.saved_bytes));
    html += &Chart {
        title: title("Written data"),
        up: "MiB per second",
        y: axis([&written, &back, &saved], 0.1),
        words: format!(
            "Written by clients: {}. Saved, because it was overwritten or discarded before it was \
             written back: {}.",
            range(&written, per_time),
            range(&saved, per_time)
        ),
        curves: vec![("by clients", written), ("written back", back), ("saved", saved)],
    }
    .html(times);
    let dirty = points(&|it| Some(it.dirty_bytes as f64 / MIB));
    html += &Chart {
        title: title("Dirty data"),
        up: "MiB, maximum",
        y: axis([&dirty], 1.0),
        words: format!("Dirty data: {}.", range(&dirty, |mib| size((mib * MIB) as u64))),
        curves: vec![("dirty data", dirty)],
    }
    .html(times);
    let age = points(&|it| Some(it.dirty_age_ns as f64 / 1e9));
    html += &Chart {
        title: title("Age of dirty data"),
        up: "s, maximum",
        y: axis([&age], 1.0),
        words: format!(
            "Age of the oldest dirty data: {}.",
            range(&age, |s| time((s * 1e9) as u64))
        ),
        curves: vec![("age", age)],
    }
    .html(times);
    html
}

/// Returns the table of a span, closed until it is opened.
fn lines(span: Span, samples: &[Sample]) -> String {
    let heads = [
        Head::text("from (UTC)"),
        Head::number("reads"),
        Head::number("hit ratio"),
        Head::number("changes"),
        Head::number("written"),
        Head::number("saved"),
        Head::number("time saved"),
        Head::number("backing, 99 %"),
        Head::number("flush, 99 %"),
        Head::number("dirty"),
        Head::number("dirty age"),
        Head::number("errors"),
    ];
    let line_s = span.line_s();
    let mut merged: Vec<Sample> = Vec::new();
    for sample in samples {
        let at_s = sample.at_s - sample.at_s.rem_euclid(line_s);
        match merged.last_mut().filter(|line| line.at_s == at_s) {
            Some(line) => line.merge(sample),
            None => merged.push(Sample { at_s, ..*sample }),
        }
    }
    let figure = |ns: u64| if ns == 0 { "-".to_owned() } else { time(ns) };
    let row = |it: &Sample| -> Vec<TableCell> {
        vec![
            span.time(it.at_s).into(),
            it.reads.to_string().into(),
            percent_of(it.read_hits, it.reads).into(),
            it.changes.to_string().into(),
            size(it.written_bytes).into(),
            size(it.saved_bytes).into(),
            words_of_time(it.time_saved_ns).into(),
            figure(it.miss_p99_ns).into(),
            figure(it.flush_p99_ns).into(),
            size(it.dirty_bytes).into(),
            figure(it.dirty_age_ns).into(),
            it.errors.to_string().into(),
        ]
    };
    let rows: Vec<_> = merged.iter().rev().map(row).collect();
    let name = span.title();
    let summary = format!("Table of {}", name.to_lowercase());
    format!("<details><summary>{summary}</summary>\n{}</details>\n", table(name, &heads, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW_S: i64 = 1_764_000_000;

    fn shown(samples: Value) -> String {
        part(Span::Hour, Ok(json!({ "samples": samples })), "a%20b", NOW_S)
    }

    #[test]
    fn figures_are_drawn_and_stated() {
        let sample = |before_s: i64, reads: u64, hits: u64| {
            json!({
                "at_s": NOW_S - before_s, "reads": reads, "read_hits": hits, "changes": 40,
                "written_bytes": 40 << 20, "saved_bytes": 20 << 20, "dirty_bytes": 3 << 20,
                "dirty_age_ns": 1_500_000_000_u64, "miss_p99_ns": 2_000_000, "held_bytes": 4096,
            })
        };
        let html = shown(json!([sample(600, 200, 100), sample(580, 100, 90), sample(40, 10, 2)]));
        for part in [
            "Hit ratio: latest 20.0 %, from 20.0 % to 90.0 %.",
            "Reads: latest 0.5, from 0.5 to 10 per second. Changes: latest 2.0, from 2.0 to 2.0.",
            "reads from the backing latest 2.0 ms, from 2.0 ms to 2.0 ms; flushes no value.",
            "Written by clients: latest 2 MiB/s, from 2 MiB/s to 2 MiB/s. Saved,",
            "Dirty data: latest 3 MiB, from 3 MiB to 3 MiB.",
            "Age of the oldest dirty data: latest 1.5 s, from 1.5 s to 1.5 s.",
            "href=\"/volume/a%20b/hour.csv\"",
            "Table of the last hour",
            "data-head=\"reads\">300</td>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        // The first two are next to each other, the last one is not.
        let hits = html.split("<figure>").nth(1).expect("a chart");
        assert_eq!(hits.matches("<polyline").count(), 2, "{hits}");
        assert!(!html.contains(" style=") && !html.contains("<script"), "{html}");
    }

    #[test]
    fn a_stretch_that_has_not_ended_is_not_shown() {
        let samples = json!([{ "at_s": NOW_S - 10, "reads": 1 }]);
        assert!(shown(samples).contains("the first point, of 20 seconds, is not complete yet"));
        assert!(shown(json!([])).contains("No request was recorded"));
        let refused = part(Span::Hour, Err("x: is of a later program <3>".into()), "", NOW_S);
        assert!(refused.contains("is of a later program &lt;3&gt;"), "{refused}");
    }

    #[test]
    fn a_volume_without_a_cache_has_its_requests() {
        let html = shown(json!([{ "at_s": NOW_S - 60, "reads": 20 }]));
        assert!(html.contains("Reads: latest 1.0,") && !html.contains("Hit ratio:"), "{html}");
    }
}
