//! W-TinyLFU (G. Einziger, R. Friedman and B. Manes, "TinyLFU: A Highly Efficient Cache Admission
//! Policy", ACM Transactions on Storage 13(4), 2017): a block enters an LRU window; a block that
//! leaves the window enters the main part only if, according to a sketch, it was requested more
//! often than the block that it would replace.
//!
//! The paper's parameters: a window of 1 % of the slots (10 % as a separate kind, for more
//! recency); the main part a segmented LRU with 80 % protected; see `sketch.rs` for the sketch. The
//! comparison is `>`: of two blocks with equal counts the old one stays. The window has at least
//! one slot.
//!
//! libcachesim 0.3.5 is not comparable: its sketch has other hashes and wider counters, counts hits
//! in the main part only, and is halved at other intervals.
//!
//! A slot that was dirty enters the window as the newest, or the probationary segment's end if the
//! window is full and the main part is not. Its hits while it was dirty are in the sketch. Only
//! clean slots count for the lists' lengths.

use crate::packed::Packed;
use crate::sketch::Sketch;
use crate::{Cause, Hash, Held, Links, List, Replacement, Verdict};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

pub(crate) struct WTinyLfu {
    /// Least recently used first in each list.
    lists: [List; 3],
    /// The list that contains a clean slot.
    place: Packed<2>,
    sketch: Sketch,
    /// The window's share of the slots.
    window_percent: u32,
    window_max: u32,
    main_max: u32,
    protected_max: u32,
    /// The slots for it, and the free ones, which count as part of the window.
    slots: u32,
    free: u32,
    has_rejected: bool,
}

impl WTinyLfu {
    pub(crate) const fn new(window_percent: u32) -> WTinyLfu {
        WTinyLfu {
            lists: [List::EMPTY; 3],
            place: Packed::EMPTY,
            sketch: Sketch::EMPTY,
            window_percent,
            window_max: 0,
            main_max: 0,
            protected_max: 0,
            slots: 0,
            free: 0,
            has_rejected: false,
        }
    }

    fn shift(&mut self, links: &mut Links, slot: u32, from: usize, to: usize) {
        links.remove(&mut self.lists[from], slot);
        links.push_back(&mut self.lists[to], slot);
        self.place.set(slot, to as u64);
    }

    /// Sets the maximum lengths of the lists, for this number of slots.
    fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
        let share = |of: u32, percent: u32| (u64::from(of) * u64::from(percent) / 100) as u32;
        self.window_max = share(slots, self.window_percent).max(1);
        self.main_max = slots.saturating_sub(self.window_max);
        self.protected_max = share(self.main_max, 80);
    }

    fn main_length(&self) -> u32 {
        self.lists[PROBATION].length + self.lists[PROTECTED].length
    }
}

impl Replacement for WTinyLfu {
    fn lists(&self) -> &[List] {
        &self.lists
    }

    #[inline]
    fn hit(&mut self, links: &mut Links, slot: u32, hash: impl FnOnce() -> Hash, held: Held) {
        self.sketch.add(hash());
        if held == Held::Dirty {
            return;
        }
        let place = self.place.get(slot) as usize;
        if place != PROBATION {
            return links.touch(&mut self.lists[place], slot);
        }
        self.shift(links, slot, PROBATION, PROTECTED);
        if self.lists[PROTECTED].length > self.protected_max {
            self.shift(links, self.lists[PROTECTED].head, PROTECTED, PROBATION);
        }
    }

    fn miss(&mut self, hash: Hash) -> Verdict {
        self.sketch.add(hash);
        Verdict::Keep
    }

    fn admit(&mut self, links: &mut Links, slot: u32, _: Hash, _: Cause) {
        self.place.set(slot, WINDOW as u64);
        links.push_back(&mut self.lists[WINDOW], slot);
        if self.lists[WINDOW].length > self.window_max && self.main_length() < self.main_max {
            self.shift(links, self.lists[WINDOW].head, WINDOW, PROBATION);
        }
    }

    fn victim(&mut self, links: &mut Links, _: Hash, hash_of: impl Fn(u32) -> Hash) -> Option<u32> {
        self.has_rejected = false;
        let [window, probation, protected] = &self.lists;
        let main = if probation.length > 0 { probation } else { protected };
        match (window.length > 0, main.length > 0) {
            (false, false) => return None,
            (true, false) => return Some(window.head),
            (false, true) => return Some(main.head),
            (true, true) if window.length + self.free < self.window_max => return Some(main.head),
            (true, true) => {}
        }
        let (enters, goes) = (window.head, main.head);
        if self.sketch.count(hash_of(enters)) > self.sketch.count(hash_of(goes)) {
            self.shift(links, enters, WINDOW, PROBATION);
            return Some(goes);
        }
        self.has_rejected = true;
        Some(enters)
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        let place = self.place.get(old);
        self.place.set(new, place);
        if held == Held::Clean {
            links.replace(&mut self.lists[place as usize], old, new);
        }
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        if held == Held::Clean {
            links.remove(&mut self.lists[self.place.get(slot) as usize], slot);
        }
    }

