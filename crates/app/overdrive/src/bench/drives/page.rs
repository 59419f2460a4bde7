//! Drives side by side as one self-contained page.

use super::SCHEMA;
use super::charts::{Chart, charts, list, text_of};
use ::report::chart::{Percentiles, percentiles};
use ::report::page::{Page, facts, section, side_by_side};
use ::report::plot::escaped;
use ::report::ranking::ranking;
use ::report::table::{Head, TableCell, table};
use ::report::words::{figure, time};
use serde_json::Value;

/// Maximum numbers of charts, and of curves in one; the JSON has the others.
const CHARTS_MAX: usize = 24;
const PERCENTILES_MAX: usize = 8;
const CURVES_MAX: usize = 6;
const ROWS_MAX: usize = 600;

/// Returns the page.
pub(super) fn page(result: &Value) -> String {
    let charts = charts(result);
    let ranked: Vec<String> = charts
        .iter()
        .take(CHARTS_MAX)
        .map(|chart| ranking(&chart.test, &chart.unit, &chart.states, &chart.entries))
        .collect();
    let mut parts = side_by_side(&ranked);
    if charts.len() > CHARTS_MAX {
        parts += &format!(
            "<p class=\"sub\">{CHARTS_MAX} of {} tests are drawn; the raw data has all.</p>\n",
            charts.len()
        );
    }
    parts += &section("Latencies", &side_by_side(&latencies(result, &charts)));
    parts += &section("Figures", &figures(result));
    parts += &section("Method", &method(result));
    let title = text_of(&result["suite_title"]);
    let count = list(&result["drives"]).count();
    let page = Page {
        title: &format!("{title}: {count} modelled drives"),
        sub: &format!(
            "Modelled drives in virtual time, each fresh from its preparation; no date: a model gives \
             the same result on each day; Overdrive {}",
            env!("CARGO_PKG_VERSION")
        ),
        verdict: &verdict(result, &charts),
        style: "",
        parts: &parts,
        schema: SCHEMA,
        raw: &result.to_string(),
    };
    page.html()
}

/// Names the best drive of the first tests, and the place of the reader's own.
fn verdict(result: &Value, charts: &[Chart]) -> String {
    let mut lines = Vec::new();
    if result["complete"] != true {
        lines.push("Not complete: some drives were not tested yet.".to_owned());
    }
    for chart in charts.iter().take(4) {
        let Some(best) = chart.entries.first() else { continue };
        let value = best.bars.iter().flatten().next().map_or(0.0, |bar| bar.value);
        let mut line =
            format!("{}: {} leads with {} {}", chart.test, best.name, figure(value), chart.unit);
        if let Some(place) = chart.entries.iter().position(|entry| entry.is_own) {
            line += &format!("; {} is number {}", chart.entries[place].name, place + 1);
        }
        lines.push(line + ".");
    }
    lines.join("\n")
}

/// The percentiles that a row has.
const QUANTILES: [(&str, f64); 5] = [
    ("p50_ns", 0.5),
    ("p90_ns", 0.9),
    ("p99_ns", 0.99),
    ("p99_9_ns", 0.999),
    ("p99_99_ns", 0.9999),
];

/// Plots latencies by percentile: of the reader's own drive, and of the best ones.
fn latencies(result: &Value, charts: &[Chart]) -> Vec<String> {
    let plot = |chart: &Chart| {
        let own = chart.entries.iter().filter(|entry| entry.is_own);
        let others = chart.entries.iter().filter(|entry| !entry.is_own);
        let shown: Vec<_> = own.chain(others).take(CURVES_MAX).collect();
        let found = shown.iter().filter_map(|entry| {
            let drive =
                list(&result["drives"]).find(|drive| drive["title"] == entry.name.as_str())?;
            let row = list(&drive["rows"]).find(|row| row["test"] == chart.test.as_str())?;
            let requests = row["requests"].as_f64()?;
            let points =
                QUANTILES.iter().filter(|(_, quantile)| (1.0 - quantile) * requests >= 1.0);
            let points =
                points.filter_map(|(key, quantile)| Some((*quantile, row[*key].as_f64()?)));
            let points: Vec<(f64, f64)> = points.collect();
            (points.len() > 1).then_some(Percentiles { name: &entry.name, points })
        });
        let found: Vec<Percentiles<'_>> = found.collect();
        (found.len() > 1).then(|| percentiles(&chart.test, &found))
    };
    charts.iter().filter_map(plot).take(PERCENTILES_MAX).collect()
}

/// Returns a table of all figures.
fn figures(result: &Value) -> String {
    let heads = [
        Head::text("drive"),
        Head::text("test"),
        Head::number("value"),
        Head::text("unit"),
        Head::number("mean"),
        Head::number("p99"),
        Head::number("max"),
        Head::text("in doubt"),
    ];
    let all: Vec<(&Value, &Value)> = list(&result["drives"])
        .flat_map(|drive| list(&drive["rows"]).map(move |row| (drive, row)))
        .collect();
    let row = |(drive, row): &(&Value, &Value)| -> Vec<TableCell> {
        let latency = |key: &str| row[key].as_f64().map_or(String::new(), time);
        vec![
            text_of(&drive["title"]).into(),
            text_of(&row["test"]).into(),
            figure(row["value"].as_f64().unwrap_or(0.0)).into(),
            text_of(&row["unit"]).into(),
            latency("mean_ns").into(),
            latency("p99_ns").into(),
            latency("max_ns").into(),
            if row["doubt"].is_null() { "" } else { "yes" }.into(),
        ]
    };
    let rows: Vec<Vec<TableCell>> = all.iter().take(ROWS_MAX).map(row).collect();
    let more = match all.len() > ROWS_MAX {
        true => format!(
            "<p class=\"sub\">{ROWS_MAX} of {} figures; the raw data has all.</p>\n",
            all.len()
        ),
        false => String::new(),
    };
    table("Figures", &heads, &rows) + &more
}

fn method(result: &Value) -> String {
    let mut html = format!(
        "<p>{}. Each drive is a model: each of its numbers has a source, or is marked as assumed, in \
         its file. 'In doubt' marks rows of worn or trimmed drives that no published figure \
         supports.</p>\n",
        escaped(&text_of(&result["about"]))
    );
    for failed in list(&result["failed"]) {
        let (model, reason) = (text_of(&failed["model"]), text_of(&failed["reason"]));
        html += &format!("<p>Not tested: {}: {}</p>\n", escaped(&model), escaped(&reason));
    }
    let words: Vec<String> = list(&result["command"]).map(text_of).collect();
    let missing: Vec<String> = list(&result["missing"]).map(text_of).collect();
    let mut rows = vec![("command", words.join(" "))];
    if !missing.is_empty() {
        rows.push(("not tested yet", missing.join(", ")));
    }
    html + &facts(&rows)
}
