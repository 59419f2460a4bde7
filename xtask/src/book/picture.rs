//! The picture of a report at the top of README: a modelled drive, bare and with the cache.

use crate::cargo;
use crate::packages::Purpose;
use crate::setup;
use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

const PICTURE: &str = "docs/report.png";
const SUITE: &str = "bench qd1 model:samsung-840-evo-250";
/// Width and height: the verdict, the bars and the table.
const SIZE: &str = "900,545";

/// Writes the picture.
///
/// # Errors
/// A report cannot be made, or the browser writes no picture.
pub(super) fn write(place: &Path) -> anyhow::Result<ExitCode> {
    let ready = setup::prepare(Purpose::Pages)?;
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    fs::create_dir_all(place).with_context(|| place.display().to_string())?;
    overdrive(place, &format!("{SUITE} --report bare.html"))?;
    overdrive(place, &format!("{SUITE} --cache 1G --report cached.html"))?;
    overdrive(place, "bench compare bare.html cached.html --report both.html")?;
    let picture = cargo::root().join(PICTURE);
    let taken = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--window-size={SIZE}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", place.join("both.html").display()))
        .output()
        .context("cannot start chromium")?;
    ensure!(taken.status.success(), "chromium: {}", String::from_utf8_lossy(&taken.stderr).trim());
    println!("{}", picture.display());
    Ok(ExitCode::SUCCESS)
}

/// Runs the product, as built for a release, in this directory.
fn overdrive(directory: &Path, arguments: &str) -> anyhow::Result<()> {
    let manifest = cargo::root().join("Cargo.toml");
    let status = cargo::cargo()
        .args(["run", "--quiet", "--release", "--package", "overdrive", "--manifest-path"])
        .arg(manifest)
        .arg("--")
        .args(arguments.split(' '))
        .current_dir(directory)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "overdrive {arguments}: see above");
    Ok(())
}
