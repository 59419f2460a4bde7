//! Runs the steps of a tier, one after another, and prints a table of their costs.

use crate::cargo;
use crate::clock::{Cost, Watch};
use crate::steps::Step;
use crate::tally::Tally;
use anyhow::Context;
use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};

/// The action after a failed step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterFailure {
    /// Stop: a developer is waiting for the result.
    Stop,
    /// Run all steps: each finds other faults, and the next night is a day away.
    GoOn,
}

/// Result of a step.
struct StepResult {
    what: &'static str,
    arguments: String,
    passed: bool,
    cost: Cost,
}

/// Runs the steps, with the day's number for those that use it. Prints the cost of each.
///
/// # Errors
/// Cargo cannot be started, or its output cannot be read.
pub(crate) fn run(steps: &[Step], day: u64, after: AfterFailure) -> anyhow::Result<ExitCode> {
    let mut tally = Tally::default();
    let mut taken: Vec<StepResult> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let arguments = step.arguments(day);
        println!("[{} of {}] {}: cargo {arguments}", number + 1, steps.len(), step.what);
        let this = take(step.what, arguments, &mut tally)?;
        println!("[{} of {}] took {}", number + 1, steps.len(), this.cost);
        let stops = !this.passed && after == AfterFailure::Stop;
        taken.push(this);
        if stops {
            break;
        }
    }
    print_summary(steps, &taken, &tally);
    Ok(ExitCode::from(u8::from(taken.iter().any(|step| !step.passed))))
}

/// Runs a step and prints its output.
fn take(what: &'static str, arguments: String, tally: &mut Tally) -> anyhow::Result<StepResult> {
    let watch = Watch::start();
    let mut child = cargo::cargo()
        .args(arguments.split(' '))
        .current_dir(cargo::root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo; is it in PATH?")?;
    let before = (tally.passed, tally.failed);
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("cannot read what cargo prints")?;
            let line = String::from_utf8_lossy(&line);
            if tally.read(&line) {
                println!("{line}");
            }
        }
    }
    let passed = child.wait().context("cannot wait for cargo")?.success();
    // A step that is not a test harness counts as one test; so does a harness that failed to build.
    if (tally.passed, tally.failed) == before || (!passed && tally.failed == before.1) {
        tally.add(passed);
    }
    Ok(StepResult { what, arguments, passed, cost: watch.cost() })
}

/// Prints the summary: skipped tests, the cost of each step, failures.
fn print_summary(steps: &[Step], taken: &[StepResult], tally: &Tally) {
    println!("\nSkipped: {}", if tally.skipped.is_empty() { "nothing" } else { "" });
    for line in &tally.skipped {
        println!("  {line}");
    }
    for step in steps.iter().skip(taken.len()) {
        println!("  {}: an earlier step failed", step.what);
    }
    println!("\nTime      Processor");
    for step in taken {
        println!("{}  {}", step.cost, step.what);
    }
    println!("{}  all steps", taken.iter().map(|step| step.cost).sum::<Cost>());
    for step in taken.iter().filter(|step| !step.passed) {
        println!("Failed: {}. Again by: cargo {}", step.what, step.arguments);
    }
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped.len());
}
