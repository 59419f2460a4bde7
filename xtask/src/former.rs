//! Programs from before each change of the arena's format, built from this repository's history,
//! and the tests that need them.

use crate::cargo::{cargo, root};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A program that writes arenas of a former format.
struct Former {
    /// The last commit with that format.
    commit: &'static str,
    /// Tests to skip: they assume that the program lacks an ability that it has.
    skip: &'static [&'static str],
}

const ALL: [Former; 2] = [
    Former { commit: "5edf16a", skip: &[] },
    // Its arenas can be taken over with other sizes.
    Former { commit: "d43323e", skip: &["is_written_out_where_other_sizes_are_wanted"] },
];

/// The command `former`.
///
/// # Errors
/// The history has no such commit, or it does not build.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    for Former { commit, skip } in ALL {
        let program = build(commit, &root().join(format!("target/former-{commit}")))?;
        println!("beside the program of commit {commit}:");
        let tests = ["test", "--package", "overdrive", "--test", "serve", "former", "--"];
        let status = cargo()
            .args(tests)
            .args(["--ignored", "--show-output"])
            .args(skip.iter().flat_map(|test| ["--skip", test]))
            .current_dir(root())
            .env("OVERDRIVE_FORMER", program)
            .status()
            .context("cannot start cargo; is it in PATH?")?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the newest program with a former format, and returns it.
///
/// # Errors
/// The history has no such commit, or it does not build.
pub(crate) fn newest() -> anyhow::Result<PathBuf> {
    let Former { commit, .. } = &ALL[ALL.len() - 1];
    build(commit, &root().join(format!("target/former-{commit}")))
}

/// Checks a commit out next to the build, unless that was done before, and builds the program.
fn build(commit: &str, place: &Path) -> anyhow::Result<PathBuf> {
    if !place.join("Cargo.toml").is_file() {
        let checked_out = Command::new("git")
            .args(["worktree", "add", "--force", "--detach"])
            .arg(place)
            .arg(commit)
            .current_dir(root())
            .status()
            .context("cannot start git")?;
        ensure!(
            checked_out.success(),
            "the former program is commit {commit} of this repository; fetch its whole history \
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
