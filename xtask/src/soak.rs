//! `cargo xtask soak`: repeats the tests with kills, databases and load for hours, larger and with
//! other parameters in each round.

use crate::cargo;
use crate::clock::now;
use crate::packages::Purpose;
use crate::setup;
use anyhow::{Context, ensure};
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, SystemTime};

/// The modules of `crates/app/overdrive/tests/serve` that are worth repeating.
const MODULES: [&str; 15] = [
    "lives",
    "files",
    "databases",
    "ordered",
    "ordered_databases",
    "freeze",
    "upgrade",
    "failed",
    "hang",
    "fio",
    "clients",
    "captive",
    "durability",
    "pressure",
    "crowd",
];

/// Maximum time of one test, in seconds; after it, the test hangs.
const PATIENCE_S: &str = "7200";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Duration; a running test is completed.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// Seed of the first round; later ones follow from it. Default: from the clock.
    #[arg(long)]
    seed: Option<u64>,
    /// How many times larger than in 'cargo xtask test': kills, clients, time.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    scale: u64,
    /// Only tests whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Parameters of one test run.
struct Round<'a> {
    test: &'a str,
    seed: u64,
    scale: u64,
}

impl Round<'_> {
    /// Returns the line that repeats the run.
    fn line(&self) -> String {
        let Round { test, seed, scale } = self;
        format!(
            "OVERDRIVE_SEED={seed} OVERDRIVE_SCALE={scale} cargo test --release --package \
             overdrive --test serve -- --exact {test} --nocapture"
        )
    }

    fn run(&self) -> anyhow::Result<Output> {
        let mut command = harness(&["--exact", self.test, "--nocapture"]);
        command.env("OVERDRIVE_SEED", self.seed.to_string());
        command.env("OVERDRIVE_SCALE", self.scale.to_string());
        command.output().context("cannot start timeout(1), which is part of coreutils")
    }
}

/// Returns a command for the tests' own program, with these arguments.
fn harness(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE_S).arg(cargo::cargo().get_program());
    command.args([
        "test",
        "--quiet",
        "--release",
        "--package",
        "overdrive",
        "--test",
        "serve",
        "--",
    ]);
    command.args(arguments).current_dir(cargo::root());
    command
}

/// Returns the tests to repeat, from the list that their program prints.
fn chosen<'a>(list: &'a str, only: &str) -> Vec<&'a str> {
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let of_modules = names
        .filter(|name| name.split_once("::").is_some_and(|(module, _)| MODULES.contains(&module)));
    of_modules.filter(|name| name.contains(only)).collect()
}

fn hours(time: Duration) -> String {
    let s = time.as_secs();
    format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// The command `soak`.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(options.hours.is_finite() && options.hours >= 0.0, "--hours: write it like 0.5 or 24");
    let ready = setup::prepare(Purpose::Tests)?;
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    println!("[build] the tests and the command, optimised");
    let list = harness(&["--list"]).output().context("cannot start timeout(1)")?;
    ensure!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let tests = chosen(&list, &options.only);
    ensure!(!tests.is_empty(), "--only {}: no test has this in its name", options.only);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let first = options.seed.unwrap_or_else(|| clock.map_or(1, |since| since.as_secs()));
    let all = Duration::from_secs_f64(options.hours * 3600.0);
    let start = now();
    let (mut passed, mut round) = (0, 0);
    loop {
        for test in &tests {
            let this = Round { test, seed: first.wrapping_add(round), scale: options.scale };
            let began = now();
            let output = this.run()?;
            let took = began.elapsed().as_secs_f64();
            let word = if output.status.success() { "ok" } else { "FAILED" };
            let (since, all) = (hours(start.elapsed()), hours(all));
            println!(
                "[{since} of {all}] round {round}, seed {}: {test} {word}, {took:.1} s",
                this.seed
            );
            if !output.status.success() {
                print!("{}", String::from_utf8_lossy(&output.stdout));
                eprint!("{}", String::from_utf8_lossy(&output.stderr));
                println!("Failed after {passed} that passed. Again by: {}", this.line());
                return Ok(ExitCode::FAILURE);
            }
            passed += 1;
        }
        round += 1;
        if start.elapsed() >= all {
            println!("{passed} passed in {round} rounds, none failed");
            return Ok(ExitCode::SUCCESS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_chosen_by_module_and_name() {
        let list =
            "files::one: test\noptions::two: test\nlives::three: test\n\n3 tests, 0 benchmarks\n";
        assert_eq!(chosen(list, ""), ["files::one", "lives::three"]);
        assert_eq!(chosen(list, "three"), ["lives::three"]);
        assert!(chosen(list, "four").is_empty());
    }

    #[test]
    fn a_failure_is_reported_by_a_line_that_can_be_run() {
        let line = Round { test: "files::one", seed: 7, scale: 20 }.line();
        assert!(line.starts_with("OVERDRIVE_SEED=7 OVERDRIVE_SCALE=20 cargo test "), "{line}");
        assert!(line.ends_with("-- --exact files::one --nocapture"), "{line}");
    }

    #[test]
    fn every_module_is_there() {
        let place = cargo::root().join("crates/app/overdrive/tests/serve");
        for module in MODULES {
            assert!(place.join(format!("{module}.rs")).is_file(), "{module}");
        }
    }
}
