//! CLOCK, or second chance: slots form a circle, and a hit only marks its slot. A hand clears the
//! marks of the slots that it passes, evicts the first slot without a mark, and puts the new one
//! there.
//!
//! (F. J. Corbato, "A Paging Experiment with the Multics System", MIT Project MAC report MAC-M-384,
//! 1968.) One bit a slot, clear when a slot is admitted. The circle is a list here: the hand is at
//! its head, and slots that it passes move to the end.
//!
//! A slot that was dirty enters behind the hand, like a new one; if it was read while it was dirty,
//! it is marked. Difference from the paper: the walk of the hand is bounded, because it holds the
//! shard's lock; after [`WALK_MAX`](crate::WALK_MAX) marked slots the next one is evicted.

use crate::packed::Packed;
use crate::{Cause, Hash, Held, Links, List, Replacement};

pub(crate) struct Clock {
    /// The hand is at the first slot.
    list: [List; 1],
    /// Whether a slot was read since the hand passed it.
    marks: Packed<1>,
    walk_max: u32,
}

impl Clock {
    /// `walk_max`: maximum number of marked slots that a walk passes.
    pub(crate) const fn new(walk_max: u32) -> Clock {
        Clock { list: [List::EMPTY], marks: Packed::EMPTY, walk_max }
    }
}

impl Replacement for Clock {
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
        let [list] = &mut self.list;
        if list.length == 0 {
            return None;
        }
        for _ in 0..self.walk_max {
            let slot = list.head;
            if self.marks.replace(slot, 0) == 0 {
                break;
            }
            links.remove(list, slot);
            links.push_back(list, slot);
        }
        Some(list.head)
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        self.marks.set(new, self.marks.get(old));
        if held == Held::Clean {
            links.replace(&mut self.list[0], old, new);
        }
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        self.marks.set(slot, 0);
        if held == Held::Clean {
            links.remove(&mut self.list[0], slot);
        }
    }

    fn resize(&mut self, slots: u32) {
        self.marks.resize(slots);
    }
}

#[cfg(test)]
mod tests {
    use crate::brute_force::{Paper, agree, entry_of_cleaned};
    use crate::{Kind, WALK_MAX};
    use std::vec::Vec;

    /// Frames in a circle, and a hand.
    struct Circle {
        frames: Vec<(u64, bool)>,
        hand: usize,
        size: usize,
    }

    impl Paper for Circle {
        fn new(size: usize) -> Circle {
            Circle { frames: Vec::new(), hand: 0, size }
        }

        fn request(&mut self, block: u64) -> bool {
            if let Some(frame) = self.frames.iter_mut().find(|frame| frame.0 == block) {
                frame.1 = true;
                return true;
            }
            if self.frames.len() < self.size {
                self.frames.push((block, false));
                return false;
            }
            while self.frames[self.hand].1 {
                self.frames[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.size;
            }
            self.frames[self.hand] = (block, false);
            self.hand = (self.hand + 1) % self.size;
            false
        }
    }

    #[test]
    fn each_request_ends_as_in_the_circle() {
        agree::<Circle>(Kind::Clock);
    }

    #[test]
    fn what_was_read_while_dirty_outlives_what_was_not() {
        assert_eq!(entry_of_cleaned(Kind::Clock), [1, 2, 0]);
    }

    #[test]
    fn a_walk_is_bounded() {
        assert_eq!(crate::brute_force::first_of_many_read(Kind::Clock, 4 * WALK_MAX), WALK_MAX);
    }
}
