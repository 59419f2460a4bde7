//! The figures of several runs, line by line, and the differences in how the runs were made.

use crate::saved::{Row, Run, size};
use crate::statistics::Estimate;
use serde_json::Value;
use std::collections::BTreeMap;

/// Several runs, side by side.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The runs; the others are compared with the first.
    pub runs: Vec<Run>,
    /// The names of the runs: a letter (`A`), and how the run differs from the others.
    pub names: Vec<String>,
    /// The figures.
    pub lines: Vec<Line>,
    /// Circumstances that are not the same in all runs: their name, and the value of each run.
    pub circumstances: Vec<(&'static str, Vec<String>)>,
}

/// One figure of each run.
#[derive(Clone, Debug)]
pub struct Line {
    /// The test; also whether the cache was cold, if both exist.
    pub test: String,
    /// The unit of all its values.
    pub unit: String,
    /// The value of each run. None: the run has none.
    pub cells: Vec<Option<Cell>>,
    /// The comparisons of the second and later runs with the first.
    pub against: Vec<Against>,
}

/// The figure of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The figure as the suite reported it.
    pub value: f64,
    /// The mean and its interval, if the figure has parts.
    pub estimate: Option<Estimate>,
    /// The index of the row in the run.
    pub row: usize,
}

/// The comparison of one figure with that of the first run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Against {
    /// The verdict.
    pub verdict: Verdict,
    /// The difference in percent of the first one's figure, if that is not 0.
    pub percent: Option<f64>,
    /// The ends of the difference's interval, also in percent.
    pub interval: Option<(f64, f64)>,
}

/// A verdict on a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The interval of the difference lies above 0.
    More,
    /// The interval lies below 0.
    Less,
    /// The interval contains 0.
    Noise,
    /// One of the two figures has no interval.
    NoInterval,
    /// One of the two runs has no such figure.
    Missing,
}

impl Verdict {
    /// Returns its text.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::More => "more",
            Verdict::Less => "less",
            Verdict::Noise => "noise",
            Verdict::NoInterval => "no interval",
            Verdict::Missing => "",
        }
    }
}

impl Comparison {
    /// Compares runs; keeps their order.
    ///
    /// # Errors
    /// There are fewer than two runs, or more than 26, or no two of them have a test in common.
    pub fn new(runs: Vec<Run>) -> Result<Comparison, String> {
        if runs.len() < 2 {
            let one = runs.first().map_or("", |run| &run.place);
            return Err(format!("{one}: is one result; give two or more to compare"));
        }
        if runs.len() > 26 {
            return Err(format!("{} results: compare at most 26 at a time", runs.len()));
        }
        let lines = lines(&runs);
        let has_pair = |line: &Line| line.cells.iter().flatten().count() > 1;
        if !lines.iter().any(has_pair) {
            let describe = |run: &Run| format!("{} of {}", run.place, run.suite);
            let descriptions: Vec<String> = runs.iter().map(describe).collect();
            return Err(format!(
                "{}: have no test in common; compare runs of one suite",
                descriptions.join(" and ")
            ));
        }
        let circumstances = circumstances(&runs);
        let names = names(&runs);
        Ok(Comparison { runs, names, lines, circumstances })
    }

    /// Returns the number of differences with a verdict other than [`Verdict::NoInterval`] or
    /// [`Verdict::Missing`].
    pub fn judged(&self) -> usize {
        let all = self.lines.iter().flat_map(|line| &line.against);
        all.filter(|it| !matches!(it.verdict, Verdict::NoInterval | Verdict::Missing)).count()
    }
}

/// Returns the letter of a run.
pub(crate) fn letter(number: usize) -> char {
    (b'A' + number.min(25) as u8) as char
}

/// Names each run: a letter, and the properties in which the runs differ.
fn names(runs: &[Run]) -> Vec<String> {
    let parts: [fn(&Run) -> String; 4] = [
        |run| run.title().to_owned(),
        |run| run.cache_text(),
        |run| format!("{} % spare", run.spare_percent),
        |run| run.suite_title().to_owned(),
    ];
    let differs = |part: &fn(&Run) -> String| runs.iter().any(|run| part(run) != part(&runs[0]));
    let parts: Vec<_> = parts.into_iter().filter(differs).collect();
    let name = |(number, run): (usize, &Run)| {
        let label: Vec<String> = parts.iter().map(|part| part(run)).collect();
        let label = if label.is_empty() { run.place.clone() } else { label.join(", ") };
        format!("{}: {label}", letter(number))
    };
    runs.iter().enumerate().map(name).collect()
}

