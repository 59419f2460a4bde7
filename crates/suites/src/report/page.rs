//! An outcome as one HTML page that needs nothing else: verdict, plots, table, method, raw data.

use super::axis::Axis;
use super::plot::{Curve, Plot, Style, bars, escaped};
use super::text::{figure, latencies, notes};
use crate::outcome::{Outcome, Series};
use crate::plan::Suite;
use std::fmt::Write;

/// From when on the consistency test looks closer, in seconds.
const CLOSER: f64 = 1400.0;

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
    let title = escaped(&format!("{}: {}, {with}", plan.suite.name(), plan.target.model.title));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"sub\">A modelled drive in virtual time; {}; Overdrive {}</p>\n\
         <p class=\"verdict\">{}</p>\n",
        escaped(&plan.target.text),
        env!("CARGO_PKG_VERSION"),
        escaped(&verdict(outcome))
    );
    plots(outcome).iter().for_each(|svg| page.push_str(svg));
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
fn verdict(outcome: &Outcome) -> String {
    let value = |test: &str| outcome.row(test).map(|row| row.value);
    let told = match outcome.plan.suite {
        Suite::Consistency => {
            let steady = value("from 1,400 s, mean of a second");
            let least = value("from 1,400 s, least of a second");
            let all = value("all seconds, mean of a second");
            match (steady, least, all) {
                (Some(steady), Some(least), _) => Some(format!(
                    "From 1,400 s on it answers {} requests a second on average, {} in its slowest second.",
                    figure(steady),
                    figure(least)
                )),
                (_, _, Some(all)) => {
                    Some(format!("It answers {} requests a second on average.", figure(all)))
                }
                _ => None,
            }
        }
        Suite::Trim => {
            let pass = |name: &str| value(&format!("{name}: sequential 128 KiB write"));
            match (pass("clean"), pass("dirty"), pass("trimmed")) {
                (Some(clean), Some(dirty), Some(trimmed)) => Some(format!(
                    "Sequential writes: {} MB/s clean, {} dirty, {} after TRIM, which brings back {:.0} % \
                     of what was lost.",
                    figure(clean),
                    figure(dirty),
                    figure(trimmed),
                    100.0 * (trimmed - dirty) / (clean - dirty).max(1e-9)
                )),
                _ => None,
            }
        }
        Suite::Seqfill => {
            match (value("before the knee"), value("knee"), value("after the knee")) {
                (Some(before), Some(at), Some(after)) => Some(format!(
                    "{} MB/s for {at:.1} GB, then {} MB/s.",
                    figure(before),
                    figure(after)
                )),
                _ => outcome.rows.first().map(|row| {
                    format!("{} MB/s from the first byte to the last: no knee.", figure(row.value))
                }),
            }
        }
        Suite::Qd1 => outcome.rows.first().and_then(|row| {
            let latency = row.latency.as_ref()?;
            Some(format!(
                "One at a time: {} writes of 4 KiB a second, {} on average, {} at worst.",
                figure(row.value),
                super::text::time(latency.mean_ns()),
                super::text::time(latency.max_ns() as f64)
            ))
        }),
        Suite::Corners => None,
    };
    let told = told.unwrap_or_else(|| format!("{} tests.", outcome.rows.len()));
    if outcome.complete {
        told
    } else {
        format!("Interrupted; what was measured until then: {told}")
    }
}

fn plots(outcome: &Outcome) -> Vec<String> {
    match outcome.plan.suite {
        Suite::Consistency => outcome.series.iter().flat_map(consistency).collect(),
        Suite::Trim | Suite::Seqfill => by_position(outcome).into_iter().collect(),
        Suite::Corners | Suite::Qd1 => {
            let of = |unit: &'static str| {
                let rows = outcome.rows.iter().filter(move |row| row.unit == unit);
                let bars = rows.map(|row| match row.cold {
                    Some(true) => (format!("{}, cold", row.test), row.value),
                    Some(false) => (format!("{}, warm", row.test), row.value),
                    None => (row.test.clone(), row.value),
                });
                bars.collect::<Vec<_>>()
            };
            let throughput = ("Throughput", "MB/s", of("MB/s"));
            let rate = ("Requests answered in a second", "IOPS", of("IOPS"));
            let drawn = [throughput, rate].into_iter().filter(|(.., rows)| !rows.is_empty());
            drawn.map(|(title, unit, rows)| bars(title, unit, &rows)).collect()
        }
    }
}

/// The whole run and from 1,400 s on, each on a logarithmic and a linear axis.
fn consistency(series: &Series) -> Vec<String> {
    let end = series.values.len() as f64 * series.step;
    let ranges = [(0.0, "whole run"), (CLOSER, "from 1,400 s")];
    let mut plots = Vec::new();
    for (from, range) in ranges.into_iter().filter(|(from, _)| *from < end) {
        let seen = || series.values.iter().skip((from / series.step) as usize).copied();
        for y in [Axis::decades(seen()), Axis::linear(seen())] {
            let scale = if y.logarithmic { "logarithmic" } else { "linear" };
            let points = series.values.iter().enumerate();
            let points = points.map(|(index, value)| (index as f64 * series.step, *value));
            let plot = Plot {
                title: format!("4 KiB random writes, QD32: {range}, {scale}"),
                along: "seconds".to_owned(),
                up: "IOPS".to_owned(),
                x: Axis::exact(from, end),
                y,
                style: Style::Dots,
                curves: vec![Curve { name: &series.name, points: points.collect() }],
            };
            plots.push(plot.svg());
        }
    }
    plots
}

/// All curves over the drive's addresses.
fn by_position(outcome: &Outcome) -> Option<String> {
    let all = &outcome.series;
    let end = all.iter().map(|series| series.values.len() as f64 * series.step).fold(0.0, f64::max);
    (end > 0.0).then(|| {
        let curves = all.iter().map(|series| Curve {
            name: &series.name,
            points: (0..)
                .map(|index| (f64::from(index) + 0.5) * series.step)
                .zip(series.values.iter().copied())
                .collect(),
        });
        let plot = Plot {
            title: "Sequential writes by position".to_owned(),
            along: "GB written".to_owned(),
            up: "MB/s".to_owned(),
            x: Axis::exact(0.0, end),
            y: Axis::linear(all.iter().flat_map(|series| series.values.iter().copied())),
            style: Style::Line,
            curves: curves.collect(),
        };
        plot.svg()
    })
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
    page.push_str(
        "<p>Latency counts from when a request was due; rates count the final flush. The drive is a \
         model: each of its numbers has a source, or is marked as assumed, in its file.",
    );
    if outcome.plan.cache.is_some() {
        page.push_str(
            " The cache is the engine that serves; each piece of its work is charged what it took on \
             the machine that the prices in the raw data were measured on.",
        );
    }
    page.push_str("</p>\n");
}
