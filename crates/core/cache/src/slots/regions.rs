//! The number of indexed slots in each region of the volume: a change of a large range looks no
//! block up in a region that has none.
//!
//! Regions share counters, so that a large volume needs no more of them than a small one. A counter
//! that is not 0 may be that of another region.

use crate::geometry::Geometry;
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// Slots for each counter: the cached regions of most volumes have more slots.
const SLOTS_PER_COUNTER: u32 = 128;

/// The counters of a shard.
pub(crate) struct RegionCounts {
    slots: Box<[u32]>,
    /// A shard has one region in each row of regions: this shift makes a block the number of its
    /// row.
    row_shift: u32,
}

impl RegionCounts {
    pub(crate) fn new(geometry: &Geometry) -> RegionCounts {
        let counters = 1 << (geometry.slots_per_shard() / SLOTS_PER_COUNTER).max(1).ilog2();
        let row_blocks = u64::from(geometry.region_blocks) * u64::from(geometry.shards);
        let row_shift = row_blocks.next_power_of_two().trailing_zeros();
        RegionCounts { slots: vec![0; counters].into_boxed_slice(), row_shift }
    }

    #[inline]
    fn counter(&self, block: u64) -> usize {
        self.counter_of_row(block >> self.row_shift)
    }

    #[inline]
    fn counter_of_row(&self, row: u64) -> usize {
        row as usize & (self.slots.len() - 1)
    }

    /// Counts a slot with this block.
    #[inline]
    pub(crate) fn add(&mut self, block: u64) {
        self.slots[self.counter(block)] += 1;
    }

    /// Counts the end of a slot with this block.
    #[inline]
    pub(crate) fn remove(&mut self, block: u64) {
        self.slots[self.counter(block)] -= 1;
    }

    /// Whether a slot may have a block of this block's region.
    #[inline]
    pub(crate) fn may_have(&self, block: u64) -> bool {
        self.slots[self.counter(block)] > 0
    }

    /// Whether a slot may have a block of the regions of these blocks.
    pub(crate) fn may_have_any(&self, blocks: &Range<u64>) -> bool {
        let rows = blocks.start >> self.row_shift..=(blocks.end - 1) >> self.row_shift;
        rows.take(self.slots.len()).any(|row| self.slots[self.counter_of_row(row)] > 0)
    }

    /// The number of slots.
    pub(crate) fn sum(&self) -> u32 {
        self.slots.iter().sum()
    }
}
