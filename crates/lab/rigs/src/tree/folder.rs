//! A folder by its descriptor, and the files and folders that this run has created in it.
//!
//! While a suite runs, another program may move its folders, replace them, or mount a file system
//! on them. So each name is looked up one level at a time in an open folder, links are not
//! followed, and only entries that this run has created are removed: a file by its name, and a
//! folder only if the name still refers to that folder.

use super::left::{Left, Why};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// An open folder, and the entries created through it. It stays open as long as it contains entries
/// to be removed: a file system may reuse the inode number of a folder that nothing holds open.
pub struct Folder {
    descriptor: OwnedFd,
    name: String,
    folders: Vec<Folder>,
    files: Vec<String>,
}

fn is_same(one: &Stat, two: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
}

/// Returns the current path of a folder, if the system provides it.
fn place(folder: BorrowedFd<'_>) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()
}

impl Folder {
    fn of(descriptor: OwnedFd, name: &str) -> Folder {
        Folder { descriptor, name: name.to_owned(), folders: Vec::new(), files: Vec::new() }
    }

    /// Opens an existing folder. It need not be readable.
    ///
    /// # Errors
    /// It is not a folder, or cannot be reached.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let descriptor = openat(CWD, path, FOLDER | OFlags::PATH, Mode::empty())?;
        Ok(Folder::of(descriptor, ""))
    }

    /// Opens the folder of this name in it, whichever program created it.
    pub(super) fn look_up(&self, name: &str) -> io::Result<Folder> {
        let flags = FOLDER | OFlags::RDONLY | OFlags::NOFOLLOW;
        Ok(Folder::of(openat(&self.descriptor, name, flags, Mode::empty())?, name))
    }

    /// Creates a folder in it that is not recorded for removal.
    ///
    /// # Errors
    /// It cannot be created, or the name exists.
    pub(super) fn make_apart(&self, name: &str) -> io::Result<Folder> {
        mkdirat(&self.descriptor, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
        self.look_up(name).inspect_err(|_| {
            // It is empty; this call cannot remove anything else.
            let _ = unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR);
        })
    }

    /// Returns the folder of this name that this run has created in it; creates it if needed.
    pub(super) fn make_folder(&mut self, name: &str) -> io::Result<&mut Folder> {
        // Folders are filled one after the other: it is usually the last one.
        let at = match self.folders.iter().rposition(|folder| folder.name == name) {
            Some(at) => at,
            None => {
                self.folders.push(self.make_apart(name)?);
                self.folders.len() - 1
            }
        };
        Ok(&mut self.folders[at])
    }

    /// Creates a file in it, opened with `access`.
    pub(super) fn make_file(&mut self, name: &str, access: OFlags) -> io::Result<File> {
        // EXCL also refuses a dangling link.
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, name, flags, Mode::from_raw_mode(0o666))?;
        self.files.push(name.to_owned());
        Ok(file.into())
    }

    /// Opens a file in it for reading.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(openat(&self.descriptor, name, flags, Mode::empty())?.into())
    }

    /// Makes all data of its file system durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.descriptor)?)
    }

    /// Removes a file that was created in it. If that fails, the file stays recorded.
    pub(super) fn remove_file(&mut self, name: &str) -> Result<(), Left> {
        match unlinkat(&self.descriptor, name, AtFlags::empty()) {
            // Another program may have removed it first.
            Ok(()) | Err(Errno::NOENT) => self.files.retain(|file| file != name),
            Err(errno) => return Err(Left::new(name, Why::of(errno))),
        }
        Ok(())
    }

    /// Removes a folder that was created in it, with everything created in that. If that fails, the
    /// folder stays recorded.
    pub(super) fn remove_folder(&mut self, name: &str) -> Result<(), Left> {
        let Some(at) = self.folders.iter().position(|folder| folder.name == name) else {
            return Ok(());
        };
        self.folders[at].remove_from(self.descriptor.as_fd())?;
        self.folders.remove(at);
        Ok(())
    }

    /// Removes everything that was created in it. Entries that cannot be removed stay recorded;
    /// returns the first of them.
    fn remove_made(&mut self) -> Result<(), Left> {
        let mut first = Ok(());
        let descriptor = self.descriptor.as_fd();
        self.files.retain(|name| match unlinkat(descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => false,
            Err(errno) => {
                first = first.clone().and(Err(Left::new(name, Why::of(errno))));
                true
            }
        });
        self.folders.retain_mut(|folder| {
            let removed = folder.remove_from(descriptor);
            let stays = removed.is_err();
            first = first.clone().and(removed);
            stays
        });
        first
    }

    /// Removes everything that was created in it, and then itself from the folder above.
    pub(super) fn remove_from(&mut self, above: BorrowedFd<'_>) -> Result<(), Left> {
        let emptied = self.remove_made();
        let failed = |errno| Left::new(&self.name, Why::of(errno));
        let own = fstat(&self.descriptor).map_err(failed)?;
        match statat(above, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if is_same(&own, &named) => {}
            // Another program has removed it.
            _ if own.st_nlink == 0 => return Ok(()),
            _ => return Err(Left::new(&self.name, self.covered(above))),
        }
        emptied.map_err(|left| left.within(&self.name))?;
        match unlinkat(above, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Returns why its name in the folder above does not refer to it.
    fn covered(&self, above: BorrowedFd<'_>) -> Why {
        let (now, above) = (place(self.as_fd()), place(above));
        match above.map(|above| above.join(&self.name)) {
            // Its path is unchanged, beneath a file system mounted there.
            Some(was) if now.as_ref() == Some(&was) => Why::Mounted,
            _ => Why::Replaced { now },
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::Exit;
    use std::fs;

    /// Returns a folder `own` with `inner/file` and `file`, in a directory.
    fn made(directory: &Path) -> Folder {
        let mut above = Folder::open(directory).expect("there");
        let own = above.make_folder("own").expect("made");
        own.make_file("file", OFlags::WRONLY).expect("made");
        let inner = own.make_folder("inner").expect("made");
        inner.make_file("file", OFlags::WRONLY).expect("made");
        assert!(inner.make_file("file", OFlags::WRONLY).is_err(), "it is there");
        above
    }

    #[test]
    fn what_was_made_goes_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let mut above = made(directory.path());
        fs::write(path("own/inner/mine"), "kept").expect("written");
        let left = above.remove_folder("own").expect_err("it is not empty").failure();
        assert_eq!(left.exit, Exit::Busy);
        assert!(
            left.message.starts_with("own/inner: was left behind: it contains files"),
            "{left}"
        );
        assert_eq!(fs::read(path("own/inner/mine")).expect("there"), b"kept");
        assert!(!path("own/file").exists() && !path("own/inner/file").exists());
        // A folder that stays can be used again, and is removed when it contains nothing else.
        let own = above.make_folder("own").expect("there");
        own.make_folder("inner").and_then(|it| it.make_file("file", OFlags::WRONLY)).expect("made");
        fs::remove_file(path("own/inner/mine")).expect("removed");
        assert_eq!(above.remove_folder("own"), Ok(()));
        assert!(!path("own").exists());
    }

    #[test]
    fn what_takes_the_place_of_an_inner_folder_is_left() {
        for is_link in [false, true] {
            let directory = tempfile::tempdir().expect("a directory");
            let path = |name: &str| directory.path().join(name);
            let mut above = made(directory.path());
            fs::rename(path("own/inner"), path("moved")).expect("moved");
            fs::create_dir(path("mine")).expect("made");
            fs::write(path("mine/file"), "kept").expect("written");
            if is_link {
                std::os::unix::fs::symlink(path("mine"), path("own/inner")).expect("made");
                assert!(above.look_up("own").and_then(|own| own.look_up("inner")).is_err());
            } else {
                fs::rename(path("mine"), path("own/inner")).expect("moved");
            }
            let left = above.remove_folder("own").expect_err("it is another").failure();
            assert!(
                left.message
                    .contains("own/inner: was left behind: another program has replaced it"),
                "{left}"
            );
            assert!(left.message.contains("/moved"), "{left}");
            assert_eq!(fs::read(path("own/inner/file")).expect("there"), b"kept");
            assert!(!path("moved/file").exists(), "that was made");
        }
    }

    #[test]
    fn what_was_removed_already_is_no_fault() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut above = made(directory.path());
        fs::remove_dir_all(directory.path().join("own")).expect("removed");
        assert_eq!(above.remove_folder("own"), Ok(()));
    }
}
