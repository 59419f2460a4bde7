//! A trace's properties as one self-contained HTML page.

use super::info_text;
use report::axis::Axis;
use report::page::{Page, facts, section};
use report::plot::{Curve, Names, Plot, Style, escaped};
use report::table::plain_table;
use report::words::grouped;
use std::path::Path;
use traces::{Info, REUSE_BYTES};

const STYLE: &str = ".facts td { text-align: left; white-space: normal; }\n";

/// Returns the page.
pub(super) fn page(path: &Path, info: &Info) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let partial = if info.is_complete { "" } else { "; not complete" };
    let mut parts = reuse_plot(info);
    parts += &section("Figures", &facts(&info_text::facts(path, info)));
    // The heading of the first column says what a table has.
    let table = |rows: &Vec<Vec<String>>| plain_table(&format!("By {}", rows[0][0]), rows);
    let tables = info_text::tables(info).iter().map(table).collect::<String>();
    parts += &section("Distributions", &tables);
    parts += &method();
    let page = Page {
        title: &format!("Trace: {name}"),
        sub: &format!(
            "{} requests{partial}; Overdrive {}",
            grouped(info.amounts.requests()),
            env!("CARGO_PKG_VERSION")
        ),
        verdict: &verdict(info),
        style: STYLE,
        parts: &parts,
        schema: traces::json::SCHEMA,
        raw: &serde_json::to_string_pretty(&traces::json::object(path, info)).unwrap_or_default(),
    };
    page.html()
}

/// Returns the share of block accesses that memory of some sizes would serve.
fn verdict(info: &Info) -> String {
    let mut sentences = Vec::new();
    if !info.is_complete {
        sentences.push("Interrupted: all figures are for the trace's beginning.".to_owned());
    }
    let again: u64 = info.reuse.within.iter().sum();
    let repeated = again + info.reuse.longer;
    sentences.push(format!(
        "{} of all block accesses are to blocks that were used before, {} within the last 4 GiB.",
        info_text::percent(repeated, info.block_accesses),
        info_text::percent(again, info.block_accesses)
    ));
    sentences.join(" ")
}

/// Plots the share of block accesses whose block was used within some memory.
fn reuse_plot(info: &Info) -> String {
    let all = info.block_accesses.max(1) as f64;
    let mut sum = 0;
    let points = REUSE_BYTES.iter().zip(info.reuse.within).map(|(bytes, count)| {
        sum += count;
        (*bytes as f64, sum as f64 / all)
    });
    let points: Vec<(f64, f64)> = points.collect();
    let plot = Plot {
        title: "Block accesses to blocks that LRU memory of a size would hold".to_owned(),
        along: "memory".to_owned(),
        up: "share".to_owned(),
        x: Axis::doublings(points.iter().map(|point| point.0)),
        y: Axis::linear(points.iter().map(|point| point.1)),
        style: Style::Marked,
        names: Names::Beside,
        curves: vec![Curve::new("reads and writes", points)],
        levels: Vec::new(),
    };
    plot.figure()
}

fn method() -> String {
    let paragraphs = [
        "Requests are in the order of their times, as far as a window of 65,536 requests allows. \
         Sizes are shares of reads and writes.",
        "A request is sequential if it begins where one of the last 32 of the same direction on \
         the same device ended.",
        "The depth is the number of requests in flight when one arrives, itself included. The \
         device is busy while at least one request is in flight.",
        "A block has 4 KiB. It is reused within a size if all blocks used since its last use, \
         itself included, fit in that size.",
    ];
    let text = paragraphs.iter().map(|paragraph| format!("<p>{}</p>\n", escaped(paragraph)));
    section("Method", &text.collect::<String>())
}
