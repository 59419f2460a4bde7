//! Abilities of a file or a device, determined without changing any byte of its contents.

use crate::sysfs::{attribute, directory};
use block::Discard;
use rustix::fs::{AtFlags, FallocateFlags, FsWord, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::fs;
use std::os::fd::AsFd;

/// File systems that keep files in memory accept `O_DIRECT` and ignore it.
const TMPFS: FsWord = 0x0102_1994;
const RAMFS: FsWord = 0x8584_58f6_u32 as FsWord;

/// Whether I/O bypasses the host's page cache.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direct {
    /// It does.
    Yes,
    /// It does not, for this reason.
    No(String),
}

/// Alignments that transfers require, in bytes, and whether I/O is direct.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alignment {
    /// Alignment of positions and lengths.
    pub block: u32,
    /// Alignment of addresses.
    pub memory: u32,
    /// Whether I/O is direct.
    pub direct: Direct,
}

impl Alignment {
    pub(crate) fn buffered(block: u32, why: &str) -> Alignment {
        Alignment { block, memory: 1, direct: Direct::No(why.to_owned()) }
    }
}

/// Reads `block` bytes at the start to an aligned address, as direct I/O would.
fn reads(file: impl AsFd, block: u32) -> Result<(), Errno> {
    let block = block as usize;
    let mut room = vec![0u8; block * 2];
    let skip = room.as_ptr().align_offset(block);
    rustix::io::pread(file, &mut room[skip..skip + block], 0).map(|_| ())
}

/// Returns the alignment from statx (Linux 6.1 and later), as block and memory. None: not
/// available.
fn statx_alignment(file: impl AsFd) -> Option<(u32, u32)> {
    let found = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let answered = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN);
    answered.then_some((found.stx_dio_offset_align, found.stx_dio_mem_align))
}

/// Determines how to use a file that was opened with `O_DIRECT`. `least` is the minimum block size.
pub(crate) fn direct(file: impl AsFd, device: bool, least: u32) -> Alignment {
    let file = file.as_fd();
    let system = rustix::fs::fstatfs(file).map(|found| found.f_type);
    // The node of a device is in memory too, which is irrelevant for the device.
    if !device && system.is_ok_and(|kind| kind == TMPFS || kind == RAMFS) {
        return Alignment::buffered(least, "this file system keeps files in memory");
    }
    let (block, memory) = match statx_alignment(file) {
        Some((0, _)) => return Alignment::buffered(least, "the file system says it cannot"),
        Some((block, memory)) => (block.max(least), memory.max(1)),
        None => (least, least),
    };
    // The reported alignment is tested as well: an emulation may not keep its promise.
    for block in [block, block.max(4096)] {
        if block.is_power_of_two() && memory.is_power_of_two() && reads(file, block).is_ok() {
            return Alignment { block, memory, direct: Direct::Yes };
        }
    }
    Alignment::buffered(least, "a direct read of its first block failed")
}

/// Disables direct I/O on the open description (its locks stay).
pub(crate) fn make_buffered(file: impl AsFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(file.as_fd())?;
    rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT)
}

/// Whether space can be deallocated so that it reads as zeros, for a regular file of `bytes` bytes.
///
/// Punches a hole beyond the end, where there is no data.
pub(crate) fn file_discard(file: impl AsFd, bytes: u64) -> Discard {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, mode, bytes, 4096) {
        Ok(()) => Discard::Zeroes,
        Err(_) => Discard::Ignored,
    }
}

/// Whether the file system zeroes a range without writing it. Tested beyond the end, as above.
pub(crate) fn file_zero(file: impl AsFd, bytes: u64) -> bool {
    let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zeroed = rustix::fs::fallocate(file.as_fd(), mode, bytes, 4096).is_ok();
    // Zeroing allocates space: the space used by the test is deallocated.
    let _ = zeroed && rustix::fs::fallocate(file, punch, bytes, 4096).is_ok();
    zeroed
}

/// Returns the effect of a discard on a block device: that of the kernel's "write zeroes" requests,
/// which punching a hole into a device uses.
pub(crate) fn device_discard(device: u64) -> Discard {
    let most = attribute(device, "queue/write_zeroes_max_bytes");
    match most.and_then(|bytes| bytes.parse::<u64>().ok()) {
        Some(1..) => Discard::Zeroes,
        _ => Discard::Ignored,
    }
}

/// Whether seeks take time on the device (for a file: on its disk). Unknown counts as false.
pub(crate) fn rotational(device: u64) -> bool {
    attribute(device, "queue/rotational").as_deref() == Some("1")
}

/// Transfer size that suits the device best, in bytes.
pub(crate) fn io_best(device: u64) -> u32 {
    let optimal_bytes =
        attribute(device, "queue/optimal_io_size").and_then(|bytes| bytes.parse().ok());
    match optimal_bytes {
        Some(bytes @ 4096..=1_048_576) if u32::is_power_of_two(bytes) => bytes.max(128 << 10),
        _ => 128 << 10,
    }
}

/// Whether the kernel has the device marked as read-only.
pub(crate) fn is_read_only(device: u64) -> bool {
    let path = directory(device).join("ro");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}
