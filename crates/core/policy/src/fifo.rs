//! First in, first out: evicts the slot that was admitted first, however often it was read.
//!
//! (L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
//! Journal 5(2), 1966.) It has no parameter. A slot that was dirty enters as the newest when it
//! becomes clean. Hits never count.

use crate::{Cause, Hash, Held, Links, List, Replacement};

/// The oldest slot first.
pub(crate) struct Fifo([List; 1]);

impl Fifo {
    pub(crate) const EMPTY: Fifo = Fifo([List::EMPTY]);
}

impl Replacement for Fifo {
    fn lists(&self) -> &[List] {
        &self.0
    }

    #[inline]
    fn hit(&mut self, _: &mut Links, _: u32, _: impl FnOnce() -> Hash, _: Held) {}

    fn admit(&mut self, links: &mut Links, slot: u32, _: Hash, _: Cause) {
        links.push_back(&mut self.0[0], slot);
    }

    fn victim(&mut self, _: &mut Links, _: Hash, _: impl Fn(u32) -> Hash) -> Option<u32> {
        let [list] = &self.0;
        (list.length > 0).then_some(list.head)
    }

    fn spare(&mut self, links: &mut Links, slot: u32, _: Hash) {
        links.touch(&mut self.0[0], slot);
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        if held == Held::Clean {
            links.replace(&mut self.0[0], old, new);
        }
    }

    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        if held == Held::Clean {
            links.remove(&mut self.0[0], slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::brute_force::{Paper, agree};
    use std::collections::VecDeque;

    struct Queue(VecDeque<u64>, usize);

    impl Paper for Queue {
        fn new(slots: usize) -> Queue {
            Queue(VecDeque::new(), slots)
        }

        fn request(&mut self, block: u64) -> bool {
            let hit = self.0.contains(&block);
            if !hit {
                if self.0.len() == self.1 {
                    self.0.pop_front();
                }
                self.0.push_back(block);
            }
            hit
        }
    }

    #[test]
    fn each_request_ends_as_with_a_queue() {
        agree::<Queue>(Kind::Fifo);
    }
}
