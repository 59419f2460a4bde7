//! Bars with their figures: a few values for each of many tests.

use crate::direction::{Direction, UNDIRECTED, direction};
use crate::figure::{Csv, Figure, plain};
use crate::plot::{COLOURS, escaped, key};
use crate::words::figure;
use std::fmt::Write;

const WIDTH: f64 = 440.0;
/// The end of the longest bar; the rest is for the figure.
const LONGEST: f64 = 350.0;
const NAME: f64 = 18.0;
const ROW: f64 = 15.0;
const GAP: f64 = 5.0;

/// A value and its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bar {
    /// The value; nothing is drawn for one below 0.
    pub value: f64,
    /// Its interval, if that is known.
    pub interval: Option<(f64, f64)>,
}

/// The values of a test, one for each of the compared runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// Its values. None: not measured in that run.
    pub bars: Vec<Option<Bar>>,
    /// The published range.
    pub published: Option<(f64, f64)>,
}

/// Returns bars of one unit on one scale, as an element of a page. `names` are the names of a
/// test's values, each with its own colour. A single name is not shown: then the colour is that of
/// the test's direction.
pub fn bars(title: &str, unit: &str, names: &[String], tests: &[Test]) -> String {
    draw_all(title, unit, names, tests, names.len() <= 1)
}

/// Returns bars of tests in several states of a drive, such as fresh and used: the colour is that
/// of the test's direction, and later states are paler.
pub fn bars_of_states(title: &str, unit: &str, states: &[String], tests: &[Test]) -> String {
    draw_all(title, unit, states, tests, true)
}

fn draw_all(
    title: &str,
    unit: &str,
    names: &[String],
    tests: &[Test],
    is_by_direction: bool,
) -> String {
    let title = format!("{title}, {unit}");
    let most = tests.iter().flat_map(ends).fold(1e-9, f64::max);
    let height = |test: &Test| NAME + ROW * test.bars.len() as f64 + GAP;
    let mut svg = String::new();
    let mut top = 0.0;
    for test in tests {
        drawn(&mut svg, test, top, LONGEST / most, is_by_direction);
        top += height(test);
    }
    let svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {top:.0}\" role=\"img\" aria-label=\"{}\">\n{svg}</svg>\n",
        escaped(&title)
    );
    let keys = keys(names, tests, is_by_direction);
    let csv = csv(unit, names, tests);
    Figure { title: &title, keys: &keys, is_wide: false, svg: &svg, csv: Some(&csv) }.html()
}

fn csv(unit: &str, names: &[String], tests: &[Test]) -> Csv {
    let mut csv = Csv::new(&["test", "name", unit, "low", "high"]);
    for test in tests {
        for (number, bar) in test.bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let name = names.get(number).cloned().unwrap_or_default();
            let (low, high) =
                bar.interval.map_or_else(Default::default, |it| (plain(it.0), plain(it.1)));
            csv.line([test.name.clone(), name, plain(bar.value), low, high]);
        }
    }
    csv
}

/// Returns the CSS class of a bar.
fn class(test: &Test, number: usize, is_by_direction: bool) -> String {
    match is_by_direction {
        true => format!("f{} s{number}", colour_of(test)),
        false => format!("f{}", number % COLOURS),
    }
}

fn colour_of(test: &Test) -> usize {
    direction(&test.name).map_or(UNDIRECTED, Direction::colour)
}

/// Returns all values that must fit.
fn ends(test: &Test) -> impl Iterator<Item = f64> {
    let bars = test.bars.iter().flatten();
    let bars = bars.map(|bar| bar.interval.map_or(bar.value, |interval| interval.1.max(bar.value)));
    bars.chain(test.published.map(|published| published.0))
}

