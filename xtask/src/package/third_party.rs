//! Notices of the crates in the program: their licences require that these come with it.

use crate::cargo;
use anyhow::{Context, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Beginnings of the names of files with notices.
const NAMES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// The crates in the program, and their notices.
pub(super) struct Notices {
    /// Name, version and licence of each crate.
    pub(super) crates: BTreeSet<String>,
    /// All notices, each text once.
    pub(super) text: String,
}

impl Notices {
    /// # Errors
    /// Cargo does not list the crates.
    pub(super) fn gather() -> anyhow::Result<Self> {
        let metadata = metadata()?;
        let packages = metadata["packages"].as_array().context("cargo lists packages")?;
        let used = used(&metadata)?;
        let mut crates = BTreeSet::new();
        let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let third = packages.iter().filter(|package| !package["source"].is_null());
        for package in third.filter(|package| used.contains(text(package, "id"))) {
            let name = format!("{} {}", text(package, "name"), text(package, "version"));
            crates.insert(format!("{name}: {}", text(package, "license")));
            let manifest = Path::new(text(package, "manifest_path"));
            for notice in manifest.parent().map(notices).unwrap_or_default() {
                users.entry(notice).or_default().insert(name.clone());
            }
        }
        let sections = users.iter().map(|(notice, names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{}\n\n{notice}\n\n{}\n\n", names.join(", "), "-".repeat(80))
        });
        Ok(Self { crates, text: sections.collect() })
    }
}

/// Returns the description of all packages on this machine's kind.
fn metadata() -> anyhow::Result<Value> {
    let mut command = cargo::cargo();
    command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform"]);
    let output = command.arg("x86_64-unknown-linux-gnu").current_dir(cargo::root()).output();
    let output = output.context("cannot start cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the packages that the program is built from, without those of tests and of builds.
fn used(metadata: &Value) -> anyhow::Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolves packages")?;
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(node, "id"), node)).collect();
    let is_program = |id: &&&str| id.contains("/crates/app/overdrive#");
    let mut next = vec![*nodes.keys().find(is_program).context("overdrive is a package")?];
    let mut used = BTreeSet::new();
    while let Some(id) = next.pop() {
        if !used.insert(id.to_owned()) {
            continue;
        }
        let depends = nodes.get(id).and_then(|node| node["deps"].as_array());
        let normal = depends.into_iter().flatten().filter(|depends| {
            let kinds = depends["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        });
        next.extend(normal.map(|depends| text(depends, "pkg")));
    }
    Ok(used)
}

/// Returns the notices in the directory of a crate.
fn notices(place: &Path) -> Vec<String> {
    let entries = place.read_dir().into_iter().flatten().flatten();
    let is_notice = |name: &str| NAMES.iter().any(|known| name.to_uppercase().starts_with(known));
    let files = entries.filter(|entry| is_notice(&entry.file_name().to_string_lossy()));
    let texts = files.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.map(|text| text.replace('\r', "").trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_s_crates_are_listed_and_those_of_tests_are_not() -> anyhow::Result<()> {
        let notices = Notices::gather()?;
        let has = |name: &str| notices.crates.iter().any(|one| one.starts_with(name));
        assert!(has("rustix ") && has("clap ") && has("rusqlite "), "{:?}", notices.crates);
        assert!(!has("proptest ") && !has("cc "), "{:?}", notices.crates);
        assert!(notices.text.contains("Permission is hereby granted"));
        Ok(())
    }
}
