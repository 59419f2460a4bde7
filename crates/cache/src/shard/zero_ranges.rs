//! Pending zeroed ranges (C14): versions of whole blocks that need no slot.
//!
//! A range belongs to an epoch like a dirty slot does. Within an epoch, every slot of a block is
//! newer than any range over it: a range that is admitted drops the epoch's older slots under it.
//! That is why ranges of one epoch may be merged, and are written out before its slots.

use crate::arena::{Arena, ExtentHeader};
use alloc::vec::Vec;

/// Ranges are merged up to so many blocks, 4 GiB. A range is written out by requests whose sectors are counted by 32
/// bits, and each of its blocks is looked up for that under the shard's lock.
const MERGED_BLOCKS_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Dirty,
    Writing,
    Written,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u32,
    header: ExtentHeader,
    stage: Stage,
}

impl Pending {
    fn end(&self) -> u64 {
        self.header.first + u64::from(self.header.blocks)
    }

    fn meets(&self, first: u64, blocks: u32) -> bool {
        first < self.end() && self.header.first < first + u64::from(blocks)
    }
}

/// A range that the workers are writing out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ZeroRun {
    number: u32,
    /// The first block.
    pub(crate) first: u64,
    /// How many blocks.
    pub(crate) blocks: u32,
    /// Space behind it may be given up.
    pub(crate) may_unmap: bool,
}

/// The pending ranges of a shard.
pub(crate) struct Zeroes {
    numbers: core::ops::Range<u32>,
    pending: Vec<Pending>,
    free: Vec<u32>,
}

impl Zeroes {
    /// `numbers`: the places in the arena that belong to this shard.
    pub(crate) fn new(numbers: core::ops::Range<u32>) -> Zeroes {
        let count = numbers.len();
        let free = numbers.clone().rev().collect();
        Zeroes { numbers, pending: Vec::with_capacity(count), free }
    }

    /// The places in the arena that belong to this shard.
    pub(crate) fn numbers(&self) -> core::ops::Range<u32> {
        self.numbers.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the block reads as zeros, unless a slot holds it.
    #[inline]
    pub(crate) fn cover(&self, block: u64) -> bool {
        !self.pending.is_empty() && self.meet(block, 1)
    }

    /// Whether any of these blocks is under a pending range.
    pub(crate) fn meet(&self, first: u64, blocks: u32) -> bool {
        self.pending.iter().any(|pending| pending.meets(first, blocks))
    }

    /// Whether the block reads as zeros unless a slot holds it, and if so, whether every range over it
    /// allows to give up the space behind it.
    pub(crate) fn covering(&self, block: u64) -> Option<bool> {
        let over = self.pending.iter().filter(|pending| pending.meets(block, 1));
        over.map(|pending| pending.header.may_unmap).reduce(|one, two| one && two)
    }

    /// Whether a range is on its way to the backing.
    pub(crate) fn is_writing(&self) -> bool {
        self.pending.iter().any(|pending| pending.stage == Stage::Writing)
    }

    /// Gives up every range. Returns their blocks.
    pub(crate) fn discard(&mut self, arena: &Arena) -> u64 {
        let free = &mut self.free;
        let mut blocks = 0;
        self.pending.drain(..).for_each(|pending| {
            arena.free_extent(pending.number);
            free.push(pending.number);
            blocks += u64::from(pending.header.blocks);
        });
        blocks
    }

    /// Whether a range can be admitted.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    fn neighbour(&self, first: u64, blocks: u32, epoch: u64) -> Option<usize> {
        let end = first + u64::from(blocks);
        self.pending.iter().position(|pending| {
            pending.header.epoch == epoch
                && pending.stage == Stage::Dirty
                && first <= pending.end()
                && pending.header.first <= end
                && end.max(pending.end()) - first.min(pending.header.first) <= MERGED_BLOCKS_MAX
        })
    }

    /// Admits a range to the open epoch, merged with what it touches there. The union is published
    /// under a number of its own before the ranges it takes in are withdrawn: killed in between,
    /// nothing is lost.
    pub(crate) fn admit(&mut self, arena: &Arena, mut range: ExtentHeader) {
        let number = self.free.pop().expect("asked has_room before");
        let kept = self.free.len();
        while let Some(position) = self.neighbour(range.first, range.blocks, range.epoch) {
            let touched = self.pending.swap_remove(position);
            let first = range.first.min(touched.header.first);
            let end = touched.end().max(range.first + u64::from(range.blocks));
            range.first = first;
            range.blocks = (end - first) as u32;
            range.may_unmap &= touched.header.may_unmap;
            self.free.push(touched.number);
        }
        arena.publish_extent(number, &range);
        self.free[kept..].iter().for_each(|&taken_in| arena.free_extent(taken_in));
        self.pending.push(Pending { number, header: range, stage: Stage::Dirty });
    }

