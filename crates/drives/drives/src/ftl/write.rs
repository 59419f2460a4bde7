//! Host writes and trims: into the buffer, and out of it a unit at a time.

use super::state::{BUFFERED, Frontier, NOWHERE, Staged};
use super::{Ftl, Nand, Purpose};
use crate::ftl::MapCost;

impl Ftl {
    /// Returns the slots in the buffer that are not programmed yet.
    #[inline]
    pub fn staged(&self) -> u32 {
        self.buffer_tail.wrapping_sub(self.buffer_head)
    }

    /// Puts a host write into the buffer. The caller programs units before the buffer is full.
    ///
    /// # Panics
    /// If the slot lies beyond the drive's end or the buffer is full.
    #[inline]
    pub fn stage(&mut self, logical: u32) -> MapCost {
        self.counters.host_writes += 1;
        let older = self.map.at(logical);
        if older >= BUFFERED && older != NOWHERE {
            self.counters.absorbed += 1;
            return MapCost::default();
        }
        assert!((self.staged() as usize) < self.buffer.len(), "the write buffer is full");
        let at = self.buffer_tail & (self.buffer.len() as u32 - 1);
        self.buffer_tail = self.buffer_tail.wrapping_add(1);
        self.buffer[at as usize] = Staged { logical, older };
        self.map.set(logical, BUFFERED | at);
        if self.pages.is_some() {
            return self.touch_entry(logical, true);
        }
        let map = &self.map;
        let cost = self.table.write(logical, |slot| map.of_owner(slot) != NOWHERE);
        self.counters.map_reads += u64::from(cost.reads);
        self.counters.map_programs += u64::from(cost.programs);
        cost
    }

    /// Programs the oldest staged slots, a unit of them or, padded, fewer; nothing if there are
    /// none. Makes room before that, and cleans after it according to the pacing. Returns the
    /// number of slots of the buffer that are now programmed.
    pub fn program<N: Nand>(&mut self, nand: &mut N) -> u32 {
        if self.staged() == 0 {
            return 0;
        }
        self.program_map_pages(nand);
        if self.hybrid.is_some() {
            return self.program_hybrid(nand);
        }
        let slc = self.make_room(nand);
        let mut frontier = if slc { self.host_slc } else { self.host };
        // Only relocations into the same frontier leave a partly filled unit.
        let begun =
            if self.settings.one_frontier { frontier.next % self.shape.unit_slots } else { 0 };
        let room = self.shape.unit_slots - begun;
        let taken = self.staged().min(room);
        let first = frontier.superblock * self.superblock_slots + frontier.next;
        let live = self.place(first, taken);
        let padded = room - taken;
        let end = first + room;
        self.owner[(first + taken) as usize..end as usize].fill(NOWHERE);
        self.valid[frontier.superblock as usize] += live;
        self.counters.host_programs += u64::from(taken);
        self.counters.padding += u64::from(padded);
        frontier.next += room;
        self.report_program(nand, &frontier, slc, Purpose::Host);
        if slc {
            self.counters.slc_programs += u64::from(taken);
            self.host_slc = frontier;
        } else {
            self.host = frontier;
            self.pace(room, nand);
        }
        taken
    }

    /// Moves slots from the buffer's head to their location on the flash; returns the number of
    /// valid ones.
    #[inline]
    pub(super) fn place(&mut self, first: u32, count: u32) -> u32 {
        let mask = self.buffer.len() as u32 - 1;
        let mut live = 0;
        for physical in first..first + count {
            let staged = self.buffer[(self.buffer_head & mask) as usize];
            self.buffer_head = self.buffer_head.wrapping_add(1);
            self.owner[physical as usize] = staged.logical;
            if staged.logical == NOWHERE {
                continue;
            }
            if staged.older != NOWHERE {
                self.invalidate(staged.older);
            }
            self.map.set(staged.logical, physical);
            live += 1;
        }
        live
    }

    /// Ensures that a host frontier has room for a unit. Returns whether it is the SLC one.
    fn make_room<N: Nand>(&mut self, nand: &mut N) -> bool {
        // A full SLC area is checked again when a native superblock is full, or after folding in
        // idle time.
        let look = self.host.left() == 0 || self.host_slc.left() > 0 || !self.slc_free.is_empty();
        if look && self.has_slc() && self.slc_room(nand) {
            return true;
        }
        if self.host.left() == 0 {
            let full = core::mem::replace(&mut self.host, Frontier::CLOSED);
            self.close(full);
            self.clean_until(2, nand);
            // With one frontier for all, cleaning has opened it.
            if self.host.left() == 0 {
                let superblock = self.free.pop_front().expect("cleaning left two superblocks");
                self.host = self.open(superblock, false, nand);
            }
        }
        false
    }

    /// Trims a slot that the host no longer needs. Returns whether it was mapped.
    ///
    /// # Panics
    /// If the slot lies beyond the drive's end.
    pub fn trim(&mut self, logical: u32) -> bool {
        let place = self.map.at(logical);
        if place == NOWHERE || self.settings.trim_256 == 0 {
            return place != NOWHERE;
        }
        let forgets = self.settings.trim_256 < 256
            && self.random.below(256) >= self.settings.trim_256
            && place < BUFFERED;
        if forgets {
            // The host reads zeros, but the FTL still treats the slot as valid.
            return true;
        }
        self.counters.trimmed += 1;
        self.trim_entry(logical);
        self.map.set(logical, NOWHERE);
        let map = &self.map;
        let cost = self.table.trim(logical, |slot| map.of_owner(slot) != NOWHERE);
        self.counters.map_reads += u64::from(cost.reads);
        self.counters.map_programs += u64::from(cost.programs);
        if place < BUFFERED {
            self.drop_trimmed(place);
            return true;
        }
        let staged = &mut self.buffer[(place - BUFFERED) as usize];
        let older = staged.older;
        *staged = Staged { logical: NOWHERE, older: NOWHERE };
        if older != NOWHERE {
            self.drop_trimmed(older);
        }
        true
    }

    /// Marks a physical slot as not valid because it was trimmed.
    fn drop_trimmed(&mut self, physical: u32) {
        self.invalidate(physical);
        let superblock = self.by_superblock.divide(physical) as usize;
        self.trimmed[superblock] = self.slc[superblock] && self.settings.slc.trimmed_when_idle;
    }

    /// Drops the buffer, as in a power cut: the map returns to the older versions. Calls `lost` for
    /// each such slot.
    pub fn drop_buffer(&mut self, mut lost: impl FnMut(u32)) {
        self.drop_map_pages();
        let mask = self.buffer.len() as u32 - 1;
        while self.staged() > 0 {
            let staged = self.buffer[(self.buffer_head & mask) as usize];
            self.buffer_head = self.buffer_head.wrapping_add(1);
            if staged.logical != NOWHERE {
                self.map.set(staged.logical, staged.older);
                lost(staged.logical);
            }
        }
    }

    /// Invalidates a unit that was being programmed when the power failed. Calls `lost` for each
    /// slot with its newest version there; such a slot is not mapped any more, because the location
    /// of the previous version may have been erased already.
    pub fn lose_unit(&mut self, superblock: u32, unit: u32, mut lost: impl FnMut(u32)) {
        let slots = self.shape.unit_slots;
        let first = superblock * self.superblock_slots + unit * slots;
        for physical in first..first + slots {
            let logical = self.owner[physical as usize];
            if self.map.of_owner(logical) == physical {
                self.map.set(logical, NOWHERE);
                self.invalidate(physical);
                lost(logical);
            }
        }
    }
}
