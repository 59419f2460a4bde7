//! Calls of cargo; cargo also calls this program.

use anyhow::Context;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The laboratory: optimised, but with unwinding panics, which are its findings.
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

/// The laboratory with the real daemon, which must have been built before ([`BUILD`]).
pub(crate) const KILLS: [&str; 6] = ["run", "--quiet", "--release", "--package", "killtest", "--"];

/// The product, which [`KILLS`] expects next to itself.
pub(crate) const BUILD: [&str; 5] = ["build", "--quiet", "--release", "--package", "overdrive"];

/// The benchmarks; the first argument is the name of one.
pub(crate) const BENCH: [&str; 5] = ["run", "--release", "--package", "benchmarks", "--"];

/// The demo of the product.
pub(crate) const DEMO: [&str; 6] = ["run", "--release", "--package", "overdrive", "--", "demo"];

/// Returns a command for the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The directory of cargo's build output.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns the path of the test program that a JSON message of cargo names, and the message.
pub(crate) fn test_program(message: &str) -> Option<(PathBuf, serde_json::Value)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    (message["profile"]["test"] == true).then_some((path, message))
}

/// Replaces this process by `cargo` with these arguments, so that its signals and its exit status
/// are this command's. Stays in the user's directory, so that relative paths in the arguments are
/// valid.
///
/// # Errors
/// Cargo cannot be started. Otherwise this does not return.
pub(crate) fn become_cargo(fixed: &[&str], more: &[OsString]) -> anyhow::Result<ExitCode> {
    Err(cargo().args(fixed).args(more).exec()).context("cannot start cargo; is it in PATH?")
}
