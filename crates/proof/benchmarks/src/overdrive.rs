//! Overdrive as the measured server.

use crate::client::VOLUME;
use crate::processors::pinned;
use crate::program::{Program, ProgramOptions, TemporaryPath};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, and a runtime directory of its own, which hides other servers.
pub(crate) struct Overdrive {
    program: PathBuf,
    runtime: TemporaryPath,
}

impl Overdrive {
    /// Finds the program.
    ///
    /// # Errors
    /// If it was not built, or no directory can be made.
    pub(crate) fn find(program_options: &ProgramOptions) -> Result<Overdrive> {
        Ok(Overdrive { program: program_options.overdrive()?, runtime: TemporaryPath::runtime()? })
    }

    /// Returns the directory for sockets.
    pub(crate) fn directory(&self) -> &Path {
        self.runtime.path()
    }

    /// Serves a backing on these processors. `socket` is the name of its socket, `more` the
    /// options.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn serve(
        &self,
        processors: &str,
        socket: &str,
        backing: &str,
        more: &[&str],
    ) -> Result<Program> {
        self.start(pinned(&self.program, processors), socket, backing, more)
    }

    /// Serves a backing on any processor.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn serve_anywhere(
        &self,
        socket: &str,
        backing: &str,
        more: &[&str],
    ) -> Result<Program> {
        self.start(Command::new(&self.program), socket, backing, more)
    }

    fn start(
        &self,
        mut command: Command,
        socket: &str,
        backing: &str,
        more: &[&str],
    ) -> Result<Program> {
        let socket = self.directory().join(format!("{socket}.sock"));
        command
            .args(["serve", backing, "--quiet", "--json", "--name", VOLUME])
            .arg("--nbd")
            .arg(format!("unix:{}", socket.display()))
            .args(more)
            .env("XDG_RUNTIME_DIR", self.directory())
            .env("XDG_STATE_HOME", self.directory().join("state"));
        // Every start is a cold one.
        let _ = std::fs::remove_dir_all(self.directory().join("state"));
        Program::start(command, &socket)
    }

    /// Runs a command that must succeed; returns its output.
    ///
    /// # Errors
    /// With the command's error output.
    pub(crate) fn well(&self, arguments: &[&str]) -> Result<String> {
        self.output(Command::new(&self.program), arguments)
    }

    /// Runs a command on these processors.
    ///
    /// # Errors
    /// With the command's error output.
    pub(crate) fn pinned(&self, processors: &str, arguments: &[&str]) -> Result<String> {
        self.output(pinned(&self.program, processors), arguments)
    }

    fn output(&self, mut command: Command, arguments: &[&str]) -> Result<String> {
        let output = command.args(arguments).env("XDG_RUNTIME_DIR", self.directory()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "overdrive {}: {said}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn volume(&self, arguments: &[&str]) -> Result<String> {
        self.well(&[&["volume"], arguments].concat())
    }

    /// Returns the counters of the only served volume. The query costs the server some time: do not
    /// call it while that is measured.
    ///
    /// # Errors
    /// If none or several are served here.
    pub(crate) fn counted(&self) -> Result<Counted> {
        Ok(Counted(self.stats()?["counters"].clone()))
    }

    /// Returns the whole output of `volume stats --json`.
    ///
    /// # Errors
    /// If none or several are served here.
    pub(crate) fn stats(&self) -> Result<Value> {
        let said = self.volume(&["stats", "--json"])?;
        serde_json::from_str(&said).context(said)
    }

    /// Returns the state of the guard of this server, one of several that run here.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn guard(&self, server: &Program) -> Result<Value> {
        Ok(self.stats_of(server)?["guard"].clone())
    }

    /// Returns the statistics of this server, one of several that run here.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn stats_of(&self, server: &Program) -> Result<Value> {
        let socket = format!("overdrive/daemons/{}.sock", server.id());
        let control = self.directory().join(socket).display().to_string();
        let said = self.volume(&["stats", "--json", "--control", &control])?;
        serde_json::from_str(&said).context(said)
    }

    /// Returns the counters of this server, one of several that run here.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn counted_by(&self, server: &Program) -> Result<Counted> {
        Ok(Counted(self.stats_of(server)?["counters"].clone()))
    }

    /// Discards the retained data of a volume whose server was killed.
    ///
    /// # Errors
    /// If nothing is retained.
    pub(crate) fn discard(&self) -> Result<()> {
        self.volume(&["clear-error", VOLUME, "--discard-dirty", "--json"]).map(|_| ())
    }
}

impl Drop for Overdrive {
    fn drop(&mut self) {
        // A run that failed may have left a holder, which would occupy its memory indefinitely;
        // after any other run there is nothing to discard.
        let _ = self.discard();
    }
}

/// Counters by their names.
pub(crate) struct Counted(Value);

impl Counted {
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or(0)
    }

    /// Returns the increase since an earlier query.
    pub(crate) fn since(&self, earlier: &Counted, name: &str) -> u64 {
        self.get(name) - earlier.get(name)
    }
}
