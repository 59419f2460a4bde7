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
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    leave_out_package(&mut cargo);
    cargo
}

/// Removes the variables with which cargo describes a package to the program that it runs. The
/// build script of `ring` runs again if they change, and then all crates above it are built again:
/// so a cargo that was started by a program needs the same environment as one that a user starts.
pub(crate) fn leave_out_package(command: &mut Command) {
    let names = std::env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_str().is_some_and(describes_package)) {
        command.env_remove(name);
    }
}

/// Whether cargo sets this variable to describe a package or a target.
fn describes_package(name: &str) -> bool {
    let begins = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"];
    begins.iter().any(|begin| name.starts_with(begin))
        || ["CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE"].contains(&name)
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

/// Returns the path of the program that a JSON message of cargo names, and the message.
pub(crate) fn executable(message: &str) -> Option<(PathBuf, serde_json::Value)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    Some((path, message))
}

/// Returns the path of the test program that a JSON message of cargo names, and the message.
pub(crate) fn test_program(message: &str) -> Option<(PathBuf, serde_json::Value)> {
    executable(message).filter(|(_, message)| message["profile"]["test"] == true)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_that_is_started_has_the_environment_of_one_that_a_user_starts() {
        // Set by the cargo that runs this test.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let mut command = Command::new("sh");
        leave_out_package(&mut command);
        let output = command.args(["-c", "env | cut -d = -f 1"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.lines().any(|name| name == "PATH"), "{text}");
        assert!(!text.lines().any(describes_package), "{text}");
        for kept in ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_PROFILE_DEV_DEBUG"] {
            assert!(!describes_package(kept), "{kept}");
        }
    }
}
