//! `cargo xtask pages`: tests the pages of suites and comparisons in a browser.

use crate::packages::Purpose;
use crate::setup;
use crate::{axe, cargo};
use anyhow::Context;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// If there is no browser and none can be installed, print that and succeed.
    #[arg(long)]
    if_possible: bool,
}

/// The tests, which a normal run skips.
const TESTS: [&str; 8] =
    ["test", "--package", "overdrive", "--test", "pages", "--", "--ignored", "--show-output"];

/// The variable with the path of axe's script. Without it the tests leave axe out.
const AXE: &str = "OVERDRIVE_TEST_AXE";

/// The command `pages`.
///
/// # Errors
/// The browser cannot be installed, or cargo cannot be started.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let ready = setup::prepare(Purpose::Pages)?;
    if ready != ExitCode::SUCCESS && options.if_possible {
        println!("skipped: pages in a browser: there is none");
        return Ok(ExitCode::SUCCESS);
    }
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    let mut tests = cargo::cargo();
    tests.args(TESTS);
    match axe::script(&cargo::target().join("pages")) {
        Ok(script) => drop(tests.env(AXE, script)),
        Err(error) if options.if_possible => println!("skipped: axe: {error:#}"),
        Err(error) => return Err(error.context("axe cannot be installed; npm fetches it")),
    }
    let status = tests.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
