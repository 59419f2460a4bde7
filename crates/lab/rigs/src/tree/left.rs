//! Files that a suite has created and could not remove, and why.

use rustix::io::Errno;
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};

/// Reason why something was left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// It contains entries that this run has not created.
    NotEmpty,
    /// A file system is mounted on it.
    Mounted,
    /// Its name refers to something else now, or to nothing.
    Replaced {
        /// The current path of the folder that this run has created.
        now: Option<PathBuf>,
    },
    /// The file system returned an error.
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

/// A path that was left behind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Left {
    path: PathBuf,
    why: Why,
}

impl Left {
    pub(super) fn new(name: &str, why: Why) -> Left {
        Left { path: name.into(), why }
    }

    /// Returns the same, as seen from one folder further up.
    pub(super) fn within(self, folder: impl AsRef<Path>) -> Left {
        Left { path: folder.as_ref().join(self.path), why: self.why }
    }

    /// Returns the message for the user, with the action to take.
    pub(super) fn failure(&self) -> Failure {
        let name = self.path.display();
        let (exit, what) = match &self.why {
            Why::NotEmpty => {
                let what = "it contains files that this run has not made; check them, and remove \
                            the folder yourself";
                (Exit::Busy, what.to_owned())
            }
            Why::Mounted => {
                let what =
                    "a file system is mounted on it; unmount that, and remove the folder yourself";
                (Exit::Busy, what.to_owned())
            }
            Why::Replaced { now } => {
                let now = now.as_deref().map_or(String::new(), |now| {
                    format!("; the folder of this run is now {}", now.display())
                });
                (Exit::Busy, format!("another program has replaced it{now}"))
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
