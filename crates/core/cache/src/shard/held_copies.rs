//! Copies of write-throughs, held until a flush of the backing covers them (C1).
//!
//! If this process is killed during a flush, the next one cannot learn the result of that flush. It
//! writes the held copies again (`recovery/`). Each step that drops a copy before it is durable
//! notes that in the arena, where a successor finds it (`arena/superblock/flush_note.rs`).
//!
//! ```text
//!   begin_copy --> unanswered, seen by no read --> the block's current version: kept, or held
//!     before the change is sent        |  answered
//!                                      '--> free, if the change has failed
//! ```
//!
//! An unanswered copy also contains all data of the clean copy of its block. So the clean copy can
//! be dropped before the new copy replaces it.

use super::{Change, Shard, Source, WriteThroughCopies};
use crate::arena::{Clean, Header, State};
use crate::blocks::{bits, share, stretches};
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use core::ops::Range;
use policy::{Access, Cause, Hash, Held, Verdict};

/// How the copy of a write-through is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyKind {
    /// By the policy, for reads.
    Kept,
    /// Until it is durable; after that it is evicted first.
    Held,
}

impl Shard {
    /// Returns the stamp of a copy that replaces this clean copy: the same stamp, as long as this
    /// copy is not durable.
    pub(super) fn stamp_of(&self, header: &Header) -> u32 {
        if self.arena.is_unflushed(header) { header.stamp() } else { 0 }
    }

    /// Notes that this slot's block is no longer held, if it is not durable.
    pub(crate) fn note_lost_copy(&self, header: &Header) {
        if self.arena.is_unflushed(header) && !planted(Bug::ForgetLostCopy) {
            self.arena.note_unheld();
        }
    }

    /// Drops the held copies among these slots, or all clean copies: a flush has failed, and the
    /// data that they show may be lost.
    pub(crate) fn drop_held(&mut self, gauges: &Gauges, slots: Range<u32>, are_all: bool) {
        for slot in slots {
            let header = self.header(slot);
            let is_lost = self.arena.is_unflushed(&header) || are_all;
            if header.state == State::Clean && !header.is_unanswered() && is_lost {
                self.note_lost_copy(&header);
                self.retire(gauges, slot, &header);
            }
        }
    }

    /// Notes that a newer version in the write buffer is about to replace this slot's version. That
    /// makes the copy unnecessary, unless an order is promised: then the copy may belong to a
    /// closed epoch, which must not be lost while a later one is partly on the backing.
    pub(super) fn note_overtaken_copy(&self, gauges: &Gauges, header: &Header) {
        if gauges.is_ordered() && gauges.closed() > 0 {
            self.note_lost_copy(header);
        }
    }

    /// Copies a block of a change that is about to be sent into a separate slot, with all other
    /// cached sectors of the block. Returns whether a copy was made.
    pub(super) fn begin_copy(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        block: u64,
        keeps: bool,
        copies: WriteThroughCopies,
    ) -> bool {
        let Source::Data(from) = change.source else { return false };
        let replaces_held =
            self.clean_copy(block).is_some_and(|(_, header)| self.stamp_of(&header) != 0);
        let may_hold = !copies.durable && (keeps || copies.holds_unkept);
        // The copy that it replaces is already counted.
        let holds = may_hold && (replaces_held || gauges.hold(copies.holds_max));
        if !(keeps || holds) || planted(Bug::ForgetUnansweredWrite) || planted(Bug::KeepBehindPass)
        {
            return false;
        }
        let Some(slot) = self.take_slot(block) else { return false };
        let (sector, sectors, skip) = share(&change.at, block);
        self.arena.put(self.base + slot, sector, from, skip, sectors);
        let mut mask = if planted(Bug::WidenPassed) { 0xff } else { bits(sector, sectors) };
        // Taking the slot may have evicted the cached copy.
        if let Some((old, header)) = self.clean_copy(block) {
            stretches(header.mask & !mask, |first, length| {
                self.arena.copy_sectors(self.base + old, self.base + slot, first, length);
            });
            mask |= header.mask;
        }
        let clean = if keeps { Clean::Kept } else { Clean::Bypassed };
        let stamp = if holds { self.arena.round_stamp() } else { 0 };
        let header = Header { shadowed: true, ..Header::of_copy(block, mask, clean, stamp) };
        self.arena.publish(self.base + slot, &header);
        self.index_slot(block, slot);
        self.unanswered += 1;
        true
    }

    fn clean_copy(&self, block: u64) -> Option<(u32, Header)> {
        self.current(block).filter(|(_, header)| header.state == State::Clean)
    }

    /// Takes the copy of a change that was answered out of the index. Its slot is still published.
    pub(super) fn take_unanswered(&mut self, block: u64) -> Option<(u32, Header)> {
        let hash = Hash::of(block);
        let slot = self.index.find(hash, |slot| {
            let found = self.header(slot);
            found.block == block && found.is_unanswered()
        })?;
        let header = self.header(slot);
        self.unindex(hash, slot);
        self.unanswered -= 1;
        Some((slot, header))
    }

    /// Makes the copy of a change that succeeded the current version of its block.
    pub(super) fn finish_copy(&mut self, gauges: &Gauges, slot: u32, header: &Header, stamp: u32) {
        let Header { block, mask, .. } = *header;
        let kind = if header.clean() == Clean::Kept { CopyKind::Kept } else { CopyKind::Held };
        let is_overtaking = self.dirty > 0 && self.not_durable(block).is_some();
        let is_cached = !is_overtaking && self.current(block).is_some();
        if kind == CopyKind::Kept {
            self.accessed(block, 1, u32::from(!is_cached), Access::WriteThrough);
        }
        self.retire_not_durable(gauges, block);
        let Some((old, old_header)) = self.current(block) else {
            return self.publish_copy(slot, block, mask, stamp, kind);
        };
        debug_assert_eq!(old_header.mask & !mask, 0, "nothing was added to it meanwhile");
        if old_header.is_ahead() {
            self.retire(gauges, old, &old_header);
            return self.publish_copy(slot, block, mask, stamp, kind);
        }
        // The new copy takes the old one's position in the policy.
        self.used(old, &old_header);
        self.policy.succeed(&mut self.links, old, slot, Held::Clean);
        let hash = Hash::of(block);
        self.unindex(hash, old);
        self.free_slot(old);
        self.arena.publish(self.base + slot, &Header::of_copy(block, mask, Clean::Kept, stamp));
        self.index_slot(block, slot);
    }

    /// Publishes a copy of a block that no other slot holds.
    fn publish_copy(&mut self, slot: u32, block: u64, mask: u8, stamp: u32, kind: CopyKind) {
        // Without hints it is admitted in any case; the policy may learn from it.
        if kind == CopyKind::Kept && self.policy.miss(Hash::of(block)) == Verdict::Keep {
            return self.publish_clean(slot, block, mask, stamp, Cause::WriteThrough);
        }
        let header = Header::of_copy(block, mask, Clean::Bypassed, stamp);
        self.arena.publish(self.base + slot, &header);
        self.index_slot(block, slot);
        self.links.push_back(&mut self.ahead.bypassed, slot);
    }
}
