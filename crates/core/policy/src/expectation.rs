//! How many hits a miss brings that is kept, learnt whether it is kept or not.
//!
//! A *shadow*, a small cache without bytes, of the serving policy, sees the accesses of a sample of all blocks as if
//! each miss were kept (C. Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations", ATC 2017).
//! What a block has brought is known when it leaves: so the hits of what reads have brought are divided by the number of
//! those that have left. A write that passes leaves the copy that a read has brought as useful as it was; one that is
//! absorbed takes its place. While nothing has left, nothing speaks against keeping, and a cold cache is not taken for a
//! useless one.
//!
//! Old experience fades: both numbers are halved each time that enough has left or was hit.

use crate::sampler::{Sampler, Whose};
use crate::slots::{Missed, Slots};
use crate::{Hash, Kind, Policy};
use alloc::vec;
use alloc::vec::Vec;

/// The shadow has so many slots, or up to twice as many, in a cache large enough.
const SAMPLED: u32 = 1024;
/// However large that makes the sample: in a smaller cache the shadow has so many.
const SAMPLED_MIN: u32 = 64;
/// One block in so many is in the sample, as a power of two, as long as the shadow has [`SAMPLED_MIN`] slots so.
const ONE_IN_LOG2: u32 = 6;
/// Experience fades when so many have left, or as many as the shadow has slots.
const GONE: u32 = 512;
/// It also does when there were so many hits for each slot: enough to know that keeping pays.
const HITS: u32 = 16;
/// When less has left, nothing is known.
const GONE_MIN: u32 = 16;

/// What is done to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is read.
    Read,
    /// A write of it is absorbed: its data is held whether misses are kept or not.
    Absorb,
    /// A write of it goes past the cache, which has a copy afterwards if misses are kept.
    Pass,
}

/// What keeping brings in a volume's cache.
pub struct Expectation {
    shadow: Slots,
    /// Of each slot of the shadow: what has brought what is in it. A copy that a passing write has left counts as
    /// brought by a read from its first read on: before that it speaks neither for keeping what is read nor against it.
    brought: Vec<Access>,
    sampler: Sampler,
    hits: u32,
    gone: u32,
    gone_max: u32,
    hits_max: u32,
}

impl Expectation {
    /// For a cache of this policy with so many slots, in all its shards.
    ///
    /// # Panics
    /// As [`Policy::new`].
    pub fn new(kind: Kind, slots: u32) -> Expectation {
        let few = (slots / SAMPLED_MIN).max(1).ilog2().min(ONE_IN_LOG2);
        let one_in_log2 = (slots / SAMPLED).max(1).ilog2().max(few);
        let sampled = (slots >> one_in_log2).max(1);
        Expectation {
            shadow: Slots::new(Policy::new(kind, sampled), sampled),
            brought: vec![Access::Absorb; sampled as usize],
            sampler: Sampler::new(Whose::Expectation, one_in_log2),
            hits: 0,
            gone: 0,
            gone_max: sampled.max(GONE),
            hits_max: sampled.max(GONE) * HITS,
        }
    }

    /// The blocks whose accesses it is to be told.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// The window has this share of the cache from now on, in 1024ths, where the policy is [`Kind::Adaptive`].
    pub fn set_window_share(&mut self, share: u32) {
        self.shadow.set_window_share(share);
    }

    /// A block of the sample was accessed.
    pub fn access(&mut self, hash: Hash, access: Access) {
        match self.shadow.hit(hash) {
            Some(slot) => self.hit(slot, access),
            None => {
                let Missed { slot, evicted } = self.shadow.miss(hash);
                if let Some(evicted) = evicted {
                    self.gone += u32::from(self.brought[evicted as usize] == Access::Read);
                }
                if let Some(slot) = slot {
                    self.brought[slot as usize] = access;
                }
            }
        }
        if self.gone >= self.gone_max || self.hits >= self.hits_max {
            (self.hits, self.gone) = (self.hits / 2, self.gone / 2);
        }
    }

    /// A block that the shadow holds was accessed.
    fn hit(&mut self, slot: u32, access: Access) {
        let brought = &mut self.brought[slot as usize];
        match (*brought, access) {
            (Access::Read | Access::Pass, Access::Read) => {
                self.hits += 1;
                *brought = Access::Read;
            }
            // What was kept is gone: the write has brought what is there now.
            (Access::Read, Access::Absorb) => {
                self.gone += 1;
                *brought = Access::Absorb;
            }
            (Access::Pass, Access::Absorb) => *brought = Access::Absorb,
            // The copy follows what passes, and is there because it was kept before.
            (_, Access::Pass) | (Access::Absorb, _) => {}
        }
    }

