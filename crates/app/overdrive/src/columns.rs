//! Lists as lsblk prints them: selectable columns, headings, sizes with units or in bytes. On a
//! terminal they fit its width: columns that the user has not named are left out. Elsewhere, where
//! another program may read them, they are whole.

use crate::terminal;
use block::{Size, printable};
use clap::ValueEnum;
use report::terminal::{Column as TableColumn, Fit, Look, Span, Table};
use stack::{Exit, Failure};
use std::marker::PhantomData;

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

/// The option that selects the columns of a list of such rows.
#[derive(clap::Args)]
pub(crate) struct Selected<Row, C: Column<Row>> {
    /// Print these columns.
    #[arg(
        long = "output",
        short = 'o',
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = C::DEFAULT
    )]
    pub(crate) columns: Vec<C>,
    #[arg(skip)]
    row: PhantomData<fn(&Row)>,
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
pub(crate) trait Column<Row>: ValueEnum + Copy + PartialEq + Send + Sync + 'static {
    /// The columns that are shown if the user names none, separated by commas.
    const DEFAULT: &str;
    /// Those of them that are left out if the terminal is too narrow, in this order. Columns with
    /// empty cells only are left out before them.
    const LEFT_OUT: &[Self];

    fn cell(self, row: &Row) -> Cell;

    /// The look of the cell.
    fn look(self, _row: &Row) -> Look {
        Look::Plain
    }

    /// Minimum width of the column, if long cells may be shortened on a terminal. Names that a user
    /// copies into a command are whole.
    fn width_min(self) -> Option<usize> {
        None
    }
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

/// Whether the user has named no columns.
fn is_default<Row, C: Column<Row>>(columns: &[C]) -> bool {
    let names: Vec<String> = columns.iter().map(|column| heading(*column)).collect();
    names.join(",").eq_ignore_ascii_case(C::DEFAULT)
}

/// Returns when a column is left out, if it may be: its cells are these.
fn turn<Row, C: Column<Row>>(column: C, mut cells: impl Iterator<Item = String>) -> Option<usize> {
    let index = C::LEFT_OUT.iter().position(|one| *one == column)?;
    let is_empty = cells.all(|text| ["", "-", "0"].contains(&text.as_str()));
    Some(if is_empty { 0 } else { index + 1 })
}

/// Returns a list as a table.
fn table<Row, C: Column<Row>>(rows: &[Row], columns: &[C], style: &Style) -> Table {
    let cells = |row: &Row| -> Vec<((String, bool), Look)> {
        let cell = |column: &C| (format_cell(column.cell(row), style.bytes), column.look(row));
        columns.iter().map(cell).collect()
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let may_lack = is_default(columns);
    let heads = columns.iter().enumerate().map(|(index, column)| {
        let is_number = cells.iter().any(|row| row[index].0.1);
        let head = match is_number {
            true => TableColumn::number(heading(*column)),
            false => {
                let fit = column.width_min().map_or(Fit::Whole, Fit::Shorten);
                TableColumn::text(heading(*column), fit)
            }
        };
        let texts = cells.iter().map(|row| row[index].0.0.clone());
        match turn(*column, texts).filter(|_| may_lack) {
            Some(turn) => head.left_out(turn),
            None => head,
        }
    });
    let mut table = Table::new(1, heads.collect());
    for row in cells {
        table.push(row.into_iter().map(|((text, _), look)| Span::new(look, text)).collect());
    }
    if style.noheadings { table.without_heads() } else { table }
}

/// Returns the line below a list without these columns.
fn about_missing(missing: &[&str]) -> Option<String> {
    let names = missing.join(", ");
    let line = || format!("Not shown for lack of room: {names}; -o NAME,... selects columns.");
    (!missing.is_empty()).then(line)
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
    // A list without headings is for another program, also if COLUMNS is in its environment.
    let width = if style.noheadings { None } else { terminal::width() };
    let table = table(rows, columns, style);
    terminal::print(table.lines(width));
    if let Some(line) = about_missing(&table.missing(width)) {
        terminal::print_wrapped(&line.into(), 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::terminal::Line;

    #[derive(Clone, Copy, PartialEq, ValueEnum)]
    enum Two {
        Name,
        Size,
    }

    impl Column<(&str, u64)> for Two {
        const DEFAULT: &'static str = "name,size";
        const LEFT_OUT: &'static [Two] = &[Two::Size];

        fn cell(self, row: &(&str, u64)) -> Cell {
            match self {
                Two::Name => Cell::Text(row.0.to_owned()),
                Two::Size => Cell::Size(row.1),
            }
        }

        fn width_min(self) -> Option<usize> {
            Some(6)
        }
    }

    fn texts(rows: &[(&str, u64)], columns: &[Two], style: &Style, width: usize) -> Vec<String> {
        table(rows, columns, style).lines(Some(width)).iter().map(Line::to_string).collect()
    }

    #[test]
    fn numbers_stand_to_the_right_and_nothing_reaches_the_terminal() {
        let rows = [("a\u{1b}[2J", 4096), ("long name", 1 << 40)];
        let style = Style { json: false, noheadings: false, bytes: true };
        let printed = texts(&rows, &[Two::Name, Two::Size], &style, 80);
        assert_eq!(printed[0], "NAME                SIZE");
        assert_eq!(printed[1], "a\\u001b[2J          4096");
        assert_eq!(printed[2], "long name  1099511627776");
        let narrow = texts(&rows, &[Two::Name, Two::Size], &style, 22);
        assert_eq!(narrow[2], "lo\u{2026} name 1099511627776");
        let style = Style { noheadings: true, bytes: false, ..style };
        assert_eq!(texts(&rows, &[Two::Size], &style, 80), ["4 KiB", "1 TiB"]);
    }

    #[test]
    fn columns_are_left_out_only_if_the_user_has_named_none() {
        let style = Style { json: false, noheadings: false, bytes: true };
        let rows = [("name", 1 << 40)];
        let missing = |columns: &[Two], width| {
            let table = table(&rows, columns, &style);
            about_missing(&table.missing(Some(width))).unwrap_or_default()
        };
        assert_eq!(missing(&[Two::Name, Two::Size], 18), "");
        assert!(missing(&[Two::Name, Two::Size], 17).contains(": SIZE; "));
        assert_eq!(missing(&[Two::Size, Two::Name], 10), "");
    }
}
