//! The program that a supervisor starts: the one at its path, which an upgrade may have replaced, as a
//! service manager would; or its own, where that does not start or does not serve.

use super::broken;
use stack::Failure;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program that runs, whatever has become of its file.
const OWN: &str = "/proc/self/exe";

/// The program of a supervisor's daemons.
pub(super) struct Program {
    path: PathBuf,
    /// The other program at the path has refused to serve.
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
    /// No process can be had.
    pub(super) fn start(&self, arguments: &[OsString]) -> io::Result<Child> {
        match self.is_own {
            true => start(Path::new(OWN), arguments),
            // It may be incomplete at this moment, or gone.
            false => start(&self.path, arguments).or_else(|_| start(Path::new(OWN), arguments)),
        }
    }

    /// The program that was started has not served: the other one is next, if there are two.
    pub(super) fn change(&mut self) {
        self.is_own = !self.is_own && !is_same(&self.path, Path::new(OWN));
        if self.is_own {
            let path = self.path.display();
            daemon::complain!(
                "overdrive: {path}: is another program by now, and has not served; the former one is next"
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
