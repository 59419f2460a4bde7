//! The programs that make packages. They are built once, below the build directory, and are no
//! dependencies of the project.

use crate::cargo;
use anyhow::{Context, ensure};
use std::path::PathBuf;

/// The crates, and the versions with which packages are the same, byte for byte.
const TOOLS: [(&str, &str); 2] = [("cargo-deb", "3.8.0"), ("cargo-generate-rpm", "0.21.1")];

fn place() -> PathBuf {
    cargo::target().join("tools")
}

/// Returns the path of an installed tool.
pub(super) fn path(name: &str) -> PathBuf {
    place().join("bin").join(name)
}

/// Builds the tools that are missing.
///
/// # Errors
/// A tool cannot be built.
pub(super) fn install() -> anyhow::Result<()> {
    for (name, version) in TOOLS.iter().filter(|(name, _)| !path(name).is_file()) {
        eprintln!("Building {name} {version}, once; this takes some minutes ...");
        let mut install = cargo::cargo();
        install.args(["install", "--locked", "--quiet", "--version", version, "--root"]);
        install.arg(place()).arg(name).env_remove("CARGO_TARGET_DIR");
        let status = install.status().context("cannot start cargo")?;
        ensure!(status.success(), "{name} cannot be built; see above");
    }
    Ok(())
}
