//! `cargo xtask reviews`: writes the five reviews of the manual again, in docs/reviews.

use crate::cargo;
use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Options of `reviews`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write only these pages: 840-evo-rapid, xp941, revodrive, x25-m, msata. [default: all]
    pages: Vec<String>,
}

/// The folder of the pages.
const PAGES: &str = "docs/reviews";
/// The page that is made from a review by the program.
const RAPID: &str = "840-evo-rapid";
/// That review.
const REVIEW: [&str; 6] =
    ["review", "model:samsung-840-evo-250", "--with", "rapid", "--quick", "--json"];
/// Prices of the cache's work that do not depend on this machine: the pages change with the
/// program only.
const PRICES: &str = "docs/reviews/prices.json";
/// The example that writes the pages.
const EXAMPLE: [&str; 7] =
    ["run", "--quiet", "--release", "--package", "suites", "--example", "reviews"];

/// The command `reviews`.
///
/// # Errors
/// A part of it cannot be built or fails.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let root = cargo::root();
    let folder = root.join(PAGES);
    let has_rapid = options.pages.is_empty() || options.pages.iter().any(|page| page == RAPID);
    let mut example = cargo::cargo();
    example.args(EXAMPLE).arg("--").arg("--to").arg(&folder).args(&options.pages);
    if has_rapid {
        let review = cargo::target().join("reviews").join("840-evo-rapid.json");
        write_review(root, &review)?;
        example.arg("--rapid").arg(&review);
    }
    let status = example.current_dir(root).status().context("cannot start cargo")?;
    ensure!(status.success(), "the pages were not written");
    Ok(ExitCode::SUCCESS)
}

/// Builds the program, and has it write the JSON of the review.
fn write_review(root: &Path, to: &Path) -> anyhow::Result<()> {
    let build = ["build", "--quiet", "--release", "--package", "overdrive"];
    let built = cargo::cargo().args(build).current_dir(root).status();
    ensure!(built.context("cannot start cargo")?.success(), "the program cannot be built");
    let folder = to.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let program = cargo::target().join("release/overdrive");
    let mut review = Command::new(&program);
    review.args(REVIEW).args(["--prices", PRICES]).current_dir(root).stdin(Stdio::null());
    let output = review.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "the review has failed");
    fs::write(to, &output.stdout).with_context(|| to.display().to_string())
}
