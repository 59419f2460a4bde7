//! An outcome as one self-contained HTML page: verdict, plots, tables, method, raw data.

use super::text::{latencies, notes};
use crate::outcome::Outcome;
use crate::plots;
use crate::published::{FigureComparison, compare_with_published};
use crate::suite::{self, Suite};
use report::page::{Page, facts, section, side_by_side};
use report::plot::escaped;
use report::words::figure;
use std::fmt::Write;

const STYLE: &str = "\
.figures td:first-child, .figures th:first-child, .figures td:last-child, .figures td:nth-child(3),
.published td, .published th { text-align: left; } .figures td:last-child, .published td:first-child,
.published td:nth-last-child(-n+3) { white-space: normal; min-width: 11rem; }
.published td:nth-last-child(3) { min-width: 0; }
";

/// Returns the page.
pub fn page(outcome: &Outcome) -> String {
    overlaid(std::slice::from_ref(outcome))
}

/// Returns one page of several outcomes of a suite that differ in the spare part only.
///
/// # Panics
/// If there is none.
pub fn overlaid(outcomes: &[Outcome]) -> String {
    let looked_up: Vec<Outcome> = outcomes.iter().map(with_published).collect();
    let outcomes = looked_up.as_slice();
    let outcome = outcomes.first().expect("an outcome");
    let plan = &outcome.plan;
    let cached = plan.cache.as_ref();
    let with = cached.map_or("bare".to_owned(), |cache| format!("{} of cache", cache.memory));
    let suite = suite::find(plan.suite.name);
    let drawn = suite.map_or(Vec::new(), |suite| suite.overlaid(outcomes));
    let mut parts = side_by_side(&drawn);
    parts += &section("Latency over time", &side_by_side(&plots::latencies(outcomes)));
    parts += &section("Published and modelled", &published(outcomes));
    parts += &section("Figures", &outcomes.iter().map(table).collect::<String>());
    parts += &section("Service times", &side_by_side(&plots::service_times(outcomes)));
    if plots::leaves_out(outcomes) {
        parts.push_str(
            "<p class=\"sub\">The plots show some of the tests; the raw data has all.</p>\n",
        );
    }
    parts += &section("Method", &method(outcomes));
    let page = Page {
        title: &format!("{}: {}, {with}", plan.suite.name, plan.target.title()),
        sub: &format!(
            "{} in {} time; {}; Overdrive {}",
            if plan.target.model.is_some() { "A modelled drive" } else { "A stack" },
            outcome.time,
            plan.target.text,
            env!("CARGO_PKG_VERSION"),
        ),
        verdict: &verdicts(outcomes, suite),
        style: STYLE,
        parts: &parts,
        schema: super::json::SCHEMA,
        raw: &super::json::lines(&super::json_of(outcomes)),
    };
    page.html()
}

fn with_published(outcome: &Outcome) -> Outcome {
    let published =
        compare_with_published(outcome).iter().map(FigureComparison::published).collect();
    Outcome { published, ..outcome.clone() }
}

/// Returns the verdicts, a sentence for each outcome.
fn verdicts(outcomes: &[Outcome], suite: Option<&dyn Suite>) -> String {
    let verdicts = outcomes.iter().map(|outcome| match outcomes.len() {
        1 => verdict(outcome, suite),
        _ => format!("{}: {}", plots::variant(outcome), verdict(outcome, suite)),
    });
    verdicts.collect::<Vec<_>>().join("\n")
}

fn verdict(outcome: &Outcome, suite: Option<&dyn Suite>) -> String {
    let told = suite.and_then(|suite| suite.verdict(outcome));
    let told = told.unwrap_or_else(|| format!("{} tests.", outcome.rows.len()));
    if outcome.complete { told } else { format!("Not complete. Until it ended: {told}") }
}

