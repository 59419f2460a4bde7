//! A review as one self-contained HTML page.

use crate::json::{SCHEMA, json};
use crate::line::{Change, Line, lines};
use crate::published::{Agreement, Comparison, compare_with_rapid};
use crate::review::{RAPID_COLUMN, Review};
use crate::score::score;
use crate::text::heading;
use crate::verdict::{RULES, Verdict, verdict};
use report::bars::{Bar, Test, bars};
use report::page::{Page, facts, section, side_by_side};
use report::plot::escaped;
use report::table::scrolled;
use report::words::figure;
use std::fmt::Write;

/// Red that is readable on both papers, and tables whose first column is text.
const STYLE: &str = "\
:root { --bad: #b91c1c; --good: #15803d; }
@media screen and (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #4ade80; } }
.slower { color: var(--bad); font-weight: 600; } .faster { color: var(--good); }
ul.slower { padding-left: 1.2rem; } .rows td:first-child, .rows th:first-child { text-align: left;
white-space: normal; min-width: 9rem; }
@media screen and (max-width: 40rem) { .rows, .rows tbody, .rows tr, .rows td { display: block; }
.rows tr:first-child { display: none; } .rows td { text-align: left; border: 0; padding: .05rem 0; }
.rows tr { border-bottom: 1px solid var(--rule); padding: .4rem 0; }
.rows td:not(:first-child)::before { content: attr(data-name) ': '; color: var(--soft); } }
";

/// Returns the page.
pub fn page(review: &Review) -> String {
    let lines = lines(review);
    let verdict = verdict(review, &lines);
    let published = compare_with_rapid(review, &lines);
    let mut parts = slower(review, &lines, &verdict);
    parts += &section("Overall score", &scores(review));
    for (suite, lines) in by_suite(&lines) {
        let charts = side_by_side(&charts(review, &lines, &published));
        parts += &section(suite, &format!("{charts}{}", table(suite, review, &lines)));
    }
    parts += &section("RAPID as published, and as imitated", &rapid(&published));
    parts += &section("Method", &method(review));
    let page = Page {
        title: &heading(review),
        sub: &format!(
            "{}; {} tests; Overdrive {}",
            review.target,
            lines.len(),
            env!("CARGO_PKG_VERSION")
        ),
        verdict: &sentences(review, &verdict),
        style: STYLE,
        parts: &parts,
        schema: SCHEMA,
        raw: &json(review).to_string(),
    };
    page.html()
}

fn sentences(review: &Review, verdict: &Verdict) -> String {
    let text = verdict.sentences.join("\n");
    if review.complete { text } else { format!("Not complete.\n{text}") }
}

/// Returns the lines of each suite.
fn by_suite(lines: &[Line]) -> Vec<(&str, Vec<&Line>)> {
    let mut suites: Vec<(&str, Vec<&Line>)> = Vec::new();
    for line in lines {
        match suites.iter_mut().find(|(name, _)| *name == line.suite) {
            Some((_, of)) => of.push(line),
            None => suites.push((&line.suite, vec![line])),
        }
    }
    suites
}

/// Returns the tests that became slower, as a list in red.
fn slower(review: &Review, lines: &[Line], verdict: &Verdict) -> String {
    let mut items = String::new();
    for (at, column, ratio) in &verdict.slower {
        let (line, name) = (&lines[*at], &review.columns[*column].name);
        _ = writeln!(
            items,
            "<li>Slower: {}, {name}: {ratio:.3} times the speed, noise {:.1} %</li>",
            escaped(&line.name()),
            100.0 * line.cells[*column].noise.unwrap_or(0.0)
        );
    }
    if items.is_empty() { items } else { format!("<ul class=\"slower\">\n{items}</ul>\n") }
}

fn scores(review: &Review) -> String {
    let tests: Vec<Test> = score(review)
        .into_iter()
        .map(|score| Test {
            name: score.column,
            bars: vec![Some(Bar { value: score.percent, interval: None })],
            published: None,
        })
        .collect();
    if tests.is_empty() {
        return String::new();
    }
    let baseline = review.baseline.as_ref().map_or("the bare drive", |drive| &drive.target);
    side_by_side(&[bars(&format!("Relative to {baseline}"), "%", &[], &tests)])
}

/// Returns a chart for each unit; the published figures of RAPID are marks in it.
fn charts(review: &Review, lines: &[&Line], published: &[Comparison]) -> Vec<String> {
    let mut units: Vec<&str> = Vec::new();
    for line in lines {
        if !units.contains(&line.unit.as_str()) {
            units.push(&line.unit);
        }
    }
    let names: Vec<String> = review.columns.iter().map(|column| column.name.clone()).collect();
    let chart = |unit: &str| {
        let of_unit = lines.iter().filter(|line| line.unit == unit);
        let tests = of_unit.map(|line| Test {
            name: line.test.clone(),
            bars: line
                .cells
                .iter()
                .map(|cell| cell.value.map(|value| Bar { value, interval: None }))
                .collect(),
            published: published_value(line, published),
        });
        bars(&lines[0].suite, unit, &names, &tests.collect::<Vec<_>>())
    };
    units.into_iter().map(chart).collect()
}

/// Returns RAPID's published speed for a test, from the bare figure.
fn published_value(line: &Line, published: &[Comparison]) -> Option<(f64, f64)> {
    let bare = line.cells.first()?.value?;
    let ratio = published.iter().find_map(|it| it.figure.ratio_of(line))?;
    let (low, high) = match line.is_time {
        true => (bare / ratio.1, bare / ratio.0),
        false => (bare * ratio.0, bare * ratio.1),
    };
    (low > 0.0 && high.is_finite()).then_some((low, high))
}

fn table(suite: &str, review: &Review, lines: &[&Line]) -> String {
    let mut html = "<table class=\"rows\">\n<tr><th>test</th>".to_owned();
    for column in &review.columns {
        _ = write!(html, "<th>{}</th>", escaped(&column.name));
    }
    html.push_str("<th>noise</th></tr>\n");
    let quick = if review.extent == "quick" { " (quick)" } else { "" };
    for line in lines {
        let (test, unit) = (escaped(&line.test), escaped(&line.unit));
        _ = write!(html, "<tr><td>{test}, {unit}{quick}</td>");
        for (column, cell) in review.columns.iter().zip(&line.cells) {
            let class = match cell.change {
                Change::Faster => " class=\"faster\"",
                Change::Slower => " class=\"slower\"",
                Change::Noise | Change::None => "",
            };
            let name = escaped(&column.name);
            _ = write!(html, "<td{class} data-name=\"{name}\">{}</td>", words(cell));
        }
        let noise = line.noise.map_or("-".to_owned(), |noise| format!("{:.1} %", 100.0 * noise));
        _ = writeln!(html, "<td data-name=\"noise\">{noise}</td></tr>");
    }
    scrolled(&escaped(suite), &(html + "</table>"))
}

/// Returns a figure, its speed as a multiple, and the processor time.
fn words(cell: &crate::line::Cell) -> String {
    let Some(value) = cell.value else { return "-".to_owned() };
    let ratio = cell.ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2} x)"));
    let processor = cell.processor.map(|share| format!(", {:.0} % cpu", 100.0 * share));
    let partial = if cell.is_partial { ", not complete" } else { "" };
    format!("{}{ratio}{}{partial}", figure(value), processor.unwrap_or_default())
}

