//! An outcome as one JSON object, `overdrive.bench/1`. Keys are only ever added.

use super::headline::headline;
use crate::outcome::{Outcome, Row, Series};
use crate::prices;
use crate::suite;
use drives::Model;
use load::Latency;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) const SCHEMA: &str = "overdrive.bench/1";

/// Returns one object for several outcomes of a suite that differ in the spare part only: the first
/// outcome, and the others in `variants`.
///
/// # Panics
/// If there is none.
pub fn json_of(outcomes: &[Outcome]) -> Value {
    let (first, others) = outcomes.split_first().expect("an outcome");
    let mut object = json(first);
    if !others.is_empty() {
        object["variants"] = others.iter().map(json).collect();
    }
    object
}

/// Formats an object as readable text: one line for each member, and for each object in a list.
pub(super) fn lines(object: &Value) -> String {
    let Some(members) = object.as_object() else { return object.to_string() };
    let line = |(name, value): (&String, &Value)| {
        let list = value.as_array().filter(|list| list.iter().any(Value::is_object));
        let value = list.map_or_else(
            || value.to_string(),
            |list| {
                let items: Vec<String> = list.iter().map(Value::to_string).collect();
                format!("[\n{}]", items.join(",\n"))
            },
        );
        format!("{}: {value}", Value::from(name.as_str()))
    };
    format!("{{\n{}\n}}", members.iter().map(line).collect::<Vec<_>>().join(",\n"))
}

/// Returns the object. Times are nanoseconds, sizes bytes, MB 10^6 bytes.
pub fn json(outcome: &Outcome) -> Value {
    let plan = &outcome.plan;
    let mut object = json!({
        "schema": SCHEMA,
        "suite": plan.suite.name,
        "suite_title": suite::title(plan.suite.name),
        "headline": headline(outcome),
        "era": plan.era,
        "target": plan.target.text,
        "cached": plan.cache.is_some(),
        "complete": outcome.complete,
        "rows": outcome.rows.iter().map(row).collect::<Vec<_>>(),
        "series": outcome.all_series().iter().map(series).collect::<Vec<_>>(),
        "time": outcome.time,
        "virtual_ns": outcome.elapsed_ns,
        "elapsed_ns": outcome.elapsed_ns,
        "facts": outcome.facts.iter().cloned().collect::<BTreeMap<_, _>>(),
        "seed": plan.target.options.seed,
        "state": plan.state.name().map_or_else(|| plan.state.to_string(), str::to_owned),
        "preparation": plan.preparation.to_string(),
        "span_bytes": plan.span(),
        "spare_percent": plan.spare_percent,
        "test_time_ns": plan.time_ns,
        "method": outcome.method,
        "cache": plan.cache,
        "prices": plan.cache.is_some().then(|| prices::to_json(&plan.prices)),
        "drive": {
            "model": plan.target.model.as_ref().map(|model| &model.name),
            "version": plan.target.model.as_ref().map(Model::version),
            "title": plan.target.title(),
            "bytes": plan.target.bytes(),
            "at_end": numbers(outcome.drive.iter().copied()),
        },
        "counters": outcome.counters.iter().copied().collect::<BTreeMap<_, _>>(),
        "versions": { "overdrive": env!("CARGO_PKG_VERSION") },
    });
    if let Some(joules) = outcome.joules {
        object["drive"]["joules"] = number(joules);
    }
    if plan.reads_only {
        object["read_only"] = true.into();
    }
    if !outcome.command.is_empty() {
        object["command"] = json!(outcome.command);
    }
    if let Some(at) = &outcome.at {
        object["at"] = at.as_str().into();
    }
    if !outcome.machine.is_empty() {
        object["machine"] =
            json!(outcome.machine.iter().cloned().collect::<BTreeMap<&str, String>>());
    }
    object
}

fn numbers<'a>(values: impl Iterator<Item = (&'a str, f64)>) -> Value {
    let values = values.map(|(name, value)| (name.to_owned(), number(value)));
    Value::Object(values.collect::<Map<_, _>>())
}

