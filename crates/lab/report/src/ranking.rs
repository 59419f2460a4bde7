//! One test of many drives in one chart, best first, with the reader's own drive marked.

use crate::bars::Bar;
use crate::direction::{UNDIRECTED, direction};
use crate::figure::{Csv, Figure, plain};
use crate::plot::{escaped, key};
use crate::words::figure;
use std::fmt::Write;

const WIDTH: f64 = 440.0;
const LEFT: f64 = 190.0;
/// The end of the longest bar; the rest is for the figure.
const LONGEST: f64 = 378.0;
const LINE: f64 = 13.0;
const GAP: f64 = 5.0;
/// Longest name that is shown whole, and longest one that fits left of the bars in bold letters.
const NAME_MAX: usize = 30;
const NAME_WIDE: usize = 24;

/// A drive, or a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its value in each state. None: not measured.
    pub bars: Vec<Option<Bar>>,
    /// Whether it is the reader's own, which is drawn in full colour and bold letters.
    pub is_own: bool,
}

/// Whether the best value of a unit is the smallest one: of times.
pub fn is_lower_better(unit: &str) -> bool {
    matches!(unit, "s" | "ms" | "us" | "ns")
}

/// Sorts entries by their first value, best first; those without one come last.
pub fn sort(unit: &str, entries: &mut [Entry]) {
    let worst = if is_lower_better(unit) { f64::INFINITY } else { f64::NEG_INFINITY };
    let value = |entry: &Entry| entry.bars.iter().flatten().next().map_or(worst, |bar| bar.value);
    entries.sort_by(|one, other| match is_lower_better(unit) {
        true => value(one).total_cmp(&value(other)),
        false => value(other).total_cmp(&value(one)),
    });
}

/// Returns the chart as an element of a page. `states` are the names of an entry's values, such as
/// fresh and used; a single name is not shown. If no entry is the reader's own, all have full
/// colour.
pub fn ranking(test: &str, unit: &str, states: &[String], entries: &[Entry]) -> String {
    let mut entries = entries.to_vec();
    sort(unit, &mut entries);
    let better = if is_lower_better(unit) { "less is better" } else { "more is better" };
    let title = format!("{test}, {unit}; {better}");
    let svg = svg(&title, test, &entries);
    let keys = keys(test, states, &entries);
    let csv = csv(unit, states, &entries);
    Figure { title: &title, keys: &keys, is_wide: false, svg: &svg, csv: Some(&csv) }.html()
}

fn csv(unit: &str, states: &[String], entries: &[Entry]) -> Csv {
    let mut csv = Csv::new(&["name", "state", unit, "low", "high"]);
    for entry in entries {
        for (number, bar) in entry.bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let ends = bar
                .interval
                .map_or([String::new(), String::new()], |it| [plain(it.0), plain(it.1)]);
            let state = states.get(number).cloned().unwrap_or_default();
            csv.line([entry.name.clone(), state, plain(bar.value)].into_iter().chain(ends));
        }
    }
    csv
}

fn keys(test: &str, states: &[String], entries: &[Entry]) -> String {
    let mut keys = String::new();
    let colour = direction(test).map_or(UNDIRECTED, |it| it.colour());
    if states.len() > 1 {
        for (number, state) in states.iter().enumerate() {
            key(&mut keys, &format!("f{colour} s{number}"), "M0 0H22V10H0Z", state);
        }
    }
    if entries.iter().flat_map(|entry| &entry.bars).flatten().any(|bar| bar.interval.is_some()) {
        key(&mut keys, "whisker", "M2 5H20M2 1V9M20 1V9", "95 % interval");
    }
    keys
}

