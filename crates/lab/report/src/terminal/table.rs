//! Tables of aligned columns that fit a width.

use super::line::{Line, Look, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The side to which the cells of a column are aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// How a column becomes narrower if the table is too wide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// It does not.
    Whole,
    /// The middle of its longest cells is left out, down to this width.
    Shorten(usize),
    /// Its longest cells are broken into several lines, down to this width.
    Wrap(usize),
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    head: String,
    align: Align,
    fit: Fit,
    /// Its width if all cells are shorter.
    least: usize,
    /// When it is left out if the table is too wide: smaller numbers first. None: never.
    turn: Option<usize>,
}

impl Column {
    /// Returns a column of text.
    pub fn text(head: impl Into<String>, fit: Fit) -> Column {
        Column { head: head.into(), align: Align::Left, fit, least: 0, turn: None }
    }

    /// Returns a column of numbers.
    pub fn number(head: impl Into<String>) -> Column {
        Column { align: Align::Right, ..Column::text(head, Fit::Whole) }
    }

    /// Sets how it becomes narrower.
    #[must_use]
    pub fn fitted(self, fit: Fit) -> Column {
        Column { fit, ..self }
    }

    /// Lets it be left out if the table is too wide, even with all columns at their minimum widths:
    /// those with smaller numbers first, and of several with the same number the last one.
    #[must_use]
    pub fn left_out(self, turn: usize) -> Column {
        Column { turn: Some(turn), ..self }
    }

    /// Sets its width if all cells are shorter, so that several tables are aligned.
    #[must_use]
    pub fn at_least(self, least: usize) -> Column {
        Column { least, ..self }
    }
}

/// Blanks before a note.
const NOTE_INDENT: usize = 4;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Span>>,
    /// Lines below rows: the number of the row, and the line.
    notes: Vec<(usize, Line)>,
    /// Blanks between columns.
    gap: usize,
    has_heads: bool,
}

