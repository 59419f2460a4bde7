//! S3-FIFO (J. Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023): a small
//! FIFO queue, a main queue with second chances, and a queue of ghosts.
//!
//! The paper's parameters: the small queue has 10 % of the slots, there are as many ghosts as the
//! main queue may have slots, and two bits per slot count hits up to 3. A block moves from the
//! small queue to the main queue if it was hit more than once there, and its count is reset. A
//! ghost that is read enters the main queue.
//!
//! There are three differences from Algorithm 1. The algorithm evicts from the main queue
//! immediately when a move from the small queue has overfilled it, which leaves a slot free until
//! the next miss; here the main queue evicts a slot at that next miss, as in the authors' own code.
//! A ghost is removed when its block returns. A walk is bounded, because it holds the shard's lock:
//! after [`WALK_MAX`](crate::WALK_MAX) moved slots the next one is evicted.
//!
//! libcachesim 0.3.5 fills differently: until the first eviction, blocks that do not fit into the
//! small queue enter the main queue. That is the only other difference: with it, the two agree miss
//! for miss.
//!
//! A slot that was dirty enters the small queue with the hits that it had while it was dirty, or
//! the main queue if it is a ghost.

use crate::ghosts::Ghosts;
use crate::packed::Packed;
use crate::{Cause, Hash, Held, Links, List, Replacement};

const SMALL: usize = 0;
const MAIN: usize = 1;

pub(crate) struct S3Fifo {
    /// The small queue and the main queue, oldest first.
    lists: [List; 2],
    /// The list that contains a clean slot.
    place: Packed<1>,
    /// Hits, at most 3.
    hits: Packed<2>,
    ghosts: Ghosts,
    small_min: u32,
    /// Free slots that count as part of the small queue.
    free: u32,
    has_rejected: bool,
    walk_max: u32,
    /// Whether blocks that do not fit into the small queue enter the main queue, as in libcachesim.
    /// Until the first eviction.
    fills_main: bool,
}

impl S3Fifo {
    /// `walk_max`: maximum number of slots that a walk moves. `fills_main`: the cache fills as in
    /// libcachesim.
    pub(crate) fn new(walk_max: u32, fills_main: bool) -> S3Fifo {
        S3Fifo {
            lists: [List::EMPTY; 2],
            place: Packed::EMPTY,
            hits: Packed::EMPTY,
            ghosts: Ghosts::new(0),
            small_min: 1,
            free: 0,
            has_rejected: false,
            walk_max,
            fills_main,
        }
    }

    /// Returns the oldest slot of the small queue that was not hit twice; moves those before it to
    /// the main queue.
    fn small_victim(&mut self, links: &mut Links, walked: &mut u32) -> Option<u32> {
        let [small, main] = &mut self.lists;
        while small.length > 0 {
            let slot = small.head;
            if self.hits.get(slot) < 2 || *walked == self.walk_max {
                return Some(slot);
            }
            *walked += 1;
            self.hits.set(slot, 0);
            self.place.set(slot, MAIN as u64);
            links.remove(small, slot);
            links.push_back(main, slot);
        }
        None
    }

    /// Returns the oldest slot of the main queue without hits; moves those before it to the end,
    /// with one hit less.
    fn main_victim(&mut self, links: &mut Links, walked: &mut u32) -> Option<u32> {
        let main = &mut self.lists[MAIN];
        while main.length > 0 {
            let slot = main.head;
            let hits = self.hits.get(slot);
            if hits == 0 || *walked == self.walk_max {
                return Some(slot);
            }
            *walked += 1;
            self.hits.set(slot, hits - 1);
            links.touch(main, slot);
        }
        None
    }
}

impl Replacement for S3Fifo {
    fn lists(&self) -> &[List] {
        &self.lists
    }

    #[inline]
    fn hit(&mut self, _: &mut Links, slot: u32, _: impl FnOnce() -> Hash, _: Held) {
        let hits = self.hits.get(slot);
        if hits < 3 {
            self.hits.set(slot, hits + 1);
        }
    }

    fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause) {
        let overflows = self.fills_main && self.lists[SMALL].length >= self.small_min;
        let is_proven = self.ghosts.remove(hash) || cause == Cause::Compressed;
        let place = if is_proven || overflows { MAIN } else { SMALL };
        self.place.set(slot, place as u64);
        links.push_back(&mut self.lists[place], slot);
    }

    fn victim(
        &mut self,
        links: &mut Links,
        candidate: Hash,
        hash_of: impl Fn(u32) -> Hash,
    ) -> Option<u32> {
        self.fills_main = false;
        let mut walked = 0;
        let [small, main] = &self.lists;
        let is_long = small.length + self.free >= self.small_min;
        let from_small = is_long || main.length == 0;
        self.has_rejected = false;
        if from_small && let Some(slot) = self.small_victim(links, &mut walked) {
            self.ghosts.push(hash_of(slot), candidate);
            self.has_rejected = true;
            return Some(slot);
        }
        self.main_victim(links, &mut walked)
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        let place = self.place.get(old);
        self.place.set(new, place);
        self.hits.set(new, self.hits.get(old));
        if held == Held::Clean {
            links.replace(&mut self.lists[place as usize], old, new);
        }
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        self.hits.set(slot, 0);
        if held == Held::Clean {
            links.remove(&mut self.lists[self.place.get(slot) as usize], slot);
        }
    }

    fn has_rejected(&self) -> bool {
        self.has_rejected
    }

    fn set_room(&mut self, slots: u32, free: u32) {
        (self.small_min, self.free) = ((slots / 10).max(1), free);
    }

    /// Removes all ghosts.
    fn resize(&mut self, slots: u32) {
        self.place.resize(slots);
        self.hits.resize(slots);
        self.ghosts = Ghosts::new((u64::from(slots) * 9 / 10) as u32);
        self.small_min = (slots / 10).max(1);
    }
}

#[cfg(test)]
mod tests {
    use crate::brute_force::{Paper, agree, entry_of_cleaned, first_of_many_read};
    use crate::{Kind, WALK_MAX};
    use std::vec::Vec;

    /// Algorithm 1, line by line, with the first two differences above. The head of each queue is
    /// at 0.
    #[derive(Default)]
    struct Algorithm {
        small: Vec<(u64, u32)>,
        main: Vec<(u64, u32)>,
        ghost: Vec<u64>,
        size: usize,
    }

    impl Algorithm {
        fn evict(&mut self) {
            if self.small.len() >= (self.size / 10).max(1) || self.main.is_empty() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }

        fn evict_small(&mut self) {
            let mut evicted = false;
            while !evicted && !self.small.is_empty() {
                let (block, hits) = self.small.pop().expect("is not empty");
                if hits > 1 {
                    self.main.insert(0, (block, 0));
                } else {
                    self.ghost.insert(0, block);
                    self.ghost.truncate(self.size * 9 / 10);
                    evicted = true;
                }
            }
        }

        fn evict_main(&mut self) {
            let mut evicted = false;
            while !evicted && !self.main.is_empty() {
                let (block, hits) = self.main.pop().expect("is not empty");
                if hits > 0 {
                    self.main.insert(0, (block, hits - 1));
                } else {
                    evicted = true;
                }
            }
        }
    }

    impl Paper for Algorithm {
        fn new(size: usize) -> Algorithm {
            Algorithm { size, ..Algorithm::default() }
        }

        fn request(&mut self, block: u64) -> bool {
            let mut held = self.small.iter_mut().chain(&mut self.main);
            if let Some((_, hits)) = held.find(|(other, _)| *other == block) {
                *hits = (*hits + 1).min(3);
                return true;
            }
            let ghost = self.ghost.iter().position(|&other| other == block);
            if let Some(ghost) = ghost {
                self.ghost.remove(ghost);
            }
            while self.small.len() + self.main.len() == self.size {
                self.evict();
            }
            let queue = if ghost.is_some() { &mut self.main } else { &mut self.small };
            queue.insert(0, (block, 0));
            false
        }
    }

    #[test]
    fn each_request_ends_as_in_the_paper() {
        agree::<Algorithm>(Kind::S3Fifo);
    }

    #[test]
    fn what_was_read_twice_while_dirty_outlives_what_was_not() {
        assert_eq!(entry_of_cleaned(Kind::S3Fifo), [1, 2, 0]);
    }

    #[test]
    fn a_walk_is_bounded() {
        assert_eq!(first_of_many_read(Kind::S3Fifo, 4 * WALK_MAX), WALK_MAX);
    }
}
