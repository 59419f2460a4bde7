//! SIEVE (Y. Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024): slots are in the order of their
//! admission, and a hit only marks its slot. A hand walks from the oldest to the newest slot,
//! clears marks, and evicts the first slot without a mark.
//!
//! There are two differences from the paper. A slot that was dirty enters as the newest when it
//! becomes clean, and is marked if it was read while it was dirty. The walk of the hand is bounded,
//! because it holds the shard's lock: after [`WALK_MAX`](crate::WALK_MAX) marked slots the next one
//! is evicted. One bit per slot; no parameter.

use crate::packed::Packed;
use crate::{Cause, Hash, Held, Links, List, NIL, Replacement};

pub(crate) struct Sieve {
    /// Oldest first.
    list: [List; 1],
    /// Start of the next walk; [`NIL`]: at the oldest slot.
    hand: u32,
    /// Whether a slot was read since the hand passed it.
    marks: Packed<1>,
    walk_max: u32,
}

impl Sieve {
    /// `walk_max`: maximum number of marked slots that a walk passes.
    pub(crate) const fn new(walk_max: u32) -> Sieve {
        Sieve { list: [List::EMPTY], hand: NIL, marks: Packed::EMPTY, walk_max }
    }
}

impl Replacement for Sieve {
    fn lists(&self) -> &[List] {
        &self.list
    }

    fn reads(&self, slot: u32) -> u32 {
        self.marks.get(slot) as u32
    }

    #[inline]
    fn hit(&mut self, _: &mut Links, slot: u32, _: impl FnOnce() -> Hash, _: Held) {
        self.marks.set(slot, 1);
    }

    fn admit(&mut self, links: &mut Links, slot: u32, _: Hash, _: Cause) {
        links.push_back(&mut self.list[0], slot);
    }

    fn victim(&mut self, links: &mut Links, _: Hash, _: impl Fn(u32) -> Hash) -> Option<u32> {
        let [list] = self.list;
        if list.length == 0 {
            return None;
        }
        let or_oldest = |slot| if slot == NIL { list.head } else { slot };
        let mut slot = or_oldest(self.hand);
        for _ in 0..self.walk_max {
            if self.marks.replace(slot, 0) == 0 {
                break;
            }
            slot = or_oldest(links.after(slot));
        }
        self.hand = slot;
        Some(slot)
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        self.marks.set(new, self.marks.get(old));
        if held == Held::Clean {
            if self.hand == old {
                self.hand = new;
            }
            links.replace(&mut self.list[0], old, new);
        }
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        self.marks.set(slot, 0);
        if held == Held::Clean {
            if self.hand == slot {
                self.hand = links.after(slot);
            }
            links.remove(&mut self.list[0], slot);
        }
    }

    fn resize(&mut self, slots: u32) {
        self.marks.resize(slots);
    }
}

#[cfg(test)]
mod tests {
    use crate::brute_force::{Paper, agree, first_of_many_read};
    use crate::{Cause, Hash, Held, Kind, Links, Policy, WALK_MAX};
    use std::vec::Vec;

    /// Algorithm 1 of the paper, line by line, over a queue in a vector: its head at 0, its tail at
    /// the end.
    #[derive(Default)]
    struct Algorithm {
        queue: Vec<(u64, bool)>,
        /// The block at the hand.
        hand: Option<u64>,
        size: usize,
    }

    impl Algorithm {
        fn place(&self, block: u64) -> Option<usize> {
            self.queue.iter().position(|&(other, _)| other == block)
        }
    }

    impl Paper for Algorithm {
        fn new(size: usize) -> Algorithm {
            Algorithm { size, ..Algorithm::default() }
        }

        fn request(&mut self, block: u64) -> bool {
            if let Some(place) = self.place(block) {
                self.queue[place].1 = true;
                return true;
            }
            if self.queue.len() == self.size {
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

    #[test]
    fn each_request_ends_as_in_the_paper() {
        agree::<Algorithm>(Kind::Sieve);
    }

    #[test]
    fn what_was_read_while_dirty_stays_and_what_was_forgotten_counts_no_more() {
        let (mut links, hash) = (Links::new(3), Hash::of(0));
        let mut policy = Policy::new(Kind::Sieve, 3);
        policy.hit(&mut links, 0, || hash, Held::Dirty);
        policy.hit(&mut links, 1, || hash, Held::Dirty);
        policy.forget(&mut links, 1, Held::Dirty);
        for slot in 0..3 {
            policy.admit(&mut links, slot, hash, Cause::Writeback);
        }
        assert_eq!(policy.victim(&mut links, hash, |_| hash), Some(1));
        policy.forget(&mut links, 1, Held::Clean);
        assert_eq!(
            policy.victim(&mut links, hash, |_| hash),
            Some(2),
            "the hand goes on from there"
        );
        policy.forget(&mut links, 2, Held::Clean);
        assert_eq!(policy.victim(&mut links, hash, |_| hash), Some(0), "its mark is gone");
        policy.forget(&mut links, 0, Held::Clean);
        assert_eq!(policy.victim(&mut links, hash, |_| hash), None);
    }

    #[test]
    fn a_walk_is_bounded_and_grown_slots_can_be_marked() {
        assert_eq!(first_of_many_read(Kind::Sieve, 4 * WALK_MAX), WALK_MAX);
    }
}
