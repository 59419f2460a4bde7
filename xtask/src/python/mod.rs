//! `cargo xtask wheel` and `cargo xtask python`: the Python package, and its tests.

mod environment;
mod speed;

use crate::cargo;
use crate::tested::{self, PRODUCT};
use anyhow::{Context, bail, ensure};
use environment::Environment;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Maximum size of a wheel, in bytes.
const SIZE_MAX: u64 = 10_000_000;
/// The profile of a release: as that of the program, but a panic is an exception of Python.
const RELEASE: &str = "wheel";
/// The tool that builds wheels.
const MATURIN: &str = "maturin>=1.9.4,<2";
/// Packages for the tests of each change.
const SHORT: [&str; 1] = ["pytest"];
/// Packages for the measurement of sweeps.
const SWEEPS: [&str; 1] = ["distributed"];
/// Packages for all tests: also those that check types, run notebooks, convert tables, and run
/// sweeps on Dask and over an object store.
const FULL: [&str; 12] = [
    "pytest",
    "distributed",
    "moto[server]",
    "s3fs",
    "mypy",
    "pandas",
    "pandas-stubs",
    "polars",
    "matplotlib",
    "nbclient",
    "nbformat",
    "ipykernel",
];

#[derive(clap::Args)]
pub(crate) struct WheelOptions {
    /// Build with this profile of cargo.
    #[arg(long, value_name = "NAME", default_value = RELEASE)]
    profile: String,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// If there is no Python or no package index, print that and succeed.
    #[arg(long)]
    if_possible: bool,
    /// Build as a release, and also check the types, run the notebook, and compare the speed with
    /// the program's. By default the tests of each change run, with a wheel that is not optimized.
    #[arg(long)]
    full: bool,
    /// Compare with the program of the tests, as they have built it.
    #[arg(long, conflicts_with_all = ["full", "speed"])]
    as_tested: bool,
    /// Only compare the speed of `overdrive.simulate` with the program's, and print the ratio.
    #[arg(long, conflicts_with = "full")]
    speed: bool,
    /// Only measure the overhead of sweeps, and the speed of two Dask workers over one.
    #[arg(long, conflicts_with_all = ["full", "speed"])]
    sweeps: bool,
    /// Arguments of pytest; with --sweeps, those of the measurement.
    #[arg(last = true)]
    rest: Vec<OsString>,
}

/// The folder of the package's sources.
fn sources() -> PathBuf {
    cargo::root().join("python")
}

/// The folder of tools and environments.
fn folder() -> PathBuf {
    cargo::target().join("python")
}

/// The command `wheel`.
///
/// # Errors
/// The wheel cannot be built, or is too large.
pub(crate) fn wheel(options: &WheelOptions) -> anyhow::Result<ExitCode> {
    let tools = Environment::open_or_make(&folder().join("tools"), &[MATURIN])?;
    let wheel = build(&tools, &options.profile, &cargo::target().join("wheels"))?;
    let bytes = wheel.metadata()?.len();
    println!("{} ({:.2} MB)", wheel.display(), bytes as f64 / 1e6);
    let is_release = options.profile == RELEASE;
    ensure!(!is_release || bytes < SIZE_MAX, "the wheel has more than {SIZE_MAX} bytes");
    Ok(ExitCode::SUCCESS)
}

/// Builds a wheel into a folder, without others there. Returns its path.
fn build(tools: &Environment, profile: &str, into: &Path) -> anyhow::Result<PathBuf> {
    if into.exists() {
        std::fs::remove_dir_all(into).with_context(|| into.display().to_string())?;
    }
    let mut maturin = Command::new(tools.program("maturin"));
    maturin.args(["build", "--quiet", "--profile", profile, "--out"]).arg(into);
    maturin.arg("--interpreter").arg(tools.program("python"));
    cargo::leave_out_package(&mut maturin);
    run(maturin.current_dir(sources()))?;
    let mut wheels: Vec<PathBuf> = std::fs::read_dir(into)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    match (wheels.pop(), wheels.pop()) {
        (Some(wheel), None) => Ok(wheel),
        _ => bail!("maturin made no wheel in {}, or several", into.display()),
    }
}

/// The command `python`.
///
/// # Errors
/// A tool cannot be started, or the wheel cannot be built.
pub(crate) fn run_tests(options: &Options) -> anyhow::Result<ExitCode> {
    let is_release = options.full || options.speed || options.sweeps;
    let profile = if is_release { RELEASE } else { "dev" };
    let packages: &[&str] = match options {
        Options { full: true, .. } => &FULL,
        Options { sweeps: true, .. } => &SWEEPS,
        _ => &SHORT,
    };
    let tools = Environment::open_or_make(&folder().join("tools"), &[MATURIN]);
    let environments = tools.and_then(|tools| {
        let tests = Environment::make(&folder().join("tests"), packages)?;
        Ok((tools, tests))
    });
    let (tools, environment) = match environments {
        Err(error) if options.if_possible => {
            println!("skipped: the Python package: {error:#}");
            return Ok(ExitCode::SUCCESS);
        }
        other => other?,
    };
    let wheel = build(&tools, profile, &folder().join("wheels"))?;
    environment.install(&[wheel.as_os_str()])?;
    if options.sweeps {
        let mut measurement = environment.python();
        measurement.args(["-m", "overdrive.sweep.bench"]).args(&options.rest);
        run(&mut measurement)?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = match options.as_tested {
        true => tested::program(PRODUCT, false)?,
        false => program(is_release)?,
    };
    if options.speed {
        speed::compare(&environment, &program)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut pytest = environment.python();
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider"]).args(&options.rest);
    if !options.full {
        pytest.args(["-m", "not slow"]);
    }
    // The tests use the installed package: the folder of the sources is not in the path.
    run(pytest.current_dir(sources().join("tests")).env("OVERDRIVE_TEST_PROGRAM", &program))?;
    if options.full {
        let mypy = ["-m", "mypy", "--config-file", "pyproject.toml"];
        run(environment.python().args(mypy).current_dir(sources()))?;
        speed::compare(&environment, &program)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the program with which the package is compared. Returns its path.
fn program(is_release: bool) -> anyhow::Result<PathBuf> {
    let mut build = cargo::cargo();
    build.args(["build", "--quiet", "--package", "overdrive"]);
    if is_release {
        build.arg("--release");
    }
    run(&mut build)?;
    Ok(cargo::target().join(if is_release { "release" } else { "debug" }).join("overdrive"))
}

/// Runs a command that prints what it does.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot start {name}"))?;
    ensure!(status.success(), "{command:?} has failed: {status}");
    Ok(())
}
