//! Drives in sorted charts for a terminal.

use super::charts::{Chart, charts, list, text_of};
use ::report::ranking::is_lower_better;
use ::report::terminal::{Line, Look, Span, Text, sentence_width};
use ::report::words::figure;
use block::printable;
use serde_json::Value;

/// Maximum number of charts; the others are on the page and in the JSON.
const CHARTS_MAX: usize = 8;
const WIDTH_MAX: usize = 100;
/// Width of a figure and of the space around it.
const FIGURE: usize = 12;

/// Returns the charts in lines that fit this width.
pub(super) fn text(result: &Value, width: Option<usize>) -> Text {
    let width = width.unwrap_or(WIDTH_MAX).clamp(50, WIDTH_MAX);
    let charts = charts(result);
    let mut text = Text::default();
    let drives = list(&result["drives"]).count();
    let title =
        format!("{} on {drives} modelled drives, in virtual time", text_of(&result["suite_title"]));
    text.push(Line::heading(&*printable(&title)));
    for chart in charts.iter().take(CHARTS_MAX) {
        text.push("");
        add(&mut text, chart, width);
    }
    let mut remark = |sentence: String| {
        text.push("");
        text.extend(Line::from(&*printable(&sentence)).wrapped(sentence_width(Some(width)), 0));
    };
    if charts.len() > CHARTS_MAX {
        let more = charts.len() - CHARTS_MAX;
        remark(format!(
            "{more} more tests: see --report and --json, or select one with --only TEST."
        ));
    }
    for failed in list(&result["failed"]) {
        remark(format!("{}: {}", text_of(&failed["model"]), text_of(&failed["reason"])));
    }
    let missing: Vec<String> = list(&result["missing"]).map(text_of).collect();
    if !missing.is_empty() {
        remark(format!("Not tested yet: {}.", missing.join(", ")));
    }
    text
}

/// Adds a chart: a line for each drive and state, with a bar.
fn add(text: &mut Text, chart: &Chart, width: usize) {
    let better = if is_lower_better(&chart.unit) { "less is better" } else { "more is better" };
    let heading = format!("{}, {}; {better}", chart.test, chart.unit);
    text.extend(Line::heading(&*printable(&heading)).wrapped(sentence_width(Some(width)), 0));
    let name_of = |entry: &::report::ranking::Entry, state: usize| match chart.states.get(state) {
        Some(state) => format!("{}, {state}", entry.name),
        None => entry.name.clone(),
    };
    let lines = chart.entries.iter().flat_map(|entry| {
        let bars = entry.bars.iter().enumerate();
        bars.filter_map(move |(state, bar)| Some((entry, state, bar.as_ref()?.value)))
    });
    let lines: Vec<_> = lines.collect();
    let names = lines.iter().map(|(entry, state, _)| name_of(entry, *state).chars().count());
    let name_width = names.max().unwrap_or(0).min(width / 2);
    let most = lines.iter().map(|line| line.2).fold(1e-9, f64::max);
    let longest = width.saturating_sub(name_width + FIGURE + 4);
    for (entry, state, value) in lines {
        let name: String = name_of(entry, state).chars().take(name_width).collect();
        let length = (value.max(0.0) / most * longest as f64).round() as usize;
        let mark = if entry.is_own { '>' } else { ' ' };
        let line = format!(
            "{mark} {:<name_width$} {:>FIGURE$} {}",
            &*printable(&name),
            figure(value),
            "#".repeat(length)
        );
        let look = if entry.is_own { Look::Good } else { Look::Plain };
        text.push(Line::of(Span::new(look, line.trim_end())));
    }
}
