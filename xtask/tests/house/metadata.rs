//! Cargo's metadata of the workspace and its dependencies.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask stands in the workspace").into()
}

/// Returns `cargo metadata` for the supported platforms.
pub(crate) fn metadata(more: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .args(["--filter-platform", "aarch64-unknown-linux-gnu"])
        .args(more)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {said}");
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// Returns the entries of a list in the metadata.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text in the metadata; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the crates of the workspace: name and directory.
pub(crate) fn crates() -> Vec<(String, PathBuf)> {
    let all = metadata(&["--no-deps"]);
    let packages = list(&all, "packages").iter();
    packages
        .map(|package| {
            let manifest = Path::new(text(package, "manifest_path"));
            let directory = manifest.parent().expect("a manifest stands in a directory");
            (text(package, "name").into(), directory.into())
        })
        .collect()
}
