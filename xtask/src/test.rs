//! `cargo xtask test`: every step in its order, until one fails.

use crate::cargo;
use crate::clock::now;
use crate::packages::Purpose;
use crate::setup;
use crate::steps::{STEPS, Step};
use crate::tally::Tally;
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The command `test`.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    println!("[setup] the clients that the tests drive, rustfmt and clippy");
    let ready = setup::prepare(Purpose::Tests)?;
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    toolchain()?;
    let mut tally = Tally::default();
    let mut durations = Vec::new();
    let mut failed = None;
    for (number, step) in STEPS.iter().enumerate() {
        println!("[{} of {}] {}: cargo {}", number + 1, STEPS.len(), step.what, step.arguments);
        let (passed, duration) = take(step, &mut tally)?;
        durations.push((step, duration));
        if !passed {
            failed = Some(step);
            break;
        }
    }
    println!();
    for (step, duration) in durations {
        println!("{:>7.1} s  {}", duration.as_secs_f64(), step.what);
    }
    if let Some(step) = failed {
        println!("Failed: {}. Again by: cargo {}", step.what, step.arguments);
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(ExitCode::from(u8::from(failed.is_some())))
}

/// Runs a step and shows what it prints. Returns whether it passed, and how long it took.
fn take(step: &Step, tally: &mut Tally) -> anyhow::Result<(bool, Duration)> {
    let start = now();
    let mut child = cargo::cargo()
        .args(step.arguments.split(' '))
        .current_dir(cargo::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo; is it in PATH?")?;
    let before = *tally;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("cannot read what cargo prints")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            tally.read(&line);
        }
    }
    let passed = child.wait().context("cannot wait for cargo")?.success();
    // A step that is no test harness counts as one test; so does a harness that failed to build.
    if *tally == before || (!passed && tally.failed == before.failed) {
        tally.add(passed);
    }
    Ok((passed, start.elapsed()))
}

/// A minimal Rust has neither rustfmt nor clippy; rustup adds them.
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
