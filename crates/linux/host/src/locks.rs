//! Image locks on the bytes that qemu uses, so that qemu and Overdrive exclude each other.
//!
//! qemu (block/file-posix.c; described in docs/interop and in qemu's manual under "Disk image file
//! locking") has a permission for each of five operations on an image. A program that *has*
//! permission `n` holds a read lock on byte `100 + n`; a program that does *not share* it holds a
//! read lock on byte `200 + n`. Read locks never exclude each other, so after taking its own locks
//! a new program tests whether a write lock would be possible on the conflicting bytes: on
//! `200 + n` for each permission that it has, on `100 + n` for each that it does not share. If
//! another program has a lock there, it fails.
//!
//! The locks belong to the open file description (`F_OFD_SETLK`). An I/O in flight on io_uring
//! holds its description even after its process was killed: the locks are released only when the
//! last I/O of the old owner has ended. So a process that gets the locks is fenced from the old
//! owner (clause C15). For the same reason, I/O must use the description that is locked.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

const HAS: i64 = 100;
const KEEPS_OTHERS_FROM: i64 = 200;

/// Reads rely on the written data.
const CONSISTENT_READ: i64 = 0;
/// Writes.
const WRITE: i64 = 1;
/// Changes the size.
const RESIZE: i64 = 3;

/// Result of an attempt to lock, or of a check for conflicting locks.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Locked {
    /// There is no conflicting lock.
    Yes,
    /// Another program uses the image in a conflicting way.
    Busy,
    /// This file system does not support such locks.
    Unsupported(Errno),
}

fn record(kind: i32, byte: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}

fn call(file: impl AsFd, command: i32, record: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: both commands take a pointer to a flock, which they may write; the borrow is unique.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, record) };
    if result == -1 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO)));
    }
    Ok(())
}

/// Locks the image for reading, or for reading and writing, while no other program writes or
/// resizes.
///
/// A writer also excludes programs that require a consistent image (in qemu that is every reader,
/// with `-U` or without; `qemu-img info` is not a reader): data that is still in the cache is not
/// in the image.
pub(crate) fn lock(file: impl AsFd, writes: bool) -> Locked {
    let file = file.as_fd();
    let (has, not_shared) = permissions(writes);
    let ours = has.iter().map(|permission| HAS + permission);
    let theirs = not_shared.iter().map(|byte| KEEPS_OTHERS_FROM + byte);
    for byte in ours.chain(theirs) {
        match call(file, libc::F_OFD_SETLK, &mut record(libc::F_RDLCK, byte)) {
            Ok(()) => (),
            Err(Errno::AGAIN | Errno::ACCESS) => return Locked::Busy,
            Err(errno) => return Locked::Unsupported(errno),
        }
    }
    conflicts(file, writes)
}

/// Returns the permissions that a reader or writer has, and those that it does not share.
fn permissions(writes: bool) -> (&'static [i64], &'static [i64]) {
    if writes {
        (&[CONSISTENT_READ, WRITE], &[CONSISTENT_READ, WRITE, RESIZE])
    } else {
        (&[CONSISTENT_READ], &[WRITE, RESIZE])
    }
}

/// Checks for locks of other descriptions that exclude reading, or reading and writing. Takes no
/// locks.
pub(crate) fn conflicts(file: impl AsFd, writes: bool) -> Locked {
    let (has, not_shared) = permissions(writes);
    let kept_from_us = has.iter().map(|permission| KEEPS_OTHERS_FROM + permission);
    let had_by_others = not_shared.iter().map(|byte| HAS + byte);
    for byte in kept_from_us.chain(had_by_others) {
        let mut found = record(libc::F_WRLCK, byte);
        let file = file.as_fd();
        match call(file, libc::F_OFD_GETLK, &mut found) {
            Ok(()) if i32::from(found.l_type) == libc::F_UNLCK => (),
            Ok(()) => return Locked::Busy,
            Err(errno) => return Locked::Unsupported(errno),
        }
    }
    Locked::Yes
}
