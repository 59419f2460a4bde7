//! `cargo xtask pages`: tests the pages of suites and comparisons in a browser.

use crate::cargo;
use crate::packages::Purpose;
use crate::setup;
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
    cargo::become_cargo(&TESTS, &[])
}
