//! The charts of a volume. A sentence below each states its figures.

use crate::words::{percent, rate, size, time};
use daemon::control::statistics::{Curve as MissCurve, Point};
use live::{Rates, Volume};
use report::axis::Axis;
use report::plot::{Curve, Names, Plot, Style, escaped};
use std::time::Duration;

/// Times that the charts may show, in seconds: the shortest one that covers all points.
const SPANS: [u64; 4] = [60, 120, 180, 300];
/// Longest time that the charts show.
const SHOWN: Duration = Duration::from_secs(300);
/// Points from which a curve over time is drawn.
const POINTS_MIN: usize = 2;
/// Number of points up to which each is marked, so that a single one is seen.
const MARKED_MAX: usize = 60;

/// Returns a chart with the sentence that states its figures.
fn with_words(figure: &str, words: &str) -> String {
    format!("<div class=\"chart\">{figure}<p class=\"sub\">{}</p></div>\n", escaped(words))
}

/// A figure over time: seconds before now, and the value.
type Points = Vec<(f64, f64)>;
/// A figure of the rates.
type OfRates<'a> = &'a dyn Fn(&Rates) -> Option<f64>;

/// Returns the latest, the lowest and the highest value in words.
fn range(points: &Points, word: impl Fn(f64) -> String) -> String {
    let values = || points.iter().map(|(_, value)| *value);
    let Some(last) = values().next_back() else { return "no value yet".to_owned() };
    let (low, high) = values().fold((last, last), |(low, high), it| (low.min(it), high.max(it)));
    format!("latest {}, from {} to {}", word(last), word(low), word(high))
}

/// Returns the charts over the last minutes; empty if there is too little to draw.
pub(crate) fn over_time(volume: &Volume, now: Duration) -> String {
    let points = |of: OfRates<'_>| -> Points {
        let shown = volume.points.iter().filter(|(at, _)| now.saturating_sub(*at) <= SHOWN);
        let before = |at: &Duration| -now.saturating_sub(*at).as_secs_f64();
        shown.filter_map(|(at, rates)| Some((before(at), of(rates)?))).collect()
    };
    if volume.points.len() < POINTS_MIN {
        return "<p class=\"sub\">The charts begin after a few seconds.</p>\n".to_owned();
    }
    let oldest = volume.points.front().map_or(0, |(at, _)| now.saturating_sub(*at).as_secs());
    let span = SPANS.into_iter().find(|span| *span > oldest).unwrap_or(SHOWN.as_secs());
    let draw = |title: &str, up: &str, y: Axis, curves: Vec<(&'static str, Points)>| {
        let plot = Plot {
            title: title.to_owned(),
            along: "seconds before now".to_owned(),
            up: up.to_owned(),
            x: Axis::exact(-(span as f64), 0.0),
            y,
            style: match volume.points.len() {
                0..=MARKED_MAX => Style::Marked,
                _ => Style::Line,
            },
            names: Names::Above,
            curves: curves.into_iter().map(|(name, points)| Curve::new(name, points)).collect(),
            levels: Vec::new(),
        };
        plot.figure()
    };
    let mut charts = String::new();
    if volume.row.memory_bytes > 0 {
        let hits = points(&|rates| rates.hit_ratio.map(|ratio| ratio * 100.0));
        let words = format!("Hit ratio: {}.", range(&hits, |it| percent(Some(it / 100.0))));
        let figure = draw(
            "Reads from memory",
            "% of reads",
            Axis::exact(0.0, 100.0),
            vec![("reads from memory", hits)],
        );
        charts += &with_words(&figure, &words);
    }
    let reads = points(&|rates| Some(rates.reads_per_s));
    let changes = points(&|rates| Some(rates.changes_per_s));
    let words =
        format!("Reads: {} per second. Changes: {}.", range(&reads, rate), range(&changes, rate));
    let most = reads.iter().chain(&changes).map(|point| point.1).fold(1.0, f64::max);
    let y = Axis::linear([most].into_iter());
    let curves = vec![("reads", reads), ("changes", changes)];
    charts += &with_words(&draw("Requests of clients", "per second", y, curves), &words);
    if volume.row.memory_bytes > 0 {
        charts += &latency(&points, draw);
        let dirty = points(&|rates| Some(rates.dirty_bytes as f64 / f64::from(1 << 20)));
        let words = format!(
            "Dirty data: {}.",
            range(&dirty, |mib| size((mib * f64::from(1 << 20)) as u64))
        );
        let y = Axis::linear(dirty.iter().map(|point| point.1).chain([1.0]));
        let curves = vec![("dirty", dirty)];
        charts += &with_words(&draw("Dirty data", "MiB", y, curves), &words);
    }
    charts
}

