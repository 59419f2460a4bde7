//! `cargo xtask install` and `uninstall`: the program and its systemd unit, where the system looks for them.

use crate::cargo;
use anyhow::{Context, bail, ensure};
use clap::Args;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The unit, and the program's path in it.
const UNIT: &str = "packaging/systemd/overdrive@.service";
const PROGRAM_IN_UNIT: &str = "/usr/bin/overdrive";

#[derive(Args)]
pub(crate) struct Options {
    /// The program goes to PREFIX/bin, its systemd unit to PREFIX/lib/systemd/system.
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
}

impl Options {
    fn program(&self) -> PathBuf {
        self.prefix.join("bin/overdrive")
    }

    fn unit(&self) -> PathBuf {
        self.prefix.join("lib/systemd/system/overdrive@.service")
    }
}

/// The command `install`.
///
/// # Errors
/// If it cannot be built, or a file cannot be written.
pub(crate) fn install(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(options.prefix.is_absolute(), "--prefix: write an absolute path, as units need it");
    let built = cargo::cargo().args(cargo::BUILD).current_dir(cargo::root()).status();
    if !built.context("cannot start cargo")?.success() {
        return Ok(ExitCode::FAILURE);
    }
    put(options, &cargo::target().join("release/overdrive"))?;
    reload();
    println!("{}\n{}", options.program().display(), options.unit().display());
    Ok(ExitCode::SUCCESS)
}

/// Puts both files into their places.
fn put(options: &Options, program: &Path) -> anyhow::Result<()> {
    let binary = fs::read(program).with_context(|| program.display().to_string())?;
    let path = options.program();
    let path = path.to_str().context("--prefix: write a path that is text")?;
    let unit = fs::read_to_string(cargo::root().join(UNIT)).context(UNIT)?;
    ensure!(unit.contains(PROGRAM_IN_UNIT), "{UNIT} does not start {PROGRAM_IN_UNIT}");
    replace(&options.program(), &binary, 0o755)?;
    replace(&options.unit(), unit.replace(PROGRAM_IN_UNIT, path).as_bytes(), 0o644)
}

/// Puts a file into its place at once: one that runs just now goes on as it was.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let directory = path.parent().context("a file is in a directory")?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let put = fs::create_dir_all(directory)
        .and_then(|()| fs::write(&new, bytes))
        .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&new, path));
    if put.is_err() {
        let _ = fs::remove_file(&new);
    }
    put.with_context(|| format!("{}: cannot be written; are you root?", path.display()))
}

/// The command `uninstall`. Configuration, images, and volumes that are served stay as they are.
///
/// # Errors
/// If nothing is installed, or it cannot be removed.
pub(crate) fn uninstall(options: &Options) -> anyhow::Result<ExitCode> {
    let mut found = false;
    for path in [options.program(), options.unit()] {
        match fs::remove_file(&path) {
            Ok(()) => println!("{}", path.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => bail!("{}: cannot be removed: {error}", path.display()),
        }
        found = true;
    }
    if !found {
        println!("Nothing is installed in {}.", options.prefix.display());
        return Ok(ExitCode::FAILURE);
    }
    reload();
    Ok(ExitCode::SUCCESS)
}

/// Tells systemd, where it runs. What it says is for the user.
fn reload() {
    if Path::new("/run/systemd/system").exists() {
        let _ = Command::new("systemctl").arg("daemon-reload").status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_put_and_the_unit_starts_the_program_that_was() -> anyhow::Result<()> {
        let place = std::env::temp_dir().join(format!("overdrive-install-{}", std::process::id()));
        let options = Options { prefix: place.join("opt") };
        fs::create_dir_all(&place)?;
        let built = place.join("built");
        for version in ["1", "2"] {
            fs::write(&built, version)?;
            put(&options, &built)?;
            assert_eq!(fs::read_to_string(options.program())?, version);
        }
        let mode = options.program().metadata()?.permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let unit = fs::read_to_string(options.unit())?;
        let start = format!("ExecStart={} serve --config", options.program().display());
        assert!(unit.contains(&start), "{unit}");
        assert!(!unit.contains(PROGRAM_IN_UNIT), "{unit}");
        assert_eq!(uninstall(&options)?, ExitCode::SUCCESS);
        assert!(!options.program().exists() && !options.unit().exists());
        assert_eq!(uninstall(&options)?, ExitCode::FAILURE);
        fs::remove_dir_all(&place)?;
        Ok(())
    }
}