fn rapid(published: &[Comparison]) -> String {
    if published.is_empty() {
        return String::new();
    }
    let mut html = "<table class=\"rows\">\n<tr><th>test</th><th>published</th><th>imitated</th>\
         <th>error</th><th>this cache</th><th>figure</th><th>agreement</th></tr>\n"
        .to_owned();
    let times = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
    for it in published {
        let class = match it.agreement {
            Agreement::Direction => " class=\"slower\"",
            Agreement::Size | Agreement::Good | Agreement::Short | Agreement::Unknown => "",
        };
        let error = it.error.map_or("-".to_owned(), |error| format!("{:+.0} %", 100.0 * error));
        _ = writeln!(
            html,
            "<tr><td>{}</td><td data-name=\"published\">{}</td><td data-name=\"imitated\">{}</td>\
             <td data-name=\"error\">{error}</td><td data-name=\"this cache\">{}</td>\
             <td data-name=\"figure\">{}</td><td{class} data-name=\"agreement\">{}</td></tr>",
            escaped(it.figure.what),
            it.figure.words(),
            times(it.found),
            times(it.own),
            it.figure.how.word(),
            it.agreement.words()
        );
    }
    format!(
        "<p>Ratios of on to off. The numbers of the column '{RAPID_COLUMN}' were set on the figures \
         marked 'set'; all others are predictions.</p>\n{}",
        scrolled("RAPID as published, and as imitated", &(html + "</table>"))
    )
}

fn method(review: &Review) -> String {
    let mut html = String::new();
    let said = RULES.iter().copied().chain(review.method.iter().map(String::as_str));
    said.for_each(|sentence| _ = writeln!(html, "<p>{}</p>", escaped(sentence)));
    let known = [("command", review.command.join(" ")), ("target", review.target.clone())];
    let known: Vec<(&str, String)> = known
        .into_iter()
        .chain(review.facts.iter().map(|(name, value)| (name.as_str(), value.clone())))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    html + &facts(&known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::sample;

    #[test]
    fn a_page_has_what_got_slower_first_and_no_link() {
        let page = page(&sample());
        let slower = page.find("<ul class=\"slower\">").expect("a slower test");
        assert!(slower < page.find("<h2>").expect("a section"), "before all else");
        assert!(page.contains("<th>rapid</th>") && page.contains("300 (3.00 x)"));
        assert!(page.contains("class=\"put\""), "the published figure is a mark");
        assert!(!page.contains("<th></th>"), "each column has a heading");
        assert!(!page.contains("http:") && !page.contains("https:"), "no address");
    }
}
