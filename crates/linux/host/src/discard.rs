//! Discarding and zeroing ranges of a block device, and the free space of a mounted file system.
//!
//! Sources: include/uapi/linux/fs.h, fstrim(8), blkdiscard(8).
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags};
use rustix::io;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl};
use std::os::fd::AsFd;
use std::path::Path;

/// `BLKDISCARD`.
const DISCARD: Opcode = 0x1277;
/// `BLKZEROOUT`.
const ZERO: Opcode = 0x127F;
/// `FITRIM`.
const TRIM: Opcode = 0xC018_5879;

/// `struct fstrim_range`.
#[repr(C)]
struct TrimRange {
    start: u64,
    length: u64,
    minimum: u64,
}

/// Discards bytes of a block device that is open for writing. Their contents are undefined then.
///
/// # Errors
/// Those of the system: the device does not support it (`OPNOTSUPP`), or has failed.
pub fn discard(device: &impl AsFd, first_byte: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: BLKDISCARD takes a pointer to two numbers of 64 bits, and only reads them.
    unsafe { ioctl(device, Setter::<DISCARD, [u64; 2]>::new([first_byte, bytes])) }
}

/// Zeroes bytes of a block device that is open for writing, by the device itself if it can.
///
/// # Errors
/// Those of the system.
pub fn zero(device: &impl AsFd, first_byte: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: BLKZEROOUT takes a pointer to two numbers of 64 bits, and only reads them.
    unsafe { ioctl(device, Setter::<ZERO, [u64; 2]>::new([first_byte, bytes])) }
}

/// Discards the free space of the file system that is mounted on a directory. Returns the bytes
/// that the file system has discarded.
///
/// # Errors
/// Those of the system: `OPNOTSUPP` if file system or device do not support it, `PERM` for others
/// than root.
pub fn trim_mounted(directory: &Path) -> io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    let mut range = TrimRange { start: 0, length: u64::MAX, minimum: 0 };
    // SAFETY: FITRIM takes a pointer to `struct fstrim_range`, and writes its length.
    unsafe { ioctl(&opened, Updater::<TRIM, TrimRange>::new(&mut range)) }?;
    Ok(range.length)
}
