//! Servers of other programs, as backings.

use crate::common::wait_until;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server of another program, at a unix socket.
pub(crate) struct Remote {
    pub(crate) child: Option<Child>,
    program: &'static str,
    pub(crate) arguments: Vec<String>,
    directory: TempDir,
}

impl Remote {
    /// Starts a program. `@` in its arguments is the socket.
    pub(crate) fn start(program: &'static str, arguments: &[&str]) -> Remote {
        let directory = tempfile::Builder::new().prefix("od").tempdir_in("/tmp").expect("room");
        let socket = directory.path().join("socket").display().to_string();
        let arguments = arguments.iter().map(|text| text.replace('@', &socket)).collect();
        let mut remote = Remote { child: None, program, arguments, directory };
        remote.revive();
        remote
    }

    pub(crate) fn nbdkit(arguments: &[&str]) -> Remote {
        Remote::start("nbdkit", &[&["-f", "-U", "@"], arguments].concat())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        child.kill().expect("ours");
        child.wait().expect("ours");
        let _ = fs::remove_file(self.socket());
    }

    pub(crate) fn revive(&mut self) {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("it is installed"));
        wait_until("it listens", || UnixStream::connect(self.socket()).is_ok());
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.kill();
    }
}