fn keys(names: &[String], tests: &[Test], is_by_direction: bool) -> String {
    let mut keys = String::new();
    if is_by_direction {
        for kind in [Direction::Read, Direction::Write, Direction::Mixed] {
            if tests.iter().any(|test| direction(&test.name) == Some(kind)) {
                key(&mut keys, &format!("f{}", kind.colour()), BLOCK, kind.name());
            }
        }
    }
    if names.len() > 1 {
        let first = tests.first().map_or(UNDIRECTED, colour_of);
        for (number, name) in names.iter().enumerate() {
            let class = match is_by_direction {
                true => format!("f{first} s{number}"),
                false => format!("f{}", number % COLOURS),
            };
            key(&mut keys, &class, BLOCK, name);
        }
    }
    if tests.iter().any(|test| test.published.is_some()) {
        key(&mut keys, "put", "M11 0V10", "published");
    }
    if tests.iter().any(|test| test.bars.iter().flatten().any(|bar| bar.interval.is_some())) {
        key(&mut keys, "whisker", "M2 5H20M2 1V9M20 1V9", "95 % interval");
    }
    keys
}

/// The sample of a bar in the keys.
const BLOCK: &str = "M0 0H22V10H0Z";

/// Draws one test: its name, and its bars below.
fn drawn(svg: &mut String, test: &Test, top: f64, scale: f64, is_by_direction: bool) {
    _ = writeln!(svg, "<text x=\"0\" y=\"{:.1}\">{}</text>", top + 13.0, escaped(&test.name));
    for (number, bar) in test.bars.iter().enumerate() {
        let y = top + NAME + ROW * number as f64;
        let middle = y + ROW / 2.0;
        let Some(bar) = bar else {
            _ = writeln!(svg, "<text class=\"tick\" x=\"0\" y=\"{:.1}\">-</text>", middle + 4.0);
            continue;
        };
        let length = (bar.value * scale).max(0.0);
        let end = bar.interval.map_or(length, |interval| (interval.1 * scale).max(length));
        _ = writeln!(
            svg,
            "<rect class=\"{}\" x=\"0\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            class(test, number, is_by_direction),
            y + 2.0,
            ROW - 4.0,
            end + 6.0,
            middle + 4.5,
            figure(bar.value)
        );
        if let Some((low, high)) = bar.interval {
            let (low, high) = ((low * scale).max(0.0), (high * scale).max(0.0));
            let (above, below) = (middle - 4.0, middle + 4.0);
            _ = writeln!(
                svg,
                "<path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {above:.1}V{below:.1}\
                 M{high:.1} {above:.1}V{below:.1}\"/>"
            );
        }
    }
    let bottom = top + NAME + ROW * test.bars.len() as f64;
    if let Some((low, high)) = test.published {
        for x in if low < high && high.is_finite() { vec![low, high] } else { vec![low] } {
            let x = (x * scale).min(WIDTH - 1.0);
            let above = top + NAME - 2.0;
            _ = writeln!(svg, "<path class=\"put\" d=\"M{x:.1} {above:.1}V{bottom:.1}\"/>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_and_say_how_sure_they_are() {
        let bar = |value, interval| Some(Bar { value, interval });
        let tests = [
            Test {
                name: "a <b>".to_owned(),
                bars: vec![bar(50.0, None), bar(80.0, Some((60.0, 100.0)))],
                published: Some((40.0, 40.0)),
            },
            Test { name: "c".to_owned(), bars: vec![None, bar(-1.0, None)], published: None },
        ];
        let names = ["one".to_owned(), "two".to_owned()];
        let figure = bars("Rates", "MB/s", &names, &tests);
        // The end of the interval is the longest: 100 is 350 units.
        for part in
            ["width=\"175.0\"", "width=\"280.0\"", "M210.0", "H350.0", "M140.0", "width=\"0.0\""]
        {
            assert!(figure.contains(part), "{part}: {figure}");
        }
        assert!(figure.contains(">a &lt;b&gt;</text>") && figure.contains(">-</text>"));
        assert_eq!(figure.matches("<span>").count(), 4, "two names, published, interval");
        assert!(!bars("Rates", "MB/s", &names[..1], &tests[1..]).contains("<span>"));
        assert!(bars("None", "x", &[], &[]).contains("0 0 440 0"));
        let states = ["fresh".to_owned(), "used".to_owned()];
        let test = Test { name: "write".to_owned(), ..tests[0].clone() };
        let figure = bars_of_states("Rates", "MB/s", &states, &[test]);
        assert!(figure.contains("rect class=\"f1 s0\"") && figure.contains("rect class=\"f1 s1\""));
        assert_eq!(figure.matches("<span>").count(), 5, "writes, two states, published, interval");
    }
}
