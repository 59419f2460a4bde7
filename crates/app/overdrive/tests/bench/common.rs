//! The command and its output.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The tests' small drive.
const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/suites/tests/small.toml");
pub(crate) const PRICES: &str = r#"{"prices":{"hit_ns":300,"miss_ns":500,"fill_ns":400,"absorb_ns":500,
    "pass_ns":400,"write_out_ns":300,"flush_ns":500}}"#;

pub(crate) fn target() -> String {
    format!("model:{SMALL}?seed=5")
}

pub(crate) fn bench(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overdrive"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", home).env("XDG_DATA_HOME", home.join("data"));
    command
}

pub(crate) fn run(home: &Path, arguments: &[&str]) -> Output {
    bench(home, arguments).output().expect("the command runs")
}

pub(crate) fn json_and_errors(output: &Output) -> (Value, String) {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let object = serde_json::from_slice(&output.stdout);
    (object.unwrap_or_else(|error| panic!("{error}: {errors}")), errors)
}

/// Waits this many milliseconds.
pub(crate) fn pause(ms: u64) {
    #[allow(clippy::disallowed_methods, reason = "a test may wait")]
    std::thread::sleep(Duration::from_millis(ms));
}

/// Returns a number in fio's report.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}
