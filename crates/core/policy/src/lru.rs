//! Least recently used: the clean slots in the order of their last use.
//!
//! (R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal
//! 9(2), 1970.) It has no parameter. A slot that was dirty enters as the most recently used when it
//! becomes clean, whether it was read while dirty or not.

use crate::{Cause, Hash, Held, Links, List, Replacement};

/// Least recently used first.
pub(crate) struct Lru([List; 1]);

impl Lru {
    pub(crate) const EMPTY: Lru = Lru([List::EMPTY]);
}

impl Replacement for Lru {
    #[inline]
    fn lists(&self) -> &[List] {
        &self.0
    }

    #[inline]
    fn hit(&mut self, links: &mut Links, slot: u32, _: impl FnOnce() -> Hash, held: Held) {
        if held == Held::Clean {
            links.touch(&mut self.0[0], slot);
        }
    }

    #[inline]
    fn admit(&mut self, links: &mut Links, slot: u32, _: Hash, _: Cause) {
        links.push_back(&mut self.0[0], slot);
    }

    #[inline]
    fn victim(&mut self, _: &mut Links, _: Hash, _: impl Fn(u32) -> Hash) -> Option<u32> {
        let [list] = &self.0;
        (list.length > 0).then_some(list.head)
    }

    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held) {
        if held == Held::Clean {
            links.replace(&mut self.0[0], old, new);
        }
    }

    #[inline]
    fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        if held == Held::Clean {
            links.remove(&mut self.0[0], slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cause, Hash, Held, Kind, Links, Policy};
    use proptest::prelude::*;
    use std::vec::Vec;

    const SLOTS: u32 = 8;

    proptest! {
        #[test]
        fn the_order_is_that_of_a_list_of_uses(
            steps in proptest::collection::vec((0..4u8, 0..SLOTS), 0..200),
        ) {
            let mut links = Links::new(SLOTS);
            let mut policy = Policy::new(Kind::Lru, SLOTS);
            let mut uses: Vec<u32> = Vec::new();
            let hash = Hash::of(0);
            for (step, slot) in steps {
                let place = uses.iter().position(|&other| other == slot);
                match (step, place) {
                    (0 | 1, Some(place)) => {
                        policy.hit(&mut links, slot, || hash, Held::Clean);
                        uses.remove(place);
                        uses.push(slot);
                    }
                    (0, None) => policy.hit(&mut links, slot, || hash, Held::Dirty),
                    (1, None) => policy.forget(&mut links, slot, Held::Dirty),
                    (2, Some(place)) => {
                        policy.forget(&mut links, slot, Held::Clean);
                        uses.remove(place);
                    }
                    (2 | 3, None) => {
                        policy.admit(&mut links, slot, hash, Cause::Fetch);
                        uses.push(slot);
                    }
                    (_, _) => {
                        let victim = policy.victim(&mut links, hash, |_| hash);
                        prop_assert_eq!(victim, uses.first().copied());
                        policy.forget(&mut links, uses.remove(0), Held::Clean);
                    }
                }
                prop_assert_eq!(policy.clean() as usize, uses.len());
                prop_assert_eq!(policy.victim(&mut links, hash, |_| hash), uses.first().copied());
            }
        }
    }
}
