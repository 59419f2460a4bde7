//! Opens files so that nothing about them changes, not even their access time.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Opens a file so that reading or mapping it does not change its access time, if this user may.
/// Also returns whether that is the case.
pub(super) fn open(path: &Path) -> io::Result<(File, bool)> {
    open_at(CWD, path)
}

/// Opens a path relative to an open folder, in the same way.
pub(super) fn open_at(folder: impl AsFd, path: &Path) -> io::Result<(File, bool)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match openat(&folder, path, flags | OFlags::NOATIME, Mode::empty()) {
        Ok(file) => Ok((file.into(), true)),
        Err(Errno::PERM) => Ok((openat(&folder, path, flags, Mode::empty())?.into(), false)),
        Err(errno) => Err(errno.into()),
    }
}
