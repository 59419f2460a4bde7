//! Plain arithmetic over blocks and their sectors.

use crate::BLOCK_SECTORS;
use block::Extent;
use core::ops::Range;

/// Blocks that are copied in one section: longer work is done in slices, so that no task waits for
/// the lock longer than a few microseconds.
pub(crate) const SLICE: u32 = 32;

/// Returns the bits of `sectors` sectors from `sector` on.
#[inline]
pub(crate) fn bits(sector: u32, sectors: u32) -> u8 {
    ((((1u32 << sectors) - 1) << sector) & 0xff) as u8
}

/// Calls `each` with the first sector and the length of every stretch of set bits.
pub(crate) fn stretches(mask: u8, mut each: impl FnMut(u32, u32)) {
    let mut rest = u32::from(mask);
    while rest != 0 {
        let first = rest.trailing_zeros();
        let length = (rest >> first).trailing_ones();
        each(first, length);
        rest &= !(((1 << length) - 1) << first);
    }
}

/// Returns the blocks that an extent touches: the first, and their number.
#[inline]
pub(crate) fn blocks_of(at: &Extent) -> (u64, u32) {
    let first = at.first / u64::from(BLOCK_SECTORS);
    let end = at.end().div_ceil(u64::from(BLOCK_SECTORS));
    (first, (end - first) as u32)
}

/// Returns the blocks that an extent covers completely: the first, and their number.
pub(crate) fn whole_blocks_of(at: &Extent) -> Option<(u64, u32)> {
    let first = at.first.div_ceil(u64::from(BLOCK_SECTORS));
    let end = at.end() / u64::from(BLOCK_SECTORS);
    (end > first).then(|| (first, (end - first) as u32))
}

/// Returns the part of an extent in one of its blocks: the first sector in the block, the number of
/// sectors, and their offset in the extent.
#[inline]
pub(crate) fn share(at: &Extent, block: u64) -> (u32, u32, u32) {
    let start = block * u64::from(BLOCK_SECTORS);
    let first = at.first.max(start);
    let end = at.end().min(start + u64::from(BLOCK_SECTORS));
    ((first - start) as u32, (end - first) as u32, (first - at.first) as u32)
}

/// Splits a range of blocks into slices of at most [`SLICE`].
pub(crate) fn slices(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = blocks.end;
    let slice = u64::from(SLICE);
    blocks.step_by(SLICE as usize).map(move |first| first..end.min(first + slice))
}

/// Returns the number of sectors from `first` to the end of the last of `blocks` blocks, of which
/// the first contains `first`.
pub(crate) fn cut(first: u64, blocks: u64) -> u64 {
    let block = u64::from(BLOCK_SECTORS);
    blocks.saturating_mul(block).saturating_sub(first % block).max(1)
}
