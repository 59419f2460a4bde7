//! `cargo xtask pages`: the pages of suites and comparisons, as a browser shows them.

use crate::cargo;
use crate::packages::Purpose;
use crate::setup;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where there is no browser and none can be installed, say so and succeed.
    #[arg(long)]
    if_possible: bool,
}

/// The tests, which the ordinary run leaves out.
const TESTS: [&str; 8] =
    ["test", "--package", "overdrive", "--test", "pages", "--", "--ignored", "--show-output"];

/// The command `pages`.
///
/// # Errors
/// If the browser cannot be installed or cargo not be started.
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
