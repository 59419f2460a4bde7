//! The tests of a result, each with the values of all drives.

use ::report::bars::Bar;
use ::report::ranking::{Entry, sort};
use serde_json::Value;

/// A test with the values of all drives.
pub(super) struct Chart {
    pub(super) test: String,
    pub(super) unit: String,
    /// The names of a drive's values: fresh and used, or none.
    pub(super) states: Vec<String>,
    /// The drives, best first.
    pub(super) entries: Vec<Entry>,
}

/// States of a drive, which a name of a test may end with.
const STATES: [&str; 2] = ["fresh", "used"];

/// Returns a test's name without its state, and the number of that state.
fn split(test: &str) -> (&str, Option<usize>) {
    let parts = test.rsplit_once(", ");
    let known = parts
        .and_then(|(name, state)| Some((name, STATES.iter().position(|known| *known == state)?)));
    known.map_or((test, None), |(name, state)| (name, Some(state)))
}

pub(super) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the charts of a result in the order of its tests. First runs are left out: they are in
/// the table and in the JSON.
pub(super) fn charts(result: &Value) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for row in list(&result["drives"]).flat_map(|drive| list(&drive["rows"])) {
        let (test, unit) = (text_of(&row["test"]), text_of(&row["unit"]));
        let (name, state) = split(&test);
        let is_known = charts.iter().any(|chart| chart.test == name && chart.unit == unit);
        if !is_known && !test.ends_with(", first run") {
            let states = if state.is_some() { &STATES[..] } else { &[] };
            let states = states.iter().map(|state| (*state).to_owned()).collect();
            charts.push(Chart { test: name.to_owned(), unit, states, entries: Vec::new() });
        }
    }
    for chart in &mut charts {
        chart.entries = list(&result["drives"])
            .map(|drive| entry(drive, chart, &result["own"]))
            .filter(|entry| entry.bars.iter().any(Option::is_some))
            .collect();
        sort(&chart.unit, &mut chart.entries);
    }
    charts
}

fn entry(drive: &Value, chart: &Chart, own: &Value) -> Entry {
    let mut bars = vec![None; chart.states.len().max(1)];
    for row in list(&drive["rows"]).filter(|row| row["unit"] == chart.unit.as_str()) {
        let test = text_of(&row["test"]);
        let (name, state) = split(&test);
        if name == chart.test {
            let value = row["value"].as_f64().unwrap_or(0.0);
            bars[state.unwrap_or(0)].get_or_insert(Bar { value, interval: None });
        }
    }
    let is_own = !own.is_null() && drive["model"] == *own;
    Entry { name: text_of(&drive["title"]), bars, is_own }
}
