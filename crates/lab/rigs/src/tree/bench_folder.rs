//! The folder that a suite creates in a directory: it changes nothing else there.

use super::folder::Folder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stack::{Exit, Failure};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Number of names that are tried.
const NAMES: u32 = 100;
/// Prefix of their names.
const PREFIX: &str = "overdrive-filebench-";

/// Minimum limit of open files, where the system allows it: the largest set has 268 open folders,
/// and its copy as many.
const DESCRIPTORS: u64 = 2048;

/// A new folder. When it is dropped, everything created in it is removed, and then the folder.
pub(super) struct BenchFolder {
    /// The path of the directory that contains it.
    path: PathBuf,
    directory: Folder,
    own: Folder,
}

fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < DESCRIPTORS) {
        let most = limit.maximum.unwrap_or(u64::MAX);
        // If that is refused, folders are opened until the limit is reached.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS.min(most)), ..limit });
    }
}

/// Returns the error for a folder that cannot be created.
fn refused(directory: &Path, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Exit::Permission,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Exit::Usage,
        _ => Exit::Io,
    };
    let message = format!("{}: no folder can be created in it: {error}", directory.display());
    Failure::new(exit, message)
}

impl BenchFolder {
    /// Creates a folder in this directory, under an unused name.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn new(path: &Path) -> Result<BenchFolder, Failure> {
        allow_descriptors();
        let directory = Folder::open(path).map_err(|error| refused(path, &error))?;
        let process = std::process::id();
        for number in 0..NAMES {
            match directory.make_apart(&format!("{PREFIX}{process}-{number}")) {
                Ok(own) => {
                    // The lock marks the folder as in use. Not every file system has such locks.
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

    /// Returns the folder, to create files in it.
    pub(super) fn own(&mut self) -> &mut Folder {
        &mut self.own
    }

    /// Removes the folder and everything that this run has created in it.
    ///
    /// # Errors
    /// The files left behind, and why.
    pub(super) fn remove(&mut self) -> Result<(), Failure> {
        let removed = self.own.remove_from(self.directory.as_fd());
        removed.map_err(|left| left.within(&self.path).failure())
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        // Callers that must report files left behind have called `remove` before.
        let _ = self.remove();
    }
}

/// Whether the name has the form that runs give their folders.
fn is_name(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Returns folders in this directory that earlier runs have left behind, for example because they
/// were killed.
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
            // It may belong to another user. An entry that is not a folder was not created by a
            // run.
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        }
    };
    let unused = names.filter(|name| is_name(name)).filter(is_unused);
    let mut unused: Vec<_> = unused.map(|name| directory.join(name)).collect();
    unused.sort_unstable();
    unused
}
