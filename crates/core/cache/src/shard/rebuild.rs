//! The rebuild of a shard by recovery.

use super::Shard;
use crate::arena::{Arena, ExtentHeader, Header, State};
use crate::dirty::gauges::{Gauges, Stage};
use policy::{Cause, Hash, Held, List};

impl Shard {
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the number of a slot in the arena.
    pub(crate) fn number(&self, slot: u32) -> u32 {
        self.base + slot
    }

    /// Prepares a fresh shard to take over the contents of its slots: none of them is free until it
    /// is found to be. `open` is the open epoch from now on; `closed` epochs before it are closed,
    /// the oldest of them begun.
    pub(crate) fn begin_recovery(&mut self, open: u64, closed: u64) {
        self.open_at(open, closed);
        self.free = List::EMPTY;
        self.counters.blocks_held.set(self.held().into());
    }

    pub(crate) fn recover_free(&mut self, slot: u32) {
        // Also where a damaged header has hidden that it is a page.
        self.free_slot(slot);
        self.arena.drop_page(self.base + slot);
    }

    /// Takes over a dirty version of this epoch; versions come oldest first. `covered`: a later
    /// epoch's range of zeros covers it.
    pub(crate) fn recover_dirty(
        &mut self,
        gauges: &Gauges,
        slot: u32,
        header: Header,
        epoch: u64,
        covered: bool,
    ) {
        let header =
            Header { epoch: epoch as u16, state: State::Dirty, shadowed: covered, ..header };
        let mut twin = None;
        self.index.find(Hash::of(header.block), |slot| {
            let found = self.header(slot);
            let is_it = found.block == header.block && found.epoch == header.epoch;
            twin = is_it.then_some((slot, found));
            is_it
        });
        if let Some((old, old_header)) = twin {
            // Two of one epoch: the process died after it had published one and before it freed the
            // other.
            self.retire(gauges, old, &old_header);
        }
        if let Some((old, old_header)) = self.current(header.block) {
            self.shadow(old, &old_header);
        }
        self.arena.publish(self.base + slot, &header);
        self.index_slot(header.block, slot);
        self.dirty += 1;
        if epoch == self.epoch {
            self.links.push_back(&mut self.open, slot);
            gauges.block_dirtied(Stage::Open);
        } else if epoch == self.closing_epoch {
            self.links.push_back(&mut self.closing, slot);
            gauges.block_dirtied(Stage::Closing);
        } else {
            gauges.block_dirtied(Stage::Closed);
            let link = self.link_of(&header);
            self.links.push_back(&mut self.chain[link], slot);
        }
    }

    /// Returns the block of a slot that is in use.
    pub(crate) fn block_of(&self, slot: u32) -> u64 {
        self.arena.block(self.base + slot)
    }

    /// Prefetches the index's cell for the block of a slot.
    pub(crate) fn prefetch_recovery(&self, slot: u32) {
        self.index.prefetch(self.hash_at(slot));
    }

    /// Takes over a clean slot. No version of its block has been taken over.
    pub(crate) fn recover_kept(&mut self, slot: u32) {
        let header = self.header(slot);
        if header.stamp() != 0 && header.epoch != 0 {
            // Copies have no epoch: its bits are damaged, and nothing else (`Arena::verified`).
            self.arena.publish(self.base + slot, &Header { epoch: 0, ..header });
        }
        let hash = Hash::of(header.block);
        self.index_slot(header.block, slot);
        match header.is_ahead() {
            true => self.links.push_back(&mut self.ahead.bypassed, slot),
            false => self.policy.admit(&mut self.links, slot, hash, Cause::Fetch),
        }
        self.retained.insert(slot, self.slots);
        self.counters.blocks_retained.add(1);
    }

    /// Makes a clean block the newest one for the policy, as if it had been fetched now.
    pub(crate) fn renew(&mut self, block: u64) {
        let Some((slot, header)) = self.current(block) else { return };
        if header.state == State::Clean && !header.is_ahead() {
            self.policy.forget(&mut self.links, slot, Held::Clean);
            self.policy.admit(&mut self.links, slot, Hash::of(block), Cause::Fetch);
        }
    }

    /// Fingerprints of the blocks that were evicted recently.
    pub(crate) fn ghosts(&self) -> &[u16] {
        self.policy.ghosts()
    }

    /// Takes over the fingerprints of a shard of an earlier process, if it had this size.
    pub(crate) fn restore_ghosts(&mut self, ghosts: &[u16]) {
        self.policy.restore_ghosts(ghosts);
    }

    /// Whether a version of this block has been taken over.
    pub(crate) fn holds(&self, block: u64) -> bool {
        let found = self.index.find(Hash::of(block), |slot| self.header(slot).block == block);
        found.is_some()
    }

    pub(crate) fn range_numbers(&self) -> core::ops::Range<u32> {
        self.zeroes.numbers()
    }

    /// Returns the position of a block among those of this shard, as used by its ranges.
    pub(crate) fn position_of(&self, block: u64) -> u64 {
        self.zeroes.position_of(block)
    }

    pub(crate) fn restore_range(&mut self, number: u32, range: ExtentHeader) {
        // In the arena it stays unchanged: the low bits of its epoch's number are still valid.
        self.zeroes.restore(number, range);
    }

    /// The number of unwritten ranges of the epoch that is begun.
    pub(crate) fn unwritten_ranges(&self) -> u32 {
        self.zeroes.unwritten(self.closing_epoch)
    }

    /// Planted bug: everything recovered counts as clean.
    pub(crate) fn forget_all(&mut self, gauges: &Gauges) {
        for slot in 0..self.slots {
            let header = self.header(slot);
            if header.state == State::Dirty && !header.shadowed {
                self.unlink(gauges, slot, &header);
                self.arena.publish(
                    self.base + slot,
                    &Header { state: State::Clean, sequence: 0, ..header },
                );
                let hash = Hash::of(header.block);
                self.policy.admit(&mut self.links, slot, hash, Cause::Writeback);
            }
        }
    }
}
