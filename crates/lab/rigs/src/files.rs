//! Files and devices: opened exclusively unless they are only read, created if a size is given, and
//! written only if the user allowed it.

use crate::wishes::Wishes;
use block::{SECTOR, Size};
use host::{FileVolume, Intent, OpenOptions};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use stack::{Exit, Failure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest wait for the lock of an image; a process that was just killed may still hold it.
const LOCK_WAIT_MS: u64 = 1_000;

/// A file created for a rig; it is removed when this is dropped.
pub(crate) struct Made {
    path: PathBuf,
    /// Its device and inode: another program may have replaced the file.
    identity: (u64, u64),
}

impl Made {
    fn is_there(&self) -> bool {
        let found = std::fs::symlink_metadata(&self.path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_there() {
            // Another process may replace the file between the check and this call.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

/// Returns the size of an existing target.
pub(crate) fn size_of(path: &Path) -> Result<u64, Failure> {
    let failed = |errno: Errno| {
        let exit = match errno {
            Errno::NOENT => Exit::Negative,
            Errno::ACCESS | Errno::PERM => Exit::Permission,
            _ => Exit::Io,
        };
        Failure::new(exit, format!("{}: cannot be examined: {errno}", path.display()))
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(failed)
}

/// Creates a file of this size, and allocates its space.
fn make(path: &Path, size: Size) -> Result<Made, Failure> {
    let name = path.display();
    if size.0 == 0 || !size.0.is_multiple_of(SECTOR) {
        return Err(usage(format!("--size {size}: write a multiple of 512 bytes, more than 0")));
    }
    let failed = |errno: Errno| {
        let exit = match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Exit::Permission,
            Errno::NOSPC | Errno::FBIG | Errno::NOENT | Errno::NOTDIR => Exit::Usage,
            _ => Exit::Io,
        };
        Failure::new(exit, format!("{name}: a file of {size} cannot be created: {errno}"))
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    let made = Made { path: path.to_owned(), identity: (found.st_dev, found.st_ino) };
    rustix::fs::ftruncate(&file, size.0).map_err(failed)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0) {
        // On a file system without fallocate, space is allocated when it is written.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(made),
        Err(errno) => Err(failed(errno)),
    }
}

/// A file or a device that is open.
pub(crate) struct Opened {
    pub(crate) volume: Arc<FileVolume>,
    pub(crate) made: Option<Made>,
    /// Other users of it, in words.
    pub(crate) in_use: Option<String>,
}

/// Opens a file or a device, or creates the file.
pub(crate) fn open(path: &Path, wishes: &Wishes, buffered: bool) -> Result<Opened, Failure> {
    let name = path.display();
    let made = match (path.exists(), wishes.size) {
        (false, Some(size)) => Some(make(path, size)?),
        (false, None) => {
            let message = format!(
                "{name}: no such file, and no volume of that name is served; --size 8G creates a \
                 file for the duration of the test"
            );
            return Err(Failure::new(Exit::Negative, message));
        }
        (true, Some(_)) => {
            return Err(usage(format!(
                "{name}: exists already; omit --size to use it as it is, or name another file"
            )));
        }
        (true, None) => None,
    };
    let intent = match wishes.read_only {
        true => Intent::Read,
        // A file created here contains no data to lose.
        false => Intent::Overwrite { is_agreed: wishes.destroy || made.is_some() },
    };
    let options = OpenOptions { read_only: wishes.read_only, buffered, ..OpenOptions::default() };
    let claimed = host::claim(path, options, intent, LOCK_WAIT_MS)?;
    if made.as_ref().is_some_and(|made| !made.is_there()) {
        let message = format!("{name}: another program has put something else in its place");
        return Err(Failure::new(Exit::Busy, message));
    }
    let in_use = claimed.notes.into_iter().next().filter(|_| wishes.read_only);
    Ok(Opened { volume: claimed.volume, made, in_use })
}