fn latency(
    points: &dyn Fn(OfRates<'_>) -> Points,
    draw: impl Fn(&str, &str, Axis, Vec<(&'static str, Points)>) -> String,
) -> String {
    let float = |ns: Option<u64>| ns.filter(|ns| *ns > 0).map(|ns| ns as f64);
    let curves = vec![
        ("hit, median", points(&|rates| float(rates.hit_p50_ns))),
        ("hit, 99 %", points(&|rates| float(rates.hit_p99_ns))),
        ("backing, median", points(&|rates| float(rates.miss_p50_ns))),
        ("backing, 99 %", points(&|rates| float(rates.miss_p99_ns))),
    ];
    let curves: Vec<_> = curves.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    if curves.is_empty() {
        return String::new();
    }
    let word = |ns: f64| time(ns as u64);
    let words = curves.iter().map(|(name, points)| format!("{name}: {}", range(points, word)));
    let words = format!("{}.", words.collect::<Vec<_>>().join("; "));
    let seen = curves.iter().flat_map(|(_, points)| points).map(|point| point.1);
    let y = Axis::times(seen.collect::<Vec<_>>().into_iter());
    with_words(&draw("Latency of reads", "time", y, curves), &words)
}

/// Returns the chart of the misses of other sizes.
pub(crate) fn misses(curve: &MissCurve) -> String {
    let points = |of: &dyn Fn(&Point) -> Option<f64>| -> Points {
        let all = curve.points.iter();
        all.filter_map(|point| Some((point.memory_bytes as f64, of(point)? * 100.0))).collect()
    };
    let mut curves = vec![Curve::new("missed", points(&|point| Some(point.miss_ratio)))];
    let uncompressed = points(&|point| point.uncompressed_miss_ratio);
    if !uncompressed.is_empty() {
        curves.push(Curve::new("without compression", uncompressed));
    }
    let plot = Plot {
        title: "Misses of other sizes of the cache".to_owned(),
        along: "memory".to_owned(),
        up: "% of accesses missed".to_owned(),
        x: Axis::doublings(curve.points.iter().map(|point| point.memory_bytes as f64)),
        y: Axis::exact(0.0, 100.0),
        style: Style::Marked,
        names: Names::Above,
        curves,
        levels: Vec::new(),
    };
    plot.figure()
}

/// Returns sentences about half and twice the present memory.
pub(crate) fn other_sizes(curve: &MissCurve, memory_bytes: u64) -> Vec<String> {
    let at = |bytes: u64| curve.points.iter().find(|point| point.memory_bytes == bytes);
    let Some(now) = at(memory_bytes) else { return Vec::new() };
    let ratio = |point: &Point| percent(Some(point.miss_ratio));
    let sentence = |words: &str, bytes: u64| {
        let point = at(bytes)?;
        let saved = match point.saves_ns_per_s {
            Some(ns) if ns.abs() >= 1e3 => {
                let more = if ns < 0.0 { "longer" } else { "less" };
                let ms = ns.abs() / 1e6;
                format!("; reads would wait {ms:.1} ms {more} in each second, summed over reads")
            }
            _ => String::new(),
        };
        Some(format!(
            "{words} ({}) would miss {} of the accesses instead of {}{saved}.",
            size(bytes),
            ratio(point),
            ratio(now),
        ))
    };
    let both = [
        sentence("Twice the memory", memory_bytes * 2),
        sentence("Half the memory", memory_bytes / 2),
    ];
    both.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(memory_bytes: u64, miss_ratio: f64, saves_ns_per_s: f64) -> Point {
        let saves_ns_per_s = Some(saves_ns_per_s);
        Point { memory_bytes, miss_ratio, uncompressed_miss_ratio: None, saves_ns_per_s }
    }

    #[test]
    fn twice_the_memory_is_said_in_a_sentence() {
        let points = vec![point(32, 0.6, -4e6), point(64, 0.5, 0.0), point(128, 0.25, 5e6)];
        let curve = MissCurve { points, ..MissCurve::default() };
        let sentences = other_sizes(&curve, 64);
        assert_eq!(
            sentences[0],
            "Twice the memory (128 B) would miss 25.0 % of the accesses instead of 50.0 %; reads \
             would wait 5.0 ms less in each second, summed over reads."
        );
        assert!(sentences[1].contains("4.0 ms longer"), "{}", sentences[1]);
        assert!(misses(&curve).contains("Misses of other sizes of the cache"));
        assert_eq!(other_sizes(&MissCurve::default(), 64), [""; 0]);
    }
}
