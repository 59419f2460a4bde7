//! Cache policies: which misses are kept, and which clean slot goes when room is needed.
//!
//! A policy sees slots by their number and blocks by their hash. It holds no block, waits for nothing
//! and reads no clock. A shard of the cache drives it under its lock; [`Simulation`] drives it without
//! any bytes. Both make the same calls, so what the simulation counts is what the cache would do.
//!
//! The links of the slots belong to the caller: it has other lists of slots, and a slot is in one list
//! at a time. Clean slots are in a list of the policy; dirty slots are in none of its lists.
//!
//! A new policy is one file that implements `Replacement`, a variant of [`Kind`] and one of the enum
//! in `policy.rs`. One that is not over slots implements `Reads`; it can be simulated and not served.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arbiter;
mod arc;
#[cfg(test)]
mod brute_force;
mod clock;
mod curve;
mod expectation;
mod fifo;
mod fingerprints;
mod ghosts;
mod hash;
mod kind;
mod lirs;
mod lists;
mod lru;
mod packed;
mod policy;
mod s3_fifo;
mod sampler;
mod shards;
mod sieve;
mod simulation;
mod sketch;
mod slots;
mod table;
mod two_q;
mod w_tiny_lfu;
mod window;

pub use arbiter::Arbiter;
pub use curve::{Answer, Curve, POINTS, PRESENT};
pub use expectation::{Access, Expectation};
pub use hash::Hash;
pub use kind::Kind;
pub use lists::{Link, Links, List, NIL};
pub use policy::Policy;
pub use sampler::Sampler;
pub use shards::{REGION_BLOCKS, shard_of};
pub use simulation::{Simulation, misses};

/// Slots that a search for a victim passes at most: it is made under the shard's lock. The one behind
/// them goes, however often it was read.
const WALK_MAX: u32 = 1024;

/// Why a slot becomes clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A read missed and fetched it.
    Fetch,
    /// A write went to the backing and left a copy.
    WriteThrough,
    /// It was dirty and is durable now.
    Writeback,
}

/// How a slot is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// In a list of the policy.
    Clean,
    /// In none of its lists.
    Dirty,
}

/// What becomes of a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A copy is kept.
    Keep,
    /// It is answered and forgotten.
    Skip,
}

/// A simulated cache of one policy.
trait Reads {
    /// Reads a block. Returns whether it was held.
    fn read(&mut self, block: u64) -> bool;
}

/// What a policy decides. Nothing here allocates but `resize`.
trait Replacement {
    /// The lists that the clean slots are in.
    fn lists(&self) -> &[List];

    /// A slot was read; `hash` tells its block.
    fn hit(&mut self, links: &mut Links, slot: u32, hash: impl FnOnce() -> Hash, held: Held);

    /// A block is missing. Called once for each missing block of a read that goes to the backing, also
    /// where the read is not kept for another reason, and of a write that is kept.
    fn miss(&mut self, _hash: Hash) -> Verdict {
        Verdict::Keep
    }

    /// A slot has become clean.
    fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause);

    /// The clean slot to give up for a candidate; it is forgotten next. `hash_of` tells the block of a
    /// clean slot.
    fn victim(
        &mut self,
        links: &mut Links,
        candidate: Hash,
        hash_of: impl Fn(u32) -> Hash,
    ) -> Option<u32>;

    /// A newer version of `old`'s block is in `new`, which is in no list, and is so held; the access that
    /// brought it is told before, as one to `old`. A clean one takes `old`'s place in its list. `old` is
    /// forgotten next.
    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held);

    /// A slot gives up its block.
    fn forget(&mut self, links: &mut Links, slot: u32, held: Held);

    /// There are so many slots now.
    fn resize(&mut self, _slots: u32) {}
}