/// Key of a row: the name of the test, whether the cache was cold, and its number among the rows
/// with both the same.
type Key = (String, Option<bool>, usize);

/// Returns the rows of a run with their keys.
fn rows_by_key(run: &Run) -> Vec<(Key, usize)> {
    let mut seen: BTreeMap<(&str, Option<bool>), usize> = BTreeMap::new();
    let mut keyed = Vec::with_capacity(run.rows.len());
    for (at, row) in run.rows.iter().enumerate() {
        let count = seen.entry((&row.test, row.cold)).or_default();
        keyed.push(((row.test.clone(), row.cold, *count), at));
        *count += 1;
    }
    keyed
}

fn lines(runs: &[Run]) -> Vec<Line> {
    let rows: Vec<BTreeMap<Key, usize>> =
        runs.iter().map(|run| rows_by_key(run).into_iter().collect()).collect();
    let mut keys: Vec<Key> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    // A run without a cache has one row where a cached run has two: compare it with both.
    let both = |(test, _, nth): &Key| {
        let has = |cold| rows.iter().any(|of| of.contains_key(&(test.clone(), Some(cold), *nth)));
        [true, false].into_iter().filter(|cold| has(*cold)).collect::<Vec<bool>>()
    };
    for (key, _) in runs.iter().flat_map(rows_by_key) {
        let colds = if key.1.is_none() { both(&key) } else { Vec::new() };
        let split = colds.into_iter().map(|cold| (key.0.clone(), Some(cold), key.2));
        let split: Vec<Key> = split.collect();
        for key in if split.is_empty() { vec![key] } else { split } {
            if known.insert(key.clone()) {
                keys.push(key);
            }
        }
    }
    keys.iter().map(|key| line(runs, &rows, key)).collect()
}

fn line(runs: &[Run], rows: &[BTreeMap<Key, usize>], key: &Key) -> Line {
    let (test, cold, nth) = key;
    let find = |number: usize| {
        let exact = rows[number].get(key);
        exact.or_else(|| rows[number].get(&(test.clone(), None, *nth))).copied()
    };
    let unit =
        (0..runs.len()).find_map(|number| Some(runs[number].rows[find(number)?].unit.clone()));
    let unit = unit.unwrap_or_default();
    let cell = |number: usize| {
        let row = find(number)?;
        let found = &runs[number].rows[row];
        let cell = Cell { value: found.value, estimate: estimate(found), row };
        (found.unit == unit).then_some(cell)
    };
    let cells: Vec<Option<Cell>> = (0..runs.len()).map(cell).collect();
    let against = cells[1..].iter().map(|cell| against(cells[0].as_ref(), cell.as_ref())).collect();
    let cold = match cold {
        Some(true) => ", cold",
        Some(false) => ", warm",
        None => "",
    };
    let nth = if *nth > 0 { format!(" ({})", nth + 1) } else { String::new() };
    Line { test: format!("{test}{cold}{nth}"), unit, cells, against }
}

/// Returns the estimate of a row. Rows that were interrupted, or are not valid for the device, have
/// none.
fn estimate(row: &Row) -> Option<Estimate> {
    if row.partial || row.valid == Some(false) {
        return None;
    }
    let estimate = match row.samples_of.as_deref() {
        Some("runs") => Estimate::of_runs(&row.samples),
        Some("seconds") => Estimate::of_seconds(&row.samples),
        _ => None,
    };
    estimate?.in_proportion(row.value)
}

fn against(first: Option<&Cell>, other: Option<&Cell>) -> Against {
    let none = Against { verdict: Verdict::Missing, percent: None, interval: None };
    let (Some(first), Some(other)) = (first, other) else { return none };
    let (Some(before), Some(after)) = (first.estimate, other.estimate) else {
        let percent = percent(other.value - first.value, first.value);
        return Against { verdict: Verdict::NoInterval, percent, interval: None };
    };
    let (difference, half) = after.less(&before);
    // The second condition ignores rounding in the last bits of a sum.
    let verdict = match difference {
        any if any.abs() <= half || any.abs() <= 1e-12 * before.mean.abs() => Verdict::Noise,
        more if more > 0.0 => Verdict::More,
        _ => Verdict::Less,
    };
    let ends = percent(difference - half, before.mean).zip(percent(difference + half, before.mean));
    Against { verdict, percent: percent(difference, before.mean), interval: ends }
}

fn percent(difference: f64, of: f64) -> Option<f64> {
    (of != 0.0).then(|| 100.0 * difference / of.abs())
}

