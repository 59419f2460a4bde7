//! SIEVE (Y. Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): slots stand in the order of their
//! admission, and a hit only marks its slot. A hand walks from the oldest to the newest and clears
//! marks. The first slot that has none goes.
//!
//! Two things differ from the paper. A slot that was read while it was dirty is marked when it becomes
//! clean. And a walk of the hand is bounded: it is made under the shard's lock.

use crate::{Cause, Hash, Held, Links, List, NIL, Replacement};
use alloc::vec::Vec;

/// Marks that the hand clears at most in one walk; the slot behind them goes, marked or not.
const WALK_MAX: u32 = 1024;

pub(crate) struct Sieve {
    /// The oldest first.
    list: [List; 1],
    /// Where the next walk begins; [`NIL`]: at the oldest.
    hand: u32,
    /// A bit for each slot: it was read since the hand passed it.
    marks: Vec<u64>,
}

impl Sieve {
    pub(crate) const EMPTY: Sieve = Sieve { list: [List::EMPTY], hand: NIL, marks: Vec::new() };

    #[inline]
    fn mark(&mut self, slot: u32) {
        self.marks[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Clears a mark. Returns whether it was set.
    #[inline]
    fn clear(&mut self, slot: u32) -> bool {
        let (word, bit) = (&mut self.marks[slot as usize / 64], 1 << (slot % 64));
        let was_set = *word & bit != 0;
        *word &= !bit;
        was_set
    }
}

impl Replacement for Sieve {
    fn lists(&self) -> &[List] {
        &self.list
    }

    #[inline]
    fn hit(&mut self, _: &mut Links, slot: u32, _: Held) {
        self.mark(slot);
    }

    fn admit(&mut self, links: &mut Links, slot: u32, _: Hash, _: Cause) {
        links.push_back(&mut self.list[0], slot);
    }

    fn victim(&mut self, links: &Links, _: Hash) -> Option<u32> {
        let [list] = self.list;
        if list.length == 0 {
            return None;
        }
        let or_oldest = |slot| if slot == NIL { list.head } else { slot };
        let mut slot = or_oldest(self.hand);
        for _ in 0..WALK_MAX {
            if !self.clear(slot) {
                break;
            }
            slot = or_oldest(links.after(slot));
        }
        self.hand = slot;
        Some(slot)
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        self.clear(slot);
        if held == Held::Clean {
            if self.hand == slot {
                self.hand = links.after(slot);
            }
            links.remove(&mut self.list[0], slot);
        }
    }

    fn resize(&mut self, slots: u32) {
        self.marks.resize(slots.div_ceil(64) as usize, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::WALK_MAX;
    use crate::{Cause, Hash, Held, Kind, Links, Policy, Simulation};
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Algorithm 1 of the paper, line by line, over a queue in a vector: its head at 0, its tail at
    /// the end.
    #[derive(Default)]
    struct Paper {
        queue: Vec<(u64, bool)>,
        /// The block that the hand stands on.
        hand: Option<u64>,
    }

    impl Paper {
        fn place(&self, block: u64) -> Option<usize> {
            self.queue.iter().position(|&(other, _)| other == block)
        }

        /// Whether the request is a hit.
        fn request(&mut self, block: u64, size: usize) -> bool {
            if let Some(place) = self.place(block) {
                self.queue[place].1 = true;
                return true;
            }
            if self.queue.len() == size {
                let tail = self.queue.len() - 1;
                let mut object = self.hand.map_or(tail, |hand| self.place(hand).expect("is there"));
                while self.queue[object].1 {
                    self.queue[object].1 = false;
                    object = object.checked_sub(1).unwrap_or(tail);
                }
                self.hand = object.checked_sub(1).map(|previous| self.queue[previous].0);
                self.queue.remove(object);
            }
            self.queue.insert(0, (block, false));
            false
        }
    }

    proptest! {
        #[test]
        fn each_request_ends_as_in_the_paper(
            slots in 1..12u32,
            blocks in proptest::collection::vec(0..24u64, 0..400),
        ) {
            let mut simulation = Simulation::new(Kind::Sieve, slots);
            let mut paper = Paper::default();
            for block in blocks {
                prop_assert_eq!(simulation.read(block), paper.request(block, slots as usize));
            }
        }
    }

    #[test]
    fn what_was_read_while_dirty_stays_and_what_was_forgotten_counts_no_more() {
        let (mut links, hash) = (Links::new(3), Hash::of(0));
        let mut policy = Policy::new(Kind::Sieve, 3);
        policy.hit(&mut links, 0, Held::Dirty);
        policy.hit(&mut links, 1, Held::Dirty);
        policy.forget(&mut links, 1, Held::Dirty);
        for slot in 0..3 {
            policy.admit(&mut links, slot, hash, Cause::Writeback);
        }
        assert_eq!(policy.victim(&links, hash), Some(1));
        policy.forget(&mut links, 1, Held::Clean);
        assert_eq!(policy.victim(&links, hash), Some(2), "the hand goes on from there");
        policy.forget(&mut links, 2, Held::Clean);
        assert_eq!(policy.victim(&links, hash), Some(0), "its mark is gone");
        policy.forget(&mut links, 0, Held::Clean);
        assert_eq!(policy.victim(&links, hash), None);
    }

    #[test]
    fn a_walk_is_bounded_and_grown_slots_can_be_marked() {
        let (slots, hash) = (4 * WALK_MAX, Hash::of(0));
        let mut links = Links::new(slots);
        let mut policy = Policy::new(Kind::Sieve, 1);
        policy.resize(slots);
        for slot in 0..slots {
            policy.admit(&mut links, slot, hash, Cause::Fetch);
            policy.hit(&mut links, slot, Held::Clean);
        }
        assert_eq!(policy.victim(&links, hash), Some(WALK_MAX));
    }
}
