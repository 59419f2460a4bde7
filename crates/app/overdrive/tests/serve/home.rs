//! The directories of a test's daemons and holders, separate from all others.

use crate::common::{Ended, OVERDRIVE, run};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// A runtime directory, and a directory for sockets, whose paths must be short. Holders left in it
/// end with it.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Arc<Home> {
        let directory = tempfile::Builder::new().prefix("od").tempdir_in("/tmp");
        Arc::new(Home(directory.expect("a place for sockets, with a short path")))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// For `XDG_RUNTIME_DIR`.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.path().join("run")
    }

    /// For `XDG_STATE_HOME`.
    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Socket of the one server of a home.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("socket")
    }

    /// Runs a command of this home's user.
    pub(crate) fn overdrive(&self, arguments: &[&str]) -> Ended {
        let runtime = format!("XDG_RUNTIME_DIR={}", self.runtime().display());
        let state = format!("XDG_STATE_HOME={}", self.state().display());
        run("env", &[&[runtime.as_str(), &state, OVERDRIVE], arguments].concat())
    }

    /// Returns such a command, to be started by the test itself.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(OVERDRIVE);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.runtime());
        command.env("XDG_STATE_HOME", self.state());
        command
    }

    /// Returns the holders, also of volumes that are served.
    pub(crate) fn holders(&self) -> Vec<holder::Status> {
        holder::Keeper::list(&self.runtime().join("overdrive")).unwrap_or_default()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for holder in self.holders() {
            // The data that they retain belongs to a test.
            if let Some(pid) = Pid::from_raw(holder.holder_pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
