//! Writing out early: blocks of the open epoch, while no other epoch waits.
//!
//! No client has been promised anything about the open epoch, so its blocks may reach the backing
//! in any order, like changes that go past the cache. The epoch need not be closed for that: what
//! is rewritten meanwhile still replaces what it overtakes, and room comes back bit by bit, not at
//! an epoch's end.
//!
//! ```text
//!   Dirty (open) --> Writing --> Written (early) --> Clean
//!         ^    next_run   |   done   |  |     backing flushed
//!         '---------------+----------'  '--> (written), if the epoch is begun meanwhile
//!                failed      tainted
//! ```
//!
//! A newer version of the same epoch may stand beside one that is under way: it is not written
//! before that has ended, and then the older one goes at once. Ranges of zeros are written out
//! before the blocks of their epoch, so where any is pending nothing is written early.

use super::Shard;
use crate::arena::{Header, State};
use crate::dirty::gauges::{Gauges, Stage};
use crate::planted::{Bug, planted};

/// What was written early, and is not known to be durable.
pub(super) struct Early {
    pub(super) written: List,
    /// The last of those that were there when the backing's flush began. What was written after it
    /// is behind it in the list.
    settling: Option<u32>,
    /// Blocks that are under way.
    pub(super) writing: u32,
}

impl Early {
    pub(super) const NONE: Early = Early { written: List::EMPTY, settling: None, writing: 0 };
}
use policy::{Hash, List, NIL};

impl Shard {
    /// Whether blocks of the open epoch may be written out now.
    pub(super) fn writes_early(&self, gauges: &Gauges) -> bool {
        gauges.is_early()
            && gauges.is_above_floor()
            && (gauges.closed() == 0 || planted(Bug::EarlyAhead))
            && (self.chain.is_empty() || planted(Bug::EarlyAhead))
            && self.closing.length == 0
            && (self.zeroes.is_empty() || planted(Bug::EarlyUnderRange))
    }

    /// Whether an older version of a block is on its way to the backing.
    pub(super) fn is_under_way(&self, block: u64) -> bool {
        let found = self.index.find(Hash::of(block), |slot| {
            let header = self.header(slot);
            header.block == block && header.state == State::Writing
        });
        found.is_some()
    }

    /// Whether a newer version of the same epoch stands beside this one, which was under way when
    /// that came.
    pub(super) fn is_overtaken(&self, slot: u32, header: &Header) -> bool {
        let newer = self.index.find(Hash::of(header.block), |other| {
            let found = self.header(other);
            let is_it = found.block == header.block && found.epoch == header.epoch;
            other != slot && is_it && found.state.is_dirty()
        });
        header.shadowed && newer.is_some()
    }

    /// Forgets a version that was under way when it was overtaken.
    pub(super) fn drop_overtaken(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        self.unindex(Hash::of(header.block), slot);
        self.give_slot(slot);
        self.dirty -= 1;
        gauges.block_dropped(Stage::Ended);
    }

    /// Takes a block that waits out of its list: it goes on its way.
    pub(super) fn take_out(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        if self.is_closing(header) {
            return self.links.remove(&mut self.closing, slot);
        }
        gauges.early_begun();
        self.links.remove(&mut self.open, slot);
        self.early.writing += 1;
    }

    /// A block of an epoch that is not begun waits again.
    pub(super) fn put_back(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        self.arena.publish(self.base + slot, &Header { state: State::Dirty, ..*header });
        if self.is_open(header) {
            gauges.block_reopened();
            return self.links.push_back(&mut self.open, slot);
        }
        let link = self.link_of(header);
        self.links.push_back(&mut self.chain[link], slot);
    }

    /// A block of an epoch that is not begun has been written out.
    pub(super) fn note_early(&mut self, gauges: &Gauges, slot: u32) {
        self.counters.blocks_early += 1;
        gauges.early_written();
        self.links.push_back(&mut self.early.written, slot);
    }

    /// Takes a written block of an epoch that is not begun out of its list.
    pub(super) fn unlink_early(&mut self, slot: u32) {
        if self.early.settling == Some(slot) {
            let before = self.links.before(slot);
            self.early.settling = (before != NIL).then_some(before);
        }
        self.links.remove(&mut self.early.written, slot);
    }

    /// A flush of the backing is about to begin: what is written by now will be durable after it.
    pub(crate) fn begin_settling(&mut self) {
        let last = self.early.written.tail;
        self.early.settling = (last != NIL).then_some(last);
    }

    /// The flush has succeeded: up to `most` blocks become clean, or go if a newer version exists.
    /// True: more are left.
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

    /// The volume has failed meanwhile: nothing is known to be durable.
    pub(crate) fn cancel_settling(&mut self) {
        self.early.settling = None;
    }

    /// The epoch is begun: what of it is written early counts as written, what is under way
    /// remains. Returns how many blocks of each there are.
    pub(super) fn begin_early(&mut self) -> (u32, u32) {
        let early = core::mem::replace(&mut self.early, Early::NONE);
        assert!(early.settling.is_none(), "an epoch is begun while another flush is under way");
        let (written, writing) = (early.written.length, early.writing);
        self.written = early.written;
        (written, writing)
    }

    /// The backing's flush failed: up to `most` of what was written early waits again. True: more
    /// are left.
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
