//! The answer as one self-contained page.

use super::{Shown, json, text};
use advice::load::SizeGain;
use report::axis::Axis;
use report::page::{Page, facts, section};
use report::plot::{Curve, Names, Plot, Style, escaped};
use report::table::plain_table;
use std::fmt::Write;

const STYLE: &str = "\
.wide { overflow-x: auto; } .wide table { font-size: .78rem; }
.wide th, .wide td { padding: .3rem .25rem; white-space: nowrap; }
.facts th { text-align: left; font-weight: 400; color: var(--soft); vertical-align: top; }
.facts td { text-align: left; white-space: normal; }
.wide th:first-child, .wide td:first-child { text-align: left; }
figure { max-width: 40rem; }
pre { white-space: pre-wrap; }
";

pub(super) fn page(shown: &Shown) -> String {
    let advice = &shown.advice;
    let mut parts = String::new();
    if let Some(recommendation) = &advice.recommendation {
        _ = writeln!(parts, "<pre>{}</pre>", escaped(recommendation));
    }
    parts.push_str(&curve(shown).unwrap_or_default());
    parts.push_str(&section("Memory", &table("Memory", &text::size_rows(shown))));
    let processes = text::process_rows(shown);
    if !processes.is_empty() {
        parts.push_str(&section("Processes", &table("Processes", &processes)));
    }
    parts.push_str(&section("Observed", &facts(&text::facts(shown))));
    let unseen: String =
        advice.unseen.iter().map(|it| format!("<li>{}</li>\n", escaped(it))).collect();
    parts.push_str(&section("Not seen", &format!("<ul>\n{unseen}</ul>\n")));
    parts.push_str(&section("Method", METHOD));
    let page = Page {
        title: &format!("Would a cache help? {}", shown.target),
        sub: &format!("{}; Overdrive {}", shown.source, env!("CARGO_PKG_VERSION")),
        verdict: &format!("{}. {}", advice.verdict, advice.reason),
        style: STYLE,
        parts: &parts,
        schema: json::SCHEMA,
        raw: &serde_json::to_string_pretty(&json::object(shown)).unwrap_or_default(),
    };
    page.html()
}

const METHOD: &str = "<p>Caches with the policy of <code>overdrive serve</code> are simulated, empty \
at the start; a first access is a miss. Reads and writes both admit their blocks. A hit saves the \
time of a read without a cache, less 10 us for the way through a served volume. Of writes, only \
those save time that a later write replaces before the next flush: a lower bound. Memory that active \
files use is not recommended.</p>\n<p>For details see Overdrive's <code>docs/FIT.md</code>.</p>\n";

/// Plots hit ratios against memory. None: there is one size only.
fn curve(shown: &Shown) -> Option<String> {
    let sizes = &shown.advice.sizes;
    if sizes.len() < 2 {
        return None;
    }
    let curve = |name, ratio: fn(&SizeGain) -> Option<f64>| {
        let point = |gain: &SizeGain| Some((gain.memory_bytes as f64, 100.0 * ratio(gain)?));
        let points: Vec<_> = sizes.iter().filter_map(point).collect();
        let curve = Curve::new(name, points);
        (!curve.points.is_empty()).then_some(curve)
    };
    let mut curves = Vec::new();
    if shown.facts.reads > 0 {
        curves.extend(curve("reads", |gain| gain.read_hit_ratio));
    }
    if shown.facts.writes > 0 {
        curves.extend(curve("writes", |gain| gain.write_hit_ratio));
    }
    if curves.is_empty() {
        curves.extend(curve("hits", |gain| Some(gain.hit_ratio)));
    }
    let plot = Plot {
        title: "Hits by memory".to_owned(),
        along: "memory".to_owned(),
        up: "hits in per cent of the blocks".to_owned(),
        x: Axis::doublings(sizes.iter().map(|gain| gain.memory_bytes as f64)),
        y: Axis::exact(0.0, 100.0),
        style: Style::Marked,
        names: Names::Above,
        curves,
        levels: Vec::new(),
    };
    Some(plot.figure())
}

/// Returns a table whose first row has the heads; nothing if there are no other rows.
fn table<const COLUMNS: usize>(name: &str, rows: &[[String; COLUMNS]]) -> String {
    if rows.len() < 2 { String::new() } else { plain_table(name, rows) }
}
