//! A policy that works on slots, driven without bytes.

use crate::table::Table;
use crate::{Cause, Hash, Held, Kind, Links, Policy, Reads, Verdict};

/// Simulates a policy that works on slots. Makes the calls that a shard makes for reads of single
/// blocks that are fetched one after the other.
pub(crate) struct Slots {
    policy: Policy,
    links: Links,
    /// The slot of each cached block.
    held: Table,
}

impl Slots {
    /// The project's own policy with this share for the window, in 1024ths.
    pub(crate) fn with_window(share: u32, slots: u32) -> Slots {
        let mut all = Slots::new(Policy::new(Kind::Adaptive, slots), slots);
        all.set_window_share(share);
        all
    }

    /// Sets the window's share.
    pub(crate) fn set_window_share(&mut self, share: u32) {
        self.policy.set_window_share(share);
    }

    /// Number of slots.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u32 {
        self.held.capacity()
    }

    /// The lists of its policy.
    #[cfg(test)]
    pub(crate) fn lists(&self) -> &[crate::List] {
        self.policy.lists()
    }

    /// An empty cache of `slots` slots.
    pub(crate) fn new(policy: Policy, slots: u32) -> Slots {
        Slots { policy, links: Links::new(slots), held: Table::new(slots) }
    }
}

/// The changes of a miss.
pub(crate) struct MissResult {
    /// The slot of the block, if it was admitted.
    pub(crate) slot: Option<u32>,
    /// The slot that was evicted for it: usually the same one.
    pub(crate) evicted: Option<u32>,
}

impl Reads for Slots {
    #[inline]
    fn read(&mut self, block: u64) -> bool {
        self.read_hash(Hash::of(block))
    }
}

impl Slots {
    /// Reads the block with this hash. Returns whether it was cached.
    #[inline]
    pub(crate) fn read_hash(&mut self, hash: Hash) -> bool {
        let is_hit = self.hit(hash).is_some();
        if !is_hit {
            self.miss(hash);
        }
        is_hit
    }

    /// Reads the block with this hash if it is cached. Returns its slot.
    #[inline]
    pub(crate) fn hit(&mut self, hash: Hash) -> Option<u32> {
        let found = self.held.find(hash);
        if let Some(slot) = found {
            self.policy.hit(&mut self.links, slot, || hash, Held::Clean);
        }
        found
    }

    /// Reads the block with this hash, which is not cached.
    #[inline]
    pub(crate) fn miss(&mut self, hash: Hash) -> MissResult {
        if self.policy.miss(hash) != Verdict::Keep {
            return MissResult { slot: None, evicted: None };
        }
        let evicted = (self.held.room() == 0).then(|| {
            let hash_of = |slot| self.held.hash(slot);
            let victim = self.policy.victim(&mut self.links, hash, hash_of);
            let victim = victim.expect("all slots are clean");
            self.policy.forget(&mut self.links, victim, Held::Clean);
            self.held.remove(victim);
            victim
        });
        let slot = self.held.insert(hash);
        self.policy.admit(&mut self.links, slot, hash, Cause::Fetch);
        MissResult { slot: Some(slot), evicted }
    }
}
