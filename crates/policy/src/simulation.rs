//! A cache of one shard without its bytes: what a policy would do with a sequence of reads.

use crate::{Cause, Hash, Held, Kind, Links, Policy, Verdict};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A cache that holds block numbers only. It makes the calls that a shard makes for reads of single
/// blocks that are fetched one after the other.
pub struct Simulation {
    policy: Policy,
    links: Links,
    slots: u32,
    /// The slot of each block that is held.
    held: BTreeMap<u64, u32>,
    /// The block of each slot that was ever used.
    blocks: Vec<u64>,
}

impl Simulation {
    /// An empty cache of so many slots.
    ///
    /// # Panics
    /// If it has none.
    pub fn new(kind: Kind, slots: u32) -> Simulation {
        assert!(slots > 0, "a cache has at least one slot");
        let (policy, links) = (Policy::new(kind, slots), Links::new(slots));
        Simulation { policy, links, slots, held: BTreeMap::new(), blocks: Vec::new() }
    }

    /// Reads a block. Returns whether it was held.
    pub fn read(&mut self, block: u64) -> bool {
        if let Some(&slot) = self.held.get(&block) {
            self.policy.hit(&mut self.links, slot, Held::Clean);
            return true;
        }
        let hash = Hash::of(block);
        if self.policy.miss(hash) == Verdict::Keep {
            let slot = self.take_slot(block, hash);
            self.held.insert(block, slot);
            self.policy.admit(&mut self.links, slot, hash, Cause::Fetch);
        }
        false
    }

    /// A slot for a block: a new one while there are some, then the victim's.
    fn take_slot(&mut self, block: u64, hash: Hash) -> u32 {
        if (self.blocks.len() as u32) < self.slots {
            self.blocks.push(block);
            return self.blocks.len() as u32 - 1;
        }
        let slot = self.policy.victim(&self.links, hash).expect("all slots are clean");
        self.policy.forget(&mut self.links, slot, Held::Clean);
        let evicted = core::mem::replace(&mut self.blocks[slot as usize], block);
        self.held.remove(&evicted);
        slot
    }
}

/// How many of these reads miss in an empty cache of so many slots (at least one).
pub fn misses(kind: Kind, slots: u32, blocks: impl IntoIterator<Item = u64>) -> u64 {
    let mut simulation = Simulation::new(kind, slots);
    blocks.into_iter().filter(|&block| !simulation.read(block)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_unused_for_longest_goes() {
        let mut simulation = Simulation::new(Kind::Lru, 2);
        let hits: Vec<bool> =
            [1, 2, 1, 3, 2, 1, 1].into_iter().map(|block| simulation.read(block)).collect();
        assert_eq!(hits, [false, false, true, false, false, false, true]);
    }

    #[test]
    fn a_scan_misses_each_time_and_a_loop_that_fits_once() {
        for kind in [Kind::Lru, Kind::Sieve] {
            assert_eq!(misses(kind, 8, 0..100), 100);
            assert_eq!(misses(kind, 8, (0..100).map(|read| read % 8)), 8);
        }
        let looped = |kind| misses(kind, 8, (0..900).map(|read| read % 9));
        assert_eq!(looped(Kind::Lru), 900, "each is gone just before it is read");
        assert_eq!(looped(Kind::Sieve), 900, "nothing is read while it is held");
    }
}
