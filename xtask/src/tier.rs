//! Runs the steps of a tier, and prints a table of their costs.
//!
//! Most steps run one after another. Steps that need nothing but processors run beside them, at a
//! lower priority: they use the time in which tests wait, and do not delay them.

use crate::cargo;
use crate::clock::{self, Cost, Watch};
use crate::steps::Step;
use crate::tally::Tally;
use anyhow::Context;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The action after a failed step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterFailure {
    /// Stop: a developer is waiting for the result. A step that runs beside goes on to its end.
    Stop,
    /// Run all steps: each finds other faults, and the next night is a day away.
    GoOn,
}

/// Maximum number of lines of a failed step that the summary repeats.
const LAST_LINES_MAX: usize = 15;

/// The place of a step's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Output {
    /// Each line is printed at once.
    Live,
    /// All is printed when the step has ended, because other steps print as well.
    AtTheEnd,
}

/// Result of a step.
struct StepResult {
    what: &'static str,
    arguments: String,
    passed: bool,
    cost: Cost,
    tally: Tally,
    /// The last lines that it printed.
    last_lines: VecDeque<String>,
}

/// A run of a tier.
struct Run {
    day: u64,
    after: AfterFailure,
    /// Number of all steps.
    steps: usize,
    /// Number of steps that have started.
    started: AtomicUsize,
    /// No further step starts.
    stops: AtomicBool,
}

/// Runs the steps one after another, and those of `beside` at the same time, also one after
/// another. The day's number is for steps that use it. Prints the cost of each.
///
/// # Errors
/// Cargo cannot be started, or its output cannot be read.
pub(crate) fn run(
    steps: &[Step],
    beside: &[Step],
    day: u64,
    after: AfterFailure,
) -> anyhow::Result<ExitCode> {
    let run = Run {
        day,
        after,
        steps: steps.len() + beside.len(),
        started: AtomicUsize::new(0),
        stops: AtomicBool::new(false),
    };
    let watch = Watch::start();
    let (taken, taken_beside) = thread::scope(|scope| {
        let other = scope.spawn(|| run.take_all(beside, Output::AtTheEnd));
        let taken = run.take_all(steps, Output::Live);
        (taken, other.join().expect("a lane does not panic"))
    });
    let mut taken = taken?;
    taken.extend(taken_beside?);
    let not_taken = steps.iter().chain(beside).filter(|step| {
        let arguments = step.arguments(day);
        taken.iter().all(|result| result.arguments != arguments)
    });
    print_summary(&taken, &not_taken.collect::<Vec<_>>(), watch.cost());
    Ok(ExitCode::from(u8::from(taken.iter().any(|step| !step.passed))))
}

impl Run {
    /// Runs the steps one after another.
    fn take_all(&self, steps: &[Step], output: Output) -> anyhow::Result<Vec<StepResult>> {
        let mut taken = Vec::new();
        for step in steps {
            if self.stops.load(Ordering::Relaxed) {
                break;
            }
            let result = self.take(step, output).inspect_err(|_| self.stop());
            let result = result?;
            if !result.passed && self.after == AfterFailure::Stop {
                self.stop();
            }
            taken.push(result);
        }
        Ok(taken)
    }

    fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Runs a step and prints its output.
    fn take(&self, step: &Step, output: Output) -> anyhow::Result<StepResult> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let arguments = step.arguments(self.day);
        let (title, start) = (format!("[{number} of {}]", self.steps), clock::now());
        println!("{title} {}: cargo {arguments}", step.what);
        let mut child = command(output)
            .args(arguments.split(' '))
            .current_dir(cargo::root())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start cargo; is it in PATH?")?;
        let (mut tally, mut shown, mut last_lines) =
            (Tally::default(), Vec::new(), VecDeque::new());
        let stream = child.stdout.take().context("it is a pipe")?;
        for line in BufReader::new(stream).split(b'\n') {
            let line = line.context("cannot read what cargo prints")?;
            let line = String::from_utf8_lossy(&line);
            if !tally.read(&line) {
                continue;
            }
            match output {
                Output::Live => println!("{line}"),
                Output::AtTheEnd => writeln!(shown, "{line}")?,
            }
            if last_lines.len() == LAST_LINES_MAX {
                last_lines.pop_front();
            }
            last_lines.push_back(line.into_owned());
        }
        let processor = clock::processor_of_ended(&child)?;
        let passed = child.wait().context("cannot wait for cargo")?.success();
        // A step that is not a test harness counts as one test; so does a harness that failed to
        // build.
        if (tally.passed, tally.failed) == (0, 0) || (!passed && tally.failed == 0) {
            tally.add(passed);
        }
        let cost = Cost { time: start.elapsed(), processor };
        let mut out = std::io::stdout().lock();
        out.write_all(&shown)?;
        writeln!(out, "{title} {} took {cost}", step.what)?;
        Ok(StepResult { what: step.what, arguments, passed, cost, tally, last_lines })
    }
}

/// Returns a command for cargo.
fn command(output: Output) -> Command {
    let cargo = cargo::cargo();
    if output == Output::Live {
        return cargo;
    }
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(cargo.get_program());
    cargo::leave_out_package(&mut nice);
    nice
}

/// Prints the summary: skipped tests, the cost of each step, failures with their tests and last
/// lines: those may be far above.
fn print_summary(taken: &[StepResult], not_taken: &[&Step], all: Cost) {
    let skipped: Vec<&String> = taken.iter().flat_map(|step| &step.tally.skipped).collect();
    println!("\nSkipped: {}", if skipped.is_empty() { "nothing" } else { "" });
    for line in &skipped {
        println!("  {line}");
    }
    for step in not_taken {
        println!("  {}: an earlier step failed", step.what);
    }
    println!("\nTime      Processor");
    for step in taken {
        println!("{}  {}", step.cost, step.what);
    }
    println!("{all}  all steps");
    for step in taken.iter().filter(|step| !step.passed) {
        for line in step.tally.failures.iter().chain(&step.last_lines) {
            println!("  | {line}");
        }
        println!("Failed: {}. Again by: cargo {}", step.what, step.arguments);
    }
    let sum = |of: fn(&Tally) -> u64| taken.iter().map(|step| of(&step.tally)).sum::<u64>();
    let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failed));
    println!("{passed} passed, {failed} failed, {} skipped", skipped.len());
}
