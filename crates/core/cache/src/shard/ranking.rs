//! The blocks of a shard in the order of their heat, found in short sections: requests go on in
//! between, and change the lists.
//!
//! A walk goes from the coldest slot to the hottest: a slot that is used during the walk moves
//! ahead of it and is found later; a slot that was found has a bit. The walk remembers its last two
//! slots and the next one. A slot has moved if its neighbour is another one; the walk goes on at
//! one that has not moved, or at the start of the list.

use super::Shard;
use crate::arena::{Header, State};
use crate::slots::bits::Bits;
use alloc::vec::Vec;
use hotlist::{CLASSES, Entry};
use policy::{List, NIL};

/// Slots that a walk visits in one section.
const SLICE: usize = 64;
/// Compressed blocks that a walk visits in one section: neighbours in memory.
const SLICE_COMPRESSED: u32 = 256;

/// A walk over the slots of a shard.
pub(crate) struct Walk {
    /// The index of the list, and the walk's position in it.
    list: usize,
    at: Position,
    found: Bits,
    /// Blocks found, and blocks expected.
    ranked: u32,
    expected: u32,
    /// Visits left: a bound, whatever requests do to the lists.
    left: u32,
    /// Blocks from this one on are left out.
    end: u64,
    /// The number of the next compressed block.
    compressed: u32,
}

/// The position of a walk in a list.
#[derive(Clone, Copy)]
enum Position {
    /// At the first slot.
    Start,
    /// At `next`, after the slots `before` and `last`.
    Between { before: u32, last: u32, next: u32 },
}

impl Walk {
    /// Begins a walk over a shard of this number of slots, for the blocks before `end`.
    pub(crate) fn new(slots: u32, end: u64) -> Walk {
        let left = slots.saturating_mul(3);
        let (found, at) = (Bits::new(slots), Position::Start);
        Walk { list: 0, at, found, ranked: 0, expected: 0, left, end, compressed: 0 }
    }

    /// Returns the class of the next block: eighths of the blocks, of which remembered reads make a
    /// block hotter.
    fn class(&self, reads: u32) -> u32 {
        let rank = u64::from(self.ranked) * u64::from(CLASSES) / u64::from(self.expected.max(1));
        (CLASSES - 1).saturating_sub(rank as u32).saturating_sub(reads)
    }
}

impl Shard {
    /// Continues a walk: adds some blocks with their heat. Returns false at its end.
    pub(crate) fn rank(&self, walk: &mut Walk, ranked: &mut Vec<Entry>) -> bool {
        if walk.compressed < self.tier.objects() {
            self.rank_compressed(walk, ranked);
            return true;
        }
        if walk.expected == 0 {
            walk.expected = self.lists_by_heat().map(|list| list.length).sum();
        }
        let mut slots = [0; SLICE];
        let count = self.advance(walk, &mut slots);
        for &slot in &slots[..count] {
            let header = self.header(slot);
            let is_inside = header.block < walk.end;
            if walk.found.get(slot) || !is_inside || !self.is_hot(slot, &header) {
                continue;
            }
            walk.found.set(slot, true);
            let reads = if header.state == State::Clean { self.policy.reads(slot) } else { 0 };
            ranked.push(Entry::new(header.block, walk.class(reads)));
            walk.ranked += 1;
        }
        count > 0
    }

    /// Adds some compressed blocks that were read since they were stored, as the coldest ones. A
    /// block that is cached uncompressed during the walk is named twice, and counts once.
    fn rank_compressed(&self, walk: &mut Walk, ranked: &mut Vec<Entry>) {
        let next = walk.compressed + SLICE_COMPRESSED;
        let used = self.tier.used(walk.compressed..next).filter(|block| *block < walk.end);
        ranked.extend(used.map(|block| Entry::new(block, CLASSES - 1)));
        walk.compressed = next;
    }

    /// The lists of slots from the coldest to the hottest. Dirty slots were accessed last.
    fn lists_by_heat(&self) -> impl Iterator<Item = List> {
        let dirty = [self.written, self.early.written, self.closing];
        core::iter::once(*self.ahead.listed.list())
            .chain(self.policy.coldest_first())
            .chain(dirty)
            .chain(self.chain.iter().copied())
            .chain([self.open])
    }

    /// Whether the block of a slot is worth naming: not if a newer version exists, or it belongs to
    /// a stream only.
    fn is_hot(&self, slot: u32, header: &Header) -> bool {
        let is_of_stream = match header.state {
            State::Free => true,
            State::Clean => header.is_ahead() && !self.ahead.listed.has(slot),
            _ => self.ahead.is_bypassed(slot),
        };
        !is_of_stream && !header.shadowed
    }

    /// Fills in the next slots of a walk; returns their number. 0: the walk is at its end.
    fn advance(&self, walk: &mut Walk, slots: &mut [u32; SLICE]) -> usize {
        let mut count = 0;
        while count < SLICE && walk.left > 0 {
            let Some(list) = self.lists_by_heat().nth(walk.list) else { break };
            let mut slot = self.resume(walk.at, &list);
            let (mut before, mut last) = match walk.at {
                Position::Between { before, last, next } if slot == next => (before, last),
                _ => (NIL, NIL),
            };
            while slot != NIL && count < SLICE && walk.left > 0 {
                self.arena.prefetch_header(self.base + slot);
                slots[count] = slot;
                (count, walk.left) = (count + 1, walk.left - 1);
                (before, last, slot) = (last, slot, self.links.after(slot));
            }
            walk.at = Position::Between { before, last, next: slot };
            if slot == NIL {
                (walk.list, walk.at) = (walk.list + 1, Position::Start);
            }
        }
        count
    }

    /// Returns the slot at which a walk over a list goes on.
    fn resume(&self, at: Position, list: &List) -> u32 {
        match at {
            Position::Start => list.head,
            Position::Between { last, next, .. } if self.links.before(next) == last => next,
            Position::Between { before, last, .. }
                if before != NIL && self.links.before(last) == before =>
            {
                self.links.after(last)
            }
            Position::Between { .. } => list.head,
        }
    }
}
