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
//! in `policy.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod admission;
mod hash;
mod lists;
mod lru;
mod policy;
mod shards;
mod sieve;
mod simulation;

pub use admission::{Admission, Prospect, is_slow};
pub use hash::Hash;
pub use lists::{Link, Links, List, NIL};
pub use policy::Policy;
pub use shards::{REGION_BLOCKS, shard_of};
pub use simulation::{Simulation, misses};

/// The policies by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Least recently used: the slot that was not read for longest goes.
    Lru,
    /// SIEVE: the oldest slot goes that was not read since a hand last passed it.
    Sieve,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 2] = [Kind::Lru, Kind::Sieve];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lru => "lru",
            Kind::Sieve => "sieve",
        }
    }

    /// The kind of this name.
    pub fn by_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

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

/// What a policy decides. Nothing here allocates but `resize`.
trait Replacement {
    /// The lists that the clean slots are in.
    fn lists(&self) -> &[List];

    /// A slot was read.
    fn hit(&mut self, links: &mut Links, slot: u32, held: Held);

    /// A block is missing for a read. Called once for each missing block of a read that goes to the
    /// backing, also where the read is not kept for another reason.
    fn miss(&mut self, _hash: Hash) -> Verdict {
        Verdict::Keep
    }

    /// A slot has become clean.
    fn admit(&mut self, links: &mut Links, slot: u32, hash: Hash, cause: Cause);

    /// The clean slot to give up for a candidate.
    fn victim(&mut self, links: &Links, candidate: Hash) -> Option<u32>;

    /// A slot gives up its block.
    fn forget(&mut self, links: &mut Links, slot: u32, held: Held);

    /// There are so many slots now.
    fn resize(&mut self, _slots: u32) {}
}