impl Table {
    /// Returns a table without rows, with this number of blanks between columns.
    pub fn new(gap: usize, columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new(), notes: Vec::new(), gap, has_heads: true }
    }

    /// Leaves the headings out.
    #[must_use]
    pub fn without_heads(mut self) -> Table {
        self.has_heads = false;
        self
    }

    /// Adds a row, which has a cell for each column.
    pub fn push(&mut self, row: Vec<Span>) {
        assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// Adds a line below the last row, over all columns.
    pub fn push_note(&mut self, note: impl Into<Line>) {
        let indented = Line::from(" ".repeat(NOTE_INDENT)).with_all(note.into());
        self.notes.push((self.rows.len(), indented));
    }

    /// Returns its width if no cell is made narrower.
    pub fn width(&self) -> usize {
        let gaps = self.gap * self.columns.len().saturating_sub(1);
        self.widths(None).iter().sum::<usize>() + gaps
    }

    /// Returns the headings of the columns that are left out at this width.
    pub fn missing(&self, width: Option<usize>) -> Vec<&str> {
        let shown = self.shown(width);
        let missing = self.columns.iter().zip(shown).filter(|(_, is_shown)| !is_shown);
        missing.map(|(column, _)| column.head.as_str()).collect()
    }

    /// Returns whether each column is shown at this width.
    fn shown(&self, width: Option<usize>) -> Vec<bool> {
        let mut shown = vec![true; self.columns.len()];
        let Some(width) = width else { return shown };
        let least = self.widths(Some(0));
        // Each column has the blanks behind it, except the last one.
        let least_with = |shown: &[bool]| -> usize {
            let widths = least.iter().zip(shown).filter(|(_, is_shown)| **is_shown);
            widths.map(|(least, _)| least + self.gap).sum::<usize>().saturating_sub(self.gap)
        };
        while least_with(&shown) > width {
            let turn = |index: &usize| self.columns[*index].turn.filter(|_| shown[*index]);
            let droppable = (0..shown.len()).rev().filter(|index| turn(index).is_some());
            let Some(next) = droppable.min_by_key(turn) else { break };
            shown[next] = false;
        }
        shown
    }

    /// Returns the table of these columns.
    fn only(&self, shown: &[bool]) -> Table {
        fn kept<T: Clone>(all: &[T], shown: &[bool]) -> Vec<T> {
            all.iter()
                .zip(shown)
                .filter(|(_, is_shown)| **is_shown)
                .map(|(it, _)| it.clone())
                .collect()
        }
        let rows = self.rows.iter().map(|row| kept(row, shown)).collect();
        let notes = self.notes.clone();
        Table { columns: kept(&self.columns, shown), rows, notes, ..*self }
    }

    /// Returns its lines; with a width, columns that may be left out are, and columns that may
    /// become narrower do so, until the lines fit, or all have their minimum widths.
    pub fn lines(&self, width: Option<usize>) -> Vec<Line> {
        self.only(&self.shown(width)).narrowed(width)
    }

    /// Returns its lines with all columns, as narrow as this width needs.
    pub fn narrowed(&self, width: Option<usize>) -> Vec<Line> {
        let widths = self.widths(width);
        let heads = self.columns.iter().map(|column| Span::new(Look::Heading, &column.head));
        let heads: Vec<Span> = heads.collect();
        let heads = self.has_heads.then_some(&heads);
        let mut lines = Vec::new();
        lines.extend(heads.into_iter().flat_map(|heads| self.row_lines(heads, &widths)));
        for (number, row) in (1..).zip(&self.rows) {
            lines.extend(self.row_lines(row, &widths));
            let notes = self.notes.iter().filter(|(below, _)| *below == number);
            let fitted = notes.flat_map(|(_, note)| match width {
                Some(width) => note.wrapped(width, NOTE_INDENT),
                None => vec![note.clone()],
            });
            lines.extend(fitted);
        }
        lines
    }

    /// Returns the widths of the columns.
    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let width = |(index, column): (usize, &Column)| {
            let head = if self.has_heads { column.head.width() } else { 0 };
            let least = head.max(column.least);
            self.rows.iter().map(|row| row[index].width()).fold(least, usize::max)
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(width).collect();
        let gaps = self.gap * self.columns.len().saturating_sub(1);
        let Some(limit) = limit else { return widths };
        // The widest column gives up one column of letters at a time.
        while widths.iter().sum::<usize>() + gaps > limit {
            let is_wider = |(index, width): &(usize, &mut usize)| match self.columns[*index].fit {
                Fit::Whole => false,
                Fit::Shorten(least) | Fit::Wrap(least) => **width > least,
            };
            let wider = widths.iter_mut().enumerate().filter(is_wider);
            let Some((_, width)) = wider.max_by_key(|(_, width)| **width) else { break };
            *width -= 1;
        }
        widths
    }

    /// Returns the lines of one row.
    fn row_lines(&self, row: &[Span], widths: &[usize]) -> Vec<Line> {
        let cells: Vec<Vec<Span>> = row
            .iter()
            .zip(&self.columns)
            .zip(widths)
            .map(|((cell, column), width)| fitted(cell, column.fit, *width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |number: usize| {
            let mut line = Line::default();
            for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
                let part = cell.get(number).cloned().unwrap_or_default();
                let blanks = " ".repeat(width.saturating_sub(part.width()));
                let (before, after) = match column.align {
                    Align::Left => (String::new(), blanks),
                    Align::Right => (blanks, String::new()),
                };
                line.push(before.into());
                line.push(part);
                line.push((after + &" ".repeat(self.gap)).into());
            }
            line.trimmed()
        };
        (0..height).map(line).collect()
    }
}

/// Returns the lines of a cell in a column of this width.
fn fitted(cell: &Span, fit: Fit, width: usize) -> Vec<Span> {
    match fit {
        _ if cell.width() <= width => vec![cell.clone()],
        Fit::Whole => vec![cell.clone()],
        Fit::Shorten(_) => vec![Span::new(cell.look, shortened(&cell.text, width))],
        Fit::Wrap(_) => {
            let lines = Line::of(cell.clone()).wrapped(width, 0);
            let parts = lines.iter().flat_map(|line| pieces(&line.to_string(), width));
            parts.map(|part| Span::new(cell.look, part)).collect()
        }
    }
}

/// Cuts a text into pieces of at most this width.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in text.chars() {
        let last = pieces.last_mut().expect("there is one");
        match last.width() + letter.width().unwrap_or(0) > width.max(1) && !last.is_empty() {
            true => pieces.push(letter.to_string()),
            false => last.push(letter),
        }
    }
    pieces
}

/// Returns the text without its middle. The end is longer than the beginning: it distinguishes
/// paths.
fn shortened(text: &str, width: usize) -> String {
    let (first, last) = (width.saturating_sub(1) / 3, width.saturating_sub(1));
    let begin = taken(text.chars(), first);
    let end = taken(text.chars().rev(), last.saturating_sub(first));
    format!("{begin}…{}", end.chars().rev().collect::<String>())
}

