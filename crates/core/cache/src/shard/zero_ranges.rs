//! Pending ranges of zeros (C14): versions of whole blocks that need no slot.
//!
//! A range belongs to an epoch like a dirty slot. Within an epoch, every slot of a block is newer
//! than any range over it: a range that is admitted drops the epoch's older slots under it. That is
//! why ranges of one epoch may be merged, and are written before its slots.
//!
//! Ranges are ranges of positions ([`Spread`]), so that one range over many regions is one range in
//! each shard. No range crosses the border of a *window*, so that those of all shards have the same
//! borders. They are written together (`zero_writeback.rs`).

use crate::arena::{Arena, ExtentHeader};
use crate::geometry::Geometry;
use crate::spread::Spread;
use alloc::vec::Vec;
use core::ops::Range;

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
    fn positions(&self) -> Range<u64> {
        self.header.first..self.header.first + u64::from(self.header.blocks)
    }

    fn meets(&self, positions: &Range<u64>) -> bool {
        let own = self.positions();
        positions.start < own.end && own.start < positions.end
    }

    fn waits_in(&self, epoch: u64) -> bool {
        self.header.epoch == epoch && self.stage == Stage::Dirty
    }
}

/// A range that is to be written back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Its number in the arena.
    pub(crate) number: u32,
    pub(crate) positions: Range<u64>,
    /// The space behind it may be unmapped.
    pub(crate) may_unmap: bool,
}

/// The pending ranges of a shard.
pub(crate) struct Zeroes {
    numbers: Range<u32>,
    shard: u32,
    spread: Spread,
    /// The number of positions in a window.
    window: u64,
    pending: Vec<Pending>,
    free: Vec<u32>,
}

impl Zeroes {
    /// Makes the ranges of the shard with this number.
    pub(crate) fn new(shard: u32, geometry: &Geometry) -> Zeroes {
        assert!(geometry.zeros_blocks.is_multiple_of(geometry.region_blocks), "{geometry:?}");
        let numbers = geometry.ranges_of(shard);
        Zeroes {
            shard,
            spread: Spread::of(geometry),
            window: geometry.zeros_blocks.into(),
            pending: Vec::with_capacity(numbers.len()),
            free: numbers.clone().rev().collect(),
            numbers,
        }
    }

    /// The numbers in the arena that belong to this shard.
    pub(crate) fn numbers(&self) -> Range<u32> {
        self.numbers.clone()
    }

    /// Returns the blocks at positions of the shard, ascending: one range per region.
    pub(crate) fn blocks_at(
        &self,
        positions: &Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        self.spread.blocks_at(self.shard, positions.clone())
    }

