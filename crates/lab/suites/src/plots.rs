//! Plots of an outcome: those shared by several suites, and those of every page.

use crate::outcome::{Outcome, Published, Row, Series};
use report::bars::{Bar, Test, bars, bars_of_states};
use report::chart::{self, Distribution, Percentiles, Sequence};
use report::heatmap::Matrix;
use report::names;
use report::plot::Level;

/// Maximum number of rows with plots; the others are in the raw data.
const LATENCIES_MAX: usize = 6;
/// Maximum number of plots of distributions, and of curves in one.
const DISTRIBUTIONS_MAX: usize = 8;
const CURVES_MAX: usize = 6;

/// Plots each row as a cell of a matrix or as a bar, grouped by unit.
pub(crate) fn rows(outcome: &Outcome) -> Vec<String> {
    let (mut figures, left) = matrices(outcome.rows.iter().collect());
    figures.extend(bars_of(&left, &outcome.published));
    figures
}

/// The order in which units are plotted.
const UNITS: [&str; 4] = ["MB/s", "MiB/s", "IOPS", "ms"];

/// Plots rows that belong in matrices, and returns the others.
fn matrices(rows: Vec<&Row>) -> (Vec<String>, Vec<&Row>) {
    let (mut figures, mut left) = (Vec::new(), Vec::new());
    for unit in UNITS {
        let of: Vec<&Row> = rows.iter().filter(|row| row.unit == unit).copied().collect();
        let names: Vec<String> = of.iter().map(|row| row.full_name()).collect();
        let values: Vec<(&str, f64)> =
            names.iter().zip(&of).map(|(name, row)| (name.as_str(), row.value)).collect();
        let (drawn, others) = report::matrix_names::matrices(&values, unit);
        figures.extend(drawn.iter().map(Matrix::figure));
        left.extend(others.into_iter().map(|index| of[index]));
    }
    (figures, left)
}

/// Returns a test's name without the state of the drive at its end, and that state.
fn stated(row: &Row) -> Option<(&str, &str)> {
    let split = row.test.rsplit_once(", ")?;
    ["fresh", "used"].contains(&split.1).then_some(split)
}

/// Plots rows of the fresh and of the used drive beside each other, and returns the others.
fn states<'a>(rows: &[&'a Row]) -> (Vec<String>, Vec<&'a Row>) {
    let mut tests: Vec<(Test, &str)> = Vec::new();
    let mut left = Vec::new();
    for row in rows {
        let Some((name, state)) = stated(row) else {
            left.push(*row);
            continue;
        };
        let bar = Some(Bar { value: row.value, interval: None });
        let number = usize::from(state == "used");
        match tests.iter_mut().find(|(test, unit)| test.name == name && *unit == row.unit) {
            Some((test, _)) => test.bars[number] = bar,
            None => {
                let mut bars = vec![None, None];
                bars[number] = bar;
                tests.push((Test { name: name.to_owned(), bars, published: None }, row.unit));
            }
        }
    }
    let names = ["fresh".to_owned(), "used".to_owned()];
    let of = |unit: &'static str| {
        let of: Vec<Test> =
            tests.iter().filter(|test| test.1 == unit).map(|(test, _)| test.clone()).collect();
        (!of.is_empty()).then(|| bars_of_states("The fresh and the used drive", unit, &names, &of))
    };
    (UNITS.into_iter().filter_map(of).collect(), left)
}

fn bars_of(rows: &[&Row], published: &[Published]) -> Vec<String> {
    let (mut figures, rows) = states(rows);
    let of = |unit: &'static str| {
        let rows = rows.iter().filter(move |row| row.unit == unit);
        let test = |row: &&Row| Test {
            name: row.full_name(),
            bars: vec![Some(Bar { value: row.value, interval: None })],
            published: published.iter().find(|it| is_of(it, row)).map(|it| (it.low, it.high)),
        };
        rows.map(test).collect::<Vec<_>>()
    };
    let drawn = [
        ("Throughput", "MB/s"),
        ("Throughput", "MiB/s"),
        ("Requests answered per second", "IOPS"),
        ("Mean access time", "ms"),
    ];
    let drawn = drawn.into_iter().map(|(title, unit)| (title, unit, of(unit)));
    let drawn = drawn.filter(|(.., tests)| !tests.is_empty());
    figures.extend(drawn.map(|(title, unit, tests)| bars(title, unit, &[], &tests)));
    figures
}

/// Whether a figure belongs to this row; no published figure is of a warm cache.
fn is_of(published: &Published, row: &Row) -> bool {
    published.test.as_ref() == Some(&row.test) && row.cold != Some(false)
}

/// Returns the published figures in this unit, as lines across a plot.
pub(crate) fn levels(outcome: &Outcome, unit: &str) -> Vec<Level> {
    let of_unit = outcome.published.iter().filter(|it| it.unit == unit);
    let level = |it: &Published| Level {
        name: format!("published: {}", it.what),
        low: it.low,
        high: if it.high.is_finite() { it.high } else { it.low },
    };
    of_unit.map(level).collect()
}