    /// Takes over a range that recovery found.
    pub(crate) fn restore(&mut self, number: u32, header: ExtentHeader) {
        self.free.retain(|&free| free != number);
        self.pending.push(Pending { number, header, stage: Stage::Dirty });
    }

    /// Ranges of this epoch that are not written yet.
    pub(crate) fn unwritten(&self, epoch: u64) -> u32 {
        let is_it =
            |pending: &&Pending| pending.header.epoch == epoch && pending.stage != Stage::Written;
        self.pending.iter().filter(is_it).count() as u32
    }

    /// The next range of this epoch to write out.
    pub(crate) fn next_run(&mut self, epoch: u64) -> Option<ZeroRun> {
        let is_it = |(_, pending): &(usize, &Pending)| {
            pending.header.epoch == epoch && pending.stage == Stage::Dirty
        };
        let waiting = self.pending.iter().enumerate().filter(is_it);
        let (position, next) = waiting.min_by_key(|(_, pending)| pending.header.first)?;
        // Ranges that were to become one may both be found by recovery: one write of a block at a time.
        let ExtentHeader { first, blocks, .. } = next.header;
        let mut writing = self.pending.iter().filter(|other| other.stage == Stage::Writing);
        if writing.any(|other| other.meets(first, blocks)) {
            return None;
        }
        let next = &mut self.pending[position];
        next.stage = Stage::Writing;
        let ExtentHeader { first, blocks, may_unmap, .. } = next.header;
        Some(ZeroRun { number: next.number, first, blocks, may_unmap })
    }

    /// The range was written, or was not.
    pub(crate) fn run_done(&mut self, run: &ZeroRun, written: bool) {
        let pending = self.pending.iter_mut().find(|pending| pending.number == run.number);
        let pending = pending.expect("a range in flight is pending");
        pending.stage = if written { Stage::Written } else { Stage::Dirty };
    }

    /// The epoch is durable: its ranges are what the backing has.
    pub(crate) fn release(&mut self, arena: &Arena, epoch: u64) {
        let free = &mut self.free;
        self.pending.retain(|pending| {
            let done = pending.header.epoch == epoch && pending.stage == Stage::Written;
            if done {
                arena.free_extent(pending.number);
                free.push(pending.number);
            }
            !done
        });
    }

