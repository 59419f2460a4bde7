//! The policy of a shard: one of those that there are, asked by value.

use crate::lru::Lru;
use crate::sieve::Sieve;
use crate::{Cause, Hash, Held, Kind, Links, List, Replacement, Verdict};

/// A policy and its state.
pub struct Policy(Which);

/// An enum, not a trait object: it is asked on every hit.
enum Which {
    Lru(Lru),
    Sieve(Sieve),
}

/// The same call of whichever it is.
macro_rules! ask {
    ($policy:expr, $it:ident => $call:expr) => {
        match $policy {
            Which::Lru($it) => $call,
            Which::Sieve($it) => $call,
        }
    };
}

impl Policy {
    /// A policy over slots from 0 to `slots`, none of them clean.
    pub fn new(kind: Kind, slots: u32) -> Policy {
        let mut policy = Policy(match kind {
            Kind::Lru => Which::Lru(Lru::EMPTY),
            Kind::Sieve => Which::Sieve(Sieve::EMPTY),
        });
        policy.resize(slots);
        policy
    }

    /// The clean slots, in lists of the policy's own order.
    pub fn lists(&self) -> &[List] {
        ask!(&self.0, policy => policy.lists())
    }

    /// How many slots are clean.
    #[inline]
    pub fn clean(&self) -> u32 {
        self.lists().iter().map(|list| list.length).sum()
    }

    /// A slot was read. Of a dirty one the policy may remember it for the time when it is clean.
    #[inline]
    pub fn hit(&mut self, links: &mut Links, slot: u32, held: Held) {
        ask!(&mut self.0, policy => policy.hit(links, slot, held));
    }

    /// A block is missing for a read. To be called once for each missing block of a read that goes to
    /// the backing, also where the read is not kept for another reason. Whether a copy is worth a slot.
    #[inline]
    pub fn miss(&mut self, hash: Hash) -> Verdict {
        ask!(&mut self.0, policy => policy.miss(hash))
    }

    /// A slot, in no list so far, holds a clean copy of this block: it may be chosen from now on.
    #[inline]
    pub fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause) {
        ask!(&mut self.0, policy => policy.admit(links, slot, hash, cause));
    }

    /// The clean slot to give up for a candidate. It stays where it is until it is forgotten. None: no
    /// slot is clean.
    #[inline]
    pub fn victim(&mut self, links: &Links, candidate: Hash) -> Option<u32> {
        ask!(&mut self.0, policy => policy.victim(links, candidate))
    }

    /// A slot gives up its block. A clean one leaves its list.
    #[inline]
    pub fn forget(&mut self, links: &mut Links, slot: u32, held: Held) {
        ask!(&mut self.0, policy => policy.forget(links, slot, held));
    }

    /// There are so many slots from now on. Those beyond were forgotten before. Allocates.
    pub fn resize(&mut self, slots: u32) {
        ask!(&mut self.0, policy => policy.resize(slots));
    }
}
