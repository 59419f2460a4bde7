//! `cargo xtask explore`: explores the state that lanes on several threads share, under very many
//! orders of their steps.

use crate::cargo;
use anyhow::Context;
use clap::Args;
use std::process::ExitCode;

/// The explorer's tests, which use its own atomics.
const TESTS: [&str; 7] =
    ["test", "--profile", "explore", "--package", "explore", "--features", "explore"];

/// Options of `explore`.
#[derive(Args)]
pub(crate) struct Options {
    /// Multiplies the number of orders that each change must pass.
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: u32,
    /// Begin with other orders.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Try only the orders of this round, which a failure prints.
    #[arg(long, value_name = "N")]
    round: Option<u64>,
    /// Run only the tests whose name contains this.
    test: Option<String>,
}

/// The command `explore`.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut command = cargo::cargo();
    command.args(TESTS).args(["--no-fail-fast", "--"]).args(&options.test);
    command.env("EXPLORE_TIMES", options.times.to_string());
    command.env("EXPLORE_SEED", options.seed.to_string());
    if let Some(round) = options.round {
        command.env("EXPLORE_ROUND", round.to_string());
    }
    let status = command.current_dir(cargo::root()).status().context("cannot start cargo")?;
    Ok(ExitCode::from(u8::from(!status.success())))
}
