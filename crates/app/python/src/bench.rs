//! `overdrive.bench`: suites on modelled drives, in virtual time.

use crate::call;
use crate::errors::{DeviceError, InternalError, usage};
use block::Size;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::{Value, json};
use suites::{Halt, Modelled, Plan, PlanOptions, Preparation, Suite, Target};

/// Returns the suites as a list of objects, as text.
#[pyfunction]
#[pyo3(name = "suites")]
pub(crate) fn list_suites() -> String {
    let suite = |suite: &&dyn Suite| {
        let profile = suite.profile();
        json!({
            "name": profile.name,
            "about": profile.about,
            "takes_state": profile.takes_state,
            "time_ns": profile.time_ns,
            "span_bytes": profile.span_bytes,
        })
    };
    Value::from(suites::ALL.iter().map(suite).collect::<Vec<_>>()).to_string()
}

/// Returns the modelled drives as a list of objects, as text.
#[pyfunction]
#[pyo3(name = "drives")]
pub(crate) fn list_drives() -> PyResult<String> {
    let drive = |name: &str| -> PyResult<Value> {
        let absent = || InternalError::new_err(format!("{name}: there is no such model"));
        let model = drives::Model::preset(name).ok_or_else(absent)?;
        let published = |key| model.published(key).map(|published| published.value);
        let year = Some(model.about.year).filter(|year| *year > 0);
        Ok(json!({
            "name": model.name,
            "title": model.title,
            "kind": match model.kind {
                drives::Kind::Flash(_) => "flash",
                drives::Kind::Disk(_) => "disk",
            },
            "bytes": model.user_bytes(),
            "interface": model.about.interface,
            "year": year,
            "sequential_read_mb_s": published("sequential_read_mb_s"),
            "sequential_write_mb_s": published("sequential_write_mb_s"),
            "random_read_iops": published("random_read_iops"),
            "random_write_iops": published("random_write_iops"),
            "version": model.version(),
        }))
    };
    let drives = drives::Model::names().map(drive).collect::<PyResult<Vec<_>>>()?;
    Ok(Value::from(drives).to_string())
}

/// Parses the steps of a preparation.
pub(crate) fn preparation(parameter: &str, text: &str) -> PyResult<Preparation> {
    let steps = Preparation::parse(text);
    steps.map_err(|what| usage(&format!("{parameter} {text}: {what}")))
}

/// Returns the target of a drive: `model:NAME`, with the seed.
pub(crate) fn target(drive: &str, seed: Option<u64>) -> PyResult<Target> {
    let is_target = stack::below_limits(drive).starts_with("model:");
    let text = if is_target { drive.to_owned() } else { format!("model:{drive}") };
    let separator = if text.contains('?') { '&' } else { '?' };
    let text = seed.map_or_else(|| text.clone(), |seed| format!("{text}{separator}seed={seed}"));
    Target::parse(&text).map_err(|error| usage(&format!("drive {error}")))
}

/// Runs a suite on a modelled drive. Returns the object `overdrive.bench/1` as text.
#[pyfunction]
#[pyo3(signature = (suite, drive, *, cache, seed, state, prepare, scale, only, spare_percent, span,
                    time_us, era, prices))]
#[allow(clippy::too_many_arguments, reason = "a function of Python; its parameters have names")]
pub(crate) fn bench(
    py: Python<'_>,
    suite: &str,
    drive: &str,
    cache: Option<u64>,
    seed: Option<u64>,
    state: &str,
    prepare: Option<&str>,
    scale: Option<f64>,
    only: Option<String>,
    spare_percent: u32,
    span: Option<u64>,
    time_us: Option<u64>,
    era: Option<u16>,
    prices: Option<&str>,
) -> PyResult<String> {
    let names = suites::ALL.iter().map(|suite| suite.profile().name);
    let unknown = || usage(&format!("suite {suite}: {}", stack::unknown("suite", suite, names)));
    let suite = suites::find(suite).ok_or_else(unknown)?;
    let options = PlanOptions {
        era,
        cache: cache.map(|bytes| suite.cache(Size(bytes))),
        state: preparation("state", state)?,
        preparation: prepare.map(|text| preparation("prepare", text)).transpose()?,
        trace_scale: scale,
        only,
        spare_percent,
        span: span.map(Size),
        time_us,
    };
    let target = target(drive, seed)?;
    host::want_huge_allocations();
    call::run(py, |signals| {
        let plan = options.plan(suite, target, vec![suites::Job::default()]);
        let plan = plan.and_then(|plan| {
            options.check(&plan)?;
            if plan.cache.is_none() {
                return Ok(plan);
            }
            let prices = rigs::prices::find(prices)?.prices;
            Ok(Plan { prices, ..plan })
        });
        let plan = plan.map_err(|what| usage(&what))?;
        let rig = Modelled::new(&plan.target, plan.prices).map_err(|what| usage(&what))?;
        let (mut outcome, ended) = suites::run_on(Box::new(rig), &plan, signals);
        suites::published::mark_doubts(&mut outcome);
        ended.map_err(|halt| failure(&plan, &halt))?;
        Ok(suites::report::json(&outcome).to_string())
    })?
}

/// Returns the exception for the reason why a suite is not complete.
pub(crate) fn failure(plan: &Plan, halt: &Halt) -> PyErr {
    let message = format!("{}: {}: {halt}", plan.target.text, plan.suite.name);
    match halt {
        Halt::Interrupted | Halt::Unanswered => PyKeyboardInterrupt::new_err(()),
        Halt::Failed(_) | Halt::Wrong(_) => DeviceError::new_err(message),
        Halt::Load(_) | Halt::Plan(_) => usage(&message),
    }
}
