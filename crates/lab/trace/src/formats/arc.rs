//! The text of the traces of ARC (N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead
//! Replacement Cache", FAST 2003), as their authors published them.
//!
//! ```text
//!   first block   number of blocks   ignored   number of the request, from 0 or 1
//!   110765        64                 0         0
//! ```
//!
//! The authors recorded the P traces in blocks of 512 bytes, and simulated every block as a page:
//! the numbers of accesses and of pages in the paper's table, and the miss ratios that others
//! compare with, count each block once. So a block is 4 KiB here, one block of the simulated cache.
//! `arc-512` reads the blocks as sectors of 512 bytes, which a cache of 4 KiB blocks would have
//! seen: up to eight of them are then one block.
//!
//! There is no time, no device and no direction: all are reads.

use super::Found;
use crate::access::{Direction, Extent};
use crate::devices::Devices;
use crate::fields::{between_blanks, exactly, number};

const EXPECTED: &str = "not 'block blocks ignored request'";
/// The bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// The size of a block of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// 4 KiB.
    Page,
    /// 512 bytes.
    Sector,
}

pub(crate) fn line(line: &[u8], block: Block, devices: &mut Devices) -> Found {
    let fields: [&[u8]; 4] = exactly(between_blanks(line)).ok_or(EXPECTED)?;
    let mut numbers = [0; 4];
    for (value, field) in numbers.iter_mut().zip(fields) {
        *value = number(field).ok_or(EXPECTED)?;
    }
    let [first, blocks, _, _] = numbers;
    let extent = match block {
        Block::Page => Extent::of_blocks(first, blocks, PAGE_BYTES)?,
        Block::Sector => Extent::of_sectors(first, blocks)?,
    };
    extent.access(0, devices.numbered(0)?, Direction::Read).map(Some)
}
