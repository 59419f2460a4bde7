//! `cargo xtask setup`: installs missing packages, or prints what to install.

use crate::packages::{self, Purpose};
use anyhow::{Context, ensure};
use clap::Args;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Status for missing permission: the packages need root.
const PERMISSION: u8 = 4;

#[derive(Args)]
pub(crate) struct Options {
    /// Purpose of the packages.
    #[arg(value_enum, default_value = "tests")]
    purpose: Purpose,
    /// Only print what is missing; install nothing.
    #[arg(long)]
    check: bool,
}

/// The command `setup`.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.check {
        let missing = packages::missing(options.purpose, packages::Need::is_met);
        if !missing.is_empty() {
            println!("{}", missing.join("\n"));
            return Ok(ExitCode::FAILURE);
        }
    }
    let ready = prepare(options.purpose)?;
    if ready == ExitCode::SUCCESS {
        println!("Everything is there.");
    }
    Ok(ready)
}

/// Ensures that all packages for `purpose` are installed. If the result is not `SUCCESS`, a remedy
/// was printed.
///
/// # Errors
/// An installation fails.
pub(crate) fn prepare(purpose: Purpose) -> anyhow::Result<ExitCode> {
    let missing = packages::missing(purpose, packages::Need::is_met);
    if missing.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if packages::find("apt-get").is_none() {
        eprintln!(
            "Missing: {}. These are the names on Debian and Ubuntu; install what holds them \
             here, then run this again.",
            missing.join(", ")
        );
        return Ok(ExitCode::from(PERMISSION));
    }
    if !is_root() {
        eprintln!("Missing: {}. Run, then try again:", missing.join(", "));
        eprintln!("  {}", spoken(&missing));
        return Ok(ExitCode::from(PERMISSION));
    }
    install(&missing)?;
    let left = packages::missing(purpose, packages::Need::is_met);
    ensure!(
        left.is_empty(),
        "{} is installed, but its programs are not found; is this a Debian or Ubuntu that packs \
         them elsewhere?",
        left.join(", ")
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the command that a user without root should run.
fn spoken(packages: &[&str]) -> String {
    let list = packages.join(" ");
    format!("sudo apt-get update && sudo apt-get install --no-install-recommends -y {list}")
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Installs packages with apt-get; updates the package lists only if the present ones are not
/// sufficient.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    eprintln!("Installing {} ...", packages.join(", "));
    let mut install = vec!["install", "--no-install-recommends", "--yes"];
    install.extend(packages);
    let anywhere = Path::new("/");
    if has_lists() && apt_get(anywhere, &install).is_ok() {
        return Ok(());
    }
    apt_get(anywhere, &["update"])?;
    apt_get(anywhere, &install)
}

fn has_lists() -> bool {
    let lists = Path::new("/var/lib/apt/lists").read_dir();
    lists.is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
        })
    })
}

/// Runs apt-get, which downloads into its working directory.
///
/// # Errors
/// Apt-get fails; includes its output.
pub(crate) fn apt_get(directory: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Another apt may be running on a machine that has just started.
        .args(["--quiet=2", "--option", "DPkg::Lock::Timeout=120"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .context("cannot start apt-get")?;
    ensure!(
        output.status.success(),
        "apt-get {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spoken_command_is_complete() {
        assert_eq!(
            spoken(&["fio", "nbdkit"]),
            "sudo apt-get update && \
             sudo apt-get install --no-install-recommends -y fio nbdkit"
        );
    }
}
