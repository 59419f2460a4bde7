//! Checks of finished packages: size, contents, lintian, equality of two builds.

use super::{Packages, SIZE_MAX, run_tool};
use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Files without which a package is not complete.
const NEEDED: [&str; 9] = [
    "/usr/bin/overdrive",
    "/usr/lib/systemd/system/overdrive-device@.service",
    "/usr/lib/systemd/system/overdrive@.service",
    "/usr/lib/tmpfiles.d/overdrive.conf",
    "/usr/lib/udev/rules.d/61-overdrive.rules",
    "/usr/share/bash-completion/completions/overdrive",
    "/usr/share/fish/vendor_completions.d/overdrive.fish",
    "/usr/share/man/man1/overdrive-attach.1.gz",
    "/usr/share/man/man1/overdrive.1.gz",
];

/// Checks both packages, and prints their sizes.
///
/// # Errors
/// A check fails.
pub(super) fn all(packages: &Packages) -> anyhow::Result<()> {
    for path in [&packages.deb, &packages.rpm] {
        let size = path.metadata()?.len();
        println!("{} ({:.1} MiB)", path.display(), size as f64 / f64::from(1 << 20));
        ensure!(size <= SIZE_MAX, "{}: {size} bytes are more than {SIZE_MAX}", path.display());
    }
    complete(Command::new("dpkg-deb").arg("--contents").arg(&packages.deb))?;
    complete(Command::new("rpm").args(["--query", "--list", "--package"]).arg(&packages.rpm))?;
    run_tool(Command::new("lintian").args(["--fail-on", "error"]).arg(&packages.deb))
}

/// Checks that a list of files has all needed ones.
fn complete(list: &mut Command) -> anyhow::Result<()> {
    let output = list.output().with_context(|| format!("cannot start {list:?}"))?;
    ensure!(output.status.success(), "{list:?} has failed");
    let files = String::from_utf8_lossy(&output.stdout);
    for needed in NEEDED {
        ensure!(files.contains(needed), "{list:?}: {needed} is missing");
    }
    Ok(())
}

/// Checks that two packages are the same, byte for byte.
///
/// # Errors
/// They differ.
pub(super) fn same(one: &Path, other: &Path) -> anyhow::Result<()> {
    let (first, second) = (fs::read(one)?, fs::read(other)?);
    ensure!(
        first == second,
        "{} and {} differ; diffoscope shows the difference",
        one.display(),
        other.display()
    );
    println!("{}: two builds, the same {} bytes", one.display(), first.len());
    Ok(())
}
