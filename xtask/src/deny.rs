//! `cargo xtask deny`: cargo-deny with this project's rules.

use crate::cargo;
use anyhow::{Context, bail};
use std::process::{ExitCode, Stdio};

/// Without the advisories: their database is on a server that builds may not reach.
const CHECKS: [&str; 5] = ["deny", "check", "bans", "licenses", "sources"];

/// The command `deny`.
///
/// # Errors
/// Cargo-deny is not installed.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut version = cargo::cargo();
    version.args(["deny", "--version"]).stdout(Stdio::null());
    version.stderr(Stdio::null());
    if !version.status().is_ok_and(|status| status.success()) {
        bail!(
            "cargo-deny is not installed; `cargo install --locked cargo-deny` builds it in about \
             four minutes (then also `cargo deny check advisories`, which needs the network)"
        );
    }
    let status = cargo::cargo()
        .args(CHECKS)
        .current_dir(cargo::root())
        .status()
        .context("cannot start cargo deny")?;
    Ok(ExitCode::from(u8::from(!status.success())))
}
