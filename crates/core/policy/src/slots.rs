//! A policy that works on slots, driven without bytes.

use crate::saved::{Saved, put_ghosts, put_u32s, put_u64s};
use crate::table::Table;
use crate::{Cause, Hash, Held, Kind, Links, NIL, Policy, Reads, Sampler, Verdict};
use alloc::vec::Vec;

/// Maximum number of reads of a slot that are saved.
const READS_MAX: u32 = 3;
/// The bits of a saved slot that are the caller's.
const MARK_SHIFT: u32 = 4;

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

    /// The policy, to set its hints.
    pub(crate) fn policy_mut(&mut self) -> &mut Policy {
        &mut self.policy
    }

    /// The policy.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
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

impl Slots {
    /// Appends its blocks, with the policy's state of each, and with `mark` of its slot: a number
    /// below 16.
    pub(crate) fn save(&self, bytes: &mut Vec<u8>, mark: impl Fn(u32) -> u8) {
        for list in self.policy.lists().iter().rev() {
            put_u32s(bytes, [list.length]);
            let mut slot = list.head;
            while slot != NIL {
                put_u64s(bytes, [self.held.hash(slot).bits()]);
                let reads = self.policy.reads(slot).min(READS_MAX) as u8;
                bytes.push(reads | (mark(slot) << MARK_SHIFT));
                slot = self.links.after(slot);
            }
        }
        put_ghosts(bytes, self.policy.ghosts());
    }

    /// Fills it, empty until now, as it was saved. `mark` receives each slot with its number.
    /// Returns None if the bytes are not those of a cache of this size over blocks of `sampler`.
    pub(crate) fn restore(
        &mut self,
        saved: &mut Saved<'_>,
        sampler: Sampler,
        mut mark: impl FnMut(u32, u8) -> Option<()>,
    ) -> Option<()> {
        for list in (0..self.policy.lists().len()).rev() {
            for _ in 0..saved.small_count(self.held.room())? {
                let (hash, state) = (Hash::from_bits(saved.u64()?), saved.u8()?);
                let reads = u32::from(state) & ((1 << MARK_SHIFT) - 1);
                let is_valid = reads <= READS_MAX && sampler.takes(hash);
                if !is_valid || self.held.find(hash).is_some() {
                    return None;
                }
                let slot = self.held.insert(hash);
                self.policy.restore(&mut self.links, slot, hash, list, reads);
                mark(slot, state >> MARK_SHIFT)?;
            }
        }
        self.policy.restore_ghosts(&saved.ghosts()?).then_some(())
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
