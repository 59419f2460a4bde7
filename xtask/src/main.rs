//! The project's own commands, run as `cargo xtask NAME`: set-up, tests, demo, laboratory.
//!
//! Exit status as in the product: 0 ok, 1 negative answer, 2 usage, 4 permission.

mod axe;
mod book;
mod cargo;
mod check;
mod clock;
mod deny;
mod doctests;
mod explore;
mod figures;
mod former;
mod guest;
mod install;
mod mutants;
mod package;
mod packages;
mod pages;
mod parallel;
mod policies;
mod python;
mod reviews;
mod setup;
mod soak;
mod steps;
mod tally;
mod test;
mod tested;
mod tier;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, version = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands of this project. `demo` and `test` install the packages that they need, or print
/// the missing ones.
#[derive(Subcommand)]
enum Command {
    /// Install the packages that the demo or the tests need, or print the missing ones.
    Setup(setup::Options),
    /// Run all checks of a change: format, lints, tests, house rules, crash laboratory.
    Test,
    /// Run tests as `cargo test` does, but several of their programs at a time.
    Parallel(parallel::Options),
    /// Run the checks that take hours: laboratory, kills, clients, mutants, each day with another
    /// seed.
    Nightly,
    /// Repeat the tests with kills, databases and load, larger and with random parameters, for
    /// hours.
    Soak(soak::Options),
    /// Build the program and install it with its systemd unit (as root, unless you own PREFIX).
    Install(install::Options),
    /// Remove the files of `install`. Configuration and images stay.
    Uninstall(install::Options),
    /// Build the manual, a web site with search, and check its links.
    Book(book::Options),
    /// Make a Debian package and an RPM package, and check them.
    Package(package::Options),
    /// Build the Python package as a wheel, and print its size.
    Wheel(python::WheelOptions),
    /// Test the Python package in an environment of its own: `[--full] [-- ARGUMENTS OF PYTEST]`.
    Python(python::Options),
    /// Run the main use case on this machine in about a minute.
    #[command(disable_help_flag = true)]
    Demo(Passed),
    /// Run the crash laboratory: `--seconds N [--json] [--seed S] ...`.
    #[command(disable_help_flag = true)]
    Crash(Passed),
    /// Explore the state that lanes on several threads share, under many orders of their steps.
    Explore(explore::Options),
    /// Kill the real daemon under load, and cut its power: `--seconds N [--kills N] [--cuts N] ...`
    #[command(disable_help_flag = true)]
    Kills(Kills),
    /// Check the real program by clients and a lossy disk that share no code with it:
    /// `[--seconds N] [--kills N] [--cuts N] [--upgrades N] ...`.
    #[command(disable_help_flag = true)]
    Check(Passed),
    /// Run a benchmark by its name.
    #[command(disable_help_flag = true)]
    Bench(Passed),
    /// Repeat the measurements that a program can make, and write them into the table of
    /// docs/FIGURES.md.
    Figures(figures::Options),
    /// Change the engine in hundreds of small ways, and count the changes that no test detects.
    Mutants(mutants::Options),
    /// Compare the cache policies with libcachesim, miss for miss.
    Policies(policies::Options),
    /// Render the pages of suites in a headless browser: on a phone, on a desktop, light, dark,
    /// printed; and use the dashboard in it.
    Pages(pages::Options),
    /// Write the five reviews of the manual again, in docs/reviews.
    Reviews(reviews::Options),
    /// Build the programs from before each change of the arena's format, and test takeovers from
    /// them and to them.
    Former,
    /// Run a command as root in an emulated machine with Debian's kernel 6.12 and this machine's
    /// files: `[--module NAME] [--write-to DIR] ... -- COMMAND ARGS`.
    Guest(guest::Options),
    /// Test volumes under a whole Debian with systemd and udev, in an emulated machine: fstab,
    /// reboots, a power cut.
    System(guest::system::Options),
    /// Boot a Debian in a machine from a served volume whose backing is far away, and show how long
    /// its boots wait for I/O: without a cache, with a cold one, and after the daemon's kill,
    /// upgrade and restart.
    Boot(guest::system::boot::Options),
    /// The program that `guest` runs in its machine.
    #[command(hide = true)]
    GuestInit,
    /// Check dependencies with cargo-deny, by the rules in deny.toml.
    Deny,
}

/// Arguments for the program that is run.
#[derive(Args)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Options of `kills`.
#[derive(Args)]
struct Kills {
    /// Use the programs of the tests, which are not optimized.
    #[arg(long)]
    as_tested: bool,
    #[command(flatten)]
    passed: Passed,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Setup(options) => setup::run(&options),
        Command::Test => test::test(),
        Command::Parallel(options) => parallel::run(&options),
        Command::Nightly => test::nightly(),
        Command::Soak(options) => soak::run(&options),
        Command::Install(options) => install::install(&options),
        Command::Uninstall(options) => install::uninstall(&options),
        Command::Book(options) => book::run(&options),
        Command::Package(options) => package::run(&options),
        Command::Wheel(options) => python::wheel(&options),
        Command::Python(options) => python::run_tests(&options),
        Command::Demo(passed) => demo(&passed.arguments),
        Command::Crash(passed) => cargo::become_cargo(&cargo::CRASH, &passed.arguments),
        Command::Explore(options) => explore::run(&options),
        Command::Kills(options) => kills(&options),
        Command::Check(passed) => check::run(&passed.arguments),
        Command::Bench(passed) => cargo::become_cargo(&cargo::BENCH, &passed.arguments),
        Command::Figures(options) => figures::run(&options),
        Command::Mutants(options) => mutants::run(&options),
        Command::Policies(options) => policies::run(&options),
        Command::Pages(options) => pages::run(&options),
        Command::Reviews(options) => reviews::run(&options),
        Command::Former => former::run(),
        Command::Guest(options) => Ok(guest::run(&options)),
        Command::System(options) => guest::system::run_all(&options),
        Command::Boot(options) => guest::system::boot::run(&options),
        Command::GuestInit => guest::inside::run(),
        Command::Deny => deny::run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("cargo xtask: {error:#}");
        ExitCode::FAILURE
    })
}

fn kills(options: &Kills) -> anyhow::Result<ExitCode> {
    let arguments = &options.passed.arguments;
    if options.as_tested {
        let mut killtest = std::process::Command::new(tested::program("killtest", false)?);
        return Err(killtest.args(arguments).exec()).context("cannot start the kills");
    }
    let built = cargo::cargo().args(cargo::BUILD).status().context("cannot start cargo")?;
    if !built.success() {
        return Ok(ExitCode::FAILURE);
    }
    cargo::become_cargo(&cargo::KILLS, arguments)
}

fn demo(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let ready = setup::prepare(packages::Purpose::Demo)?;
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    cargo::become_cargo(&cargo::DEMO, arguments)
}
