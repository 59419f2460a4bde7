//! Lists as lsblk prints them: selectable columns, headings, sizes with units or in bytes.

use block::{Size, printable};
use clap::ValueEnum;
use stack::{Exit, Failure};

/// How a list is printed.
#[derive(clap::Args)]
pub(crate) struct Style {
    /// Print one JSON object.
    #[arg(long, short = 'J')]
    pub(crate) json: bool,
    /// Print no headings.
    #[arg(long, short)]
    noheadings: bool,
    /// Print sizes in bytes.
    #[arg(long, short)]
    bytes: bool,
}

/// A cell, before it is formatted.
pub(crate) enum Cell {
    Text(String),
    /// Text that is aligned to the right, as a number with a unit of its own.
    Figure(String),
    /// A number with the column's unit; None prints an empty cell.
    Number(Option<f64>),
    /// Bytes.
    Size(u64),
    Flag(bool),
}

/// A column of a list of such rows.
pub(crate) trait Column<Row>: ValueEnum + Copy {
    fn cell(self, row: &Row) -> Cell;
}

fn heading<C: ValueEnum>(column: C) -> String {
    let name = column.to_possible_value().expect("no column is hidden");
    name.get_name().to_uppercase()
}

/// Returns the text of a cell, and whether it is aligned to the right.
fn format_cell(cell: Cell, bytes: bool) -> (String, bool) {
    match cell {
        Cell::Text(text) => (printable(&text).into_owned(), false),
        Cell::Figure(text) => (printable(&text).into_owned(), true),
        Cell::Number(number) => (number.map_or(String::new(), |number| number.to_string()), true),
        Cell::Size(size) if bytes => (size.to_string(), true),
        Cell::Size(size) => (Size(size).to_string(), true),
        Cell::Flag(flag) => (u8::from(flag).to_string(), true),
    }
}

/// Checks that a column is selected.
///
/// # Errors
/// Usage: there is none.
pub(crate) fn check_selected<C>(columns: &[C]) -> Result<(), Failure> {
    match columns.is_empty() {
        true => Err(Failure::new(Exit::Usage, "--output: name at least one column")),
        false => Ok(()),
    }
}

/// Returns the lines of a list.
fn lines<Row, C: Column<Row>>(rows: &[Row], columns: &[C], style: &Style) -> Vec<String> {
    let mut cells: Vec<Vec<(String, bool)>> = Vec::new();
    if !style.noheadings {
        cells.push(columns.iter().map(|column| (heading(*column), false)).collect());
    }
    let cell = |row, column: &C| format_cell(column.cell(row), style.bytes);
    cells.extend(rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()));
    let width = |index: usize| {
        let widths = cells.iter().map(|line| line[index].0.chars().count());
        widths.max().unwrap_or(0)
    };
    let right = |index: usize| cells.iter().any(|line| line[index].1);
    let columns: Vec<_> = (0..columns.len()).map(|index| (width(index), right(index))).collect();
    let line = |line: &Vec<(String, bool)>| {
        let mut text = String::new();
        for ((cell, _), (width, right)) in line.iter().zip(&columns) {
            text.push_str(&match right {
                true => format!("{cell:>width$} "),
                false => format!("{cell:<width$} "),
            });
        }
        text.trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

/// Prints a list.
///
/// Errors: no column was selected.
pub(crate) fn print<Row, C: Column<Row>>(
    rows: &[Row],
    columns: &[C],
    style: &Style,
) -> Result<(), Failure> {
    check_selected(columns)?;
    lines(rows, columns, style).iter().for_each(|line| daemon::say!("{line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, ValueEnum)]
    enum Two {
        Name,
        Size,
    }

    impl Column<(&str, u64)> for Two {
        fn cell(self, row: &(&str, u64)) -> Cell {
            match self {
                Two::Name => Cell::Text(row.0.to_owned()),
                Two::Size => Cell::Size(row.1),
            }
        }
    }

    #[test]
    fn numbers_stand_to_the_right_and_nothing_reaches_the_terminal() {
        let rows = [("a\u{1b}[2J", 4096), ("long name", 1 << 40)];
        let style = Style { json: false, noheadings: false, bytes: true };
        let printed = lines(&rows, &[Two::Name, Two::Size], &style);
        assert_eq!(printed[0], "NAME                SIZE");
        assert_eq!(printed[1], "a\\u001b[2J          4096");
        assert_eq!(printed[2], "long name  1099511627776");
        let style = Style { noheadings: true, bytes: false, ..style };
        assert_eq!(lines(&rows, &[Two::Size], &style), ["4 KiB", "1 TiB"]);
    }
}
