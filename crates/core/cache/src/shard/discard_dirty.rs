//! The discard of dirty data (C8), on the operator's request.

use super::Shard;
use crate::arena::{Header, State};
use crate::dirty::gauges::{Gauges, Stage};
use crate::planted::{Bug, planted};
use policy::{Hash, List, NIL};

impl Shard {
    /// Prevents new changes and new writeback in this shard. Returns false, and does nothing, if a
    /// request is still in flight to the backing.
    pub(crate) fn shut(&mut self) -> bool {
        if !self.write_through.is_empty() || self.zeroes.is_writing() || self.dirty > self.listed()
        {
            return false;
        }
        self.write_through.close(true);
        true
    }

    /// Reverts [`Shard::shut`].
    pub(crate) fn reopen(&mut self) {
        self.write_through.close(false);
    }

    /// Drops all ranges of zeros. Returns the number of their blocks. To be called before the
    /// blocks are dropped: a slot over a range is newer, so a read in between never goes back from
    /// zeros to the older data below them.
    pub(crate) fn discard_ranges(&mut self, gauges: &Gauges) -> u64 {
        let unwritten = self.zeroes.unwritten(self.closing_epoch);
        gauges.closing_written(unwritten);
        self.zeroes.discard(&self.arena)
    }

    /// Drops at most `most` dirty versions. Returns the number of dropped ones; if it is less,
    /// nothing is dirty any more.
    pub(crate) fn discard_blocks(&mut self, gauges: &Gauges, most: u32) -> u32 {
        for done in 0..most {
            let Some(slot) = self.next_dirty() else { return done };
            let header = self.header(slot);
            self.unlink(gauges, slot, &header);
            self.unindex(Hash::of(header.block), slot);
            self.free_slot(slot);
        }
        most
    }

    fn next_dirty(&self) -> Option<u32> {
        let lists = [&self.open, &self.closing, &self.written, &self.early.written];
        let lists = lists.into_iter().chain(&self.chain);
        lists.map(|list| list.head).find(|&slot| slot != NIL)
    }

    /// Sets the epochs: `open` is the open epoch from now on; `closed` epochs before it are closed,
    /// the oldest of them begun. All are empty.
    pub(crate) fn open_at(&mut self, open: u64, closed: u64) {
        (self.epoch, self.closing_epoch) = (open, open - closed.max(1));
        self.ready.clear();
        self.chain.clear();
        self.chain.extend((1..closed).map(|_| List::EMPTY));
    }

    /// Ends the discard, with nothing dirty left: the next epoch is open, and changes may begin
    /// again.
    pub(crate) fn end_discard(&mut self, open: u64) {
        assert!(self.dirty == 0 || planted(Bug::DiscardKeepsVersions), "something dirty is left");
        self.open_at(open, 0);
        self.doubtful.clear();
        self.write_through.pay_all();
        self.plan.clear();
        self.write_through.close(false);
    }

    /// Planted bug: one version is moved to the next epoch.
    pub(crate) fn keep_one(&mut self, gauges: &Gauges, open: u64) {
        let Some(slot) = self.next_dirty() else { return };
        let header = self.header(slot);
        if header.shadowed {
            return;
        }
        self.unlink(gauges, slot, &header);
        while self.discard_blocks(gauges, 1) > 0 {}
        self.open_at(open, 0);
        let header = Header { epoch: open as u16, state: State::Dirty, ..header };
        self.arena.publish(self.base + slot, &header);
        self.links.push_back(&mut self.open, slot);
        self.dirty += 1;
        gauges.block_dirtied(Stage::Open);
    }
}
