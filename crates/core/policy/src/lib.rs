//! Cache policies: choose the misses to admit, and the clean slot to evict when room is needed.
//!
//! A policy identifies slots by number and blocks by hash. It holds no block, never waits and reads
//! no clock. A shard of the cache drives it under its lock; [`Simulation`] drives it without any
//! bytes. Both make the same calls, so the simulation counts what the cache would count.
//! [`TieredSimulation`] has a compressed tier, too, and [`HintedSimulation`] follows [`Hints`].
//!
//! The links of the slots belong to the caller, which has other lists of slots; a slot is in one
//! list at a time. Clean slots are in a list of the policy; dirty slots are in none of its lists.
//!
//! A new policy is one file that implements `Replacement`, a variant of [`Kind`] and one of the
//! enum in `policy.rs`. A policy that does not work on slots implements `Reads`; it can be
//! simulated but not served.
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
mod hinted;
mod hints;
mod kind;
mod lirs;
mod lists;
mod lru;
mod packed;
mod paired_misses;
mod policy;
mod s3_fifo;
mod sampler;
pub mod saved;
mod shards;
mod sieve;
mod simulation;
mod sketch;
mod slots;
mod table;
mod tier;
mod tier_arbiter;
mod tier_shard;
mod tier_share;
mod tier_sizes;
mod tiered;
mod two_q;
mod w_tiny_lfu;
mod window;

pub use arbiter::{Arbiter, Record, Speed, Tuning};
pub use curve::{Answer, Curve, POINTS, PRESENT};
pub use expectation::{Access, Expectation};
pub use hash::Hash;
pub use hinted::HintedSimulation;
pub use hints::{
    BLOCKS_END, CLASSES, CLASSES_MAX, Class, ClassAdmission, ClassCounts, ClassExtent, ClassMap,
    ClassReport, CurrentHints, EXTENTS_MAX, Hints, Judge, MapError, PolicyHints, Treatment,
    Treatments, UNKNOWN, Weight, class_by_name,
};
pub use kind::Kind;
pub use lists::{Link, Links, List, NIL};
pub use policy::Policy;
pub use sampler::Sampler;
pub use shards::{REGION_BLOCKS, shard_of};
pub use simulation::{Simulation, misses};
pub use tier_arbiter::{TierArbiter, TierRecord};
pub use tier_share::TierShare;
pub use tiered::{CompressedBytes, TierRules, TieredSimulation};
pub use window::{main_rule, window_share};

/// Maximum number of slots that a search for a victim passes, because it holds the shard's lock.
/// The next slot is evicted, however often it was read.
const WALK_MAX: u32 = 1024;

/// Maximum number of lists of a policy.
const LISTS_MAX: usize = 3;

/// The lists of a policy's clean slots, the coldest first; unused ones are empty.
pub type ListsByHeat = [List; LISTS_MAX];

/// The reason why a slot becomes clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A read miss fetched its data.
    Fetch,
    /// A write-through left a copy.
    WriteThrough,
    /// It was dirty and is durable now.
    Writeback,
    /// It was evicted and read repeatedly since, while it was compressed.
    Compressed,
}

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// In a list of the policy.
    Clean,
    /// In none of the policy's lists.
    Dirty,
}

/// Decision about a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Admit it.
    Keep,
    /// Do not admit it.
    Skip,
}

/// A simulated cache of one policy.
trait Reads {
    /// Reads a block. Returns whether it was cached.
    fn read(&mut self, block: u64) -> bool;
}

/// The decisions of a policy. Nothing here allocates except `resize`.
trait Replacement {
    /// The lists of the clean slots.
    fn lists(&self) -> &[List];

    /// Returns the lists of the clean slots, the coldest first; each begins with its coldest slot.
    fn coldest_first(&self) -> ListsByHeat {
        let mut lists = [List::EMPTY; LISTS_MAX];
        lists[..self.lists().len()].copy_from_slice(self.lists());
        lists
    }

    /// The number of reads of a slot that the policy remembers apart from its position in a list.
    fn reads(&self, _slot: u32) -> u32 {
        0
    }

    /// Adds a slot, which is in no list, with a clean block that an earlier process had in this
    /// list, with these reads. Lists are restored one after the other, the last one first, each in
    /// its order.
    fn restore(&mut self, links: &mut Links, slot: u32, hash: Hash, _list: usize, reads: u32) {
        self.admit(links, slot, hash, Cause::Fetch);
        (0..reads).for_each(|_| self.hit(links, slot, || hash, Held::Clean));
    }

    /// Fingerprints of blocks that were evicted recently, if the policy has these.
    fn ghosts(&self) -> &[u16] {
        &[]
    }

    /// The same, to restore those of an earlier process.
    fn ghosts_mut(&mut self) -> &mut [u16] {
        &mut []
    }

    /// Records a read of a slot; `hash` returns the hash of its block.
    fn hit(&mut self, links: &mut Links, slot: u32, hash: impl FnOnce() -> Hash, held: Held);

    /// Records a missing block. Called once per missing block of a read that goes to the backing,
    /// even if the read is not admitted for another reason, and of a write that is admitted.
    fn miss(&mut self, _hash: Hash) -> Verdict {
        Verdict::Keep
    }

    /// Records that a slot has become clean.
    fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause);

    /// Returns the clean slot to evict for a candidate; it is forgotten next. `hash_of` returns the
    /// hash of a clean slot's block.
    fn victim(
        &mut self,
        links: &mut Links,
        candidate: Hash,
        hash_of: impl Fn(u32) -> Hash,
    ) -> Option<u32>;

    /// Gives a slot that `victim` has just returned more time, because its block's class weighs
    /// more than the candidate's. It is not forgotten.
    fn spare(&mut self, links: &mut Links, slot: u32, hash: Hash) {
        self.hit(links, slot, || hash, Held::Clean);
    }

    /// Whether the last victim was rejected: it leaves the queue that new blocks enter, and the
    /// policy prefers all blocks of its main part to it.
    fn has_rejected(&self) -> bool {
        false
    }

    /// Moves the block of `old` to `new`, which holds a newer version and is in no list; `held` is
    /// the state of `new`. The access itself was recorded before, for `old`. A clean `new` takes
    /// the position of `old` in its list. `old` is forgotten next.
    fn succeed(&mut self, links: &mut Links, old: u32, new: u32, held: Held);

    /// Records that a slot no longer holds its block.
    fn forget(&mut self, links: &mut Links, slot: u32, held: Held);

    /// Sets the room of the policy: the number of slots that are for it, and how many of them are
    /// free. Free slots count as part of the queue that new blocks enter: so a policy whose slots
    /// are freed ahead of need evicts from the same queues as one whose slots are freed when they
    /// are needed.
    fn set_room(&mut self, _slots: u32, _free: u32) {}

    /// Changes the number of slots.
    fn resize(&mut self, _slots: u32) {}
}
