//! The program as it was before the arena's format changed, built from this repository's history, and the
//! tests that need it.

use crate::cargo::{cargo, root};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The last commit that makes arenas of the former format.
const FORMER: &str = "5edf16a";

/// The command `former`.
///
/// # Errors
/// If the history has no such commit, or it does not build.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let program = build(&root().join("target/former"))?;
    let tests = ["test", "--package", "overdrive", "--test", "serve", "former", "--"];
    let status = cargo()
        .args(tests)
        .args(["--ignored", "--show-output"])
        .current_dir(root())
        .env("OVERDRIVE_FORMER", program)
        .status()
        .context("cannot start cargo; is it in PATH?")?;
    Ok(ExitCode::from(u8::from(!status.success())))
}

/// Checks that commit out beside the build, unless it is there, and builds the program.
fn build(place: &Path) -> anyhow::Result<PathBuf> {
    if !place.join("Cargo.toml").is_file() {
        let checked_out = Command::new("git")
            .args(["worktree", "add", "--force", "--detach"])
            .arg(place)
            .arg(FORMER)
            .current_dir(root())
            .status()
            .context("cannot start git")?;
        ensure!(
            checked_out.success(),
            "the former program is commit {FORMER} of this repository; fetch its whole history \
             (git fetch --unshallow)"
        );
    }
    let built = cargo()
        .args(["build", "--package", "overdrive"])
        .current_dir(place)
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .context("cannot start cargo")?;
    ensure!(built.success(), "the former program does not build; see above");
    Ok(place.join("target/debug/overdrive"))
}
