//! Fencing: detects that the last I/O of a dead daemon has ended (clause C15).
//!
//! A holder process keeps the open file description of the backing, so locks on that description do
//! not show whether the daemon's I/O has ended. The fence is a lock on a description that only the
//! daemon has: flock(2) on the memory, opened a second time, and *registered* with each ring that
//! does I/O (IORING_REGISTER_FILES).
//!
//! In the kernel's terms (io_uring/io_uring.c, Linux 6.18): when a process ends, its descriptors
//! are closed, but a ring goes on until `io_ring_exit_work` has waited for `ctx->refs` to fall to
//! zero. Every request holds one of these references until it has completed, and a write completes
//! when the device has answered it. Only then does `io_ring_ctx_free` call
//! `io_sqe_files_unregister`, which releases the registered files. The lock ends with the
//! description's last reference (`locks_remove_file` in `__fput`). So the lock outlives the process
//! until its I/O has ended, plus the few milliseconds that the ring needs to exit. Requests on
//! `io-wq` threads and blocking calls of a thread keep the process itself, and with it the
//! descriptors, until they have ended. All of this holds since Linux 5.1 (registered files).
#![allow(unsafe_code)]

use crate::ring::Ring;
use host::Patience;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The right to do I/O for a volume with this memory. No other process gets it until this has been
/// dropped, all rings that [hold](Ring::hold) it are gone, and their last I/O has ended.
#[derive(Debug)]
pub struct Fence {
    file: OwnedFd,
}

/// Returns the process that holds the lock on the file, from its line in /proc/locks:
/// `1: FLOCK  ADVISORY  WRITE 1234 00:01:5678 0 EOF`.
fn owner(locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        // A line with an arrow belongs to a process that waits.
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_flock = words.next() == Some("FLOCK");
        let process = words.nth(2)?.parse().ok()?;
        (is_flock && words.next() == Some(&place)).then_some(process)
    })
}

/// Describes the process that still uses the memory.
fn user(file: &OwnedFd) -> String {
    let found = rustix::fs::fstat(file).ok().and_then(|found| {
        let (major, minor) = (rustix::fs::major(found.st_dev), rustix::fs::minor(found.st_dev));
        owner(&fs::read_to_string("/proc/locks").ok()?, major, minor, found.st_ino)
    });
    let Some(process) = found else {
        return "I/O in flight of a process that has ended".to_owned();
    };
    match fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(name) => format!("process {process} ({})", name.trim_end()),
        Err(_) => format!("I/O in flight of process {process}, which has ended"),
    }
}

impl Fence {
    /// Takes the fence of the memory `arena` (a memfd, with huge pages or without); waits up to
    /// `patience_ms` for the process that has it. Blocks the thread.
    ///
    /// # Errors
    /// `WouldBlock`: a sentence that names the process whose I/O has not ended. Otherwise the
    /// system's errors, for example if /proc is missing.
    pub fn take(arena: BorrowedFd<'_>, patience_ms: u64) -> io::Result<Fence> {
        // A separate description: the received one is shared with other holders.
        let path = format!("/proc/self/fd/{}", arena.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        let patience = Patience::new(patience_ms);
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Fence { file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) => (),
                Err(errno) => return Err(errno.into()),
            }
            if !patience.pause() {
                let message = format!(
                    "the memory is still used by {}; end that, or wait until its I/O has ended",
                    user(&file)
                );
                return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
            }
        }
    }
}

impl Ring {
    /// Makes the fence outlive the last I/O of this ring, even if the process dies. Call it before
    /// the ring does any I/O for the volume.
    ///
    /// # Errors
    /// The system's errors; also if the ring holds the maximum number (256).
    pub fn hold(&self, fence: &Fence) -> io::Result<()> {
        self.register_file(&fence.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HugePages, shared_memory};
    use std::os::fd::AsFd;

    fn fenced_twice(huge_pages: HugePages) -> io::Result<()> {
        let shared = shared_memory("test", 2 << 20, huge_pages, &mut |_, _| ())?;
        let first = Fence::take(shared.file(), 0)?;
        let refused = Fence::take(shared.file(), 20).expect_err("it is taken");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let own = format!("process {} (", std::process::id());
        assert!(refused.to_string().contains(&own), "{refused}");
        drop(first);
        Fence::take(shared.file(), 0).map(|_| ())
    }

    #[test]
    fn only_one_process_has_the_fence() -> io::Result<()> {
        fenced_twice(HugePages::Never)
    }

    #[test]
    fn only_one_process_has_the_fence_with_huge_pages() -> io::Result<()> {
        match shared_memory("test", 2 << 20, HugePages::Require, &mut |_, _| ()) {
            Ok(first) => drop(first),
            Err(error) => {
                // An empty one needs no page of the pool, and is opened and locked in the same way.
                println!("no huge pages are reserved here ({error}): on an empty memory only");
                use rustix::fs::MemfdFlags;
                let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
                let Ok(empty) = rustix::fs::memfd_create("empty", flags) else {
                    println!("skipped: this kernel has no huge pages at all");
                    return Ok(());
                };
                let first = Fence::take(empty.as_fd(), 0)?;
                assert!(Fence::take(empty.as_fd(), 0).is_err());
                drop(first);
                return Fence::take(empty.as_fd(), 0).map(|_| ());
            }
        }
        fenced_twice(HugePages::Require)
    }

    #[test]
    fn a_fence_lasts_until_its_ring_is_gone() -> io::Result<()> {
        let shared = shared_memory("test", 4096, HugePages::Never, &mut |_, _| ())?;
        let ring = Ring::new(&lane::Lane::new())?;
        let fence = Fence::take(shared.file(), 0)?;
        ring.hold(&fence)?;
        drop(fence);
        assert!(Fence::take(shared.file(), 20).is_err(), "the ring holds it");
        drop(ring);
        // The kernel tears rings down in the background.
        Fence::take(shared.file(), 10_000).map(|_| ())
    }

    #[test]
    fn owners_are_found_among_other_locks() {
        let locks = "\
1: POSIX  ADVISORY  WRITE 11 00:01:77 0 EOF
2: FLOCK  ADVISORY  WRITE 12 00:01:78 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 00:01:79 0 EOF
garbage
3: FLOCK  ADVISORY  WRITE 14 00:01:77 0 EOF
";
        assert_eq!(owner(locks, 0, 1, 77), Some(14));
        assert_eq!(owner(locks, 0, 1, 78), Some(12));
        assert_eq!(owner(locks, 1, 1, 78), None);
    }
}
