//! A comparison as a table for a terminal.

use crate::comparison::{Against, Cell, Comparison, letter};
use crate::method::method;
use crate::winner::verdict;
use block::printable;
use report::terminal::{Column, Fit, Line, Span, Table, Text, fits, sentence_width};
use report::words::figure;

/// Widest text: wider tables do not fit most windows, nor a mail.
const WIDTH_MAX: usize = 100;

/// Formats the names of the runs, their other differences, the figures, and the method, in lines
/// that fit this width, and are at most 100 columns wide.
pub fn text(comparison: &Comparison, width: Option<usize>) -> Text {
    let width = Some(width.unwrap_or(WIDTH_MAX).min(WIDTH_MAX));
    let mut text = Text::default();
    for (name, run) in comparison.names.iter().zip(&comparison.runs) {
        let line = format!("{name} ({})", run.place);
        text.extend(Line::from(&*printable(&line)).wrapped(sentence_width(width), 2));
    }
    text.push("");
    for sentence in verdict(comparison) {
        text.extend(Line::from(&*printable(&sentence)).wrapped(sentence_width(width), 0));
    }
    if !comparison.circumstances.is_empty() {
        text.extend([Line::default(), Line::heading("Not the same:")]);
        for (name, each) in &comparison.circumstances {
            for (number, value) in each.iter().enumerate() {
                let name = if number == 0 { *name } else { "" };
                let value = if value.is_empty() { "-" } else { value };
                let line = format!("  {name:<14}  {}  {value}", letter(number));
                text.extend(Line::from(&*printable(&line)).wrapped(sentence_width(width), 21));
            }
        }
    }
    tables(&mut text, comparison, width);
    text.push("");
    for sentence in method(comparison) {
        text.extend(Line::from(&*printable(&sentence)).wrapped(sentence_width(width), 0));
    }
    text
}

/// Returns the heads of the table's columns.
pub(crate) fn heads(comparison: &Comparison) -> Vec<String> {
    let mut heads = vec!["test".to_owned(), "unit".to_owned(), "A".to_owned()];
    for number in 1..comparison.runs.len() {
        heads.extend([
            letter(number).to_string(),
            format!("{} against A", letter(number)),
            "verdict".to_owned(),
        ]);
    }
    heads
}

/// Returns the cells of the table, line by line.
pub(crate) fn rows(comparison: &Comparison) -> Vec<Vec<String>> {
    let row = |line: &crate::Line| {
        let mut row = vec![line.test.clone(), line.unit.clone(), cell(line.cells[0].as_ref())];
        for (found, against) in line.cells[1..].iter().zip(&line.against) {
            row.extend([
                cell(found.as_ref()),
                difference(against),
                against.verdict.text().to_owned(),
            ]);
        }
        row
    };
    comparison.lines.iter().map(row).collect()
}

/// Formats a figure with half the width of its interval.
fn cell(cell: Option<&Cell>) -> String {
    match cell {
        None => "-".to_owned(),
        Some(Cell { value, estimate: None, .. }) => figure(*value),
        Some(Cell { value, estimate: Some(it), .. }) => {
            format!("{} ± {}", figure(*value), figure(it.half_width()))
        }
    }
}

fn difference(against: &Against) -> String {
    match (against.percent, against.interval) {
        (None, _) => String::new(),
        (Some(percent), None) => format!("{percent:+.1} %"),
        (Some(percent), Some((low, high))) => format!("{percent:+.1} % ({low:+.1} to {high:+.1})"),
    }
}

/// Columns of a table before those of the compared runs: test, unit, and the figures of A.
const COMMON: usize = 3;
/// Columns of each compared run: its figures, the difference, and the verdict.
const EACH: usize = 3;

/// Adds one table with all runs if it fits, and otherwise one for each compared run.
fn tables(text: &mut Text, comparison: &Comparison, width: Option<usize>) {
    let heads = heads(comparison);
    let compared = (COMMON..heads.len()).collect::<Vec<_>>();
    let whole = table(comparison, &heads, &compared);
    if fits(&whole, width) {
        text.push("");
        return text.extend(whole.lines(width));
    }
    for columns in compared.chunks(EACH) {
        text.push("");
        text.extend(table(comparison, &heads, columns).lines(width));
    }
}

/// Returns the table of these columns beside the common ones.
fn table(comparison: &Comparison, heads: &[String], columns: &[usize]) -> Table {
    let is_verdict = |column: usize| column >= COMMON && column % EACH == EACH - 1;
    let is_difference = |column: usize| column >= COMMON && (column - COMMON) % EACH == 1;
    let shown: Vec<usize> = (0..COMMON).chain(columns.iter().copied()).collect();
    let column = |&number: &usize| match number {
        0 => Column::text(&heads[number], Fit::Wrap(14)),
        1 => Column::text(&heads[number], Fit::Whole),
        _ if is_verdict(number) => Column::text(&heads[number], Fit::Wrap(8)),
        _ if is_difference(number) => Column::number(&heads[number]).fitted(Fit::Wrap(9)),
        _ => Column::number(&heads[number]),
    };
    let mut table = Table::new(2, shown.iter().map(column).collect());
    for cells in rows(comparison) {
        let cell = |&number: &usize| Span::from(&*printable(&cells[number]));
        table.push(shown.iter().map(cell).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::read;

    #[test]
    fn the_table_says_how_sure_each_figure_is() {
        let run = |place: &str, value: u32, samples: &str, time: &str| {
            let near = time == "real";
            let text = format!(
                r#"{{"schema":"overdrive.bench/1","suite":"cdm","target":"t","time":"{time}","rows":[
                {{"test":"read","unit":"MB/s","value":{value},"samples_of":"runs","samples":{samples}}},
                {{"test":"score","unit":"points","value":7,"near_ceiling":{near}}}]}}"#
            );
            read(place, &text).expect("a sound result").remove(0)
        };
        let runs = vec![
            run("a.json", 11, "[10,11,12]", "real"),
            run("b.json", 21, "[20,21,22]", "virtual"),
        ];
        let printed = text(&Comparison::new(runs.clone()).expect("alike"), Some(100)).to_string();
        for part in [
            "A: a.json (a.json)\nB: b.json (b.json)\n",
            "  time            A  real\n                  B  virtual\n",
            "read   MB/s    11.0 ± 2.48  21.0 ± 2.48  +90.9 % (+70.3 to +111.5)  more\n",
            "score  points         7.00         7.00                     +0.0 %  no interval\n",
            "Of 1 compared figures",
            "In virtual time",
            "score of A.\n",
        ] {
            assert!(printed.contains(part), "{part}\nis not in\n{printed}");
        }
        assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
        // Without room for all runs, each is compared in its own table.
        let three = [runs.clone(), vec![runs[0].clone()]].concat();
        let printed = text(&Comparison::new(three).expect("alike"), Some(100)).to_string();
        let heads = printed.lines().filter(|line| line.starts_with("test ")).count();
        assert_eq!(heads, 2, "{printed}");
        assert!(printed.contains(" C against A") && printed.contains("+0.0 % (-20.6"), "{printed}");
        assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    }
}
