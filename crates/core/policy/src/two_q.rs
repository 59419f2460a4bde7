//! 2Q, the full version (T. Johnson and D. Shasha, "2Q: A Low Overhead High Performance Buffer
//! Management Replacement Algorithm", VLDB 1994): a block enters a FIFO queue, `A1in`; when it
//! leaves that queue, its name stays in `A1out` for a while; a block that returns while its name is
//! in `A1out` enters the LRU queue `Am`.
//!
//! The paper's parameters: `A1in` has 25 % of the slots, `A1out` as many names as 50 % of the
//! slots. The paper does not say whether a name leaves `A1out` when its block enters `Am`; here it
//! does.
//!
//! A slot that was dirty enters `Am` if it was read while it was dirty or its name is in `A1out`;
//! otherwise `A1in`. (A read of a slot in `A1in` does not count, as it is assumed to belong to the
//! access that admitted the block; but seconds pass between a write and its writeback.) Only clean
//! slots count for the queues' lengths. If `Am` is empty, `A1in` evicts.

use crate::ghosts::Ghosts;
use crate::packed::Packed;
use crate::{Cause, Hash, Held, Links, List, Replacement};

const IN: usize = 0;
const MAIN: usize = 1;

pub(crate) struct TwoQ {
    /// `A1in` and `Am`, the next victim first.
    lists: [List; 2],
    /// The list that contains a clean slot; for a dirty slot, whether it was read.
    place: Packed<1>,
    /// `A1out`.
    out: Ghosts,
    /// Maximum length of `A1in`, the free slots included.
    in_max: u32,
    free: u32,
    has_rejected: bool,
}

impl TwoQ {
    pub(crate) fn new() -> TwoQ {
        let lists = [List::EMPTY; 2];
        TwoQ {
            lists,
            place: Packed::EMPTY,
            out: Ghosts::new(0),
            in_max: 0,
            free: 0,
            has_rejected: false,
        }
    }
}

impl Replacement for TwoQ {
    fn lists(&self) -> &[List] {
        &self.lists
    }

    #[inline]
    fn hit(&mut self, links: &mut Links, slot: u32, _: impl FnOnce() -> Hash, held: Held) {
        if held == Held::Dirty {
            self.place.set(slot, MAIN as u64);
        } else if self.place.get(slot) == MAIN as u64 {
            links.touch(&mut self.lists[MAIN], slot);
        }
    }

    fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause) {
        if self.out.remove(hash) || cause == Cause::Compressed {
            self.place.set(slot, MAIN as u64);
        }
        links.push_back(&mut self.lists[self.place.get(slot) as usize], slot);
    }

    fn victim(
        &mut self,
        _: &mut Links,
        candidate: Hash,
        hash_of: impl Fn(u32) -> Hash,
    ) -> Option<u32> {
        let [entered, main] = &self.lists;
        self.has_rejected = main.length > 0 && entered.length + self.free > self.in_max;
        if main.length == 0 || self.has_rejected && entered.length > 0 {
            if entered.length == 0 {
                return None;
            }
            self.out.push(hash_of(entered.head), candidate);
            return Some(entered.head);
        }
        Some(main.head)
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        let place = self.place.get(old);
        self.place.set(new, place);
        if held == Held::Clean {
            links.replace(&mut self.lists[place as usize], old, new);
        }
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        let place = self.place.replace(slot, IN as u64);
        if held == Held::Clean {
            links.remove(&mut self.lists[place as usize], slot);
        }
    }

    fn has_rejected(&self) -> bool {
        self.has_rejected
    }

    fn set_room(&mut self, slots: u32, free: u32) {
        (self.in_max, self.free) = (slots / 4, free);
    }

    /// Removes all ghosts.
    fn resize(&mut self, slots: u32) {
        self.place.resize(slots);
        self.out = Ghosts::new(slots / 2);
        self.in_max = slots / 4;
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::brute_force::{Paper, agree, entry_of_cleaned};
    use std::vec::Vec;

    /// The paper's listing of the full version. The head of each queue is at 0.
    #[derive(Default)]
    struct Listing {
        am: Vec<u64>,
        a1in: Vec<u64>,
        a1out: Vec<u64>,
        size: usize,
    }

    impl Listing {
        fn reclaim(&mut self) {
            if self.am.len() + self.a1in.len() < self.size {
                return;
            }
            // With a size below 4, `Am` may be empty here, a case that the paper does not cover.
            if self.a1in.len() > self.size / 4 || self.am.is_empty() {
                let paged_out = self.a1in.pop().expect("one of the queues has some");
                self.a1out.insert(0, paged_out);
                self.a1out.truncate(self.size / 2);
            } else {
                self.am.pop();
            }
        }
    }

    impl Paper for Listing {
        fn new(size: usize) -> Listing {
            Listing { size, ..Listing::default() }
        }

        fn request(&mut self, block: u64) -> bool {
            let place = |queue: &[u64]| queue.iter().position(|&other| other == block);
            if let Some(place) = place(&self.am) {
                self.am.remove(place);
                self.am.insert(0, block);
                true
            } else if let Some(place) = place(&self.a1out) {
                self.a1out.remove(place);
                self.reclaim();
                self.am.insert(0, block);
                false
            } else if place(&self.a1in).is_some() {
                true
            } else {
                self.reclaim();
                self.a1in.insert(0, block);
                false
            }
        }
    }

    #[test]
    fn each_request_ends_as_in_the_paper() {
        agree::<Listing>(Kind::TwoQ);
    }

    #[test]
    fn what_was_read_while_dirty_enters_the_main_queue() {
        assert_eq!(entry_of_cleaned(Kind::TwoQ), [1, 2, 0]);
    }
}
