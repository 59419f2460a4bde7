//! Matrices of values as heat maps: each cell has its value and a colour by its size.

use crate::axis::word;
use crate::direction::{Direction, UNDIRECTED};
use crate::figure::{Csv, Figure, plain};
use crate::plot::escaped;
use std::fmt::Write;

const WIDTH: f64 = 440.0;
const LEFT: f64 = 66.0;
const TOP: f64 = 38.0;
const ROW: f64 = 24.0;
/// Opacity of the largest value. More would leave its text without contrast.
const OPACITY_MAX: f64 = 0.5;

/// A matrix of values of one unit.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix {
    /// Its subject.
    pub title: String,
    /// The unit of the values.
    pub unit: String,
    /// The name of the rows' quantity, such as `transfer size`.
    pub down: String,
    /// The name of the columns' quantity, such as `requests under way`.
    pub along: String,
    /// The names of the rows.
    pub rows: Vec<String>,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The values, row by row. None: not measured.
    pub values: Vec<Vec<Option<f64>>>,
    /// The direction of all its tests, which gives its colour.
    pub direction: Option<Direction>,
}

impl Matrix {
    /// Returns the matrix as an element of a page.
    pub fn figure(&self) -> String {
        let title = format!("{}, {}", self.title, self.unit);
        let figure = Figure {
            title: &title,
            keys: "",
            is_wide: false,
            svg: &self.svg(&title),
            csv: Some(&self.csv()),
        };
        figure.html()
    }

    fn csv(&self) -> Csv {
        let mut csv = Csv::new(&[&self.down, &self.along, &self.unit]);
        for (row, values) in self.rows.iter().zip(&self.values) {
            for (column, value) in self.columns.iter().zip(values) {
                if let Some(value) = value {
                    csv.line([row.clone(), column.clone(), plain(*value)]);
                }
            }
        }
        csv
    }

    fn svg(&self, title: &str) -> String {
        let height = TOP + ROW * self.rows.len() as f64 + 2.0;
        let across = (WIDTH - LEFT) / self.columns.len().max(1) as f64;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\n\
             <text class=\"name\" x=\"0\" y=\"30\">{}</text>\
             <text class=\"name\" text-anchor=\"middle\" x=\"{:.1}\" y=\"12\">{}</text>\n",
            escaped(title),
            escaped(&self.down),
            (LEFT + WIDTH) / 2.0,
            escaped(&self.along)
        );
        let middle = |column: usize| LEFT + across * (column as f64 + 0.5);
        for (number, column) in self.columns.iter().enumerate() {
            _ = writeln!(
                svg,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1}\" y=\"30\">{}</text>",
                middle(number),
                escaped(column)
            );
        }
        let shares = Shares::of(self.values.iter().flatten().flatten().copied());
        let colour = self.direction.map_or(UNDIRECTED, Direction::colour);
        for (number, (row, values)) in self.rows.iter().zip(&self.values).enumerate() {
            let top = TOP + ROW * number as f64;
            let base = top + ROW / 2.0 + 4.5;
            _ = writeln!(
                svg,
                "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
                LEFT - 6.0,
                escaped(row)
            );
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                _ = writeln!(
                    svg,
                    "<rect class=\"f{colour}\" fill-opacity=\"{:.2}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                     height=\"{:.1}\"/><text class=\"cell\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{base:.1}\">{}\
                     </text>",
                    shares.opacity(*value),
                    LEFT + across * column as f64,
                    across - 1.0,
                    ROW - 1.0,
                    middle(column),
                    short(*value)
                );
            }
        }
        svg + "</svg>\n"
    }
}

/// The range of a matrix's values, whose colours follow their logarithms.
struct Shares {
    low: f64,
    high: f64,
}

impl Shares {
    fn of(values: impl Iterator<Item = f64>) -> Shares {
        let (mut low, mut high) = (f64::MAX, f64::MIN_POSITIVE);
        for value in values.filter(|value| *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        Shares { low: low.min(high), high }
    }

    fn opacity(&self, value: f64) -> f64 {
        let range = (self.high / self.low).ln();
        let share = match range > 1e-9 {
            true => (value.max(self.low) / self.low).ln() / range,
            false => 1.0,
        };
        0.05 + share.clamp(0.0, 1.0) * (OPACITY_MAX - 0.05)
    }
}

/// Formats a value in at most six letters.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 1e5 => word((value / 1e3).round() * 1e3),
        large if large >= 1e4 => word((value / 1e2).round() * 1e2),
        middle if middle >= 100.0 => crate::words::figure(value),
        some if some >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_values_and_darker_ones_are_larger() {
        let matrix = Matrix {
            title: "Random <requests>".to_owned(),
            unit: "IOPS".to_owned(),
            down: "size".to_owned(),
            along: "reads/writes".to_owned(),
            rows: vec!["4 KiB".to_owned(), "8 KiB".to_owned()],
            columns: vec!["100/0".to_owned(), "0/100".to_owned()],
            values: vec![vec![Some(96_512.0), Some(965.0)], vec![None, Some(9651.0)]],
            direction: Some(Direction::Write),
        };
        let figure = matrix.figure();
        for part in [
            "<figcaption>Random &lt;requests&gt;, IOPS</figcaption>",
            "fill-opacity=\"0.50\"",
            "fill-opacity=\"0.05\"",
            ">96.5 k</text>",
            ">9,651</text>",
            "size,reads/writes,IOPS%0D%0A4%20KiB,100/0,96512%0D%0A",
        ] {
            assert!(figure.contains(part), "{part}: {figure}");
        }
        assert_eq!(figure.matches("<rect").count(), 3);
        assert!(
            ["0.00", "12.3", "123 k", "1.23 M"]
                .iter()
                .zip([0.0, 12.3, 123_456.0, 1_234_000.0])
                .all(|(text, value)| short(value) == *text)
        );
        assert!((Shares::of([5.0, 5.0].into_iter()).opacity(5.0) - OPACITY_MAX).abs() < 1e-9);
    }
}