fn table(outcome: &Outcome) -> String {
    let mut table = String::new();
    if outcome.plan.spare_percent > 0 {
        _ = writeln!(table, "<h3>{}</h3>", plots::variant(outcome));
    }
    table.push_str(
        "<div class=\"wide\"><table class=\"figures\">\n<tr><th>test</th><th>value</th><th></th>\
         <th>mean</th><th>p50</th><th>p99</th><th>p99.99</th><th>max</th><th></th></tr>\n",
    );
    for row in &outcome.rows {
        _ = write!(
            table,
            "<tr><td>{}</td><td>{}</td><td>{}</td>",
            escaped(&row.test),
            figure(row.value),
            row.unit
        );
        latencies(row).iter().for_each(|cell| _ = write!(table, "<td>{cell}</td>"));
        _ = writeln!(table, "<td>{}</td></tr>", escaped(&notes(row)));
    }
    table.push_str("</table></div>\n");
    table
}

/// Returns a table of the drive's published figures and the measured ones; empty if there are none.
fn published(outcomes: &[Outcome]) -> String {
    let mut rows = String::new();
    for it in outcomes.iter().flat_map(compare_with_published) {
        let error = 100.0 * it.figure.wanted.error(it.found);
        _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{error:+.0} %</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escaped(&it.figure.what),
            it.figure.wanted.to_text(),
            figure(it.found),
            it.figure.unit,
            it.figure.worth.name(),
            escaped(&it.figure.source),
            escaped(it.differs.as_deref().unwrap_or("")),
        );
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<p>Only 'predicted' rows test the model. 'Fitted' figures were used to tune it; 'circular' \
         figures are its own values.</p>\n\
         <div class=\"wide\"><table class=\"published\">\n<tr><th>figure</th><th>published</th><th>modelled</th>\
         <th></th><th>difference</th><th>evidence</th><th>source</th><th>differences of the \
         test</th></tr>\n{rows}</table></div>\n"
    )
}

fn method(outcomes: &[Outcome]) -> String {
    let mut html = String::new();
    let mut said: Vec<&str> = Vec::new();
    for sentence in outcomes.iter().flat_map(|outcome| &outcome.method) {
        if !said.contains(&sentence.as_str()) {
            said.push(sentence);
            _ = writeln!(html, "<p>{}</p>", escaped(sentence));
        }
    }
    let Some(outcome) = outcomes.first() else { return html };
    html.push_str(
        "<p>Latency is measured from the time at which a request was due. Rates include the final \
         flush.",
    );
    if outcome.plan.target.model.is_some() {
        html.push_str(
            " The drive is a model: each of its numbers has a source, or is marked as assumed, in its \
             file.",
        );
    }
    if outcome.plan.cache.is_some() && outcome.time == "virtual" {
        html.push_str(
            " The cache is the engine of 'overdrive serve'. Its work takes simulated time: the raw \
             data has the costs, and the machine on which they were measured.",
        );
    }
    html.push_str("</p>\n");
    html + &facts(&known(outcome))
}

/// Returns facts about the drive, its state, the machine and the command.
fn known(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let plan = &outcome.plan;
    let listed = |facts: &[(&str, String)]| {
        let facts = facts.iter().map(|(name, value)| format!("{name}: {value}"));
        facts.collect::<Vec<_>>().join("; ")
    };
    let machine = match outcome.time {
        "virtual" => "none: the time is virtual".to_owned(),
        _ => listed(&outcome.machine),
    };
    let state = plan.state.name().map_or_else(|| plan.state.to_string(), str::to_owned);
    let prepared = match plan.preparation.0.is_empty() {
        true => "nothing more".to_owned(),
        false => plan.preparation.to_string(),
    };
    let size = block::Size(plan.target.bytes());
    let facts = [
        ("command", outcome.command.join(" ")),
        ("target", format!("{}, {size}", plan.target.text)),
        ("device", listed(&outcome.facts)),
        ("state before", state),
        ("prepared by", prepared),
        ("worked on", format!("the first {}", block::Size(plan.span()))),
        ("shortened", plan.shortened().unwrap_or_default()),
        ("cache", plan.cache.as_ref().map_or("none".to_owned(), |it| it.memory.to_string())),
        ("seed", plan.target.options.seed.to_string()),
        ("machine", machine),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}
