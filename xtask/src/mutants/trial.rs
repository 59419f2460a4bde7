//! What notices a mutant: the tests, then the laboratory, the quickest first.

use super::build::{Built, CHOICE, Program};
use crate::clock::now;
use anyhow::{Context, ensure};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Tests that take longer than this come after the first look of the laboratory.
const QUICK: Duration = Duration::from_secs(2);
/// A mutant may take so much more processor time than none.
const TIMES: u64 = 4;
/// And this, in seconds.
const MORE_S: u64 = 2;
/// What a mutant that waits instead of working may take of the clock, against processor time.
const CLOCK_TIMES: u32 = 8;
/// Memory that a program may ask for, in KiB: a mutant may want all there is.
const MEMORY_KIB: &str = "16777216";
/// SIGXCPU: the processor time is used up.
const USED_UP: i32 = 24;

/// How a trial ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Nothing was noticed.
    Passed,
    Failed,
    TimedOut,
}

/// One thing to try.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// What tries, in a few words.
    pub(crate) name: String,
    path: PathBuf,
    arguments: Vec<String>,
    /// Processor time allowed, in seconds.
    limit_s: u64,
}

impl Trial {
    fn of_test(program: &Program) -> Trial {
        let Program { name, path } = program.clone();
        let arguments = ["--test-threads", "1"].map(str::to_owned).to_vec();
        Trial { name, path, arguments, limit_s: 600 }
    }

    /// `base`: its histories are others than those from another base.
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

    /// Runs it in `home` with this mutant; 0: none.
    ///
    /// # Errors
    /// If it cannot be started.
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

/// Waits for a program's end; kills it after so long: `None`.
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

/// The trials in their order, each of which must pass without a mutant. The laboratory looks for a tenth of
/// `seconds` first, and for all of it at the end.
///
/// # Errors
/// One does not pass.
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
