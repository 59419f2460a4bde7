//! The location of map pages on the flash: a log in superblocks of its own, cleaned separately.
//!
//! The area has room for twice the map. So its emptiest superblock is at most half full, and its
//! remaining pages always fit into the superblock that was opened last.

use super::frontier::{Frontier, NONE, Victim};
use super::{Counters, Nand, Purpose, UnitAddress};
use crate::shape::NOWHERE;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Map pages on the flash, and those on the way there.
pub(super) struct MapArea {
    /// The area's first superblock.
    first: u32,
    slc: bool,
    superblock_slots: u32,
    unit_slots: u32,
    /// The location of each page in the area; `NOWHERE` if it was never written.
    places: Vec<u32>,
    /// The page in each slot: it is valid if `places` agrees.
    owners: Vec<u32>,
    /// Valid pages of each superblock.
    valid: Vec<u32>,
    free: VecDeque<u32>,
    open: Frontier,
    victim: Option<Victim>,
    /// Pages that wait for a full unit, oldest first, including some that do not wait any more.
    staged: VecDeque<u32>,
    /// Whether a page waits.
    waits: Vec<bool>,
    waiting: u32,
}

/// The parts of the drive that an area updates.
pub(super) struct Books<'a> {
    pub(super) erases: &'a mut [u32],
    pub(super) counters: &'a mut Counters,
}

impl MapArea {
    /// Returns the number of superblocks for this number of pages.
    pub(super) fn superblocks(pages: u32, superblock_slots: u32) -> u32 {
        2 * pages.div_ceil(superblock_slots.max(1)) + 2
    }

    pub(super) fn new(first: u32, pages: u32, slc: bool, slots: u32, unit_slots: u32) -> MapArea {
        let count = MapArea::superblocks(pages, slots);
        MapArea {
            first,
            slc,
            superblock_slots: slots,
            unit_slots,
            places: vec![NOWHERE; pages as usize],
            owners: vec![0; (count * slots) as usize],
            valid: vec![0; count as usize],
            free: (0..count).collect(),
            open: Frontier::CLOSED,
            victim: None,
            staged: VecDeque::new(),
            waits: vec![false; pages as usize],
            waiting: 0,
        }
    }

    /// Queues a changed page that was evicted from memory.
    pub(super) fn stage(&mut self, page: u32) {
        self.staged.push_back(page);
        self.waits[page as usize] = true;
        self.waiting += 1;
    }

    /// Takes back a page that has not been programmed yet. False: it does not wait here.
    pub(super) fn unstage(&mut self, page: u32) -> bool {
        let waited = core::mem::take(&mut self.waits[page as usize]);
        self.waiting -= u32::from(waited);
        waited
    }

    /// Whether a version of a page is on the flash.
    pub(super) fn has(&self, page: u32) -> bool {
        self.places[page as usize] != NOWHERE
    }

