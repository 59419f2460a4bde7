//! The folder that a suite makes in a directory: the only thing there that it touches.

use super::folder::Folder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stack::{Exit, Failure};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// How many names are tried.
const NAMES: u32 = 100;
/// How their names begin.
const PREFIX: &str = "overdrive-filebench-";

/// So many files may be open at least, where the system allows it: of the largest set 268 folders are, and as many of
/// its copy.
const DESCRIPTORS: u64 = 2048;

/// A new folder. What was made in it goes when it is dropped, and with that the folder.
pub(super) struct BenchFolder {
    /// The path of the directory that it was made in.
    path: PathBuf,
    directory: Folder,
    own: Folder,
}

fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < DESCRIPTORS) {
        let most = limit.maximum.unwrap_or(u64::MAX);
        // Where that is refused, the folders are opened as far as it goes.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS.min(most)), ..limit });
    }
}

/// No folder can be made.
fn refused(directory: &Path, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Exit::Permission,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Exit::Usage,
        _ => Exit::Io,
    };
    let message = format!("{}: no folder can be made there: {error}", directory.display());
    Failure::new(exit, message)
}

impl BenchFolder {
    /// In this directory, by a name that nothing there has.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(path: &Path) -> Result<BenchFolder, Failure> {
        allow_descriptors();
        let directory = Folder::open(path).map_err(|error| refused(path, &error))?;
        let process = std::process::id();
        for number in 0..NAMES {
            match directory.make_apart(&format!("{PREFIX}{process}-{number}")) {
                Ok(own) => {
                    // It says that a run uses the folder. Not every file system has such locks.
                    let _ = flock(&own, FlockOperation::NonBlockingLockExclusive);
                    return Ok(BenchFolder { path: path.to_owned(), directory, own });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refused(path, &error)),
            }
        }
        let message = format!(
            "{}: holds {NAMES} folders {PREFIX}* already; remove those that nothing uses",
            path.display()
        );
        Err(Failure::new(Exit::Usage, message))
    }

    /// The folder, to make files in.
    pub(super) fn own(&mut self) -> &mut Folder {
        &mut self.own
    }

    /// Removes it with all that this run has made in it.
    ///
    /// # Errors
    /// What is left behind, and why.
    pub(super) fn remove(&mut self) -> Result<(), Failure> {
        let removed = self.own.remove_from(self.directory.as_fd());
        removed.map_err(|left| left.within(&self.path).told())
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        // Where it matters that something stays, `remove` was called before, and has told it.
        let _ = self.remove();
    }
}

/// Whether runs call their folders so.
fn is_name(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Folders in this directory that earlier runs have left, as those do that are killed.
pub(super) fn left_before(directory: &Path) -> Vec<PathBuf> {
    let Ok(parent) = Folder::open(directory) else { return Vec::new() };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_unused = |name: &String| {
        let unlocked = parent
            .look_up(name)
            .map(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive));
        match unlocked {
            Ok(locked) => locked != Err(Errno::WOULDBLOCK),
            // It may be another user's. What is no folder is none of ours.
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        }
    };
    let unused = names.filter(|name| is_name(name)).filter(is_unused);
    let mut unused: Vec<_> = unused.map(|name| directory.join(name)).collect();
    unused.sort_unstable();
    unused
}
