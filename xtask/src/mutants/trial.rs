//! Trials of a mutant: the tests, then the laboratory, the quickest first.

use super::build::{Built, CHOICE, Program};
use crate::clock::now;
use anyhow::{Context, ensure};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Tests that take longer than this come after the laboratory's first trial.
const QUICK: Duration = Duration::from_secs(2);
/// Factor of processor time that a mutant may use, compared with no mutant.
const TIMES: u64 = 4;
/// Additional processor time, in seconds.
const MORE_S: u64 = 2;
/// Factor of elapsed time to processor time, for a mutant that waits instead of working.
const CLOCK_TIMES: u32 = 8;
/// Memory limit of a program, in KiB: a mutant may try to allocate all memory.
const MEMORY_KIB: &str = "16777216";
/// SIGXCPU: the processor time is used up.
const USED_UP: i32 = 24;

/// Result of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// No failure.
    Passed,
    Failed,
    TimedOut,
}

/// One thing to try.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Description of the trial.
    pub(crate) name: String,
    path: PathBuf,
    arguments: Vec<String>,
    /// Maximum processor time, in seconds.
    limit_s: u64,
}

impl Trial {
    fn of_test(program: &Program) -> Trial {
        let Program { name, path } = program.clone();
        let arguments = ["--test-threads", "1"].map(str::to_owned).to_vec();
        Trial { name, path, arguments, limit_s: 600 }
    }

    /// Creates a trial of the laboratory. Another `base` gives other histories.
    fn of_laboratory(program: &Program, seconds: u64, base: u64) -> Trial {
        let arguments = ["--threads", "1", "--seconds"].map(str::to_owned).into_iter();
        let arguments =
            arguments.chain([seconds.to_string(), "--base".to_owned(), base.to_string()]);
        Trial {
            name: format!("{} for {seconds} s", program.name),
            path: program.path.clone(),
            arguments: arguments.collect(),
            limit_s: seconds * 2 + MORE_S,
        }
    }

    /// Runs the trial in `home` with this mutant; 0: none.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(crate) fn run(&self, home: &Path, mutant: u32) -> anyhow::Result<End> {
        let Trial { name, path, arguments, limit_s } = self;
        let mut command = Command::new("sh");
        let limits =
            format!("ulimit -c 0; ulimit -S -t {limit_s}; ulimit -v {MEMORY_KIB}; exec \"$@\"");
        command.args(["-c", &limits, "sh"]).arg(path).args(arguments);
        command.current_dir(home).env(CHOICE, mutant.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let clock = Duration::from_secs(*limit_s) * CLOCK_TIMES;
        Ok(match wait(child, clock)? {
            Some(status) if status.success() => End::Passed,
            Some(status) if status.signal() != Some(USED_UP) => End::Failed,
            _ => End::TimedOut,
        })
    }
}

/// Waits for a program's end. Kills it after this time, and returns None.
fn wait(mut child: Child, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
    let begun = now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a program")? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit {
            child.kill().context("cannot kill a program")?;
            child.wait().context("cannot wait for a program")?;
            return Ok(None);
        }
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Returns the trials in order, each of which must pass without a mutant. The laboratory runs for a
/// tenth of `seconds` first, and for the full time at the end.
///
/// # Errors
/// A trial does not pass.
pub(crate) fn plan(built: &Built, seconds: u64) -> anyhow::Result<Vec<Trial>> {
    let mut tests = Vec::new();
    for program in &built.tests {
        let mut trial = Trial::of_test(program);
        let begun = now();
        ensure!(
            trial.run(&built.home, 0)? == End::Passed,
            "{} fails without a mutant: cd {} && {} --test-threads 1",
            trial.name,
            built.home.display(),
            trial.path.display()
        );
        let took = begun.elapsed();
        trial.limit_s = took.as_secs() * TIMES + MORE_S;
        eprintln!("[try] without a mutant: {} passed in {:.1} s", trial.name, took.as_secs_f64());
        tests.push((took, trial));
    }
    tests.sort_by_key(|(took, _)| *took);
    let slow = tests.iter().position(|(took, _)| *took > QUICK).unwrap_or(tests.len());
    let mut plan: Vec<Trial> = tests.into_iter().map(|(_, trial)| trial).collect();
    let first = Trial::of_laboratory(&built.laboratory, (seconds / 10).max(1), 1);
    let last = Trial::of_laboratory(&built.laboratory, seconds, 2);
    for laboratory in [&first, &last] {
        ensure!(
            laboratory.run(&built.home, 0)? == End::Passed,
            "the laboratory finds something without a mutant: {} {}",
            laboratory.path.display(),
            laboratory.arguments.join(" ")
        );
    }
    plan.insert(slow, first);
    plan.push(last);
    Ok(plan)
}
