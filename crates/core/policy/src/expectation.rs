//! Estimates the hits that result from admitting a missed block, whether blocks are admitted now or
//! not.
//!
//! A *shadow*, a small cache of the serving policy without bytes, sees the accesses of a sample of
//! all blocks, and admits every miss (C. Waldspurger et al., "Cache Modeling and Optimization using
//! Miniature Simulations", ATC 2017). The hits of a block are complete when it is evicted, so the
//! estimate is the number of hits on blocks that reads have admitted, divided by the number of such
//! blocks that were evicted. A write-through does not reduce the value of a copy that a read has
//! admitted; an absorbed write replaces the copy. Without evictions there is no estimate, so that a
//! cold cache is not mistaken for a useless one.
//!
//! Old counts decay: both are halved each time there were enough evictions or hits.

use crate::sampler::{Owner, Sampler};
use crate::saved::{Saved, put_u32s};
use crate::slots::{MissResult, Slots};
use crate::{Hash, Kind, Policy};
use alloc::vec;
use alloc::vec::Vec;

/// Slots of the shadow, or up to twice that, if the cache is large enough.
const SAMPLED: u32 = 1024;
/// Minimum number of slots of the shadow, however large the sample must be for that.
const SAMPLED_MIN: u32 = 64;
/// Sampling factor as a power of two, unless the shadow would have fewer than [`SAMPLED_MIN`]
/// slots.
const ONE_IN_LOG2: u32 = 6;
/// The counts decay after this number of evictions, or after as many as the shadow has slots,
/// whichever is more.
const GONE: u32 = 512;
/// The counts also decay after this number of hits for each of these evictions: enough to show that
/// admission pays.
const HITS: u32 = 16;
/// Minimum number of evictions for an estimate.
const GONE_MIN: u32 = 16;

/// An access to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A read.
    Read,
    /// An absorbed write: its data is stored whether misses are admitted or not.
    Absorb,
    /// A write-through. The cache has a copy afterwards if misses are admitted.
    WriteThrough,
}

/// The expected hits of an admission in a volume's cache.
pub struct Expectation {
    shadow: Slots,
    /// For each slot of the shadow, the access that has stored its contents. A copy of a
    /// write-through counts as admitted by a read from its first read on: before that, it does not
    /// affect the estimate.
    admitted_by: Vec<Access>,
    sampler: Sampler,
    hits: u32,
    gone: u32,
    gone_max: u32,
    hits_max: u32,
}

impl Expectation {
    /// Creates an estimate for a cache of this policy with `slots` slots in all its shards.
    ///
    /// # Panics
    /// As [`Policy::new`].
    pub fn new(kind: Kind, slots: u32) -> Expectation {
        let few = (slots / SAMPLED_MIN).max(1).ilog2().min(ONE_IN_LOG2);
        let one_in_log2 = (slots / SAMPLED).max(1).ilog2().max(few);
        let sampled = (slots >> one_in_log2).max(1);
        Expectation {
            shadow: Slots::new(Policy::new(kind, sampled), sampled),
            admitted_by: vec![Access::Absorb; sampled as usize],
            sampler: Sampler::new(Owner::Expectation, one_in_log2),
            hits: 0,
            gone: 0,
            gone_max: sampled.max(GONE),
            hits_max: sampled.max(GONE) * HITS,
        }
    }

    /// The sample of blocks whose accesses it must see.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Sets the window's share, as [`Policy::set_window_share`].
    pub fn set_window_share(&mut self, share: u32) {
        self.shadow.set_window_share(share);
    }

    /// Appends its state.
    pub fn save(&self, bytes: &mut Vec<u8>) {
        put_u32s(bytes, [self.hits, self.gone]);
        self.shadow.save(bytes, |slot| self.admitted_by[slot as usize] as u8);
    }

    /// Returns the estimate for this cache, as an earlier process has saved it. None: the bytes are
    /// not of an estimate for this cache. The window's share must be set next.
    ///
    /// # Panics
    /// As [`Policy::new`].
    pub fn restored(kind: Kind, slots: u32, saved: &mut Saved<'_>) -> Option<Expectation> {
        let mut expectation = Expectation::new(kind, slots);
        expectation.hits = saved.small_count(expectation.hits_max - 1)?;
        expectation.gone = saved.small_count(expectation.gone_max - 1)?;
        let Expectation { shadow, admitted_by, sampler, .. } = &mut expectation;
        shadow.restore(saved, *sampler, |slot, access| {
            let all = [Access::Read, Access::Absorb, Access::WriteThrough];
            admitted_by[slot as usize] = *all.get(usize::from(access))?;
            Some(())
        })?;
        Some(expectation)
    }

    /// Records an access to a block of the sample.
    pub fn access(&mut self, hash: Hash, access: Access) {
        match self.shadow.hit(hash) {
            Some(slot) => self.hit(slot, access),
            None => {
                let MissResult { slot, evicted } = self.shadow.miss(hash);
                if let Some(evicted) = evicted {
                    self.gone += u32::from(self.admitted_by[evicted as usize] == Access::Read);
                }
                if let Some(slot) = slot {
                    self.admitted_by[slot as usize] = access;
                }
            }
        }
        if self.gone >= self.gone_max || self.hits >= self.hits_max {
            (self.hits, self.gone) = (self.hits / 2, self.gone / 2);
        }
    }

