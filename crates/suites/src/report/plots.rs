//! Plots that several suites have.

use crate::outcome::Outcome;
use report::axis::Axis;
use report::plot::{Curve, Names, Plot, Style, bars};

/// Each row as a bar, those of a unit together.
pub(crate) fn rows(outcome: &Outcome) -> Vec<String> {
    let of = |unit: &'static str| {
        let rows = outcome.rows.iter().filter(move |row| row.unit == unit);
        let bars = rows.map(|row| match row.cold {
            Some(true) => (format!("{}, cold", row.test), row.value),
            Some(false) => (format!("{}, warm", row.test), row.value),
            None => (row.test.clone(), row.value),
        });
        bars.collect::<Vec<_>>()
    };
    let throughput = ("Throughput", "MB/s", of("MB/s"));
    let rate = ("Requests answered in a second", "IOPS", of("IOPS"));
    let drawn = [throughput, rate].into_iter().filter(|(.., rows)| !rows.is_empty());
    drawn.map(|(title, unit, rows)| bars(title, unit, &rows)).collect()
}

/// All curves over the drive's addresses, in one plot.
pub(crate) fn by_position(outcome: &Outcome) -> Vec<String> {
    let all = &outcome.series;
    let end = all.iter().map(|series| series.values.len() as f64 * series.step).fold(0.0, f64::max);
    if end <= 0.0 {
        return Vec::new();
    }
    let curves = all.iter().map(|series| Curve {
        name: &series.name,
        points: (0..)
            .map(|index| (f64::from(index) + 0.5) * series.step)
            .zip(series.values.iter().copied())
            .collect(),
        is_bound: false,
    });
    let plot = Plot {
        title: "Sequential transfers by position".to_owned(),
        along: "GB".to_owned(),
        up: "MB/s".to_owned(),
        x: Axis::exact(0.0, end),
        y: Axis::linear(all.iter().flat_map(|series| series.values.iter().copied())),
        style: Style::Line,
        names: Names::Above,
        curves: curves.collect(),
    };
    vec![plot.svg()]
}
