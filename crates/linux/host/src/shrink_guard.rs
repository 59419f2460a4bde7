//! Whether all of a backing is still there.
//!
//! A file that another program cuts short has lost what was beyond the cut, and a write there would
//! make it long again, with zeros in between that were never written. So every change of a file looks at
//! its length first, and every flush of a file or a device looks at it afterwards. The look costs a
//! fraction of a microsecond. Between the look and the write there is still a moment in which the
//! file can be cut; the flush after it then finds a file that is too short, unless that very write
//! reached its end.
//!
//! A file that was found too short stays so, even if it has grown since, because the bytes have not
//! come back: until it is opened again, or the operator accepts that.
#![allow(unsafe_code)]

use block::{Error, Kind, Result};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl, opcode};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The error of a flush: what was written may have been beyond the cut.
pub const FLUSH: Error =
    Error::new(Kind::Io, "flush the backing: it has shrunk since it was opened");
/// The error of a change that would make the file grow again.
pub const CHANGE: Error =
    Error::new(Kind::Io, "write past the end: the backing has shrunk since it was opened");
/// The error of a read.
pub const READ: Error =
    Error::new(Kind::Io, "read past the end: the backing has shrunk since it was opened");

/// The size that a backing was opened with, and whether it has been smaller since.
#[derive(Debug)]
pub struct ShrinkGuard {
    bytes: u64,
    device: bool,
    shrunk: AtomicBool,
}

/// Bytes of a block device. Takes no lock, unlike a seek to its end, which waits for discards.
fn device_bytes(file: BorrowedFd<'_>) -> std::result::Result<u64, Errno> {
    // The number is made of the size of a size_t, for historical reasons; the result has 64 bits.
    const BLKGETSIZE64: rustix::ioctl::Opcode = opcode::read::<usize>(0x12, 114);
    // SAFETY: BLKGETSIZE64 writes one u64 (include/uapi/linux/fs.h), which is what is made room for.
    unsafe { ioctl(file, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Bytes of a regular file, as far as this machine knows: no network file system is asked, which
/// might not answer and would hold up the lane.
fn file_bytes(file: BorrowedFd<'_>) -> std::result::Result<u64, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(file, c"", flags, StatxFlags::SIZE).map(|found| found.stx_size)
}

impl ShrinkGuard {
    pub(crate) fn new(bytes: u64, device: bool) -> ShrinkGuard {
        ShrinkGuard { bytes, device, shrunk: AtomicBool::new(false) }
    }

    /// Whether it is, or has been, smaller than it was.
    pub fn has_shrunk(&self, file: impl AsFd) -> Result<bool> {
        if self.shrunk.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let file = file.as_fd();
        let now = if self.device { device_bytes(file) } else { file_bytes(file) };
        let now = now.map_err(|errno| {
            Error::from_errno(errno.raw_os_error(), "ask for the size of the backing")
        })?;
        if now < self.bytes {
            self.shrunk.store(true, Ordering::Relaxed);
        }
        Ok(now < self.bytes)
    }

    /// Whether it was found too short, without another look.
    pub(crate) fn was_short(&self) -> bool {
        self.shrunk.load(Ordering::Relaxed)
    }

    /// Accepts that it was too short, if it has its size again. Whether it was, and has.
    pub(crate) fn accept(&self, file: impl AsFd) -> bool {
        if !self.was_short() {
            return false;
        }
        self.shrunk.store(false, Ordering::Relaxed);
        // Notes it again if it still is.
        matches!(self.has_shrunk(file), Ok(false))
    }

    /// Fails with `error` if it has shrunk.
    pub fn check(&self, file: impl AsFd, error: Error) -> Result {
        if self.has_shrunk(file)? { Err(error) } else { Ok(()) }
    }

    /// Fails if it has shrunk and the bytes up to `end` are no longer all there. Only files are
    /// looked at: a device does not grow by a write, it refuses.
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
