//! Belady's optimum: the misses of a cache that sees the future (L. Belady, "A study of replacement
//! algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966; R. Mattson et al.,
//! 1970, for the proof).
//!
//! When space is needed, the block whose next use is the latest is evicted. That may be the new
//! one: a cache need not keep a block that it has just read, and the other policies here may also
//! skip it. So no policy has fewer misses.
//!
//! A cached block is identified by the number of its next access, which is unique to it. An access
//! hits if its own number is held; no other data is needed.

use crate::next_use::NEVER;
use std::collections::BTreeSet;

/// A cache that sees the future.
pub struct Optimum {
    slots: usize,
    /// The next accesses of the cached blocks.
    held: BTreeSet<u64>,
}

impl Optimum {
    /// Returns an empty cache with this number of slots.
    pub fn new(slots: u32) -> Optimum {
        Optimum { slots: slots as usize, held: BTreeSet::new() }
    }

    /// Accesses the block of access `number`; its next use is `next` (`u64::MAX`: never). Returns
    /// whether the block was cached.
    pub fn access(&mut self, number: u64, next: u64) -> bool {
        let is_hit = self.held.first() == Some(&number) && self.held.pop_first().is_some();
        if next != NEVER {
            if self.held.len() < self.slots {
                self.held.insert(next);
            } else if self.held.last().is_some_and(|last| next < *last) {
                self.held.pop_last();
                self.held.insert(next);
            }
        }
        is_hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Kind;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn misses(slots: u32, blocks: &[u64]) -> u64 {
        let mut optimum = Optimum::new(slots);
        let missed = |&(number, block): &(usize, &u64)| {
            let behind = blocks[number + 1..].iter().position(|other| other == block);
            let next = behind.map_or(NEVER, |behind| (number + 1 + behind) as u64);
            !optimum.access(number as u64, next)
        };
        blocks.iter().enumerate().filter(missed).count() as u64
    }

    /// Returns the minimum of misses over all ways to admit and evict.
    fn brute(
        slots: usize,
        blocks: &[u64],
        held: &[u64],
        known: &mut HashMap<(usize, Vec<u64>), u64>,
    ) -> u64 {
        let [block, rest @ ..] = blocks else { return 0 };
        let key = (rest.len(), held.to_vec());
        if let Some(found) = known.get(&key) {
            return *found;
        }
        let found = if held.contains(block) {
            brute(slots, rest, held, known)
        } else {
            // The block is not admitted, or takes a free slot, or replaces another.
            let mut best = brute(slots, rest, held, known);
            let gone =
                if held.len() < slots { vec![None] } else { held.iter().map(Some).collect() };
            for gone in gone {
                let mut then: Vec<u64> =
                    held.iter().filter(|other| Some(*other) != gone).copied().collect();
                then.push(*block);
                then.sort_unstable();
                best = best.min(brute(slots, rest, &then, known));
            }
            best + 1
        };
        known.insert(key, found);
        found
    }

    proptest! {
        #[test]
        fn there_is_no_better_way(slots in 1..4usize, blocks in prop::collection::vec(0..6u64, 0..16)) {
            let fewest = brute(slots, &blocks, &[], &mut HashMap::new());
            prop_assert_eq!(misses(slots as u32, &blocks), fewest);
        }

        #[test]
        fn no_policy_misses_less(slots in 1..20u32, blocks in prop::collection::vec(0..40u64, 0..300)) {
            let fewest = misses(slots, &blocks);
            for kind in Kind::ALL {
                prop_assert!(policy::misses(kind, slots, blocks.iter().copied()) >= fewest);
            }
        }
    }
}
