//! A comparison as one JSON object, `overdrive.bench.compare/1`. Keys are only ever added.

use crate::comparison::{Against, Cell, Comparison, Line, letter};
use crate::method::method;
use crate::saved::Run;
use crate::statistics::LEVEL_PERCENT;
use crate::winner::{best, verdict};
use serde_json::{Map, Value, json};

pub(crate) const SCHEMA: &str = "overdrive.bench.compare/1";

/// Returns the object. Differences are against the first run, in percent of its figure.
pub fn json(comparison: &Comparison) -> Value {
    let runs = comparison.runs.iter().zip(&comparison.names);
    let circumstances = comparison.circumstances.iter();
    let circumstances: Map<String, Value> =
        circumstances.map(|(name, each)| ((*name).to_owned(), json!(each))).collect();
    json!({
        "schema": SCHEMA,
        "level_percent": LEVEL_PERCENT,
        "runs": runs.map(|(run, name)| self::run(run, name)).collect::<Vec<_>>(),
        "not_the_same": circumstances,
        "winner": verdict(comparison),
        "lines": comparison.lines.iter().map(line).collect::<Vec<_>>(),
        "method": method(comparison),
    })
}

fn run(run: &Run, name: &str) -> Value {
    json!({
        "name": name, "place": run.place, "suite": run.suite, "target": run.target, "cached": run.cached,
        "time": run.time, "complete": run.complete, "command": run.command,
    })
}

fn line(line: &Line) -> Value {
    json!({
        "test": line.test,
        "unit": line.unit,
        "best": best(line).map(|run| letter(run).to_string()),
        "values": line.cells.iter().map(|it| it.as_ref().map(cell)).collect::<Vec<_>>(),
        "against_first": line.against.iter().map(against).collect::<Vec<_>>(),
    })
}

fn cell(cell: &Cell) -> Value {
    let mut value = json!({ "value": cell.value });
    if let Some(estimate) = cell.estimate {
        let (low, high) = estimate.interval();
        value["mean"] = json!(estimate.mean);
        value["interval"] = json!([low, high]);
        value["independent"] = json!(estimate.count);
    }
    value
}

fn against(against: &Against) -> Value {
    let verdict = match against.verdict.text() {
        "" => Value::Null,
        text => text.into(),
    };
    json!({
        "verdict": verdict,
        "percent": against.percent,
        "interval_percent": against.interval.map(|(low, high)| [low, high]),
    })
}
