//! `cargo xtask check`: the checker in `checker/`, which shares no code with the project.

use crate::cargo;
use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Debian's Python: the one that its libnbd module belongs to.
const PYTHON: &str = "/usr/bin/python3";

/// Builds the program, then goes on as the checker: its signals and its exit status are ours.
///
/// # Errors
/// If cargo or Python cannot be started.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let built = cargo::cargo().args(cargo::BUILD).status().context("cannot start cargo")?;
    if !built.success() {
        return Ok(ExitCode::FAILURE);
    }
    let mut checker = Command::new(PYTHON);
    // Without caches of bytecode in the source.
    checker.arg("-B").arg(cargo::root().join("checker/main.py"));
    checker.arg("--program").arg(cargo::target().join("release/overdrive"));
    Err(checker.args(arguments).exec()).context(format!("cannot start {PYTHON}"))
}