    /// Records an access to a block in the shadow.
    fn hit(&mut self, slot: u32, access: Access) {
        let admitted_by = &mut self.admitted_by[slot as usize];
        match (*admitted_by, access) {
            (Access::Read | Access::WriteThrough, Access::Read) => {
                self.hits += 1;
                *admitted_by = Access::Read;
            }
            // The admitted copy is gone: the write has replaced its contents.
            (Access::Read, Access::Absorb) => {
                self.gone += 1;
                *admitted_by = Access::Absorb;
            }
            (Access::WriteThrough, Access::Absorb) => *admitted_by = Access::Absorb,
            // The write-through updates a copy that was admitted earlier.
            (_, Access::WriteThrough) | (Access::Absorb, _) => {}
        }
    }

    /// Returns the expected number of hits of an admitted read miss. None: too early for an
    /// estimate.
    ///
    /// Adds one to the number of hits: without hits until now, hits are still possible, but less
    /// likely with each eviction (P.-S. Laplace's rule of succession).
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

    fn access_all(
        expectation: &mut Expectation,
        blocks: impl IntoIterator<Item = u64>,
        access: Access,
    ) {
        for hash in blocks.into_iter().map(Hash::of) {
            if expectation.sampler().takes(hash) {
                expectation.access(hash, access);
            }
        }
    }

    #[test]
    fn what_is_never_read_again_brings_less_and_less() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        access_all(&mut expectation, 0..u64::from(SLOTS), Access::Read);
        assert!(expectation.hits().is_none_or(|hits| hits > 0.01), "the cache is not full yet");
        for scan in 1..5u64 {
            access_all(
                &mut expectation,
                (scan << 32)..(scan << 32) + u64::from(SLOTS),
                Access::Read,
            );
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
                access_all(&mut expectation, fits.collect::<Vec<u64>>(), Access::Read);
                assert!(expectation.hits().is_none_or(|hits| hits >= 1.0), "{kind:?}");
            }
        }
    }

    #[test]
    fn of_four_times_the_memory_a_kept_miss_is_hit_a_third_of_a_time() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        let mut state = 7;
        let blocks = (0..SLOTS * 40).map(|_| draw(&mut state, u64::from(SLOTS) * 4));
        access_all(&mut expectation, blocks, Access::Read);
        let hits = expectation.hits().expect("much has left");
        assert!((0.25..0.42).contains(&hits), "{hits}");
    }

    #[test]
    fn a_set_that_begins_to_fit_is_seen_in_its_second_round_although_nothing_was_kept() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        access_all(&mut expectation, 0..u64::from(SLOTS) * 8, Access::Read);
        assert!(expectation.hits().expect("much has left") < 0.004);
        let round = (1 << 40)..(1 << 40) + u64::from(SLOTS) / 2;
        access_all(&mut expectation, round.clone(), Access::Read);
        access_all(&mut expectation, round, Access::Read);
        assert!(expectation.hits().expect("much has left") > 0.5);
    }

    #[test]
    fn what_writes_have_brought_is_no_merit_of_reads() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        // Reads that all miss, and a small set that is written and read.
        for round in 0..64u64 {
            let set = 0..u64::from(SLOTS) / 8;
            access_all(&mut expectation, set.clone(), Access::Absorb);
            access_all(&mut expectation, set, Access::Read);
            let scan = (round + 1) << 32;
            access_all(&mut expectation, scan..scan + u64::from(SLOTS) / 8, Access::Read);
        }
        let hits = expectation.hits().expect("much has left");
        assert!(hits < 0.01, "{hits}");
    }

    #[test]
    fn what_passes_takes_no_merit_from_what_a_read_has_brought() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        // Some blocks must be evicted before there is an estimate.
        access_all(&mut expectation, (1 << 40)..(1 << 40) + 2 * u64::from(SLOTS), Access::Read);
        let set = 0..u64::from(SLOTS) / 4;
        for _ in 0..8 {
            for block in set.clone() {
                access_all(&mut expectation, [block], Access::Read);
                access_all(&mut expectation, [block], Access::WriteThrough);
            }
        }
        let hits = expectation.hits().expect("much has left");
        assert!(hits > 0.5, "{hits}");
        // An absorbed write stores the data without the read.
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        for block in (0..8).flat_map(|_| set.clone()) {
            access_all(&mut expectation, [block], Access::Read);
            access_all(&mut expectation, [block], Access::Absorb);
        }
        let hits = expectation.hits().expect("much was overwritten");
        assert!(hits < 0.01, "{hits}");
    }

    #[test]
    fn copies_of_what_passes_count_once_they_are_read_and_never_against_keeping() {
        let mut expectation = Expectation::new(Kind::Lru, SLOTS);
        let fresh = |round: u64| round << 32..(round << 32) + u64::from(SLOTS) / 2;
        (1..9).for_each(|round| access_all(&mut expectation, fresh(round), Access::WriteThrough));
        assert_eq!(expectation.hits(), None, "nothing that a read has admitted");
        for round in 9..17 {
            access_all(&mut expectation, fresh(round), Access::WriteThrough);
            access_all(&mut expectation, fresh(round), Access::Read);
        }
        let hits = expectation.hits().expect("much has left");
        assert!((0.8..1.3).contains(&hits), "each copy is read once: {hits}");
        // Blocks that are read once and never written result in no hits, whatever write-throughs
        // happen in between.
        for round in 17..33 {
            access_all(&mut expectation, fresh(2 * round), Access::WriteThrough);
            access_all(&mut expectation, fresh(2 * round + 1), Access::Read);
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