    fn has_rejected(&self) -> bool {
        self.has_rejected
    }

    fn set_room(&mut self, slots: u32, free: u32) {
        self.free = free;
        if self.slots != slots {
            self.set_slots(slots);
        }
    }

    /// Resets the sketch.
    fn resize(&mut self, slots: u32) {
        self.place.resize(slots);
        self.sketch = Sketch::new(slots);
        self.set_slots(slots);
    }
}

#[cfg(test)]
mod tests {
    use crate::brute_force::{Paper, agree, entry_of_cleaned};
    use crate::sketch::Sketch;
    use crate::{Cause, Hash, Held, Kind, Links, Policy};
    use std::vec;
    use std::vec::Vec;

    /// The scheme of the paper. The most recently used block of each list is at 0.
    struct Scheme<const PERCENT: usize> {
        window: Vec<u64>,
        probation: Vec<u64>,
        protected: Vec<u64>,
        size: usize,
        counters: Vec<u32>,
        /// Used for the counters' indexes.
        places: Sketch,
        requests: usize,
    }

    fn take(list: &mut Vec<u64>, block: u64) -> bool {
        let place = list.iter().position(|&other| other == block);
        place.map(|place| list.remove(place)).is_some()
    }

    impl<const PERCENT: usize> Scheme<PERCENT> {
        fn counters(&self, block: u64) -> Vec<usize> {
            self.places.places(Hash::of(block)).map(|place| place as usize).to_vec()
        }

        fn estimate(&self, block: u64) -> u32 {
            let counters = self.counters(block);
            counters.into_iter().map(|counter| self.counters[counter]).min().expect("four")
        }

        fn count(&mut self, block: u64) {
            let least = self.estimate(block);
            for counter in self.counters(block) {
                if self.counters[counter] == least {
                    self.counters[counter] = (least + 1).min(15);
                }
            }
            self.requests += 1;
            if self.requests == 10 * self.size.next_multiple_of(32) {
                self.counters.iter_mut().for_each(|counter| *counter /= 2);
                self.requests = 0;
            }
        }

        fn main_max(&self) -> usize {
            self.size - (self.size * PERCENT / 100).max(1)
        }

        /// The window is too long: its last block is a candidate for the main part.
        fn leave_window(&mut self) {
            let candidate = self.window.pop().expect("is too long");
            if self.probation.len() + self.protected.len() < self.main_max() {
                return self.probation.insert(0, candidate);
            }
            let last = self.probation.last().or(self.protected.last()).copied();
            let Some(victim) = last else { return };
            if self.estimate(candidate) > self.estimate(victim) {
                let _ = take(&mut self.probation, victim) || take(&mut self.protected, victim);
                self.probation.insert(0, candidate);
            }
        }
    }

    impl<const PERCENT: usize> Paper for Scheme<PERCENT> {
        fn new(size: usize) -> Scheme<PERCENT> {
            Scheme {
                window: Vec::new(),
                probation: Vec::new(),
                protected: Vec::new(),
                size,
                counters: vec![0; 4 * size.next_multiple_of(32)],
                places: Sketch::new(size as u32),
                requests: 0,
            }
        }

        fn request(&mut self, block: u64) -> bool {
            self.count(block);
            if take(&mut self.window, block) {
                self.window.insert(0, block);
            } else if take(&mut self.protected, block) {
                self.protected.insert(0, block);
            } else if take(&mut self.probation, block) {
                self.protected.insert(0, block);
                if self.protected.len() > self.main_max() * 80 / 100 {
                    let demoted = self.protected.pop().expect("is too long");
                    self.probation.insert(0, demoted);
                }
            } else {
                self.window.insert(0, block);
                if self.window.len() > (self.size * PERCENT / 100).max(1) {
                    self.leave_window();
                }
                return false;
            }
            true
        }
    }

    #[test]
    fn each_request_ends_as_in_the_paper() {
        agree::<Scheme<1>>(Kind::WTinyLfu);
        agree::<Scheme<10>>(Kind::WTinyLfu10);
    }

    #[test]
    fn what_was_read_while_dirty_is_in_the_sketch() {
        let (mut links, mut policy) = (Links::new(3), Policy::new(Kind::WTinyLfu, 3));
        let hash_of = |slot: u32| Hash::of(u64::from(slot));
        policy.hit(&mut links, 0, || hash_of(0), Held::Dirty);
        for slot in [1, 2, 0] {
            policy.admit(&mut links, slot, hash_of(slot), Cause::Writeback);
        }
        let victim = policy.victim(&mut links, Hash::of(9), hash_of);
        assert_eq!(victim, Some(1), "the window's slot was read more often");
        assert_eq!(entry_of_cleaned(Kind::WTinyLfu), [2, 0, 1], "and here less often");
    }
}
