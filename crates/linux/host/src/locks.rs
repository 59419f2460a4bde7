//! Image locks on the bytes that qemu uses, so that qemu and Overdrive keep one another out.
//!
//! qemu (block/file-posix.c; described in docs/interop and in qemu's manual under "Disk image file
//! locking") has a permission for each of five things that a user of an image does. A program that
//! *has* permission `n` holds a read lock on byte `100 + n`; one that does *not let others have* it holds a
//! read lock on byte `200 + n`. Read locks never exclude one another, so after taking its own a
//! newcomer asks whether a write lock would be possible where it conflicts: on `200 + n` for what
//! it has, on `100 + n` for what it does not share. A newcomer that sees another's lock there gives up.
//!
//! The locks are those of the open file description (`F_OFD_SETLK`). An I/O in flight on io_uring
//! holds its description, also after its process was killed: the locks go only when the last I/O
//! of the old owner has ended. To have them is therefore to be fenced (clause C15). For the same
//! reason the description that is locked must be the one that I/O is done on.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

const HAS: i64 = 100;
const KEEPS_OTHERS_FROM: i64 = 200;

/// Reading what was written.
const CONSISTENT_READ: i64 = 0;
/// Writing.
const WRITE: i64 = 1;
/// Changing the size.
const RESIZE: i64 = 3;

/// The result of trying to lock, or of looking for locks in the way.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Locked {
    /// No lock is in the way.
    Yes,
    /// Another program uses the image in a way that does not go with ours.
    Busy,
    /// This file system has no such locks.
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
    // SAFETY: both commands take a pointer to a flock, which they may write; it is a unique borrow.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, record) };
    if result == -1 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO)));
    }
    Ok(())
}

/// Locks the image for reading, or for reading and writing, while no other program writes or resizes.
///
/// A writer also keeps out programs that rely on reading a consistent image (in qemu that is every
/// reader, `-U` or not; `qemu-img info` is none): what is still in the cache is not in the image.
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

/// Permissions that a reader or writer has, and those that it keeps from others.
fn permissions(writes: bool) -> (&'static [i64], &'static [i64]) {
    if writes {
        (&[CONSISTENT_READ, WRITE], &[CONSISTENT_READ, WRITE, RESIZE])
    } else {
        (&[CONSISTENT_READ], &[WRITE, RESIZE])
    }
}

/// Looks for locks of other descriptions that exclude reading, or reading and writing. Takes none.
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
