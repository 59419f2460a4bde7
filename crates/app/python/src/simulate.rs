//! `overdrive.simulate` and the properties of traces.

use crate::errors::{of_trace, usage};
use crate::{call, names};
use pyo3::prelude::*;
use simulator::{Compress, Memory, Outcome, Plan, Rate, Sample};
use std::path::PathBuf;
use std::sync::Arc;

/// Parses the value of a parameter.
fn parsed<T: std::str::FromStr<Err = String>>(parameter: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|message: String| usage(&format!("{parameter} {text}: {message}")))
}

/// Simulates caches on a trace. Returns the object `overdrive.sim/1` as text.
#[pyfunction]
#[pyo3(signature = (trace, *, format, memory, policies, devices, reads_only, shards, threads,
                    sample, compress, map))]
#[allow(clippy::too_many_arguments, reason = "a function of Python; its parameters have names")]
pub(crate) fn simulate(
    py: Python<'_>,
    trace: PathBuf,
    format: Option<&str>,
    memory: Vec<String>,
    policies: Vec<String>,
    devices: Vec<String>,
    reads_only: bool,
    shards: u32,
    threads: Option<usize>,
    sample: Option<&str>,
    compress: Option<&str>,
    map: Option<PathBuf>,
) -> PyResult<String> {
    let memories = memory.iter().map(|text| parsed::<Memory>("memory", text));
    let policies = policies.iter().map(|name| names::policy(name));
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        path: trace,
        format: names::format(format)?,
        memories: memories.collect::<PyResult<_>>()?,
        policies: policies.collect::<PyResult<_>>()?,
        devices,
        reads_only,
        shards,
        threads: threads.unwrap_or_else(processors),
        sample: sample.map_or(Ok(Sample::Fixed(Rate::ALL)), |text| parsed("sample", text))?,
        compress: None,
        hints: None,
    };
    let compress = compress.map(|text| parsed::<Compress>("compress", text)).transpose()?;
    let simulated = call::run(py, |signals| {
        let compress = compress.as_ref().map(Compress::sizes).transpose()?;
        let hints = map.as_deref().map(simulator::read_hints).transpose()?;
        let plan = Plan { compress: compress.map(Arc::new), hints: hints.map(Arc::new), ..plan };
        let outcome: Outcome = simulator::run(&plan, signals)?;
        Ok(simulator::json::object(&plan, &outcome).to_string())
    })?;
    simulated.map_err(of_trace)
}

/// Reads a trace. Returns its properties, the object `overdrive.trace-info/1`, as text.
#[pyfunction]
#[pyo3(signature = (trace, *, format, devices))]
pub(crate) fn trace_info(
    py: Python<'_>,
    trace: PathBuf,
    format: Option<&str>,
    devices: Vec<String>,
) -> PyResult<String> {
    let format = names::format(format)?;
    let studied = call::run(py, |signals| {
        let info = traces::study(&trace, format, &devices, signals)?;
        Ok(traces::json::object(&trace, &info).to_string())
    })?;
    studied.map_err(of_trace)
}