/// Rounds to three decimals, and small values to six digits: more would show rounding errors, and
/// a time of 0.097 ms would hide differences of one percent.
fn number(value: f64) -> Value {
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 + 1 };
    let unit = 10_f64.powi((6 - digits).clamp(3, 9));
    let rounded = (value * unit).round() / unit;
    if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
        return (rounded as i64).into();
    }
    rounded.into()
}

fn row(row: &Row) -> Value {
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    set("test", row.test.as_str().into());
    set("unit", row.unit.into());
    set("value", number(row.value));
    set("prepared", row.prepared.as_str().into());
    if let Some(latency) = row.latency.as_ref().filter(|latency| latency.count() > 0) {
        for (key, value) in latencies(latency) {
            set(key, value);
        }
        let buckets = latency.buckets().into_iter().map(|(ns, count)| json!([ns, count]));
        set("buckets", buckets.collect());
    }
    if let Some(cold) = row.cold {
        set("cold", cold.into());
    }
    if let Some(ceiling) = row.ceiling {
        set("ceiling", number(ceiling));
        set("near_ceiling", row.is_near_ceiling().into());
    }
    if row.kept_waiting > 0.0 {
        set("kept_waiting", number(row.kept_waiting));
    }
    if let Some(flush_ns) = row.flush_ns {
        set("flush_ns", flush_ns.into());
    }
    if let Some((samples, of)) = samples(row) {
        set("samples", samples.into_iter().map(number).collect());
        set("samples_of", of.into());
    }
    if let Some(punctual) = row.punctual {
        set("lateness_p99_ns", punctual.p99_ns.into());
        set("lateness_p99_ns_max", punctual.p99_ns_max.into());
        set("starts_waited_share", number(punctual.waited));
        set("valid", punctual.is_valid().into());
    }
    if let Some(how) = &row.shortened {
        set("shortened", how.as_str().into());
    }
    if row.partial {
        set("partial", true.into());
    }
    if let Some(doubt) = &row.doubt {
        set("doubt", doubt.as_str().into());
    }
    Value::Object(object)
}

/// Returns the samples of a figure, and their kind.
fn samples(row: &Row) -> Option<(Vec<f64>, &'static str)> {
    if !row.samples.is_empty() {
        return Some((row.samples.clone(), "runs"));
    }
    let seconds: Vec<f64> = row.seconds.iter().map(|second| second.value).collect();
    (!seconds.is_empty()).then_some((seconds, "seconds"))
}

fn latencies(latency: &Latency) -> Vec<(&'static str, Value)> {
    let quantile = |quantile| latency.quantile_ns(quantile).into();
    vec![
        ("requests", latency.count().into()),
        ("mean_ns", number(latency.mean_ns())),
        ("min_ns", latency.min_ns().into()),
        ("p50_ns", quantile(0.5)),
        ("p90_ns", quantile(0.9)),
        ("p99_ns", quantile(0.99)),
        ("p99_9_ns", quantile(0.999)),
        ("p99_99_ns", quantile(0.9999)),
        ("max_ns", latency.max_ns().into()),
        ("stdev_ns", number(latency.stdev_ns())),
    ]
}

fn series(series: &Series) -> Value {
    json!({
        "name": series.name,
        "unit": series.unit,
        "along": series.along,
        "step": series.step,
        "values": series.values.iter().map(|value| number(*value)).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_decimals_and_small_ones_six_digits() {
        let words = |value: f64| number(value).to_string();
        let shown = [0.0, 5.0, 0.096_868_499, 3.830_482_28, 403.273_449, 98_765.432_1].map(words);
        assert_eq!(shown, ["0", "5", "0.0968685", "3.83048", "403.273", "98765.432"]);
        assert_eq!([-0.000_012_345_678, 1e-12].map(words), ["-0.000012346", "0"]);
    }
}
