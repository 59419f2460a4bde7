//! The programs that the tests of a change use: tests of the crates that use the engine as in the
//! product, and the product itself.
//!
//! Cargo builds a crate again for each set of features of the crates below it, and the set depends
//! on the packages that are selected. So steps that need a program after those tests select the
//! same packages: everything is built already.

use crate::cargo;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::Stdio;

/// Arguments of cargo that select the packages.
///
/// The crates with the laboratory's feature are tested with it, separately. `nbd` is one of them.
/// The daemon can have a planted bug if the environment names it; no variable does, except in the
/// tests of those bugs.
pub(crate) const SELECTION: [&str; 17] = [
    "--workspace",
    "--exclude",
    "xtask",
    "--exclude",
    "crash",
    "--exclude",
    "cache",
    "--exclude",
    "layers",
    "--exclude",
    "nbd",
    "--exclude",
    "pool",
    "--exclude",
    "overdrive-python",
    "--features",
    "overdrive/planted",
];

/// Name of the product.
pub(crate) const PRODUCT: &str = "overdrive";

/// The variable that is set for tests if the product was built with them. Tests of other packages
/// then use it as it is.
pub(crate) const BUILT: &str = "OVERDRIVE_TEST_BUILT";

/// Builds the tests of a selection, and the programs that they start. Returns the messages of
/// cargo; none if the build fails, and cargo has printed why.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn build(selection: &[&str]) -> anyhow::Result<Option<String>> {
    let mut cargo = cargo::cargo();
    cargo.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]);
    // Without examples, which have no tests; the lints check that they compile.
    cargo.arg("--tests");
    cargo.args(selection).current_dir(cargo::root()).stderr(Stdio::inherit());
    let built = cargo.output().context("cannot start cargo")?;
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    Ok(built.status.success().then_some(messages))
}

/// Returns a program that [`SELECTION`] builds.
///
/// # Errors
/// Cargo cannot be started, the build fails, or the selection has no such program.
pub(crate) fn program(target: &str, is_test: bool) -> anyhow::Result<PathBuf> {
    let messages = build(&SELECTION)?;
    ensure!(messages.is_some(), "the tests do not build: see above");
    let found = find(&messages.unwrap_or_default(), target, is_test);
    found.with_context(|| format!("{target}: there is no such target"))
}

/// Returns the path of a program in messages of cargo.
pub(crate) fn find(messages: &str, target: &str, is_test: bool) -> Option<PathBuf> {
    messages.lines().find_map(|message| {
        let (path, message) = cargo::executable(message)?;
        let is_it = message["target"]["name"] == target && message["profile"]["test"] == is_test;
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_the_tests_of_the_same_name_are_distinguished() {
        let message = |test: bool, path: &str| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "target": { "name": "overdrive" },
                "profile": { "test": test },
                "executable": path,
            })
            .to_string()
        };
        let messages = [message(true, "/deps/overdrive-1"), message(false, "/overdrive")];
        let messages = format!("Compiling ...\n{}", messages.join("\n"));
        let found = |is_test| find(&messages, PRODUCT, is_test);
        assert_eq!(found(true), Some(PathBuf::from("/deps/overdrive-1")));
        assert_eq!(found(false), Some(PathBuf::from("/overdrive")));
        assert_eq!(find(&messages, "serve", true), None);
    }
}
