//! An outcome as one self-contained HTML page: verdict, plots, tables, method, raw data.

use super::headline::headline;
use super::text::{latencies, notes};
use crate::outcome::{Outcome, Row};
use crate::plots;
use crate::published::{FigureComparison, compare_with_published};
use crate::suite;
use report::circumstances;
use report::notes::Notes;
use report::page::{Page, facts, section, side_by_side};
use report::plot::escaped;
use report::table::{Head, TableCell};
use report::words::figure;
use std::fmt::Write;

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
        title: &format!("{}: {}, {with}", suite::title(plan.suite.name), plan.target.title()),
        sub: &origin(outcome),
        verdict: &verdicts(outcomes),
        style: "",
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

/// Returns when, on which machine and on which device it was measured, in words.
fn origin(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let mut parts = vec![match plan.target.model {
        Some(_) => format!("A modelled drive in {} time, {}", outcome.time, plan.target.text),
        None => format!("Measured in {} time on {}", outcome.time, plan.target.text),
    }];
    parts.extend(outcome.at.as_deref().map(circumstances::date));
    let shown = ["device_model", "device_firmware", "processor", "memory_bytes", "kernel"];
    let facts = || outcome.facts.iter().chain(&outcome.machine);
    for name in shown {
        let found = facts().find(|(known, _)| *known == name);
        parts.extend(found.map(|(name, value)| circumstances::sentence([(*name, value.as_str())])));
    }
    parts.push(format!("Overdrive {}", env!("CARGO_PKG_VERSION")));
    parts.join("; ")
}

/// Returns the verdicts, a sentence for each outcome.
fn verdicts(outcomes: &[Outcome]) -> String {
    let verdicts = outcomes.iter().map(|outcome| match outcomes.len() {
        1 => verdict(outcome),
        _ => format!("{}: {}", plots::variant(outcome), verdict(outcome)),
    });
    verdicts.collect::<Vec<_>>().join("\n")
}

fn verdict(outcome: &Outcome) -> String {
    let sentence = headline(outcome);
    if outcome.complete { sentence } else { format!("Not complete. Until it ended: {sentence}") }
}

fn table(outcome: &Outcome) -> String {
    // A page may have the tables of several variants.
    let (heading, name) = match outcome.plan.spare_percent {
        0 => (String::new(), "Figures".to_owned()),
        _ => {
            let variant = plots::variant(outcome);
            (format!("<h3>{variant}</h3>\n"), format!("Figures, {variant}"))
        }
    };
    let all: Vec<Vec<String>> = outcome.rows.iter().map(notes).collect();
    let notes = Notes::of(&all);
    let mut heads = vec![Head::text("test"), Head::number("value"), Head::text("unit")];
    heads.extend(["mean", "p50", "p99", "p99.99", "max"].map(Head::number));
    if !notes.footnotes.is_empty() {
        heads.push(Head::text("notes"));
    }
    let row = |(number, row): (usize, &Row)| {
        let mut cells: Vec<TableCell> =
            vec![row.test.as_str().into(), figure(row.value).into(), row.unit.into()];
        cells.extend(latencies(row).map(TableCell::from));
        cells.push(notes.cell(number).into());
        cells
    };
    let rows: Vec<Vec<TableCell>> = outcome.rows.iter().enumerate().map(row).collect();
    heading + &report::table::table(&name, &heads, &rows) + &notes.html()
}

/// Returns a table of the drive's published figures and the measured ones; empty if there are none.
fn published(outcomes: &[Outcome]) -> String {
    let row = |it: FigureComparison| -> Vec<TableCell> {
        let error = 100.0 * it.figure.wanted.error(it.found);
        vec![
            it.figure.what.clone().into(),
            it.figure.wanted.to_text().into(),
            figure(it.found).into(),
            it.figure.unit.into(),
            format!("{error:+.0} %").into(),
            it.figure.worth.name().into(),
            it.figure.source.clone().into(),
            it.differs.unwrap_or_default().into(),
        ]
    };
    let rows: Vec<Vec<TableCell>> =
        outcomes.iter().flat_map(compare_with_published).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = [
        Head::text("figure"),
        Head::number("published"),
        Head::number("modelled"),
        Head::text("unit"),
        Head::number("difference"),
        Head::text("evidence"),
        Head::text("source"),
        Head::text("differences of the test"),
    ];
    let table = report::table::table("Published and modelled", &heads, &rows);
    format!(
        "<p>Only 'predicted' rows test the model. 'Fitted' figures were used to tune it; 'circular' \
         figures are its own values.</p>\n{table}"
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
        circumstances::sentence(facts.iter().map(|(name, value)| (*name, value.as_str())))
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
        ("date", outcome.at.as_deref().map_or_else(String::new, circumstances::date)),
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
