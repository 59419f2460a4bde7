//! An outcome as one JSON object, `overdrive.bench/1`. Keys are only ever added.

use crate::outcome::{Outcome, Row, Series};
use crate::prices;
use load::Latency;
use serde_json::{Map, Value, json};

/// The object. Times are nanoseconds, sizes bytes, MB 10^6 bytes.
pub fn json(outcome: &Outcome) -> Value {
    let plan = &outcome.plan;
    json!({
        "schema": "overdrive.bench/1",
        "suite": plan.suite.name,
        "target": plan.target.text,
        "cached": plan.cache.is_some(),
        "complete": outcome.complete,
        "rows": outcome.rows.iter().map(row).collect::<Vec<_>>(),
        "series": outcome.series.iter().map(series).collect::<Vec<_>>(),
        "time": outcome.time,
        "virtual_ns": outcome.elapsed_ns,
        "elapsed_ns": outcome.elapsed_ns,
        "facts": outcome.facts.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
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
            "title": plan.target.title(),
            "bytes": plan.target.bytes(),
            "at_end": numbers(outcome.drive.iter().copied()),
        },
        "counters": outcome.counters.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
        "versions": { "overdrive": env!("CARGO_PKG_VERSION") },
    })
}

fn numbers<'a>(values: impl Iterator<Item = (&'a str, f64)>) -> Value {
    let values = values.map(|(name, value)| (name.to_owned(), number(value)));
    Value::Object(values.collect::<Map<_, _>>())
}

/// Three decimals: more would only be noise of the last bit.
fn number(value: f64) -> Value {
    let rounded = (value * 1000.0).round() / 1000.0;
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
    }
    if let Some(cold) = row.cold {
        set("cold", cold.into());
    }
    if let Some(ceiling) = row.ceiling {
        set("ceiling", number(ceiling));
        set("near_ceiling", row.is_near_ceiling().into());
    }
    if let Some(flush_ns) = row.flush_ns {
        set("flush_ns", flush_ns.into());
    }
    if !row.samples.is_empty() {
        set("samples", row.samples.iter().map(|value| number(*value)).collect());
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
    Value::Object(object)
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
