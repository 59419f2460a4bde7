//! Virtual environments of Python in the folder of build output.

use super::run;
use anyhow::{Context, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A virtual environment.
pub(super) struct Environment {
    folder: PathBuf,
}

/// The file that a complete environment has, with the packages that were requested.
const COMPLETE: &str = "overdrive-packages";

impl Environment {
    /// Returns the environment in a folder, and makes it if it does not have these packages.
    ///
    /// # Errors
    /// There is no Python, or the packages cannot be installed.
    pub(super) fn open_or_make(folder: &Path, packages: &[&str]) -> anyhow::Result<Environment> {
        let complete = std::fs::read_to_string(folder.join(COMPLETE)).unwrap_or_default();
        if complete == packages.join("\n") {
            return Ok(Environment { folder: folder.to_owned() });
        }
        Environment::make(folder, packages)
    }

    /// Makes a new environment in a folder, whose contents are removed.
    ///
    /// # Errors
    /// There is no Python, or the packages cannot be installed.
    pub(super) fn make(folder: &Path, packages: &[&str]) -> anyhow::Result<Environment> {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear"]).arg(folder);
        run(&mut venv).context("a virtual environment of Python cannot be made")?;
        let environment = Environment { folder: folder.to_owned() };
        environment.install(packages)?;
        std::fs::write(folder.join(COMPLETE), packages.join("\n"))?;
        Ok(environment)
    }

    /// Installs packages from the package index, or wheels.
    ///
    /// # Errors
    /// They cannot be installed.
    pub(super) fn install(&self, packages: &[impl AsRef<OsStr>]) -> anyhow::Result<()> {
        let mut pip = self.python();
        pip.args(["-m", "pip", "install", "--quiet", "--no-compile"]);
        pip.arg("--disable-pip-version-check").args(packages);
        let output = pip.output().context("cannot start pip")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pip cannot install the packages: {}", said.trim());
        Ok(())
    }

    /// Returns the path of one of its programs.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Returns a command for its Python, which finds no packages outside.
    pub(super) fn python(&self) -> Command {
        let mut python = Command::new(self.program("python"));
        python.arg("-I");
        python
    }
}