fn svg(title: &str, test: &str, entries: &[Entry]) -> String {
    let ends = entries.iter().flat_map(|entry| &entry.bars).flatten();
    let ends = ends.map(|bar| bar.interval.map_or(bar.value, |interval| interval.1.max(bar.value)));
    let scale = (LONGEST - LEFT) / ends.fold(1e-9, f64::max);
    let has_own = entries.iter().any(|entry| entry.is_own);
    let colour = direction(test).map_or(UNDIRECTED, |it| it.colour());
    let mut svg = String::new();
    let mut top = 0.0;
    for entry in entries {
        let height = LINE * entry.bars.len().max(1) as f64;
        let weight = if entry.is_own { " own" } else { "" };
        // A browser narrows the letters of a longer name.
        let narrowed = match entry.name.chars().count() > NAME_WIDE {
            true => format!(" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", LEFT - 10.0),
            false => String::new(),
        };
        _ = writeln!(
            svg,
            "<text class=\"small{weight}\"{narrowed} text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            top + height / 2.0 + 4.5,
            escaped(&shortened(&entry.name))
        );
        for (number, bar) in entry.bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let y = top + LINE * number as f64;
            let other = if has_own && !entry.is_own { " other" } else { "" };
            let class = format!("f{colour} s{number}{other}");
            one(&mut svg, bar, y, scale, &class);
        }
        top += height + GAP;
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {top:.0}\" role=\"img\" aria-label=\"{}\">\n{svg}</svg>\n",
        escaped(title)
    )
}

/// Draws a bar with its interval and its value.
fn one(svg: &mut String, bar: &Bar, y: f64, scale: f64, class: &str) {
    let length = (bar.value * scale).max(0.0);
    let end = bar.interval.map_or(length, |interval| (interval.1 * scale).max(length));
    _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\"/>\
         <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        y + 1.0,
        LINE - 2.0,
        LEFT + end + 5.0,
        y + LINE / 2.0 + 4.5,
        figure(bar.value)
    );
    if let Some((low, high)) = bar.interval {
        let (low, high) = (LEFT + (low * scale).max(0.0), LEFT + (high * scale).max(0.0));
        let (middle, above, below) = (y + LINE / 2.0, y + 3.0, y + LINE - 3.0);
        _ = writeln!(
            svg,
            "<path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {above:.1}V{below:.1}\
             M{high:.1} {above:.1}V{below:.1}\"/>"
        );
    }
}

/// Returns a name that fits left of the bars.
fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_MAX {
        true => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, values: &[Option<f64>], is_own: bool) -> Entry {
        let bar = |value: &Option<f64>| value.map(|value| Bar { value, interval: None });
        Entry { name: name.to_owned(), bars: values.iter().map(bar).collect(), is_own }
    }

    #[test]
    fn the_best_is_first_and_ones_own_is_marked() {
        let entries = [
            entry("slow", &[Some(1.0)], false),
            entry("none", &[None], false),
            entry("mine <b>", &[Some(2.0)], true),
            entry("fast", &[Some(3.0)], false),
        ];
        let order = |unit: &str| {
            let html = ranking("random read", unit, &[], &entries);
            let mut places: Vec<(usize, &str)> = ["slow", "none", "mine &lt;b&gt;", "fast"]
                .into_iter()
                .map(|name| (html.find(&format!(">{name}</text>")).expect(name), name))
                .collect();
            places.sort_unstable();
            places.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(order("MB/s"), ["fast", "mine &lt;b&gt;", "slow", "none"]);
        assert_eq!(order("ms"), ["slow", "mine &lt;b&gt;", "fast", "none"]);
        let html = ranking("random read", "MB/s", &[], &entries);
        assert_eq!(html.matches(" own\"").count(), 1);
        assert_eq!(html.matches(" other\"").count(), 2);
        assert!(html.contains("less is better") ^ html.contains("more is better"));
    }

    #[test]
    fn states_are_beside_each_other() {
        let states = ["fresh".to_owned(), "used".to_owned()];
        let entries = [entry("one", &[Some(9.0), Some(3.0)], false)];
        let html = ranking("MP3", "MB/s", &states, &entries);
        assert!(html.contains("class=\"f3 s0\"") && html.contains("class=\"f3 s1\""), "{html}");
        assert_eq!(html.matches("<span>").count(), 2);
        assert!(html.contains("one,fresh,9,,%0D%0Aone,used,3,,"), "{html}");
    }
}
