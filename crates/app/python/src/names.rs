//! Names of policies and formats, and sizes as users write them.

use crate::errors::usage;
use block::Size;
use pyo3::prelude::*;
use simulator::Choice;
use trace::Format;

/// Returns the names of all policies.
#[pyfunction]
pub(crate) fn policies() -> Vec<&'static str> {
    Choice::all().map(|choice| choice.name).collect()
}

/// Returns the names of all formats of traces.
#[pyfunction]
pub(crate) fn formats() -> Vec<&'static str> {
    Format::ALL.map(Format::name).to_vec()
}

/// Returns a size in bytes: `4K` and `4KiB` are 4096, `4KB` is 4000.
#[pyfunction]
pub(crate) fn parse_size(text: &str) -> PyResult<u64> {
    text.parse().map(|size: Size| size.0).map_err(|message: String| usage(&message))
}

/// Returns the policy of this name.
pub(crate) fn policy(name: &str) -> PyResult<Choice> {
    let unknown = || {
        let sentence = stack::unknown("policy", name, policies().into_iter());
        usage(&format!("policies {name}: {sentence}"))
    };
    Choice::by_name(name).ok_or_else(unknown)
}

/// Returns the format of this name. None: to be detected.
pub(crate) fn format(name: Option<&str>) -> PyResult<Option<Format>> {
    let Some(name) = name else { return Ok(None) };
    let unknown = || {
        let sentence = stack::unknown("format", name, formats().into_iter());
        usage(&format!("format {name}: {sentence}"))
    };
    Format::by_name(name).map(Some).ok_or_else(unknown)
}
