//! The folder that a suite makes in a directory: the only thing there that it touches.

use stack::{Exit, Failure};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How many names are tried.
const NAMES: u32 = 100;

/// A new folder. It goes with everything in it when it is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// In this directory, by a name that nothing there has.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(directory: &Path) -> Result<Folder, Failure> {
        let process = std::process::id();
        for number in 0..NAMES {
            let path = directory.join(format!("overdrive-filebench-{process}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let exit = match error.kind() {
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                            Exit::Permission
                        }
                        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Exit::Usage,
                        _ => Exit::Io,
                    };
                    let message =
                        format!("{}: no folder can be made there: {error}", directory.display());
                    return Err(Failure::new(exit, message));
                }
            }
        }
        let message = format!(
            "{}: holds {NAMES} folders overdrive-filebench-* already; remove those that nothing uses",
            directory.display()
        );
        Err(Failure::new(Exit::Usage, message))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Another program may have been faster; what cannot be removed is found by its name.
        let _ = fs::remove_dir_all(&self.0);
    }
}
