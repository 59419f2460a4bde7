//! Long streams, which bypass the cache: the blocks that they read or write are evicted first, and
//! are recorded in case they are accessed again (`streams/reuse.rs`).

use super::Shard;
use crate::admission::Candidate;
use crate::arena::{Clean, Header};
use crate::blocks::blocks_of;
use crate::streams::StreamUpdate;
use block::Extent;
use policy::{Hash, Held};

impl Shard {
    /// Records reads of `blocks` blocks that are not admitted. Such reads evict nothing, so blocks
    /// that are too old stop counting as unread here. Otherwise readahead would stop once the
    /// maximum of unread blocks is reached.
    pub(super) fn record_uncached_reads(&mut self, blocks: u32) {
        self.ahead.clock += u64::from(blocks);
        for _ in 0..blocks {
            if !self.has_unread_older_than(self.slots.into()) {
                return;
            }
            let slot = self.ahead.unread.head;
            let header = self.header(slot);
            self.unlink_ahead(slot, &header);
            self.links.push_back(&mut self.ahead.bypassed, slot);
            self.arena.publish(self.base + slot, &header.becomes(Clean::Bypassed));
        }
    }

    /// Completes a candidate with the streams' result for a write, unless a slot is free.
    pub(super) fn follow_write(&self, at: &Extent, candidate: Candidate) -> Candidate {
        let free = self.free_slots();
        if free > 0 {
            return Candidate { free, ..candidate };
        }
        let update = self.streams.write(at);
        self.note_long(at, update, false);
        Candidate { free, is_long_stream: update.is_bypassed, ..candidate }
    }

    /// Records a sample of the blocks of a long stream. `is_read`: a read that was not reported to
    /// the samplers.
    pub(super) fn note_long(&self, at: &Extent, update: StreamUpdate, is_read: bool) {
        if !update.is_long && !is_read {
            return;
        }
        let (first, blocks) = blocks_of(at);
        let hashes = (first..first + u64::from(blocks)).map(Hash::of);
        for hash in hashes.filter(|hash| self.samplers.take(*hash)) {
            if is_read {
                self.streams.note_read(hash);
            }
            if update.is_long {
                self.streams.note_long(hash);
            }
        }
    }

    /// Whether a block is held, other than as a remainder of a long stream.
    pub(super) fn is_kept(&self, block: u64) -> bool {
        let is_kept = |(slot, header): (u32, Header)| match header.is_ahead() {
            true => header.clean() == Clean::Unread,
            false => !(header.state.is_dirty() && self.ahead.is_bypassed(slot)),
        };
        self.current(block).is_some_and(is_kept)
    }

    /// Releases a durable block that a long stream has written: it is evicted first.
    pub(super) fn pass_written(&mut self, slot: u32, header: &Header) {
        self.policy.forget(&mut self.links, slot, Held::Dirty);
        let Header { block, mask, epoch, .. } = *header;
        let header = Header { epoch, ..Header::of_clean(block, mask, Clean::Bypassed, 0) };
        self.arena.publish(self.base + slot, &self.marked(header));
        self.links.push_back(&mut self.ahead.bypassed, slot);
    }
}
