//! Copies of changes that went past the cache, held until a flush of the backing covers them (C1).
//!
//! Should this process be killed while a flush is under way, the next one cannot know the result of
//! that flush. It writes the held copies again (`recovery/`). Each step that gives up a copy before
//! it is durable notes that in the arena, where a successor finds it
//! (`arena/superblock/flush_note.rs`).

use super::Shard;
use crate::arena::{Clean, Header};
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use lane::atomic::Ordering;
use policy::{Cause, Hash};

/// How a copy of a change that went past the cache is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Copy {
    /// By the policy, for reads.
    Kept,
    /// Until it is durable; after that it is the first to be given up.
    Held,
}

impl Shard {
    /// The stamp of a copy that takes this clean copy over: the same, as long as that is not
    /// durable.
    pub(super) fn stamp_of(&self, header: &Header) -> u32 {
        if self.arena.is_unflushed(header) { header.stamp() } else { 0 }
    }

    /// Notes that this slot's block is no longer held, if it is not durable.
    pub(crate) fn note_lost_copy(&self, header: &Header) {
        if self.arena.is_unflushed(header) && !planted(Bug::ForgetLostCopy) {
            self.arena.note_unheld();
        }
    }

    /// Notes that a newer version in the write buffer is about to replace this slot's. That makes the
    /// copy unnecessary, unless an order is promised: then the copy may belong to a closed epoch,
    /// which must not be lost while a later one is on the backing in part.
    pub(super) fn note_overtaken_copy(&self, gauges: &Gauges, header: &Header) {
        if gauges.is_ordered() && gauges.closed.load(Ordering::SeqCst) > 0 {
            self.note_lost_copy(header);
        }
    }

    /// Publishes a copy in a slot of its own, of a block that no other slot holds.
    pub(super) fn publish_copy(&mut self, slot: u32, block: u64, mask: u8, stamp: u32, copy: Copy) {
        if copy == Copy::Kept {
            // It is kept anyway; a policy may learn from it.
            let _ = self.policy.miss(Hash::of(block));
            return self.publish_clean(slot, block, mask, stamp, Cause::WriteThrough);
        }
        let header = Header::of_copy(block, mask, Clean::Passed, stamp);
        self.arena.publish(self.base + slot, &header);
        self.index.insert(Hash::of(block), slot);
        self.links.push_back(&mut self.ahead.passed, slot);
    }
}
