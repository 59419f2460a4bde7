//! Measures how much of a file is in the page cache.
//!
//! Source: mincore(2). Since Linux 5.2 it gives the truth only to the owner of the file and to
//! processes that may write to it; for others it reports all pages as present (mm/mincore.c,
//! can_do_mincore).
#![allow(unsafe_code)]

use rustix::fs::{Access, AtFlags};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::null_mut;

/// Bytes of a file that are examined per call: the answer takes 64 KiB.
const WINDOW_BYTES: u64 = 256 << 20;

/// A mapping of a file that is never read.
struct Window {
    at: *mut c_void,
    bytes: usize,
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference into it was ever created.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

impl Window {
    fn map(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Window> {
        let (descriptor, offset) = (file.as_raw_fd(), offset as libc::off_t);
        // SAFETY: the kernel chooses the address; no other mapping is replaced.
        let at = unsafe {
            libc::mmap(null_mut(), bytes, libc::PROT_NONE, libc::MAP_SHARED, descriptor, offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Window { at, bytes })
    }

    /// Returns the number of pages of the window in memory.
    fn resident(&self, page: usize) -> io::Result<u64> {
        let mut pages = vec![0u8; self.bytes.div_ceil(page)];
        // SAFETY: the window is mapped, and `pages` has a byte for each of its pages.
        if unsafe { libc::mincore(self.at, self.bytes, pages.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64)
    }
}

/// Returns how many of these bytes of a file are in the page cache, in whole pages; the first byte
/// must begin a page. None: the kernel hides this from the user.
///
/// # Errors
/// The file cannot be mapped, or the first byte does not begin a page.
pub fn resident_bytes(file: impl AsFd, bytes: Range<u64>) -> io::Result<Option<u64>> {
    if !can_see_residency(file.as_fd()) {
        return Ok(None);
    }
    let page = rustix::param::page_size();
    let (mut resident, mut at) = (0, bytes.start);
    while at < bytes.end {
        let count = (bytes.end - at).min(WINDOW_BYTES);
        resident += Window::map(file.as_fd(), at, count as usize)?.resident(page)?;
        at += count;
    }
    Ok(Some(resident * page as u64))
}

/// Whether the kernel reports the truth to this user. The check is the kernel's, except for
/// capabilities in a user namespace.
fn can_see_residency(file: BorrowedFd<'_>) -> bool {
    let user = rustix::process::geteuid();
    let is_owner = rustix::fs::fstat(file).is_ok_and(|found| found.st_uid == user.as_raw());
    if is_owner || user.is_root() {
        return true;
    }
    let flags = AtFlags::EACCESS | AtFlags::EMPTY_PATH;
    rustix::fs::accessat(file, "", Access::WRITE_OK, flags).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn dropped_pages_are_not_resident_and_read_pages_are() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = directory.path().join("file");
        let mut written = File::create(&path).expect("a file");
        let bytes = 300 * 4096 + 17;
        written.write_all(&vec![1; bytes]).expect("written");
        written.sync_all().expect("durable");
        let mut file = File::open(&path).expect("there");
        let resident = || resident_bytes(&file, 0..bytes as u64).expect("it can be mapped");
        assert_eq!(resident(), Some(301 * 4096), "just written");
        let end = resident_bytes(&file, 256 * 4096..bytes as u64);
        assert_eq!(end.expect("it can be mapped"), Some(45 * 4096));
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
        if resident() != Some(0) {
            eprintln!("this file system keeps its files in memory; nothing more to see");
            return;
        }
        // One page and its read-ahead, but not all.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).expect("advice");
        file.read_exact(&mut [0; 10]).expect("read");
        let one = resident_bytes(&file, 0..bytes as u64).expect("it can be mapped");
        assert!((4096..=16 * 4096).contains(&one.expect("told")), "{one:?}");
        assert_eq!(resident_bytes(&file, 0..0).expect("nothing is mapped"), Some(0));
    }
}
