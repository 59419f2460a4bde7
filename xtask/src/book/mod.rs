//! `cargo xtask book`: the manual as a web site with search, from the documents of the project.
//!
//! The documents stay where a reader of the repository expects them. `sources.rs` copies the ones
//! that docs/SUMMARY.md names into a directory of the same shape, `reference.rs` adds the help of
//! all commands, mdBook (`tool.rs`) renders that directory, and `check.rs` follows every link of
//! the pages.

mod check;
mod picture;
mod reference;
mod sources;
mod tool;

use crate::cargo;
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Options of `book`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Directory of the pages; it is replaced. [default: target/book/html]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// If mdBook is missing and cannot be installed, print the reason and succeed, except under CI.
    #[arg(long)]
    if_possible: bool,
    /// Instead, take the picture of a report for README again, with a browser.
    #[arg(long)]
    picture: bool,
}

/// The command `book`.
///
/// # Errors
/// mdBook is missing and cannot be installed, or it refuses the documents.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let place = cargo::target().join("book");
    if options.picture {
        return picture::write(&place.join("picture"));
    }
    let program = match tool::mdbook(&place) {
        Err(error) if options.if_possible && std::env::var_os("CI").is_none() => {
            println!("skipped: the manual: {error:#}");
            return Ok(ExitCode::SUCCESS);
        }
        found => found?,
    };
    let pages = options.to.clone().unwrap_or_else(|| place.join("html"));
    let source = place.join("source");
    sources::copy(cargo::root(), &source)?;
    sources::add_reference(&source, &reference::chapters()?)?;
    render(&program, &source, &pages)?;
    let faults = check::faults(&read(&pages)?);
    for fault in &faults {
        eprintln!("{fault}");
    }
    ensure!(faults.is_empty(), "{} links of the manual lead nowhere; see above", faults.len());
    println!("{}", pages.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

fn render(program: &Path, source: &Path, pages: &Path) -> anyhow::Result<()> {
    let pages = std::path::absolute(pages)?;
    let mut command = Command::new(program);
    command.arg("build").arg("--dest-dir").arg(pages).arg(source);
    let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mdbook: {}", said.trim());
    ensure!(!said.contains("WARN"), "mdbook warns: {}", said.trim());
    Ok(())
}

/// Reads the pages, with their paths from this directory. Other files have no text.
fn read(pages: &Path) -> anyhow::Result<check::Files> {
    let (mut found, mut folders) = (check::Files::new(), vec![pages.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_page = path.extension().is_some_and(|extension| extension == "html");
            let text = if is_page { fs::read_to_string(&path)? } else { String::new() };
            let name = path.strip_prefix(pages).context("below the pages")?;
            found.insert(name.to_string_lossy().into_owned(), text);
        }
    }
    Ok(found)
}
