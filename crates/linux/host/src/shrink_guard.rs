//! Detects a backing that has become smaller.
//!
//! A file that another program truncates has lost the data beyond the cut, and a write there would
//! extend it again, with zeros in between that were never written. So every change of a file first
//! checks its length, and every flush of a file or a device checks it afterwards. A check takes a
//! fraction of a microsecond. The file can still be truncated between the check and the write. The
//! next flush then finds the file too short, unless that write has extended it to its full length.
//!
//! A file that was found too short stays marked even if it has grown since, because the data is
//! still lost. The mark ends when the file is opened again, or the operator accepts the loss.
#![allow(unsafe_code)]

use block::{Error, Kind, Result};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl, opcode};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The error of a flush: written data may have been beyond the cut.
pub const FLUSH: Error =
    Error::new(Kind::Io, "flush the backing: it has shrunk since it was opened");
/// The error of a change that would extend the file again.
pub const CHANGE: Error =
    Error::new(Kind::Io, "write past the end: the backing has shrunk since it was opened");
/// The error of a read.
pub const READ: Error =
    Error::new(Kind::Io, "read past the end: the backing has shrunk since it was opened");

/// Size of a backing when it was opened, and whether it has been smaller since.
#[derive(Debug)]
pub struct ShrinkGuard {
    bytes: u64,
    device: bool,
    shrunk: AtomicBool,
}

/// Returns the bytes of a block device. Takes no lock, unlike a seek to its end, which waits for
/// discards.
fn device_bytes(file: BorrowedFd<'_>) -> std::result::Result<u64, Errno> {
    // The number contains the size of a size_t, for historical reasons; the result has 64 bits.
    const BLKGETSIZE64: rustix::ioctl::Opcode = opcode::read::<usize>(0x12, 114);
    // SAFETY: BLKGETSIZE64 writes one u64 (include/uapi/linux/fs.h), for which there is room.
    unsafe { ioctl(file, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Returns the bytes of a regular file, from this machine's cache: a network file system is not
/// accessed, since it might not answer and would block the lane.
fn file_bytes(file: BorrowedFd<'_>) -> std::result::Result<u64, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(file, c"", flags, StatxFlags::SIZE).map(|found| found.stx_size)
}

impl ShrinkGuard {
    pub(crate) fn new(bytes: u64, device: bool) -> ShrinkGuard {
        ShrinkGuard { bytes, device, shrunk: AtomicBool::new(false) }
    }

    /// Returns whether it is, or has been, smaller than when it was opened.
    pub fn has_shrunk(&self, file: impl AsFd) -> Result<bool> {
        if self.shrunk.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let file = file.as_fd();
        let now = if self.device { device_bytes(file) } else { file_bytes(file) };
        let now = now.map_err(|errno| {
            Error::from_errno(errno.raw_os_error(), "determine the size of the backing")
        })?;
        if now < self.bytes {
            self.shrunk.store(true, Ordering::Relaxed);
        }
        Ok(now < self.bytes)
    }

    /// Whether it was found too short by an earlier check.
    pub(crate) fn was_short(&self) -> bool {
        self.shrunk.load(Ordering::Relaxed)
    }

    /// Accepts that it was too short, if it has its full size again. Returns whether both
    /// conditions were met.
    pub(crate) fn accept(&self, file: impl AsFd) -> bool {
        if !self.was_short() {
            return false;
        }
        self.shrunk.store(false, Ordering::Relaxed);
        // Marks it again if it is still too short.
        matches!(self.has_shrunk(file), Ok(false))
    }

    /// Fails with `error` if it has shrunk.
    pub fn check(&self, file: impl AsFd, error: Error) -> Result {
        if self.has_shrunk(file)? { Err(error) } else { Ok(()) }
    }

    /// Fails if it has shrunk, and no longer reaches to `end`. Checks files only: a write beyond
    /// the end of a device fails without this.
    pub fn check_change(&self, file: impl AsFd, end: u64) -> Result {
        if self.device || !self.has_shrunk(file.as_fd())? {
            return Ok(());
        }
        match file_bytes(file.as_fd()) {
            Ok(now) if end <= now => Ok(()),
            _ => Err(CHANGE),
        }
    }
}