/// Returns the circumstances that are not the same in all runs.
fn circumstances(runs: &[Run]) -> Vec<(&'static str, Vec<String>)> {
    type Circumstance = (&'static str, fn(&Run) -> String);
    let all: [Circumstance; 18] = [
        ("suite", |run| run.suite_title().to_owned()),
        ("date", |run| report::circumstances::date(&run.at)),
        ("target", |run| run.target.clone()),
        ("drive", |run| run.title().to_owned()),
        ("cache", Run::cache_text),
        ("time", |run| run.time.clone()),
        ("complete", |run| if run.complete { "yes" } else { "NOT COMPLETE" }.to_owned()),
        ("shortened", shortened),
        ("state before", |run| run.state.clone()),
        ("prepared by", |run| run.preparation.clone()),
        ("worked on", |run| run.span_bytes.map_or(String::new(), size)),
        ("left unused", |run| format!("{} %", run.spare_percent)),
        ("time of a test", |run| {
            run.test_time_ns.map_or(String::new(), |ns| format!("{} s", ns as f64 / 1e9))
        }),
        ("seed", |run| run.seed.map_or(String::new(), |seed| seed.to_string())),
        ("prices", |run| {
            let prices = run.prices.as_ref().and_then(Value::as_object);
            facts_text(prices.into_iter().flatten())
        }),
        ("machine", |run| facts_text(&run.machine)),
        ("device", |run| facts_text(&run.facts)),
        ("Overdrive", |run| facts_text(&run.versions)),
    ];
    let values = all.into_iter().map(|(name, of)| (name, runs.iter().map(of).collect::<Vec<_>>()));
    values.filter(|(_, each)| each.iter().any(|it| *it != each[0])).collect()
}

fn shortened(run: &Run) -> String {
    let how = run.rows.iter().find_map(|row| row.shortened.as_deref());
    crate::saved::printable(how.unwrap_or("no"))
}

fn facts_text<'a>(facts: impl IntoIterator<Item = (&'a String, &'a Value)>) -> String {
    let fact = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (name, value) = report::circumstances::in_words(name, &value);
        crate::saved::printable(&format!("{name} {value}"))
    };
    facts.into_iter().map(fact).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::read;

    fn run(place: &str, more: &str, rows: &str) -> Run {
        let text = format!(
            r#"{{"schema":"overdrive.bench/1","suite":"cdm","target":"null:1G","time":"real"{more},"rows":[{rows}]}}"#
        );
        read(place, &text).expect("a sound result").remove(0)
    }

    fn runs_of(test: &str, samples: &str) -> String {
        let parts: Vec<f64> = serde_json::from_str(samples).expect("numbers");
        figure_of(test, parts.iter().sum::<f64>() / parts.len() as f64, samples)
    }

    fn figure_of(test: &str, value: f64, samples: &str) -> String {
        format!(
            r#"{{"test":"{test}","unit":"MB/s","value":{value},"samples_of":"runs","samples":{samples}}}"#
        )
    }

    #[test]
    fn differences_are_distinguished_from_noise_and_what_has_no_interval_is_not_judged() {
        let single = r#"{"test":"score","unit":"points","value":50}"#;
        let a = [runs_of("x", "[10,11,12]"), runs_of("y", "[10,11,12]"), single.into()].join(",");
        let b =
            [runs_of("x", "[11,12,10]"), runs_of("y", "[20,21,22]"), single.replace("50", "80")];
        let comparison =
            Comparison::new(vec![run("a", "", &a), run("b", "", &b.join(","))]).expect("alike");
        let verdicts: Vec<Verdict> =
            comparison.lines.iter().map(|line| line.against[0].verdict).collect();
        assert_eq!(verdicts, [Verdict::Noise, Verdict::More, Verdict::NoInterval]);
        let more = comparison.lines[1].against[0];
        let (low, high) = more.interval.expect("an interval");
        assert!(low > 60.0 && low < more.percent.expect("of 11") && high < 120.0, "{more:?}");
        assert_eq!(comparison.lines[2].against[0].percent, Some(60.0));
        assert_eq!(comparison.judged(), 2);
        let back = Comparison::new(vec![run("b", "", &b.join(",")), run("a", "", &a)]);
        let back = back.expect("alike").lines[1].against[0].verdict;
        assert_eq!((back, comparison.names[1].as_str()), (Verdict::Less, "B: b"));
    }

    #[test]
    fn equal_runs_are_noise_and_partial_ones_have_no_interval() {
        let row = runs_of("x", "[0.1,0.2,0.3]");
        let of = |one: &str, other: &str| {
            let runs = vec![run("a", "", one), run("b", "", other)];
            Comparison::new(runs).expect("alike").lines[0].against[0].verdict
        };
        assert_eq!(of(&row, &row), Verdict::Noise);
        let same = runs_of("x", "[2,2,2]");
        assert_eq!(of(&same, &same), Verdict::Noise);
        assert_eq!(of(&same, &runs_of("x", "[3,3,3]")), Verdict::More);
        let zero = runs_of("x", "[0,0,0]");
        assert_eq!((of(&zero, &same), of(&zero, &zero)), (Verdict::More, Verdict::Noise));
        for mark in [r#""partial":true,"#, r#""valid":false,"#] {
            let marked = row.replace("{", &format!("{{{mark}"));
            assert_eq!(of(&row, &marked), Verdict::NoInterval, "{mark}");
        }
        let older = row.replace(r#""samples_of":"runs","#, "");
        assert_eq!(of(&older, &row), Verdict::NoInterval, "it does not say what its samples are");
    }

    #[test]
    fn what_is_judged_is_the_figure_that_is_shown() {
        let parts = "[990,1000,1010]";
        let of = |value: f64| {
            let (one, other) = (figure_of("x", 1000.0, parts), figure_of("x", value, parts));
            let runs = vec![run("a", "", &one), run("b", "", &other)];
            Comparison::new(runs).expect("alike").lines[0].against[0]
        };
        // The same parts, with a final flush that takes a third of the time.
        let slower = of(666.0);
        assert_eq!((slower.verdict, slower.percent.map(f64::round)), (Verdict::Less, Some(-33.0)));
        assert_eq!(of(1001.0).verdict, Verdict::Noise);
        assert_eq!(of(400.0).verdict, Verdict::NoInterval, "its parts say nothing of it");
    }

    #[test]
    fn a_bare_row_stands_beside_the_cold_and_the_warm_one() {
        let row = |cold: &str| format!(r#"{{"test":"read","unit":"IOPS","value":1{cold}}}"#);
        let cached = [row(r#","cold":true"#), row(r#","cold":false"#)].join(",");
        let cache = r#","cached":true,"cache":{"memory":1073741824}"#;
        for (first, second) in [(0, 1), (1, 0)] {
            let both = [run("a", "", &row("")), run("b", cache, &cached)];
            let comparison = Comparison::new(vec![both[first].clone(), both[second].clone()]);
            let comparison = comparison.expect("alike");
            let tests: Vec<&str> = comparison.lines.iter().map(|line| line.test.as_str()).collect();
            assert_eq!(tests, ["read, cold", "read, warm"]);
            assert!(comparison.lines.iter().all(|line| line.cells.iter().all(Option::is_some)));
            let names = &comparison.names;
            assert!(names.contains(&format!("{}: bare", letter(first))), "{names:?}");
        }
    }

    #[test]
    fn what_else_differs_is_listed_and_what_has_nothing_in_common_is_refused() {
        let row = |unit: &str| {
            format!(r#"{{"test":"t","unit":"{unit}","value":1,"shortened":"1 s of 2 s"}}"#)
        };
        let one = run("a", r#","machine":{"processor":"x"},"seed":1"#, &row("IOPS"));
        let two =
            run("b", r#","machine":{"processor":"y"},"seed":1,"complete":false"#, &row("IOPS"));
        let comparison = Comparison::new(vec![one.clone(), two]).expect("alike");
        let names: Vec<&str> = comparison.circumstances.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["complete", "machine"]);
        let refused = Comparison::new(vec![one.clone(), run("c", "", &row("ms"))]).expect_err("ms");
        assert!(refused.contains("a of cdm and c of cdm: have no test in common"), "{refused}");
        assert!(
            Comparison::new(vec![one.clone()]).expect_err("one").starts_with("a: is one result")
        );
        assert!(Comparison::new(vec![one; 27]).expect_err("many").contains("at most 26"));
    }

    #[test]
    fn rows_of_one_name_are_compared_one_by_one() {
        let row = |value: u32| format!(r#"{{"test":"t","unit":"IOPS","value":{value}}}"#);
        let twice = [row(1), row(2)].join(",");
        let comparison = Comparison::new(vec![run("a", "", &twice), run("b", "", &row(3))]);
        let lines = comparison.expect("alike").lines;
        let tests: Vec<&str> = lines.iter().map(|line| line.test.as_str()).collect();
        assert_eq!((tests, lines[1].against[0].verdict), (vec!["t", "t (2)"], Verdict::Missing));
    }
}
