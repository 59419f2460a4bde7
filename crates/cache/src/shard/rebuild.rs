//! The shard as recovery rebuilds it.

use super::{Gauges, Shard};
use crate::arena::{Arena, ExtentHeader, Header, State};
use crate::index::Hash;
use crate::lists::List;
use crate::policy::Policy;
use core::sync::atomic::Ordering;

impl Shard {
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    pub(crate) fn number(&self, slot: u32) -> u32 {
        self.base + slot
    }

    /// Whether a recovered header can be one of this shard's.
    pub(crate) fn is_plausible(&self, header: &Header) -> bool {
        header.mask != 0
    }

    /// Empties every list; `open` is the open epoch from now on.
    pub(crate) fn reset(&mut self, open: u64) {
        self.epoch = open;
        self.index.clear();
        self.fills.clear();
        self.passes.clear();
        self.doubtful.clear();
        self.plan.clear();
        self.policy = Policy::lru();
        (self.free, self.open, self.closing, self.written) =
            (List::EMPTY, List::EMPTY, List::EMPTY, List::EMPTY);
        self.dirty = 0;
    }

    pub(crate) fn recover_free(&mut self, slot: u32) {
        self.give_slot(slot);
    }

    /// Takes over a dirty version; versions come oldest first. `covered`: a newer range of zeros
    /// lies over it.
    pub(crate) fn recover_dirty(
        &mut self,
        gauges: &Gauges,
        slot: u32,
        header: Header,
        closing: bool,
        covered: bool,
    ) {
        if closing && let Some((old, old_header)) = self.shadowed(header.block) {
            self.retire(gauges, old, &old_header);
        }
        if let Some((old, old_header)) = self.current(header.block) {
            if closing || self.is_open(&old_header) {
                // Two of one epoch: the process died between publishing one and freeing the other.
                self.retire(gauges, old, &old_header);
            } else {
                self.shadow(old, &old_header);
            }
        }
        let epoch = (self.epoch - u64::from(closing)) as u16;
        let header = Header { epoch, state: State::Dirty, shadowed: covered, ..header };
        self.arena.publish(self.base + slot, &header);
        self.index.insert(Hash::of(header.block), slot);
        self.dirty += 1;
        gauges.dirty.fetch_add(1, Ordering::Relaxed);
        if closing {
            self.links.push_back(&mut self.closing, slot);
            gauges.remaining.fetch_add(1, Ordering::Relaxed);
        } else {
            self.links.push_back(&mut self.open, slot);
            gauges.open.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn range_numbers(&self) -> core::ops::Range<u32> {
        self.zeroes.numbers()
    }

    pub(crate) fn restore_range(&mut self, number: u32, range: ExtentHeader) {
        // In the arena it stays as it is: the low bits of its epoch's number are the same.
        self.zeroes.restore(number, range);
    }

    pub(crate) fn unwritten_ranges(&self) -> u32 {
        self.zeroes.unwritten(self.epoch - 1)
    }

    /// What the planted bug does: everything recovered counts as clean.
    pub(crate) fn forget_all(&mut self, gauges: &Gauges) {
        for slot in 0..self.slots {
            let header = self.header(slot);
            if header.state == State::Dirty && !header.shadowed {
                self.unlink(gauges, slot, &header);
                self.arena.publish(self.base + slot, &Header { state: State::Clean, ..header });
                self.policy.admit(&mut self.links, slot);
            }
        }
    }
}
