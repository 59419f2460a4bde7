//! The positions of a file's blocks on the device of its file system.
//!
//! Sources: include/uapi/linux/fiemap.h, Documentation/filesystems/fiemap.rst.
#![allow(unsafe_code)]

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::io;
use std::os::fd::AsFd;

/// Number of extents of one call.
const EXTENTS: usize = 64;

const LAST: u32 = 0x1;
/// Flags of extents whose positions are not on the device, or not those of the file's own bytes:
/// unknown, not allocated yet, encoded, not aligned, in the inode, at the end of another block.
const ELSEWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400;

/// `struct fiemap`, without its extents.
#[repr(C)]
struct Head {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_2: [u32; 3],
}

#[repr(C)]
struct Request {
    head: Head,
    extents: [RawExtent; EXTENTS],
}

const FIEMAP: Opcode = opcode::read_write::<Head>(b'f', 11);

/// Adjacent bytes of a file on the device of its file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileExtent {
    /// Position in the file, in bytes.
    pub at: u64,
    /// Position on the device, in bytes.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Calls `each` with the extents of an open file or directory, until it returns false. Blocks that
/// have no position yet are left out: those of data that the page cache has not written.
///
/// # Errors
/// The system's errors; for example, the file system has no such call.
pub fn file_extents(file: impl AsFd, mut each: impl FnMut(FileExtent) -> bool) -> io::Result<()> {
    const NONE: RawExtent = RawExtent {
        logical: 0,
        physical: 0,
        length: 0,
        reserved: [0; 2],
        flags: 0,
        reserved_2: [0; 3],
    };
    let mut start = 0;
    loop {
        let count = EXTENTS as u32;
        let head =
            Head { start, length: u64::MAX - start, flags: 0, mapped: 0, count, reserved: 0 };
        let mut request = Request { head, extents: [NONE; EXTENTS] };
        // SAFETY: FS_IOC_FIEMAP writes one `struct fiemap` with at most `count` extents behind it,
        // which `request` is.
        unsafe { ioctl(&file, Updater::<FIEMAP, Request>::new(&mut request)) }?;
        let found = &request.extents[..EXTENTS.min(request.head.mapped as usize)];
        for raw in found {
            let extent = FileExtent { at: raw.logical, start: raw.physical, length: raw.length };
            if raw.flags & ELSEWHERE == 0 && !each(extent) {
                return Ok(());
            }
        }
        let Some(last) = found.last().filter(|raw| raw.flags & LAST == 0) else { return Ok(()) };
        // A file that changes meanwhile ends the list when it stops moving forward.
        match last.logical.checked_add(last.length).filter(|end| *end > start) {
            Some(end) => start = end,
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn each_block_of_a_file_has_one_position() {
        let file = tempfile::tempfile().expect("a file");
        // Every other block is a hole: more extents than one call returns.
        for block in 0..100 {
            file.write_all_at(&[1; 4096], block * 8192).expect("written");
        }
        file.sync_all().expect("synced");
        let mut found = Vec::new();
        let listed = file_extents(&file, |extent| {
            found.push(extent);
            true
        });
        match listed {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                println!("skipped: the file system of the temporary directory has no FIEMAP");
            }
            listed => {
                listed.expect("listed");
                for block in 0..100 {
                    let covers = |it: &&FileExtent| {
                        (it.at..it.at + it.length).contains(&(block * 8192 + 4095))
                    };
                    assert_eq!(found.iter().filter(covers).count(), 1, "block {block}");
                }
                let is_ascending = |two: &[FileExtent]| two[0].at + two[0].length <= two[1].at;
                assert!(found.windows(2).all(is_ascending));
            }
        }
        let mut calls = 0;
        let _ = file_extents(&file, |_| {
            calls += 1;
            false
        });
        assert!(calls <= 1, "the list does not end");
    }
}
