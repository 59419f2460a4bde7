//! Where a test's daemons and holders live, apart from all others.

use crate::common::{Ended, OVERDRIVE, run};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// A runtime directory, and room for sockets whose paths must be short. With it go the holders that
/// were left in it.
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

    /// Where the one server of a home listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("socket")
    }

    /// A command of this home's user.
    pub(crate) fn overdrive(&self, arguments: &[&str]) -> Ended {
        let variable = format!("XDG_RUNTIME_DIR={}", self.runtime().display());
        run("env", &[&[variable.as_str(), OVERDRIVE], arguments].concat())
    }

    /// The same, to be started by the test itself.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(OVERDRIVE);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.runtime());
        command
    }

    /// The holders, also of volumes that are served.
    pub(crate) fn holders(&self) -> Vec<holder::Status> {
        holder::Keeper::list(&self.runtime().join("overdrive")).unwrap_or_default()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for holder in self.holders() {
            // Whatever they keep is a test's.
            if let Some(pid) = Pid::from_raw(holder.holder_pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
