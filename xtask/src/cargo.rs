//! Cargo, called by cargo.

use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The laboratory: optimised, but with panics that unwind, for there they are findings.
pub(crate) const CRASH: [&str; 9] = [
    "run",
    "--quiet",
    "--profile",
    "laboratory",
    "--package",
    "crash",
    "--bin",
    "crash-laboratory",
    "--",
];

/// The laboratory with the real daemon; that must have been built before ([`BUILD`]).
pub(crate) const KILLS: [&str; 6] = ["run", "--quiet", "--release", "--package", "killtest", "--"];

/// The product, beside which [`KILLS`] looks for it.
pub(crate) const BUILD: [&str; 5] = ["build", "--quiet", "--release", "--package", "overdrive"];

/// The benchmarks; the first argument is the name of one.
pub(crate) const BENCH: [&str; 5] = ["run", "--release", "--package", "benchmarks", "--"];

/// The demo of the product.
pub(crate) const DEMO: [&str; 6] = ["run", "--release", "--package", "overdrive", "--", "demo"];

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Goes on as `cargo` with these arguments: its signals and its exit status are ours. It stays in
/// the directory where the user stands, so that the paths in the arguments mean what they say.
///
/// # Errors
/// If cargo cannot be started; otherwise this does not return.
pub(crate) fn become_cargo(fixed: &[&str], more: &[OsString]) -> anyhow::Result<ExitCode> {
    Err(cargo().args(fixed).args(more).exec()).context("cannot start cargo; is it in PATH?")
}
