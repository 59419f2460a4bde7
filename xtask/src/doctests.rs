//! Tests of the documentation. Cargo builds and runs a program for each library to find out whether
//! it has any, so this file looks first.

use crate::cargo;
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// Languages of examples that are no tests.
const OTHER: [&str; 7] = ["text", "toml", "json", "sh", "console", "python", "ignore"];

/// Runs the tests of the documentation of a selection. Returns whether they passed.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn run(selection: &[&str]) -> anyhow::Result<bool> {
    let mut cargo = cargo::cargo();
    cargo.args(["test", "--doc", "--no-fail-fast"]).args(selection);
    let status = cargo.current_dir(cargo::root()).status().context("cannot start cargo")?;
    Ok(status.success())
}

/// Whether the documentation of a library in one of these packages has a test.
///
/// # Errors
/// A source cannot be read.
pub(crate) fn are_in(packages: &[PathBuf]) -> anyhow::Result<bool> {
    for package in packages {
        if has(&package.join("src"))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a source below this directory has a test in its documentation.
fn has(directory: &Path) -> anyhow::Result<bool> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let found = if path.is_dir() {
            has(&path)?
        } else {
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            is_source && has_example(&fs::read_to_string(&path)?)
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the comments of documentation in a source have an example in Rust, or include a file.
fn has_example(source: &str) -> bool {
    let mut is_inside = false;
    for line in source.lines().map(str::trim_start) {
        if line.contains("doc = include_str!") {
            return true;
        }
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(text) = text.map(str::trim) else {
            is_inside = false;
            continue;
        };
        let fence = text.strip_prefix("```").or_else(|| text.strip_prefix("~~~"));
        let Some(language) = fence else { continue };
        if !is_inside && !OTHER.contains(&language.trim()) {
            return true;
        }
        is_inside = !is_inside;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_in_rust_are_tests_and_others_are_not() {
        for language in ["", "rust", "no_run", "should_panic", "compile_fail,E0277"] {
            let source = format!("/// Adds.\n///\n/// ```{language}\n/// add(1);\n/// ```\n");
            assert!(has_example(&source), "{language}");
        }
        let text = "//! ```text\n//! a -> b\n//! ```\n";
        assert!(!has_example(text));
        assert!(has_example(&format!("{text}//! ```\n//! add(1);\n//! ```\n")), "the second");
        assert!(!has_example("// ```\n// no documentation\n// ```\n"));
        assert!(has_example("#![doc = include_str!(\"README.md\")]"));
    }
}