    /// Extends these positions to the borders of their regions.
    pub(crate) fn whole_regions(&self, positions: &Range<u64>) -> Range<u64> {
        self.spread.whole_regions(positions)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the block reads as zeros, unless a slot holds it.
    #[inline]
    pub(crate) fn cover(&self, block: u64) -> bool {
        !self.pending.is_empty() && self.meet(block, 1)
    }

    /// Whether a pending range covers any of these blocks of a region.
    pub(crate) fn meet(&self, first: u64, blocks: u32) -> bool {
        let positions = self.positions(first, blocks);
        self.pending.iter().any(|pending| pending.meets(&positions))
    }

    /// Returns None if no range covers the block; otherwise whether every range over it allows to
    /// unmap the space behind it.
    pub(crate) fn covering(&self, block: u64) -> Option<bool> {
        let positions = self.positions(block, 1);
        let over = self.pending.iter().filter(|pending| pending.meets(&positions));
        over.map(|pending| pending.header.may_unmap).reduce(|one, two| one && two)
    }

    /// Whether a range is in flight to the backing.
    pub(crate) fn is_writing(&self) -> bool {
        self.pending.iter().any(|pending| pending.stage == Stage::Writing)
    }

    /// Drops every range. Returns the number of their blocks.
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

    /// Returns the position of a block in the shard.
    pub(crate) fn position_of(&self, block: u64) -> u64 {
        self.spread.position_of(block)
    }

    /// Returns the positions of blocks of one region.
    fn positions(&self, first: u64, blocks: u32) -> Range<u64> {
        let position = self.position_of(first);
        position..position + u64::from(blocks)
    }

    /// Returns the window of a position.
    fn window_of(&self, position: u64) -> u64 {
        position / self.window
    }

    /// Returns a waiting range of the same epoch that touches this one, if both are in the same
    /// window.
    fn neighbour(&self, positions: &Range<u64>, epoch: u64) -> Option<usize> {
        self.pending.iter().position(|pending| {
            let own = pending.positions();
            let (first, end) = (positions.start.min(own.start), positions.end.max(own.end));
            pending.waits_in(epoch)
                && positions.start <= own.end
                && own.start <= positions.end
                && self.window_of(first) == self.window_of(end - 1)
        })
    }

    /// Admits a range of blocks of one region to the open epoch, merged with the ranges there that
    /// it touches. The union is published under a number of its own before the merged ranges are
    /// withdrawn: a kill in between loses nothing.
    pub(crate) fn admit(&mut self, arena: &Arena, mut range: ExtentHeader) {
        let number = self.free.pop().expect("asked has_room before");
        let kept = self.free.len();
        let mut positions = self.positions(range.first, range.blocks);
        while let Some(at) = self.neighbour(&positions, range.epoch) {
            let touched = self.pending.swap_remove(at);
            let own = touched.positions();
            positions = positions.start.min(own.start)..positions.end.max(own.end);
            range.may_unmap &= touched.header.may_unmap;
            self.free.push(touched.number);
        }
        range.first = positions.start;
        range.blocks = (positions.end - positions.start) as u32;
        arena.publish_extent(number, &range);
        self.free[kept..].iter().for_each(|&taken_in| arena.free_extent(taken_in));
        self.pending.push(Pending { number, header: range, stage: Stage::Dirty });
    }

    /// Takes over a range that recovery found.
    pub(crate) fn restore(&mut self, number: u32, header: ExtentHeader) {
        self.free.retain(|&free| free != number);
        self.pending.push(Pending { number, header, stage: Stage::Dirty });
    }

    /// The number of ranges of this epoch that are not written yet.
    pub(crate) fn unwritten(&self, epoch: u64) -> u32 {
        let is_it =
            |pending: &&Pending| pending.header.epoch == epoch && pending.stage != Stage::Written;
        self.pending.iter().filter(is_it).count() as u32
    }

    /// Takes the first waiting range of this epoch, unless a part of it is `held_back`. The range
    /// is in flight from now on.
    pub(crate) fn take_first(
        &mut self,
        epoch: u64,
        held_back: impl Fn(Range<u64>) -> bool,
    ) -> Option<Taken> {
        let waiting = self.pending.iter().enumerate().filter(|(_, range)| range.waits_in(epoch));
        let (at, _) = waiting.min_by_key(|(_, range)| range.header.first)?;
        self.take(at, held_back)
    }

    /// Takes a waiting range of this epoch that meets these positions, like [`Zeroes::take_first`].
    pub(crate) fn take_at(
        &mut self,
        epoch: u64,
        positions: &Range<u64>,
        held_back: impl Fn(Range<u64>) -> bool,
    ) -> Option<Taken> {
        let is_it = |range: &Pending| range.waits_in(epoch) && range.meets(positions);
        let at = self.pending.iter().position(is_it)?;
        self.take(at, held_back)
    }

    fn take(&mut self, at: usize, held_back: impl Fn(Range<u64>) -> bool) -> Option<Taken> {
        let Pending { number, header: ExtentHeader { may_unmap, .. }, .. } = self.pending[at];
        let positions = self.pending[at].positions();
        let stays = self.is_beside_writing(&positions) || self.blocks_at(&positions).any(held_back);
        if stays {
            return None;
        }
        self.pending[at].stage = Stage::Writing;
        Some(Taken { number, positions, may_unmap })
    }

    /// Whether the positions overlap a range in flight. Recovery may find both a union and its
    /// parts: a block has one write in flight at a time.
    fn is_beside_writing(&self, positions: &Range<u64>) -> bool {
        let mut writing = self.pending.iter().filter(|other| other.stage == Stage::Writing);
        writing.any(|other| other.meets(positions))
    }

    /// Ends the write of a range that was taken.
    pub(crate) fn run_done(&mut self, number: u32, written: bool) {
        let pending = self.pending.iter_mut().find(|pending| pending.number == number);
        let pending = pending.expect("a range in flight is pending");
        pending.stage = if written { Stage::Written } else { Stage::Dirty };
    }

    /// Releases the written ranges of an epoch that is durable on the backing.
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

    /// Makes written ranges wait again after a failed flush of the backing. Returns their number.
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
    use alloc::sync::Arc;
    use block::Memory;

    /// Two shards of regions of 8 blocks; a window is 1024 positions. The tests use the second
    /// shard, and the first where positions are easier to see.
    const GEOMETRY: Geometry = Geometry {
        slots: 8,
        shards: 2,
        region_blocks: 8,
        extents: 4,
        zeros_blocks: 1024,
        ..Geometry::SMALLEST
    };

    fn arena() -> Arena {
        let memory = Arc::new(Memory::heap(Arena::bytes(&GEOMETRY, 16)));
        Arena::from_memory(memory, &GEOMETRY, 16)
    }

    fn zeroes() -> Zeroes {
        Zeroes::new(1, &GEOMETRY)
    }

    /// Admits a range at these positions of the second shard: whole regions, or within one.
    fn admit(zeroes: &mut Zeroes, arena: &Arena, range: ExtentHeader) {
        let end = range.first + u64::from(range.blocks);
        for blocks in zeroes.blocks_at(&(range.first..end)) {
            let (first, blocks) = (blocks.start, (blocks.end - blocks.start) as u32);
            zeroes.admit(arena, ExtentHeader { first, blocks, ..range });
        }
    }

    fn range(first: u64, blocks: u32, epoch: u64) -> ExtentHeader {
        ExtentHeader { first, blocks, may_unmap: true, epoch, sequence: epoch }
    }

    /// Returns the ranges of a shard in the arena: first position and number of blocks.
    fn kept(arena: &Arena) -> Vec<(u64, u32)> {
        let places = (4..8).filter_map(|number| arena.extent(number).expect("sound"));
        let mut kept: Vec<_> = places.map(|range| (range.first, range.blocks)).collect();
        kept.sort_unstable();
        kept
    }

    fn take(zeroes: &mut Zeroes, epoch: u64) -> Option<Taken> {
        zeroes.take_first(epoch, |_| false)
    }

    #[test]
    fn ranges_of_one_epoch_that_touch_are_one_and_others_stay_apart() {
        let arena = arena();
        let mut zeroes = zeroes();
        assert!(zeroes.is_empty() && zeroes.has_room());
        admit(&mut zeroes, &arena, range(10, 2, 5));
        admit(&mut zeroes, &arena, range(13, 2, 5));
        assert_eq!(kept(&arena), [(10, 2), (13, 2)]);
        admit(&mut zeroes, &arena, range(12, 1, 6));
        assert_eq!(zeroes.unwritten(5), 2);
        admit(&mut zeroes, &arena, ExtentHeader { may_unmap: false, ..range(12, 1, 5) });
        assert_eq!(kept(&arena), [(10, 5), (12, 1)]);
        assert_eq!((zeroes.unwritten(5), zeroes.unwritten(6)), (1, 1));
        assert!(zeroes.has_room());
        let block = |position: u64| {
            zeroes.blocks_at(&(position..position + 1)).next().expect("one position").start
        };
        let covered = [9, 10, 12, 14, 15].map(|position| zeroes.covering(block(position)));
        assert_eq!(covered, [None, Some(false), Some(false), Some(false), None]);
        let covered = [9, 10, 14, 15].map(|position| zeroes.cover(block(position)));
        assert_eq!(covered, [false, true, true, false]);
        assert!(!zeroes.meet(block(8), 2) && zeroes.meet(block(8), 3));
        assert!(zeroes.meet(block(14), 2) && !zeroes.meet(block(15), 1));
        admit(&mut zeroes, &arena, range(40, 1, 6));
        admit(&mut zeroes, &arena, range(50, 1, 6));
        assert!(!zeroes.has_room());
        assert_eq!(zeroes.discard(&arena), 5 + 1 + 1 + 1);
        assert!(zeroes.is_empty() && zeroes.has_room() && kept(&arena).is_empty());
    }

    #[test]
    fn many_regions_are_one_range_in_each_window() {
        let arena = arena();
        let mut zeroes = zeroes();
        admit(&mut zeroes, &arena, range(1000, 1100, 5));
        assert_eq!(kept(&arena), [(1000, 24), (1024, 1024), (2048, 52)]);
        let mut take_at = |positions| zeroes.take_at(5, &positions, |_| false);
        assert_eq!((take_at(0..1000), take_at(2100..3000)), (None, None));
        assert_eq!(take_at(2099..3000).map(|taken| taken.positions), Some(2048..2100));
        assert_eq!(take_at(2099..3000), None, "it is on its way");
        for first in [1000, 1024] {
            let taken = take(&mut zeroes, 5).expect("two wait");
            assert_eq!((taken.positions.start, take(&mut zeroes, 6)), (first, None));
        }
        assert_eq!(take(&mut zeroes, 5), None);
    }

    #[test]
    fn ranges_are_written_tainted_and_released_by_their_epoch() {
        let arena = arena();
        let mut zeroes = zeroes();
        admit(&mut zeroes, &arena, range(30, 2, 5));
        admit(&mut zeroes, &arena, range(10, 2, 5));
        admit(&mut zeroes, &arena, range(20, 2, 6));
        assert!(!zeroes.is_writing());
        assert_eq!(zeroes.take_first(5, |_| true), None, "held back");
        let first = take(&mut zeroes, 5).expect("two wait");
        assert_eq!((first.positions.clone(), first.may_unmap), (10..12, true));
        assert!(zeroes.is_writing());
        assert_eq!(zeroes.unwritten(5), 2, "it is only under way");
        zeroes.run_done(first.number, false);
        assert!(!zeroes.is_writing());
        assert_eq!(take(&mut zeroes, 5), Some(first.clone()), "once more");
        zeroes.run_done(first.number, true);
        assert_eq!((zeroes.unwritten(5), zeroes.taint()), (1, 1));
        assert_eq!((zeroes.unwritten(5), zeroes.taint()), (2, 0));
        for first in [10, 30] {
            let taken = take(&mut zeroes, 5).expect("it waits");
            assert_eq!(taken.positions.start, first);
            zeroes.run_done(taken.number, true);
        }
        assert_eq!((take(&mut zeroes, 5), zeroes.unwritten(5)), (None, 0));
        zeroes.release(&arena, 6);
        assert_eq!(kept(&arena).len(), 3, "those of epoch 6 are not written");
        zeroes.release(&arena, 5);
        assert_eq!(kept(&arena), [(20, 2)]);
        assert!(zeroes.has_room());
    }

    #[test]
    fn of_ranges_that_overlap_one_is_written_at_a_time() {
        let mut zeroes = zeroes();
        // Killed during a merge of two: recovery finds all three.
        for (number, first, blocks) in [(4, 10, 4), (5, 10, 2), (6, 14, 2)] {
            zeroes.restore(number, range(first, blocks, 5));
        }
        let first = take(&mut zeroes, 5).expect("three wait");
        assert_eq!(first.positions, 10..14);
        assert_eq!(take(&mut zeroes, 5), None, "the other one that begins at 10 meets it");
        zeroes.run_done(first.number, true);
        assert_eq!(take(&mut zeroes, 5).map(|taken| taken.positions), Some(10..12));
        let third = take(&mut zeroes, 5).expect("it meets neither");
        assert_eq!(third.positions, 14..16);
        assert_eq!(take(&mut zeroes, 5), None);
        assert!(zeroes.has_room());
        zeroes.restore(7, range(30, 1, 5));
        assert!(!zeroes.has_room());
    }
}
