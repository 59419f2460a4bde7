//! The list of mutants from cargo-mutants.

use crate::cargo;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

/// The crates that are mutated.
pub(crate) const PACKAGES: [&str; 2] = ["cache", "policy"];
/// Their directory, relative to the workspace's root.
pub(crate) const SOURCES: &str = "crates/core/";

/// The kind of a mutant, in cargo-mutants' words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub(crate) enum Genre {
    /// A function immediately returns this value.
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// A position in a source: line and column, in characters, from one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Deserialize)]
struct Span {
    start: Position,
}

#[derive(Deserialize)]
struct Listed {
    file: String,
    genre: Genre,
    name: String,
    replacement: String,
    span: Span,
}

/// One small change to the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mutant {
    /// Selects it at run time; 0 is none.
    pub(crate) id: u32,
    /// Path below [`SOURCES`]: `cache/src/shard/read.rs`.
    pub(crate) file: String,
    pub(crate) genre: Genre,
    pub(crate) at: Position,
    pub(crate) replacement: String,
    /// Description of the change: `replace < with <= in Order::trouble`.
    pub(crate) what: String,
    /// File, description and source line: identifies it even if lines have moved.
    pub(crate) key: String,
}

impl Mutant {
    /// Position, for a reader's editor, and description.
    pub(crate) fn title(&self) -> String {
        let Mutant { file, at, what, .. } = self;
        format!("{SOURCES}{file}:{}:{}: {what}", at.line, at.column)
    }
}

/// Lists all mutants of these files of [`SOURCES`].
///
/// # Errors
/// Cargo-mutants is not installed, or fails.
pub(crate) fn mutants(files: &[String]) -> anyhow::Result<Vec<Mutant>> {
    let mut version = cargo::cargo();
    version.args(["mutants", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !version.status().is_ok_and(|status| status.success()) {
        bail!(
            "cargo-mutants, which names the mutants, is not installed; `cargo install --locked \
             cargo-mutants` builds it in about three minutes"
        );
    }
    let mut command = cargo::cargo();
    command.args(["mutants", "--list", "--json"]);
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    for file in files {
        command.args(["--file", &format!("{SOURCES}{file}")]);
    }
    let output = command.current_dir(cargo::root()).output().context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "cargo mutants --list failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    read(&output.stdout, &|file| {
        let path = cargo::root().join(Path::new(file));
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    })
}

/// Parses a list; `source` returns the text of a file.
fn read(
    list: &[u8],
    source: &dyn Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<Mutant>> {
    let listed: Vec<Listed> = serde_json::from_slice(list)
        .context("cargo-mutants lists mutants in a form that is not known here (27.1 is)")?;
    let mut texts = BTreeMap::new();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut mutants = Vec::with_capacity(listed.len());
    for (number, listed) in listed.into_iter().enumerate() {
        let Listed { file, genre, name, replacement, span } = listed;
        if !texts.contains_key(&file) {
            texts.insert(file.clone(), source(&file)?);
        }
        let line = texts[&file].lines().nth(span.start.line - 1).unwrap_or_default().trim();
        let what = name.splitn(4, ':').nth(3).unwrap_or(&name).trim().to_owned();
        let file = file.strip_prefix(SOURCES).unwrap_or(&file).to_owned();
        let mut key = format!("{file}: {what}: {line}");
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        if *times > 1 {
            key += &format!(" #{times}");
        }
        let id = number as u32 + 1;
        mutants.push(Mutant { id, file, genre, at: span.start, replacement, what, key });
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_change_twice_in_a_line_has_two_keys() {
        let one = |column: u32| {
            format!(
                r#"{{"file": "crates/core/cache/src/a.rs", "genre": "BinaryOperator", "package": "cache",
                "name": "crates/core/cache/src/a.rs:2:{column}: replace + with - in f",
                "replacement": "-", "function": null,
                "span": {{"start": {{"line": 2, "column": {column}}},
                          "end": {{"line": 2, "column": 9}}}}}}"#
            )
        };
        let list = format!("[{}, {}]", one(7), one(11));
        let source = |_: &str| Ok("fn f() {\n    a + b + c\n}\n".to_owned());
        let mutants = read(list.as_bytes(), &source).expect("a list");
        let keys: Vec<&str> = mutants.iter().map(|mutant| mutant.key.as_str()).collect();
        let key = "cache/src/a.rs: replace + with - in f: a + b + c";
        assert_eq!(keys, [key.to_owned(), format!("{key} #2")]);
        assert_eq!(mutants[1].title(), "crates/core/cache/src/a.rs:2:11: replace + with - in f");
    }
}
