//! `cargo xtask test`: the checks of each change. `cargo xtask nightly`: the checks that take
//! hours.

use crate::cargo;
use crate::clock::day;
use crate::packages::Purpose;
use crate::setup;
use crate::steps::{BESIDE, CHANGE, NIGHT, Step};
use crate::tier::{self, AfterFailure};
use anyhow::ensure;
use std::process::{Command, ExitCode, Stdio};

/// The command `test`.
pub(crate) fn test() -> anyhow::Result<ExitCode> {
    run(&CHANGE, &BESIDE, AfterFailure::Stop)
}

/// The command `nightly`.
pub(crate) fn nightly() -> anyhow::Result<ExitCode> {
    run(&NIGHT, &[], AfterFailure::GoOn)
}

fn run(steps: &[Step], beside: &[Step], after: AfterFailure) -> anyhow::Result<ExitCode> {
    println!("[setup] the clients that the tests drive, rustfmt and clippy");
    let ready = setup::prepare(Purpose::Tests)?;
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    toolchain()?;
    tier::run(steps, beside, day(), after)
}

/// Adds rustfmt and clippy, which a minimal Rust lacks, with rustup.
fn toolchain() -> anyhow::Result<()> {
    let has = |tool: &str| {
        let mut version = cargo::cargo();
        version.args([tool, "--version"]).stdout(Stdio::null());
        version.stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    if has("fmt") && has("clippy") {
        return Ok(());
    }
    let added = Command::new("rustup")
        .args(["component", "add", "rustfmt", "clippy"])
        .current_dir(cargo::root())
        .status();
    ensure!(
        added.is_ok_and(|status| status.success()),
        "rustfmt and clippy are missing; install them as your Rust was installed (with rustup: \
         rustup component add rustfmt clippy)"
    );
    Ok(())
}
