//! A grid of large numbers, such as the window of a benchmark program: a test in each row, reads
//! and writes in the columns.

use crate::direction::{UNDIRECTED, direction};
use crate::figure::{Csv, Figure, plain};
use crate::plot::escaped;
use crate::words::figure;
use std::fmt::Write;

const WIDTH: f64 = 440.0;
const LEFT: f64 = 104.0;
const TOP: f64 = 24.0;
const ROW: f64 = 52.0;

/// A cell: its value, and a remark in small letters below it.
#[derive(Clone, PartialEq, Debug)]
pub struct GridCell {
    /// The value.
    pub value: f64,
    /// The remark; may be empty.
    pub remark: String,
}

/// A row: its name, and a cell for each column. None: not measured.
pub type GridRow = (String, Vec<Option<GridCell>>);

/// Returns a grid as an element of a page. Each cell is filled in proportion to the largest value,
/// by the square root, so that small values are still visible.
pub fn grid(title: &str, unit: &str, columns: &[&str], rows: &[GridRow]) -> String {
    let title = format!("{title}, {unit}");
    let mut csv = Csv::new(&["test", "column", unit, "remark"]);
    let cells = || rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
    let most = cells().map(|cell| cell.value).fold(1e-9, f64::max);
    let across = (WIDTH - LEFT) / columns.len().max(1) as f64;
    let height = TOP + ROW * rows.len() as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(&title)
    );
    for (number, column) in columns.iter().enumerate() {
        _ = writeln!(
            svg,
            "<text class=\"name\" text-anchor=\"middle\" x=\"{:.1}\" y=\"15\">{}, {}</text>",
            LEFT + across * (number as f64 + 0.5),
            escaped(column),
            escaped(unit)
        );
    }
    for (number, (name, cells)) in rows.iter().enumerate() {
        let top = TOP + ROW * number as f64;
        _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{:.1}\">{}</text>",
            top + ROW / 2.0 + 3.0,
            escaped(name)
        );
        for (index, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let Some(cell) = cell else { continue };
            csv.line([name.clone(), (*column).to_owned(), plain(cell.value), cell.remark.clone()]);
            let colour = direction(column).map_or(UNDIRECTED, |it| it.colour());
            let (left, width) = (LEFT + across * index as f64, across - 6.0);
            let filled = width * (cell.value.max(0.0) / most).sqrt();
            _ = writeln!(
                svg,
                "<rect class=\"frame\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>\
                 <rect class=\"f{colour}\" fill-opacity=\"0.25\" x=\"{left:.1}\" y=\"{top:.1}\" \
                 width=\"{filled:.1}\" height=\"{:.1}\"/>\
                 <text class=\"large\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
                 <text class=\"tick small\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                ROW - 6.0,
                ROW - 6.0,
                left + width - 8.0,
                top + 26.0,
                figure(cell.value),
                left + width - 8.0,
                top + 40.0,
                escaped(&cell.remark)
            );
        }
    }
    svg.push_str("</svg>\n");
    Figure { title: &title, keys: "", is_wide: false, svg: &svg, csv: Some(&csv) }.html()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_a_large_number_for_each_test_and_direction() {
        let cell = |value, remark: &str| Some(GridCell { value, remark: remark.to_owned() });
        let rows = [
            ("SEQ1M Q8T1".to_owned(), vec![cell(536.0, "first run 530"), cell(520.4, "")]),
            ("RND4K Q1T1".to_owned(), vec![cell(33.5, ""), None]),
        ];
        let html = grid("CrystalDiskMark", "MB/s", &["Read", "Write"], &rows);
        assert!(html.contains(">536</text>") && html.contains(">first run 530</text>"), "{html}");
        assert!(html.contains("class=\"f0\"") && html.contains("class=\"f1\""));
        assert_eq!(html.matches("class=\"large\"").count(), 3);
        assert!(html.contains("SEQ1M%20Q8T1,Read,536,first%20run%20530"), "{html}");
    }
}
