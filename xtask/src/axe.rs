//! axe-core, which finds obstacles for readers with disabilities: a fixed version from the npm
//! registry, for the tests of pages. It is no part of the product.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version that is installed.
const VERSION: &str = "4.10.3";
/// Hash of its archive.
const SHA256: &str = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292";
/// The script within the archive.
const SCRIPT: &str = "package/axe.min.js";

/// Returns the script; fetches it into `place` if necessary.
///
/// # Errors
/// It cannot be fetched, or is another file than the known one.
pub(crate) fn script(place: &Path) -> anyhow::Result<PathBuf> {
    let folder = place.join(format!("axe-{VERSION}"));
    let script = folder.join(SCRIPT);
    if script.exists() {
        return Ok(script);
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let package = format!("axe-core@{VERSION}");
    run(Command::new("npm").args(["pack", "--silent", &package]), &folder)?;
    let archive = format!("axe-core-{VERSION}.tgz");
    let sum = run(Command::new("sha256sum").arg(&archive), &folder)?;
    ensure!(sum.starts_with(SHA256), "{archive}: is not the known file: {}", sum.trim());
    run(Command::new("tar").args(["-xzf", &archive, SCRIPT]), &folder)?;
    Ok(script)
}

/// Runs a command in a folder; returns its output.
fn run(command: &mut Command, folder: &Path) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
