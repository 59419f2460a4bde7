//! An outcome as one HTML page that needs nothing else: verdict, plots, table, method, raw data.

use super::plot::escaped;
use super::text::{figure, latencies, notes};
use crate::outcome::Outcome;
use crate::suite::{self, Suite};
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --rule: #d8dde3; --paper: #ffffff;
  --one: #0b62c4; --two: #c2410c; --three: #15803d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --rule: #343b43;
  --paper: #14181c; --one: #6db1ff; --two: #fb923c; --three: #4ade80; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.sub { color: var(--soft); margin-top: .2rem; } .verdict { font-size: 1.1rem; }
svg { width: 100%; height: auto; margin: .6rem 0; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .title { font-size: 14px; font-weight: 600; }
svg .tick, svg .name { fill: var(--soft); } svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .axis, svg .mark { stroke: var(--soft); stroke-width: 1; }
svg .dots { stroke-width: 2.4; stroke-linecap: round; fill: none; opacity: .75; }
svg .line { stroke-width: 1.6; fill: none; stroke-linejoin: round; } svg .bar { fill: var(--one); }
svg .c0 { stroke: var(--one); } svg .c1 { stroke: var(--two); } svg .c2 { stroke: var(--three); }
svg .f0 { fill: var(--one); } svg .f1 { fill: var(--two); } svg .f2 { fill: var(--three); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { padding: .3rem .4rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; } th { color: var(--soft); font-weight: 500; }
td:first-child, th:first-child, td:last-child, td:nth-child(3) { text-align: left; }
pre { overflow: auto; max-height: 24rem; font-size: .75rem; border: 1px solid var(--rule); padding: .6rem; }
";

/// The page.
pub fn page(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    let cached = plan.cache.as_ref();
    let with = cached.map_or("bare".to_owned(), |cache| format!("{} of cache", cache.memory));
    let title = escaped(&format!("{}: {}, {with}", plan.suite.name, plan.target.title()));
    let suite = suite::find(plan.suite.name);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"sub\">{} in {} time; {}; Overdrive {}</p>\n\
         <p class=\"verdict\">{}</p>\n",
        if plan.target.model.is_some() { "A modelled drive" } else { "A stack" },
        outcome.time,
        escaped(&plan.target.text),
        env!("CARGO_PKG_VERSION"),
        escaped(&verdict(outcome, suite))
    );
    let plots = suite.map_or(Vec::new(), |suite| suite.plots(outcome));
    plots.iter().for_each(|svg| page.push_str(svg));
    table(&mut page, outcome);
    method(&mut page, outcome);
    let raw = serde_json::to_string_pretty(&super::json(outcome)).unwrap_or_default();
    _ = write!(
        page,
        "<h2>Raw data</h2>\n<details><summary>overdrive.bench/1</summary>\n\
         <pre id=\"raw\">{}</pre></details>\n</body>\n</html>\n",
        escaped(&raw)
    );
    page
}

/// One sentence: what there is to see.
fn verdict(outcome: &Outcome, suite: Option<&dyn Suite>) -> String {
    let told = suite.and_then(|suite| suite.verdict(outcome));
    let told = told.unwrap_or_else(|| format!("{} tests.", outcome.rows.len()));
    if outcome.complete {
        told
    } else {
        format!("Interrupted; what was measured until then: {told}")
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
    if outcome.plan.cache.is_some() {
        page.push_str(
            " The cache is the engine that serves; each piece of its work is charged what it took on \
             the machine that the prices in the raw data were measured on.",
        );
    }
    page.push_str("</p>\n");
}
