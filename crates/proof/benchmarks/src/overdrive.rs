//! Overdrive as the server that is measured.

use crate::program::{Passing, Program, Site, VOLUME, pinned};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, and a runtime directory of its own: servers of others are not seen from here.
pub(crate) struct Overdrive {
    program: PathBuf,
    runtime: Passing,
}

impl Overdrive {
    /// # Errors
    /// If it was not built, or no directory can be made.
    pub(crate) fn find(site: &Site) -> Result<Overdrive> {
        Ok(Overdrive { program: site.overdrive()?, runtime: Passing::runtime()? })
    }

    /// Where sockets may be made.
    pub(crate) fn directory(&self) -> &Path {
        self.runtime.path()
    }

    /// Serves a backing on these processors. `socket` is the name of its socket, `more` the options.
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

    /// The same on any processor.
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
            .env("XDG_RUNTIME_DIR", self.directory());
        Program::start(command, &socket)
    }

    /// A command that must succeed; returns what it printed.
    ///
    /// # Errors
    /// With what it said.
    pub(crate) fn well(&self, arguments: &[&str]) -> Result<String> {
        self.output(Command::new(&self.program), arguments)
    }

    /// The same on these processors.
    ///
    /// # Errors
    /// With what it said.
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

    /// What the only volume that is served has counted. The question costs the server little, but
    /// something: not while its time is taken.
    ///
    /// # Errors
    /// If none or several are served here.
    pub(crate) fn counted(&self) -> Result<Counted> {
        Ok(Counted(self.stats()?["counters"].clone()))
    }

    /// All that `volume stats --json` tells of it.
    ///
    /// # Errors
    /// If none or several are served here.
    pub(crate) fn stats(&self) -> Result<Value> {
        let said = self.volume(&["stats", "--json"])?;
        serde_json::from_str(&said).context(said)
    }

    /// How the guard of this server stands, of several that run here.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn guard(&self, server: &Program) -> Result<Value> {
        let socket = format!("overdrive/daemons/{}.sock", server.id());
        let control = self.directory().join(socket).display().to_string();
        let said = self.volume(&["stats", "--json", "--control", &control])?;
        let stats: Value = serde_json::from_str(&said).context(said)?;
        Ok(stats["guard"].clone())
    }

    /// Ends what is kept of a volume whose server was killed.
    ///
    /// # Errors
    /// If nothing is kept.
    pub(crate) fn discard(&self) -> Result<()> {
        self.volume(&["clear-error", VOLUME, "--discard-dirty", "--json"]).map(|_| ())
    }
}

impl Drop for Overdrive {
    fn drop(&mut self) {
        // Of a run that failed halfway a holder may be left, which would keep its memory for good;
        // of any other there is nothing to discard.
        let _ = self.discard();
    }
}

/// Counters by their names.
pub(crate) struct Counted(Value);

impl Counted {
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or(0)
    }

    /// What was counted since an earlier look.
    pub(crate) fn since(&self, earlier: &Counted, name: &str) -> u64 {
        self.get(name) - earlier.get(name)
    }
}
