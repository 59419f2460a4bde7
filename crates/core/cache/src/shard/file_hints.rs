//! Hints about the files of a volume: the part of one shard. The policy follows them.

use super::Shard;
use crate::arena::{Header, State};
use crate::compressed::OBJECTS_PER_SLOT;
use alloc::boxed::Box;
use alloc::vec::Vec;
use policy::{CLASSES_MAX, ClassCounts, PolicyHints};

/// Upper bound of the positions of held blocks, for each slot of a shard: the slot and the objects
/// of the compressed tier.
pub(crate) const HELD_POSITIONS_A_SLOT: u64 = 1 + OBJECTS_PER_SLOT as u64;

/// A block that memory holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldBlock {
    /// Its number.
    pub block: u64,
    /// Whether its newest version is not durable yet.
    pub is_dirty: bool,
}

impl Shard {
    /// Sets the hints, or removes them. Returns the earlier ones, to be dropped outside of the
    /// section.
    pub(crate) fn set_hints(
        &mut self,
        hints: Option<Box<PolicyHints>>,
    ) -> Option<Box<PolicyHints>> {
        self.samplers = self.sampling.samplers();
        self.policy.replace_hints(hints)
    }

    /// Notes a write of these blocks to the backing, if there are hints: the map of files may have
    /// changed.
    #[inline]
    pub(super) fn note_map_write(&self, first: u64, blocks: u32) {
        if self.policy.outdates_map(first..first + u64::from(blocks)) {
            self.sampling.note_map_write();
        }
    }

    /// The counts of each class, if there are hints.
    pub(crate) fn class_counts(&self) -> Option<&[ClassCounts; CLASSES_MAX]> {
        self.policy.class_counts()
    }

    /// Appends the blocks at up to `count` positions from this one on, each in its newest version:
    /// those of all slots, then those of the compressed tier. Returns the next position, unless
    /// these were the last ones.
    pub(crate) fn list_held(
        &self,
        from: u64,
        count: u64,
        held: &mut Vec<HeldBlock>,
    ) -> Option<u64> {
        let (slots, to) = (u64::from(self.slots), from + count);
        let headers = (from.min(slots)..to.min(slots)).map(|slot| self.header(slot as u32));
        let is_current = |header: &Header| header.state != State::Free && !header.shadowed;
        held.extend(headers.filter(is_current).map(|header| {
            let is_dirty = header.state.is_dirty();
            HeldBlock { block: header.block, is_dirty }
        }));
        let of_tier = from.saturating_sub(slots) as usize..to.saturating_sub(slots) as usize;
        let compressed = self.tier.blocks_at(of_tier);
        held.extend(compressed.map(|block| HeldBlock { block, is_dirty: false }));
        (to < slots + self.tier.positions() as u64).then_some(to)
    }
}
