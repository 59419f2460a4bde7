//! A file that appears under its name once it is complete and on its disk, or not at all.

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Attempts to remove the file of a killed command.
const TRIES: u32 = 3;

/// An unfinished file: `NAME.partial`, locked, and removed unless it is published.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    partial: PathBuf,
    path: PathBuf,
    published: bool,
}

/// Appends a suffix to the last name of a path.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the directory that contains a path's last name.
pub(crate) fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Whether this name exists, including a dangling link.
pub(crate) fn is_taken(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// Makes renames in a path's directory durable.
pub(crate) fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

fn lock(file: &File) -> io::Result<()> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let message = "another command is writing it; wait until that command ends";
        io::Error::new(io::ErrorKind::ResourceBusy, message)
    })
}

impl Draft {
    /// Starts the file that will be at `path`. The file of an earlier attempt by a killed command
    /// is removed.
    pub(crate) fn begin(path: &Path) -> io::Result<Draft> {
        let partial = with_suffix(path, ".partial");
        let mut tries = 0;
        let file = loop {
            let mut options = OpenOptions::new();
            match options.read(true).write(true).create_new(true).mode(0o600).open(&partial) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {
                    lock(&OpenOptions::new().write(true).open(&partial)?)?;
                    std::fs::remove_file(&partial)?;
                    tries += 1;
                }
                other => break other?,
            }
        };
        lock(&file)?;
        Ok(Draft { file, partial, path: path.to_owned(), published: false })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, which must be free. Sync the file before, and its directory
    /// afterwards.
    pub(crate) fn publish(mut self) -> io::Result<()> {
        match rustix::fs::renameat_with(CWD, &self.partial, CWD, &self.path, RenameFlags::NOREPLACE)
        {
            // Not every file system supports this rename.
            Err(Errno::INVAL | Errno::NOSYS) if !is_taken(&self.path) => {
                std::fs::rename(&self.partial, &self.path)?;
            }
            Err(Errno::INVAL | Errno::NOSYS) => return Err(Errno::EXIST.into()),
            other => other?,
        }
        self.published = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_draft_appears_when_it_is_published_and_otherwise_leaves_nothing() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        let names = || fs::read_dir(directory.path()).map(Iterator::count);
        drop(Draft::begin(&path)?);
        assert_eq!(names()?, 0);
        // As a killed command leaves it.
        fs::write(with_suffix(&path, ".partial"), "half")?;
        let draft = Draft::begin(&path)?;
        assert!(!path.exists());
        let busy = Draft::begin(&path).expect_err("it is being written");
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        draft.publish()?;
        assert_eq!((fs::read(&path)?, names()?), (Vec::new(), 1));
        let second = Draft::begin(&path)?.publish().expect_err("the name is taken");
        assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names()?, 1);
        Ok(())
    }
}
