//! What a suite could not remove of what it has made, and why.

use rustix::io::Errno;
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};

/// Why something was left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// It holds what this run has not made.
    NotEmpty,
    /// A file system is mounted on it.
    Mounted,
    /// By its name there is something else now, or nothing.
    Replaced {
        /// Where the folder is that this run has made.
        now: Option<PathBuf>,
    },
    /// The file system does not do it.
    Failed(Errno),
}

impl Why {
    pub(super) fn of(errno: Errno) -> Why {
        match errno {
            Errno::NOTEMPTY | Errno::EXIST => Why::NotEmpty,
            Errno::BUSY => Why::Mounted,
            Errno::ISDIR => Why::Replaced { now: None },
            other => Why::Failed(other),
        }
    }
}

/// What was left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Left {
    path: PathBuf,
    why: Why,
}

impl Left {
    pub(super) fn new(name: &str, why: Why) -> Left {
        Left { path: name.into(), why }
    }

    /// The same, seen from one folder further up.
    pub(super) fn within(self, folder: impl AsRef<Path>) -> Left {
        Left { path: folder.as_ref().join(self.path), why: self.why }
    }

    /// What the user is to know and to do.
    pub(super) fn told(&self) -> Failure {
        let name = self.path.display();
        let (exit, what) = match &self.why {
            Why::NotEmpty => {
                let what = "it holds what this run has not made; look at that, and remove the folder yourself";
                (Exit::Busy, what.to_owned())
            }
            Why::Mounted => {
                let what =
                    "a file system is mounted on it; unmount that, and remove the folder yourself";
                (Exit::Busy, what.to_owned())
            }
            Why::Replaced { now } => {
                let now = now.as_deref().map_or(String::new(), |now| {
                    format!("; the folder that it made is {}", now.display())
                });
                (Exit::Busy, format!("it is not what this run has made any more{now}"))
            }
            Why::Failed(errno) => {
                let exit = match *errno {
                    Errno::ACCESS | Errno::PERM | Errno::ROFS => Exit::Permission,
                    _ => Exit::Io,
                };
                (exit, format!("it cannot be removed: {errno}"))
            }
        };
        Failure::new(exit, format!("{name}: was left behind: {what}"))
    }
}