/// Plots matrices as heat maps, rows whose names end with a size or a depth as curves, and the
/// others as bars.
pub(crate) fn curves(outcome: &Outcome) -> Vec<String> {
    let (mut figures, single) = matrices(outcome.rows.iter().collect());
    let mut left = Vec::new();
    for unit in ["MB/s", "MiB/s", "IOPS"] {
        let rows: Vec<&Row> = single.iter().filter(|row| row.unit == unit).copied().collect();
        let values: Vec<_> = rows.iter().map(|row| ("", row.test.as_str(), row.value)).collect();
        let (drawn, others) = names::curves(&values, unit);
        figures.extend(drawn);
        left.extend(others.into_iter().map(|number| rows[number]));
    }
    figures.extend(bars_of(&left, &outcome.published));
    figures
}

/// Plots all curves over the drive's addresses together.
pub(crate) fn by_position(outcome: &Outcome) -> Vec<String> {
    let all = outcome.series.iter().filter(|series| series.along == "GB");
    let sequences: Vec<Sequence<'_>> = all
        .filter(|series| !series.values.is_empty())
        .map(|series| sequence(&series.name, series))
        .collect();
    if sequences.is_empty() {
        return Vec::new();
    }
    let unit = outcome.series.iter().find(|series| series.along == "GB");
    let unit = unit.map_or("MB/s", |series| series.unit);
    let title = "Sequential transfers by position";
    vec![chart::by_position(title, unit, &sequences, &levels(outcome, unit))]
}

/// The figures of each second's latencies, in the order of a row's series.
const KINDS: [&str; 3] = ["mean", "p99", "longest"];

pub(crate) fn sequence<'a>(name: &'a str, series: &'a Series) -> Sequence<'a> {
    Sequence { name, step: series.step, values: &series.values }
}

/// Plots latencies by seconds: for one outcome a plot for each row, for several one for each row
/// and kind.
pub(super) fn latencies(outcomes: &[Outcome]) -> Vec<String> {
    let Some(first) = outcomes.first() else { return Vec::new() };
    let timed = first.rows.iter().filter(|row| !row.latency_series().is_empty());
    let mut figures = Vec::new();
    for row in timed.take(LATENCIES_MAX) {
        let title = format!("Latency of {}", row.full_name());
        if outcomes.len() == 1 {
            let series = row.latency_series();
            let named = KINDS.into_iter().zip(&series);
            let mut sequences: Vec<Sequence<'_>> =
                named.map(|(name, series)| sequence(name, series)).collect();
            // Later curves cover earlier ones: the longest latencies come first.
            sequences.reverse();
            figures.extend(chart::latency_over_time(&title, &sequences));
            continue;
        }
        let of = |outcome: &Outcome| {
            let same = |other: &&Row| other.full_name() == row.full_name();
            outcome.rows.iter().find(same).map(Row::latency_series).unwrap_or_default()
        };
        let all: Vec<_> = outcomes.iter().map(|outcome| (variant(outcome), of(outcome))).collect();
        for (number, kind) in KINDS.into_iter().enumerate() {
            let sequences =
                all.iter().filter_map(|(name, series)| Some(sequence(name, series.get(number)?)));
            let title = format!("{title}, {kind} of each second");
            figures.extend(chart::latency_over_time(&title, &sequences.collect::<Vec<_>>()));
        }
    }
    figures
}

/// Returns the property that distinguishes an outcome from the others of a page.
pub(crate) fn variant(outcome: &Outcome) -> String {
    format!("{} % spare", outcome.plan.spare_percent)
}

/// A distribution's name and its buckets.
type Named = (String, Vec<(u64, u64)>);

/// Plots distributions of service times; tests whose names have the same beginning share a plot.
pub(super) fn service_times(outcomes: &[Outcome]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<Named>)> = Vec::new();
    for outcome in outcomes {
        for row in &outcome.rows {
            let buckets = row.latency.as_ref().map(|latency| latency.buckets());
            let Some(buckets) = buckets.filter(|buckets| !buckets.is_empty()) else { continue };
            let name = match outcomes.len() {
                1 => row.full_name(),
                _ => format!("{}, {}", row.full_name(), variant(outcome)),
            };
            let stem = stem(&row.test).to_owned();
            match groups.iter_mut().find(|(known, of)| *known == stem && of.len() < CURVES_MAX) {
                Some((_, of)) => of.push((name, buckets)),
                None => groups.push((stem, vec![(name, buckets)])),
            }
        }
    }
    let mut figures = Vec::new();
    for (stem, of) in groups.iter().take(DISTRIBUTIONS_MAX) {
        let distributions: Vec<Distribution<'_>> =
            of.iter().map(|(name, buckets)| Distribution { name, buckets }).collect();
        let title = if let [(name, _)] = of.as_slice() { name } else { stem };
        let percentiles: Vec<Percentiles<'_>> =
            distributions.iter().map(Distribution::percentiles).collect();
        figures.push(chart::percentiles(title, &percentiles));
        figures.extend(chart::service_times(title, &distributions));
    }
    figures
}

/// Returns a test's name without its last part, which is its depth or its size.
fn stem(test: &str) -> &str {
    test.rsplit_once(", ").map_or(test, |(stem, _)| stem)
}

/// Whether some distributions are not drawn.
pub(super) fn leaves_out(outcomes: &[Outcome]) -> bool {
    let rows = || outcomes.iter().flat_map(|outcome| &outcome.rows);
    let timed = rows().filter(|row| !row.latency_series().is_empty()).count();
    let mut stems: Vec<&str> =
        rows().filter(|row| row.latency.is_some()).map(|row| stem(&row.test)).collect();
    stems.sort_unstable();
    stems.dedup();
    timed > LATENCIES_MAX * outcomes.len() || stems.len() > DISTRIBUTIONS_MAX
}