    /// The backing's flush failed: what was written must be written again. Returns how many.
    pub(crate) fn taint(&mut self) -> u32 {
        let mut tainted = 0;
        for pending in &mut self.pending {
            if pending.stage == Stage::Written {
                pending.stage = Stage::Dirty;
                tainted += 1;
            }
        }
        tainted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use alloc::sync::Arc;
    use block::Memory;

    fn arena() -> Arena {
        let geometry =
            Geometry { slots: 8, shards: 2, region_blocks: 8, extents: 4, ..Geometry::default() };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 16)));
        Arena::over(memory, &geometry, 16)
    }

    fn range(first: u64, blocks: u32, epoch: u64) -> ExtentHeader {
        ExtentHeader { first, blocks, may_unmap: true, epoch, sequence: epoch }
    }

    /// What the arena keeps of the places of a shard: first block and blocks.
    fn kept(arena: &Arena) -> Vec<(u64, u32)> {
        let places = (4..8).filter_map(|number| arena.extent(number).expect("sound"));
        let mut kept: Vec<_> = places.map(|range| (range.first, range.blocks)).collect();
        kept.sort_unstable();
        kept
    }

    #[test]
    fn ranges_of_one_epoch_that_touch_are_one_and_others_stay_apart() {
        let arena = arena();
        let mut zeroes = Zeroes::new(4..8);
        assert!(zeroes.is_empty() && zeroes.has_room());
        zeroes.admit(&arena, range(10, 2, 5));
        zeroes.admit(&arena, range(13, 2, 5));
        assert_eq!(kept(&arena), [(10, 2), (13, 2)]);
        zeroes.admit(&arena, range(12, 1, 6));
        assert_eq!(zeroes.unwritten(5), 2);
        zeroes.admit(&arena, ExtentHeader { may_unmap: false, ..range(12, 1, 5) });
        assert_eq!(kept(&arena), [(10, 5), (12, 1)]);
        assert_eq!((zeroes.unwritten(5), zeroes.unwritten(6)), (1, 1));
        assert!(zeroes.has_room());
        let covered = [9, 10, 12, 14, 15].map(|block| zeroes.covering(block));
        assert_eq!(covered, [None, Some(false), Some(false), Some(false), None]);
        assert!(!zeroes.cover(9) && zeroes.cover(10) && zeroes.cover(14) && !zeroes.cover(15));
        assert!(
            !zeroes.meet(5, 5) && zeroes.meet(5, 6) && zeroes.meet(14, 9) && !zeroes.meet(15, 9)
        );
        zeroes.admit(&arena, range(40, 1, 6));
        zeroes.admit(&arena, range(50, 1, 6));
        assert!(!zeroes.has_room());
        assert_eq!(zeroes.covering(40), Some(true));
        assert_eq!(zeroes.discard(&arena), 5 + 1 + 1 + 1);
        assert!(zeroes.is_empty() && zeroes.has_room() && kept(&arena).is_empty());
    }

    #[test]
    fn ranges_that_would_become_too_large_stay_apart() {
        const HALF: u32 = (MERGED_BLOCKS_MAX / 2) as u32;
        let arena = arena();
        let mut zeroes = Zeroes::new(4..8);
        zeroes.admit(&arena, range(0, HALF, 5));
        zeroes.admit(&arena, range(HALF.into(), HALF, 5));
        zeroes.admit(&arena, range(MERGED_BLOCKS_MAX, 1, 5));
        // More than a request can name, had these become one.
        zeroes.admit(&arena, range(MERGED_BLOCKS_MAX - 1, 1 << 29, 5));
        let whole = MERGED_BLOCKS_MAX as u32;
        assert_eq!(
            kept(&arena),
            [(0, whole), (MERGED_BLOCKS_MAX - 1, 1 << 29), (MERGED_BLOCKS_MAX, 1)]
        );
        // Where they overlap, one is written at a time.
        let first = zeroes.next_run(5).expect("three wait");
        assert_eq!((first.first, zeroes.next_run(5)), (0, None));
        zeroes.run_done(&first, true);
        assert_eq!(zeroes.next_run(5).map(|run| run.blocks), Some(1 << 29));
    }

    #[test]
    fn ranges_are_written_in_order_tainted_and_released_by_their_epoch() {
        let arena = arena();
        let mut zeroes = Zeroes::new(4..8);
        zeroes.admit(&arena, range(30, 2, 5));
        zeroes.admit(&arena, range(10, 2, 5));
        zeroes.admit(&arena, range(20, 2, 6));
        assert!(!zeroes.is_writing());
        let first = zeroes.next_run(5).expect("two wait");
        assert_eq!((first.first, first.blocks, first.may_unmap), (10, 2, true));
        assert!(zeroes.is_writing());
        assert_eq!(zeroes.unwritten(5), 2, "it is only under way");
        zeroes.run_done(&first, false);
        assert!(!zeroes.is_writing());
        assert_eq!(zeroes.next_run(5), Some(first), "once more");
        zeroes.run_done(&first, true);
        assert_eq!((zeroes.unwritten(5), zeroes.taint()), (1, 1));
        assert_eq!((zeroes.unwritten(5), zeroes.taint()), (2, 0));
        for first in [10, 30] {
            let run = zeroes.next_run(5).expect("it waits");
            assert_eq!(run.first, first);
            zeroes.run_done(&run, true);
        }
        assert_eq!((zeroes.next_run(5), zeroes.unwritten(5)), (None, 0));
        zeroes.release(&arena, 6);
        assert_eq!(kept(&arena).len(), 3, "those of epoch 6 are not written");
        zeroes.release(&arena, 5);
        assert_eq!(kept(&arena), [(20, 2)]);
        assert!(zeroes.cover(20) && !zeroes.cover(10) && zeroes.has_room());
    }

    #[test]
    fn of_ranges_that_overlap_one_is_written_at_a_time() {
        let mut zeroes = Zeroes::new(4..8);
        // Killed while two became one: recovery finds all three.
        for (number, first, blocks) in [(4, 10, 4), (5, 10, 2), (6, 14, 2)] {
            zeroes.restore(number, range(first, blocks, 5));
        }
        let first = zeroes.next_run(5).expect("three wait");
        assert_eq!(first.first, 10);
        assert_eq!(zeroes.next_run(5), None, "the other one that begins at 10 meets it");
        zeroes.run_done(&first, true);
        let second = zeroes.next_run(5).expect("two wait");
        assert_eq!(second.first, 10);
        let third = zeroes.next_run(5).expect("it meets neither");
        assert_eq!(third.first, 14);
        assert_eq!(zeroes.next_run(5), None);
        assert!(zeroes.has_room());
        zeroes.restore(7, range(30, 1, 5));
        assert!(!zeroes.has_room());
    }
}
