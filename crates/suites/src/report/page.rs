//! An outcome as one HTML page that needs nothing else: verdict, plots, table, method, raw data.

use super::text::{latencies, notes};
use crate::outcome::Outcome;
use crate::suite::{self, Suite};
use report::page::Page;
use report::plot::escaped;
use report::words::figure;
use std::fmt::Write;

const STYLE: &str =
    "td:first-child, th:first-child, td:last-child, td:nth-child(3) { text-align: left; }\n";

/// The page.
pub fn page(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let cached = plan.cache.as_ref();
    let with = cached.map_or("bare".to_owned(), |cache| format!("{} of cache", cache.memory));
    let suite = suite::find(plan.suite.name);
    let plots = suite.map_or(Vec::new(), |suite| suite.plots(outcome));
    let mut parts = plots.concat();
    table(&mut parts, outcome);
    method(&mut parts, outcome);
    let page = Page {
        title: &format!("{}: {}, {with}", plan.suite.name, plan.target.title()),
        sub: &format!(
            "{} in {} time; {}; Overdrive {}",
            if plan.target.model.is_some() { "A modelled drive" } else { "A stack" },
            outcome.time,
            plan.target.text,
            env!("CARGO_PKG_VERSION"),
        ),
        verdict: &verdict(outcome, suite),
        style: STYLE,
        parts: &parts,
        schema: "overdrive.bench/1",
        raw: &serde_json::to_string_pretty(&super::json(outcome)).unwrap_or_default(),
    };
    page.html()
}

/// One sentence: what there is to see.
fn verdict(outcome: &Outcome, suite: Option<&dyn Suite>) -> String {
    let told = suite.and_then(|suite| suite.verdict(outcome));
    let told = told.unwrap_or_else(|| format!("{} tests.", outcome.rows.len()));
    if outcome.complete {
        told
    } else {
        format!("Not complete; what was measured until then: {told}")
    }
}

fn table(page: &mut String, outcome: &Outcome) {
    page.push_str(
        "<h2>Figures</h2>\n<div class=\"wide\"><table>\n<tr><th>test</th><th>value</th><th></th>\
         <th>mean</th><th>p50</th><th>p99</th><th>p99.99</th><th>max</th><th></th></tr>\n",
    );
    for row in &outcome.rows {
        _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td>",
            escaped(&row.test),
            figure(row.value),
            row.unit
        );
        latencies(row).iter().for_each(|cell| _ = write!(page, "<td>{cell}</td>"));
        _ = writeln!(page, "<td>{}</td></tr>", escaped(&notes(row)));
    }
    page.push_str("</table></div>\n");
}

fn method(page: &mut String, outcome: &Outcome) {
    page.push_str("<h2>Method</h2>\n");
    for sentence in &outcome.method {
        _ = writeln!(page, "<p>{}</p>", escaped(sentence));
    }
    page.push_str("<p>Latency counts from when a request was due; rates count the final flush.");
    if outcome.plan.target.model.is_some() {
        page.push_str(
            " The drive is a model: each of its numbers has a source, or is marked as assumed, in its \
             file.",
        );
    }
    if outcome.plan.cache.is_some() && outcome.time == "virtual" {
        page.push_str(
            " The cache is the engine that serves; each piece of its work is charged what it took on \
             the machine that the prices in the raw data were measured on.",
        );
    }
    page.push_str("</p>\n");
    if !outcome.facts.is_empty() {
        let facts = outcome.facts.iter().map(|(name, value)| format!("{name}: {value}"));
        let facts: Vec<String> = facts.collect();
        _ = writeln!(page, "<p>{}.</p>", escaped(&facts.join("; ")));
    }
}
