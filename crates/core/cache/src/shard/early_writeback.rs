//! Early writeback: blocks of the open epoch are written while no other epoch waits.
//!
//! No client has been promised anything about the open epoch, so its blocks may reach the backing
//! in any order, like write-throughs. The epoch need not be closed for that: a block that is
//! rewritten still replaces its older version, and room becomes free gradually, not only at an
//! epoch's end.
//!
//! ```text
//!   Dirty (open) --> Writing --> Written (early) --> Clean
//!         ^    next_run   |   done   |  |     backing flushed
//!         '---------------+----------'  '--> (written), if the epoch is begun meanwhile
//!                failed      tainted
//! ```
//!
//! A newer version of the same epoch may exist beside one in flight: it is not written before the
//! older write has ended, and then the older version is dropped. Ranges of zeros are written before
//! the blocks of their epoch, so there is no early writeback while any range is pending.

use super::Shard;
use crate::arena::{Header, State};
use crate::dirty::gauges::{Gauges, Stage};
use crate::planted::{Bug, planted};
use policy::{Hash, List, NIL};

/// Blocks that were written early, and are not known to be durable.
pub(super) struct Early {
    pub(super) written: List,
    /// The last block that was in the list when the backing's flush began. Blocks written later are
    /// behind it in the list.
    settling: Option<u32>,
    /// Blocks in flight.
    pub(super) writing: u32,
}

impl Early {
    pub(super) const NONE: Early = Early { written: List::EMPTY, settling: None, writing: 0 };
}

impl Shard {
    /// Whether early writeback writes back the oldest blocks of the open epoch now.
    pub(super) fn writes_early(&self, gauges: &Gauges) -> bool {
        gauges.is_early() && gauges.is_above_floor() && self.may_write_early(gauges)
    }

    /// Whether a ready run of the open epoch may be written back now.
    pub(super) fn writes_ready(&self, gauges: &Gauges) -> bool {
        !self.ready.is_empty() && self.may_write_early(gauges)
    }

    /// Whether blocks of the open epoch may be written back.
    fn may_write_early(&self, gauges: &Gauges) -> bool {
        (gauges.closed() == 0 || planted(Bug::EarlyAhead))
            && (self.chain.is_empty() || planted(Bug::EarlyAhead))
            && self.closing.length == 0
            && (self.zeroes.is_empty() || planted(Bug::EarlyUnderRange))
    }

    /// Whether a version of a block is in flight to the backing.
    pub(super) fn is_under_way(&self, block: u64) -> bool {
        let found = self.index.find(Hash::of(block), |slot| {
            let header = self.header(slot);
            header.block == block && header.state == State::Writing
        });
        found.is_some()
    }

    /// Whether a newer version of the same epoch exists beside this one, which was in flight when
    /// the newer one was absorbed.
    pub(super) fn is_overtaken(&self, slot: u32, header: &Header) -> bool {
        let newer = self.index.find(Hash::of(header.block), |other| {
            let found = self.header(other);
            let is_it = found.block == header.block && found.epoch == header.epoch;
            other != slot && is_it && found.state.is_dirty()
        });
        header.shadowed && newer.is_some()
    }

    /// Drops a version that was in flight when it was replaced.
    pub(super) fn drop_overtaken(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        self.unindex(Hash::of(header.block), slot);
        self.free_slot(slot);
        self.dirty -= 1;
        gauges.block_dropped(Stage::Ended);
    }

    /// Takes a waiting block out of its list, because its write begins.
    pub(super) fn take_out(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        if self.is_closing(header) {
            return self.links.remove(&mut self.closing, slot);
        }
        gauges.early_begun();
        self.links.remove(&mut self.open, slot);
        self.early.writing += 1;
    }

    /// Makes a block wait again. The writeback of its epoch has not begun.
    pub(super) fn put_back(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        self.arena.publish(self.base + slot, &Header { state: State::Dirty, ..*header });
        if self.is_open(header) {
            gauges.block_reopened();
            return self.links.push_back(&mut self.open, slot);
        }
        let link = self.link_of(header);
        self.links.push_back(&mut self.chain[link], slot);
    }

    /// Notes that a block has been written before the writeback of its epoch has begun.
    pub(super) fn note_early(&mut self, gauges: &Gauges, slot: u32) {
        self.counters.blocks_early.add(1);
        gauges.early_written();
        self.links.push_back(&mut self.early.written, slot);
    }

    /// Takes a block that was written early out of its list.
    pub(super) fn unlink_early(&mut self, slot: u32) {
        if self.early.settling == Some(slot) {
            let before = self.links.before(slot);
            self.early.settling = (before != NIL).then_some(before);
        }
        self.links.remove(&mut self.early.written, slot);
    }

    /// Notes that a flush of the backing is about to begin: all blocks written by now will be
    /// durable after it.
    pub(crate) fn begin_settling(&mut self) {
        let last = self.early.written.tail;
        self.early.settling = (last != NIL).then_some(last);
    }

    /// Releases up to `most` blocks after the successful flush: they become clean, or are dropped
    /// if a newer version exists. Returns true if more are left.
    pub(crate) fn settle_written(&mut self, gauges: &Gauges, most: u32) -> bool {
        for _ in 0..most {
            let Some(last) = self.early.settling else { return false };
            let slot =
                self.links.pop_front(&mut self.early.written).expect("it ends with the last");
            if slot == last {
                self.early.settling = None;
            }
            gauges.early_settled();
            self.release_one(gauges, slot);
        }
        self.early.settling.is_some()
    }

    /// Cancels settling because the volume has failed: no block is known to be durable.
    pub(crate) fn cancel_settling(&mut self) {
        self.early.settling = None;
    }

    /// Begins the writeback of the epoch: its early written blocks count as written, its blocks in
    /// flight as remaining. Returns the number of each.
    pub(super) fn begin_early(&mut self) -> (u32, u32) {
        let early = core::mem::replace(&mut self.early, Early::NONE);
        assert!(early.settling.is_none(), "an epoch is begun while another flush is under way");
        let (written, writing) = (early.written.length, early.writing);
        self.written = early.written;
        (written, writing)
    }

    /// Makes up to `most` early written blocks wait again after a failed flush of the backing.
    /// Returns true if more are left.
    pub(super) fn taint_early(&mut self, gauges: &Gauges, most: u32) -> bool {
        self.early.settling = None;
        for _ in 0..most {
            let Some(slot) = self.links.pop_front(&mut self.early.written) else { return false };
            gauges.early_settled();
            let header = self.header(slot);
            self.put_back(gauges, slot, &header);
        }
        self.early.written.length > 0
    }
}
