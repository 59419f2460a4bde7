//! The program that a supervisor starts: the one at its path, which an upgrade may have replaced,
//! as a service manager would; or its own, if that one does not start or does not serve.

use super::broken;
use stack::Failure;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The running program, even if its file was replaced.
const OWN: &str = "/proc/self/exe";

/// The program of a supervisor's daemons.
pub(super) struct Program {
    path: PathBuf,
    /// Whether the other program at the path has refused to serve.
    is_own: bool,
}

impl Program {
    /// # Errors
    /// There is no /proc.
    pub(super) fn find() -> Result<Program, Failure> {
        let path = daemon::program_path().map_err(|error| broken("supervise", &error))?;
        Ok(Program { path, is_own: false })
    }

    /// Starts a daemon with these arguments, which prints where it serves.
    ///
    /// # Errors
    /// No process can be started.
    pub(super) fn start(&self, arguments: &[OsString]) -> io::Result<Child> {
        match self.is_own {
            true => start(Path::new(OWN), arguments),
            // The file may be incomplete or missing at this moment.
            false => start(&self.path, arguments).or_else(|_| start(Path::new(OWN), arguments)),
        }
    }

    /// Switches to the other program, if there is one: this one has not served.
    pub(super) fn change(&mut self) {
        self.is_own = !self.is_own && !is_same(&self.path, Path::new(OWN));
        if self.is_own {
            let path = self.path.display();
            daemon::complain!(
                "overdrive: {path}: has been replaced by another program, which has not served; \
                 the former program is started next"
            );
        }
    }
}

fn start(program: &Path, arguments: &[OsString]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped());
    host::make_ordinary(&mut command);
    command.spawn()
}

/// Whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}
