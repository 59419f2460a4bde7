//! A comparison as a table for a terminal.

use crate::comparison::{Against, Cell, Comparison, letter};
use crate::method::method;
use report::words::figure;
use std::fmt::Write;

/// Formats the names of the runs, their other differences, the figures, and the method.
pub fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (name, run) in comparison.names.iter().zip(&comparison.runs) {
        _ = writeln!(text, "{name} ({})", run.place);
    }
    if !comparison.circumstances.is_empty() {
        text.push_str("\nNot the same:\n");
        for (name, each) in &comparison.circumstances {
            for (number, value) in each.iter().enumerate() {
                let name = if number == 0 { *name } else { "" };
                let value = if value.is_empty() { "-" } else { value };
                _ = writeln!(text, "  {name:<14}  {}  {value}", letter(number));
            }
        }
    }
    text.push('\n');
    table(&mut text, comparison);
    text.push('\n');
    method(comparison).iter().for_each(|sentence| text += &wrapped(sentence));
    text
}

/// Returns the heads of the table's columns.
pub(crate) fn heads(comparison: &Comparison) -> Vec<String> {
    let mut heads = vec!["test".to_owned(), String::new(), "A".to_owned()];
    for number in 1..comparison.runs.len() {
        heads.extend([
            letter(number).to_string(),
            format!("{} against A", letter(number)),
            String::new(),
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

fn table(text: &mut String, comparison: &Comparison) {
    let mut lines = vec![heads(comparison)];
    lines.extend(rows(comparison));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..lines[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    for line in &lines {
        let mut padded = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            // Text is aligned left: test, unit and verdicts.
            let is_word = column < 2 || column % 3 == 2 && column > 2;
            _ = match is_word {
                true => write!(padded, "{cell:<width$}  "),
                false => write!(padded, "{cell:>width$}  "),
            };
        }
        _ = writeln!(text, "{}", padded.trim_end());
    }
}

/// Wraps a sentence at 100 characters.
fn wrapped(sentence: &str) -> String {
    let (mut lines, mut length) = (String::new(), 0);
    for word in sentence.split(' ') {
        let letters = word.chars().count();
        if length > 0 {
            let breaks = length + 1 + letters > 100;
            lines.push(if breaks { '\n' } else { ' ' });
            length = if breaks { 0 } else { length + 1 };
        }
        lines.push_str(word);
        length += letters;
    }
    lines + "\n"
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
        let printed = text(&Comparison::new(runs).expect("alike"));
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
    }
}