    /// Whether enough pages wait for a unit.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.waiting >= self.unit_slots
    }

    /// Programs the oldest waiting pages as a unit, and cleans in proportion.
    pub(super) fn program<N: Nand>(&mut self, books: &mut Books<'_>, nand: &mut N) {
        let mut left = self.unit_slots.min(self.waiting);
        while left > 0 {
            let page = self.staged.pop_front().expect("what waits is in the queue");
            if self.unstage(page) {
                self.append(page, books, nand);
                left -= 1;
            }
        }
        self.clean(books, nand);
    }

    /// Writes a page into the next slot of the open superblock.
    fn append<N: Nand>(&mut self, page: u32, books: &mut Books<'_>, nand: &mut N) {
        if self.open.left() == 0 {
            let next = self.free.pop_front().expect("cleaning keeps ahead of what is written");
            let superblock = self.first + next;
            books.erases[superblock as usize] += 1;
            match self.slc {
                true => books.counters.slc_erases += 1,
                false => books.counters.erases += 1,
            }
            nand.erase(superblock, self.slc);
            self.open = Frontier { superblock: next, next: 0, end: self.superblock_slots };
        }
        let slot = self.open.superblock * self.superblock_slots + self.open.next;
        let old = core::mem::replace(&mut self.places[page as usize], slot);
        if old != NOWHERE {
            self.valid[(old / self.superblock_slots) as usize] -= 1;
        }
        self.owners[slot as usize] = page;
        self.valid[self.open.superblock as usize] += 1;
        self.open.next += 1;
        books.counters.map_programs += 1;
        if self.open.next.is_multiple_of(self.unit_slots) {
            let unit = self.open.next / self.unit_slots - 1;
            nand.program(self.address(self.open.superblock, unit), Purpose::Map);
        }
    }

    fn address(&self, superblock: u32, unit: u32) -> UnitAddress {
        UnitAddress { superblock: self.first + superblock, unit, slc: self.slc }
    }

    /// Moves pages of the emptiest superblock once the last free one is open, in proportion to the
    /// pages written, so that it is free when the open one is full.
    fn clean<N: Nand>(&mut self, books: &mut Books<'_>, nand: &mut N) {
        if !self.free.is_empty() {
            return;
        }
        let mut victim = self.victim.take().unwrap_or_else(|| self.choose());
        let (left, at) = (self.open.left(), victim.superblock as usize);
        let gain = left.saturating_sub(self.valid[at]);
        let due = match gain > self.unit_slots {
            true => (self.valid[at] * self.unit_slots).div_ceil(gain),
            false => self.valid[at],
        };
        let mut moved = 0;
        while moved < due && self.valid[at] > 0 {
            moved += self.move_unit(&mut victim, books, nand);
        }
        if self.valid[at] == 0 {
            self.free.push_back(victim.superblock);
        } else {
            self.victim = Some(victim);
        }
    }

    /// Returns the closed superblock with the fewest valid pages.
    fn choose(&self) -> Victim {
        let closed = (0..self.valid.len() as u32).filter(|at| *at != self.open.superblock);
        let least = closed.min_by_key(|at| self.valid[*at as usize]).unwrap_or(NONE);
        Victim { superblock: least, next: 0, valid: self.valid[least as usize] }
    }

    /// Moves the valid pages of the victim's next unit; returns their number.
    fn move_unit<N: Nand>(
        &mut self,
        victim: &mut Victim,
        books: &mut Books<'_>,
        nand: &mut N,
    ) -> u32 {
        let first = victim.superblock * self.superblock_slots + victim.next;
        let unit = victim.next / self.unit_slots;
        victim.next += self.unit_slots;
        let is_valid =
            |area: &MapArea, slot: u32| area.places[area.owners[slot as usize] as usize] == slot;
        let slots = first..first + self.unit_slots;
        let count = slots.clone().filter(|slot| is_valid(self, *slot)).count() as u32;
        if count > 0 {
            nand.read(self.address(victim.superblock, unit), count, count);
        }
        for slot in slots {
            if is_valid(self, slot) {
                self.append(self.owners[slot as usize], books, nand);
            }
        }
        count
    }

    /// Checks the bookkeeping; for tests.
    ///
    /// # Panics
    /// If it is inconsistent; the message says where.
    pub(super) fn audit(&self) {
        let mut valid = vec![0; self.valid.len()];
        for (page, slot) in self.places.iter().enumerate().filter(|(_, slot)| **slot != NOWHERE) {
            let owner = self.owners[*slot as usize];
            assert_eq!(owner as usize, page, "a page of the map lies in another one's place");
            valid[(slot / self.superblock_slots) as usize] += 1;
        }
        assert_eq!(valid, self.valid, "the counts of valid map pages are wrong");
        let free = self.free.iter().filter(|at| self.valid[**at as usize] > 0).count();
        assert_eq!(free, 0, "a free superblock of the map's area is not empty");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Counts the operations on the flash.
    #[derive(Default)]
    struct Counted {
        reads: u32,
        programs: u32,
        erases: u32,
        /// Maximum number of pages read between two programs of new pages.
        burst: u32,
        now: u32,
    }

    impl Nand for Counted {
        const TIMED: bool = true;

        fn read(&mut self, _: UnitAddress, slots: u32, _: u32) {
            self.reads += slots;
            self.now += slots;
            self.burst = self.burst.max(self.now);
        }

        fn program(&mut self, address: UnitAddress, purpose: Purpose) {
            assert_eq!((purpose, address.slc), (Purpose::Map, false));
            self.programs += 1;
        }

        fn erase(&mut self, superblock: u32, _: bool) {
            assert!((5..11).contains(&superblock), "{superblock} is not the area's");
            self.erases += 1;
        }

        fn look_up(&mut self) {}

        fn merge(&mut self) {}
    }

    #[test]
    fn a_log_of_random_pages_is_cleaned_in_steps_and_loses_none() {
        let (pages, slots, unit) = (500, 256, 4);
        let mut area = MapArea::new(5, pages, false, slots, unit);
        assert_eq!(area.valid.len(), 6);
        let mut nand = Counted::default();
        let (mut erases, mut counters) = ([0; 11], Counters::default());
        let mut books = Books { erases: &mut erases, counters: &mut counters };
        let mut random = Random::new(4);
        let mut staged = 0;
        for _ in 0..100_000 {
            let page = random.below(pages);
            if area.unstage(page) {
                staged -= 1;
            }
            area.stage(page);
            staged += 1;
            if area.is_due() {
                nand.now = 0;
                area.program(&mut books, &mut nand);
            }
        }
        area.audit();
        assert!((0..pages).all(|page| area.has(page)), "every page was written");
        assert!(staged > 99_000, "few pages come back while they wait: {staged}");
        // With twice the room: about 1.25 programs for each.
        let amplification = counters.map_programs as f64 / f64::from(staged);
        assert!((1.1..1.4).contains(&amplification), "{amplification}");
        assert_eq!(u64::from(nand.programs), counters.map_programs / u64::from(unit));
        assert_eq!(u64::from(nand.reads) + u64::from(staged / unit * unit), counters.map_programs);
        assert_eq!(u64::from(nand.erases), counters.erases);
        assert_eq!(erases.iter().sum::<u32>(), nand.erases);
        assert!(nand.burst <= 3 * unit, "{} pages moved at once", nand.burst);
    }
}
