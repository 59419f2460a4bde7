//! The figures of a run among those of earlier runs of the same suite and drive.

use crate::runs::{Earlier, Figure};
use report::circumstances::date;
use report::table::{Head, TableCell, table};
use report::words::figure;

/// Returns a table with each figure, its median and range in earlier runs, and a table of these
/// runs; empty if there are none.
pub(crate) fn of_results(figures: &[Figure], earlier: &[Earlier]) -> String {
    if earlier.is_empty() || figures.is_empty() {
        return String::new();
    }
    let heads = [
        Head::text("test"),
        Head::number("now"),
        Head::number("median before"),
        Head::number("range before"),
        Head::number("runs"),
        Head::text("unit"),
        Head::text("now against before"),
    ];
    let rows: Vec<_> = figures.iter().map(|figure| row(figure, earlier)).collect();
    let runs = earlier.iter().map(|run| -> Vec<TableCell> {
        vec![run.number.to_string().into(), date(&run.at).into(), run.headline.clone().into()]
    });
    let of_runs = [Head::text("result"), Head::text("at"), Head::text("in short")];
    format!(
        "{}<details><summary>The earlier results</summary>\n{}</details>\n",
        table("Compared with earlier results", &heads, &rows),
        table("Earlier results", &of_runs, &runs.collect::<Vec<_>>())
    )
}

fn row(now: &Figure, earlier: &[Earlier]) -> Vec<TableCell> {
    let is_it = |it: &&(String, String, f64)| it.0 == now.test && it.1 == now.unit;
    let mut values: Vec<f64> = earlier
        .iter()
        .filter_map(|run| run.figures.iter().find(is_it))
        .map(|(_, _, value)| *value)
        .collect();
    values.sort_by(f64::total_cmp);
    let (median, range, words) = match (values.first(), values.last()) {
        (Some(low), Some(high)) => (
            figure(median(&values)),
            format!("{} to {}", figure(*low), figure(*high)),
            now.number.map_or("-".to_owned(), |number| against(number, &values)),
        ),
        _ => ("-".to_owned(), "-".to_owned(), "new".to_owned()),
    };
    vec![
        now.test.clone().into(),
        now.value.clone().into(),
        median.into(),
        range.into(),
        values.len().to_string().into(),
        now.unit.clone().into(),
        words.into(),
    ]
}

/// Returns the median of values in ascending order, of which there is one at least.
fn median(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    match values.len().is_multiple_of(2) {
        true => f64::midpoint(values[middle - 1], values[middle]),
        false => values[middle],
    }
}

/// Returns the position of a value among the earlier ones, in words.
fn against(now: f64, values: &[f64]) -> String {
    if values.iter().all(|value| *value == now) {
        return "the same".to_owned();
    }
    let middle = median(values);
    let change = match middle == 0.0 {
        true => String::new(),
        false => format!(", {:+.1} % against the median", (now / middle - 1.0) * 100.0),
    };
    let place = match (values.first(), values.last()) {
        (Some(low), _) if now < *low => "below all",
        (_, Some(high)) if now > *high => "above all",
        _ => "within the range",
    };
    format!("{place}{change}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_place_among_the_earlier_ones() {
        let run = |number, value| Earlier {
            number,
            at: "2026-11-25T10:00:00Z".to_owned(),
            headline: "fast <1>".to_owned(),
            figures: vec![("read".to_owned(), "MB/s".to_owned(), value)],
        };
        let now = |test: &str, number: f64| Figure {
            test: test.to_owned(),
            value: figure(number),
            unit: "MB/s".to_owned(),
            number: Some(number),
        };
        let earlier = [run(4, 120.0), run(3, 100.0), run(2, 90.0), run(1, 110.0)];
        let html = of_results(&[now("read", 126.0), now("write", 5.0)], &earlier);
        for part in [
            "data-head=\"median before\">105<",
            "data-head=\"range before\">90.0 to 120<",
            "above all, +20.0 % against the median",
            "class=\"text\">new<",
            "fast &lt;1&gt;",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(against(105.0, &[90.0, 120.0]), "within the range, +0.0 % against the median");
        assert_eq!(against(-1.0, &[0.0]), "below all");
        assert_eq!(against(0.0, &[0.0, 0.0]), "the same");
        assert_eq!(of_results(&[now("read", 1.0)], &[]), "");
    }
}