/// Returns the first letters, of at most this width.
fn taken(letters: impl Iterator<Item = char>, width: usize) -> String {
    let mut text = String::new();
    for letter in letters {
        if text.width() + letter.width().unwrap_or(0) > width {
            break;
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(table: &Table, width: Option<usize>) -> Vec<String> {
        table.lines(width).iter().map(Line::to_string).collect()
    }

    fn sample(fit: Fit) -> Table {
        let columns = vec![
            Column::text("NAME", fit),
            Column::number("SIZE"),
            Column::text("STATE", Fit::Whole),
        ];
        let mut table = Table::new(1, columns);
        let name = "/srv/images/a long name.img";
        table.push(vec![name.into(), "1 TiB".into(), Span::new(Look::Bad, "failed")]);
        table.push(vec!["db".into(), "16 GiB".into(), "serving".into()]);
        table
    }

    #[test]
    fn a_table_that_has_room_is_whole_and_aligned() {
        assert_eq!(
            texts(&sample(Fit::Shorten(8)), None),
            [
                "NAME                          SIZE STATE",
                "/srv/images/a long name.img  1 TiB failed",
                "db                          16 GiB serving",
            ]
        );
        assert_eq!(texts(&sample(Fit::Shorten(8)).without_heads(), Some(100)).len(), 2);
    }

    #[test]
    fn a_wide_table_loses_the_middle_of_its_longest_cells() {
        let lines = texts(&sample(Fit::Shorten(8)), Some(30));
        assert_eq!(lines[1], "/srv…g name.img  1 TiB failed");
        assert!(lines.iter().all(|line| line.width() <= 30), "{lines:?}");
        // Below the minimum the lines are too long, but nothing is lost.
        assert!(texts(&sample(Fit::Shorten(8)), Some(10))[2].ends_with("16 GiB serving"));
    }

    #[test]
    fn long_cells_can_be_broken_instead() {
        let lines = texts(&sample(Fit::Wrap(8)), Some(30));
        assert_eq!(
            lines[1..4],
            ["/srv/images/a    1 TiB failed", "long name.img", "db              16 GiB serving"]
        );
    }

    #[test]
    fn columns_without_room_are_left_out_in_their_order() {
        let heads = ["NAME", "SIZE", "HIT", "PID"];
        let columns = vec![
            Column::text(heads[0], Fit::Shorten(4)),
            Column::number(heads[1]).left_out(1),
            Column::number(heads[2]),
            Column::number(heads[3]).left_out(0),
        ];
        let mut table = Table::new(1, columns);
        table.push(["/srv/db.img", "16 GiB", "5%", "4711"].map(Span::from).into());
        let missing = |width| table.missing(Some(width)).join(" ");
        // Narrow cells come first: 4 + 6 + 3 + 4, and three blanks.
        assert_eq!([30, 20, 19, 15, 14].map(missing), ["", "", "PID", "PID", "SIZE PID"]);
        assert_eq!(
            texts(&table, Some(20)),
            ["NAME   SIZE HIT  PID", "/\u{2026}mg 16 GiB  5% 4711"]
        );
        assert_eq!(
            texts(&table, Some(19))[1],
            "/s\u{2026}.img 16 GiB  5%".replace("/s\u{2026}.img", "/s\u{2026}b.img")
        );
        assert_eq!(texts(&table, Some(2)), ["NAME HIT", "/\u{2026}mg  5%"]);
        assert!(table.missing(None).is_empty());
    }

    #[test]
    fn notes_are_below_their_rows() {
        let mut table = sample(Fit::Whole);
        table.push_note("slow, and its last row");
        table.push(vec!["x".into(), "1 B".into(), "serving".into()]);
        let lines = texts(&table, Some(20));
        assert_eq!(lines[3..5], ["    slow, and its", "    last row"]);
        assert_eq!(texts(&table, None)[3], "    slow, and its last row");
        assert_eq!(table.width(), 27 + 1 + 6 + 1 + 7);
    }

    #[test]
    fn wide_letters_count_twice_and_looks_stay_with_their_cells() {
        let mut table = Table::new(2, vec![Column::text("", Fit::Whole), Column::number("")]);
        table.push(vec!["\u{6570}\u{636e}".into(), "1".into()]);
        table.push(vec![Span::new(Look::Good, "data"), "22".into()]);
        let table = table.without_heads();
        assert_eq!(texts(&table, None), ["\u{6570}\u{636e}   1", "data  22"]);
        assert_eq!(table.lines(None)[1].spans()[0], Span::new(Look::Good, "data"));
        assert_eq!(shortened("\u{6570}\u{636e}\u{6570}\u{636e}", 6), "\u{2026}\u{6570}\u{636e}");
    }
}