    /// The hits to be expected of a read miss that is kept. None: too early to say.
    ///
    /// One more than were seen: what never was hit so far may still be, the less likely the more has left
    /// (P.-S. Laplace's rule of succession).
    pub fn hits(&self) -> Option<f64> {
        let enough = self.gone >= GONE_MIN;
        enough.then(|| f64::from(self.hits + 1) / f64::from(self.gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::draw;
    use std::vec::Vec;

    const SLOTS: u32 = 1 << 16;

    fn told(expectation: &mut Expectation, blocks: impl IntoIterator<Item = u64>, access: Access) {
        for hash in blocks.into_iter().map(Hash::of) {
            if expectation.sampler().takes(hash) {
                expectation.access(hash, access);
            }
        }
    }

    #[test]
    fn what_is_never_read_again_brings_less_and_less() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        told(&mut expectation, 0..u64::from(SLOTS), Access::Read);
        assert!(expectation.hits().is_none_or(|hits| hits > 0.01), "the cache is not full yet");
        for scan in 1..5u64 {
            told(&mut expectation, (scan << 32)..(scan << 32) + u64::from(SLOTS), Access::Read);
            let hits = expectation.hits().expect("something has left");
            assert!(hits < 0.004, "{hits}");
        }
    }

    #[test]
    fn what_fits_is_kept_from_the_first_read_on() {
        for kind in [Kind::Lru, Kind::Adaptive] {
            let mut expectation = Expectation::new(kind, SLOTS);
            let mut state = 5;
            for _ in 0..40 {
                let fits = (0..SLOTS / 8).map(|_| draw(&mut state, u64::from(SLOTS) / 4 * 3));
                told(&mut expectation, fits.collect::<Vec<u64>>(), Access::Read);
                assert!(expectation.hits().is_none_or(|hits| hits >= 1.0), "{kind:?}");
            }
        }
    }

    #[test]
    fn of_four_times_the_memory_a_kept_miss_is_hit_a_third_of_a_time() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        let mut state = 7;
        let blocks = (0..SLOTS * 40).map(|_| draw(&mut state, u64::from(SLOTS) * 4));
        told(&mut expectation, blocks, Access::Read);
        let hits = expectation.hits().expect("much has left");
        assert!((0.25..0.42).contains(&hits), "{hits}");
    }

    #[test]
    fn a_set_that_begins_to_fit_is_seen_in_its_second_round_although_nothing_was_kept() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        told(&mut expectation, 0..u64::from(SLOTS) * 8, Access::Read);
        assert!(expectation.hits().expect("much has left") < 0.004);
        let round = (1 << 40)..(1 << 40) + u64::from(SLOTS) / 2;
        told(&mut expectation, round.clone(), Access::Read);
        told(&mut expectation, round, Access::Read);
        assert!(expectation.hits().expect("much has left") > 0.5);
    }

    #[test]
    fn what_writes_have_brought_is_no_merit_of_reads() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        // Reads that all miss, and a small set that is written and read.
        for round in 0..64u64 {
            let set = 0..u64::from(SLOTS) / 8;
            told(&mut expectation, set.clone(), Access::Absorb);
            told(&mut expectation, set, Access::Read);
            let scan = (round + 1) << 32;
            told(&mut expectation, scan..scan + u64::from(SLOTS) / 8, Access::Read);
        }
        let hits = expectation.hits().expect("much has left");
        assert!(hits < 0.01, "{hits}");
    }

    #[test]
    fn what_passes_takes_no_merit_from_what_a_read_has_brought() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        // Something must leave before anything is known.
        told(&mut expectation, (1 << 40)..(1 << 40) + 2 * u64::from(SLOTS), Access::Read);
        let set = 0..u64::from(SLOTS) / 4;
        for _ in 0..8 {
            for block in set.clone() {
                told(&mut expectation, [block], Access::Read);
                told(&mut expectation, [block], Access::Pass);
            }
        }
        let hits = expectation.hits().expect("much has left");
        assert!(hits > 0.5, "{hits}");
        // Where the write is absorbed, its data is there without the read.
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        for block in (0..8).flat_map(|_| set.clone()) {
            told(&mut expectation, [block], Access::Read);
            told(&mut expectation, [block], Access::Absorb);
        }
        let hits = expectation.hits().expect("much was overwritten");
        assert!(hits < 0.01, "{hits}");
    }

    #[test]
    fn copies_of_what_passes_count_once_they_are_read_and_never_against_keeping() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        let fresh = |round: u64| round << 32..(round << 32) + u64::from(SLOTS) / 2;
        (1..9).for_each(|round| told(&mut expectation, fresh(round), Access::Pass));
        assert_eq!(expectation.hits(), None, "nothing that a read has brought");
        for round in 9..17 {
            told(&mut expectation, fresh(round), Access::Pass);
            told(&mut expectation, fresh(round), Access::Read);
        }
        let hits = expectation.hits().expect("much has left");
        assert!((0.8..1.3).contains(&hits), "each copy is read once: {hits}");
        // What is read once, and never was written, brings nothing, whatever passes beside it.
        for round in 17..33 {
            told(&mut expectation, fresh(2 * round), Access::Pass);
            told(&mut expectation, fresh(2 * round + 1), Access::Read);
        }
        let hits = expectation.hits().expect("much has left");
        assert!(hits < 0.01, "{hits}");
    }

    #[test]
    fn the_shadow_is_as_much_smaller_as_the_sample() {
        for slots in [1, 64, 100, 4096, 1 << 14, 1 << 16, 1 << 20, 1 << 28] {
            let expectation = Expectation::new(Kind::Lru, slots);
            let sampled = expectation.shadow.count();
            assert!((1..2 * SAMPLED).contains(&sampled), "{sampled} of {slots}");
            let taken = (0..1 << 20).filter(|block| expectation.sampler().takes(Hash::of(*block)));
            let expected = (1 << 20) / (u64::from(slots) / u64::from(sampled));
            let count = taken.count() as u64;
            assert!(count.abs_diff(expected) <= expected / 2 + 1, "{count} of {expected}");
        }
    }
}
