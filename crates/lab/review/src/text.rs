//! A review as text for a terminal: at most 100 columns.

use crate::line::{Change, Line as Test, lines};
use crate::published::{Agreement, compare_with_rapid};
use crate::review::Review;
use crate::score::score;
use crate::verdict::{RULES, Verdict, verdict};
use block::printable;
use report::terminal::{Column, Fit, Line, Look, Span, Table, Text, sentence_width};
use report::words::figure;

/// Minimum width of the names of tests.
const TEST_MIN: usize = 14;
/// Maximum width of tables.
const WIDTH_MAX: usize = 100;

/// Returns the review in lines that fit this width.
pub fn text(review: &Review, width: Option<usize>) -> Text {
    let width = Some(width.unwrap_or(WIDTH_MAX).min(WIDTH_MAX));
    let lines = lines(review);
    let verdict = verdict(review, &lines);
    let mut text = Text::default();
    let mut say = |line: Line| text.extend(line.wrapped(sentence_width(width), 0));
    say(Line::heading(heading(review)));
    verdict.sentences.iter().for_each(|sentence| say(Line::from(&*printable(sentence))));
    slower(review, &lines, &verdict).into_iter().for_each(&mut say);
    if !review.complete {
        say(Line::of(Span::new(Look::Doubtful, "Not complete: the same command continues it.")));
    }
    let mut rest = 0;
    while rest < lines.len() {
        let suite = &lines[rest].suite;
        let count = lines[rest..].iter().take_while(|line| line.suite == *suite).count();
        text.push("");
        text.push(Line::heading(suite.clone()));
        text.extend(table(review, &lines[rest..rest + count]).lines(width));
        rest += count;
    }
    let score = score(review);
    if !score.is_empty() {
        let parts = score.iter().map(|it| format!("{} {:.0} %", it.column, it.percent));
        let parts: Vec<String> = parts.collect();
        let baseline = review.baseline.as_ref().map_or("the bare drive", |it| &it.target);
        text.push("");
        text.push(Line::heading(format!("Overall score, relative to {baseline}")));
        text.push(format!("{} ({} tests)", parts.join(", "), score[0].tests));
    }
    let published = published(review, &lines);
    if let Some(table) = published {
        text.push("");
        text.push(Line::heading("RAPID as published, and as imitated"));
        text.extend(table.lines(width));
    }
    text.push("");
    text.push(Line::heading("Rules"));
    let said = RULES.iter().copied().chain(review.method.iter().map(String::as_str));
    for sentence in said {
        text.extend(Line::from(&*printable(sentence)).wrapped(sentence_width(width), 0));
    }
    text
}

/// Returns the title of a review.
pub(crate) fn heading(review: &Review) -> String {
    let extent = match review.extent.as_str() {
        "usual" => String::new(),
        extent => format!("{extent}, "),
    };
    format!(
        "Review of {}: {extent}{} of cache, in {} time",
        printable(&review.title),
        block::Size(review.cache_bytes),
        review.time
    )
}

/// Returns the tests that became slower, in red.
fn slower(review: &Review, lines: &[Test], verdict: &Verdict) -> Vec<Line> {
    let one = |(at, column, ratio): &(usize, usize, f64)| {
        let line = &lines[*at];
        let noise = 100.0 * line.cells[*column].noise.unwrap_or(0.0);
        let name = printable(&line.name()).into_owned();
        let column = &review.columns[*column].name;
        Line::of(Span::new(
            Look::Bad,
            format!("SLOWER: {name}, {column}: {ratio:.3} times the speed, noise {noise:.1} %"),
        ))
    };
    verdict.slower.iter().map(one).collect()
}

/// Returns a figure with its speed as a multiple, and the processor time.
fn cell(cell: &crate::line::Cell) -> Span {
    let Some(value) = cell.value else { return "-".into() };
    let look = match cell.change {
        Change::Faster => Look::Good,
        Change::Slower => Look::Bad,
        Change::Noise | Change::None => Look::Plain,
    };
    let partial = if cell.is_partial { "!" } else { "" };
    let times = cell.ratio.map_or(String::new(), |ratio| format!(" x{ratio:.2}"));
    Span::new(look, format!("{}{times}{partial}", figure(value)))
}

fn table(review: &Review, lines: &[Test]) -> Table {
    let mut columns =
        vec![Column::text("test", Fit::Wrap(TEST_MIN)), Column::text("unit", Fit::Whole)];
    columns.extend(review.columns.iter().map(|column| Column::number(column.name.clone())));
    columns.push(Column::number("noise"));
    columns.push(Column::number("cpu"));
    let mut table = Table::new(2, columns);
    for line in lines {
        let quick = if review.extent == "quick" { " (quick)" } else { "" };
        let mut cells: Vec<Span> = vec![
            format!("{}{quick}", printable(&line.test)).into(),
            printable(&line.unit).into_owned().into(),
        ];
        cells.extend(line.cells.iter().map(cell));
        cells.push(line.noise.map_or("-".to_owned(), |it| format!("{:.1} %", 100.0 * it)).into());
        cells.push(processor(line).into());
        table.push(cells);
    }
    table
}

/// Returns the largest processor time of a line's columns, in percent of one processor.
fn processor(line: &Test) -> String {
    let most = line.cells.iter().filter_map(|cell| cell.processor).reduce(f64::max);
    most.map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

fn published(review: &Review, lines: &[Test]) -> Option<Table> {
    let compared = compare_with_rapid(review, lines);
    if compared.is_empty() {
        return None;
    }
    let columns = vec![
        Column::text("test, on / off", Fit::Wrap(TEST_MIN)),
        Column::number("published"),
        Column::number("imitated"),
        Column::number("error"),
        Column::number("this cache"),
        Column::text("figure", Fit::Whole),
        Column::text("agreement", Fit::Wrap(TEST_MIN)),
    ];
    let mut table = Table::new(2, columns);
    let times = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
    for it in compared {
        let look = match it.agreement {
            Agreement::Direction => Look::Bad,
            Agreement::Size => Look::Doubtful,
            Agreement::Good | Agreement::Short | Agreement::Unknown => Look::Plain,
        };
        let error = it.error.map_or("-".to_owned(), |error| format!("{:+.0} %", 100.0 * error));
        table.push(vec![
            it.figure.what.into(),
            it.figure.words().into(),
            times(it.found).into(),
            error.into(),
            times(it.own).into(),
            it.figure.how.word().into(),
            Span::new(look, it.agreement.words()),
        ]);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::sample;

    #[test]
    fn the_verdict_is_first_and_tables_fit() {
        let text = text(&sample(), None);
        let lines: Vec<String> = text.into_iter().map(|line| line.to_string()).collect();
        assert!(lines[0].starts_with("Review of X: quick, 1 GiB of cache"), "{lines:?}");
        assert!(lines[1].starts_with("The cache helps at a price"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("SLOWER: qd1: random 4 KiB read")));
        assert!(lines.iter().any(|line| line.contains("300 x3.00")), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH_MAX), "{lines:#?}");
    }
}
