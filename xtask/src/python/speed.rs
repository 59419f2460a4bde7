//! Compares the speed of `overdrive.simulate` with that of `overdrive sim`.

use super::environment::Environment;
use super::run;
use crate::cargo;
use std::path::Path;

/// Compares the speeds, and prints the ratio.
///
/// # Errors
/// The comparison cannot run, or the package is slower than documented.
pub(super) fn compare(environment: &Environment, program: &Path) -> anyhow::Result<()> {
    let script = cargo::root().join("python/tests/speed.py");
    run(environment.python().arg(script).arg(program))
}
