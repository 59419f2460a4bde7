//! Learns the window's best share of the cache ([`Window`](crate::window::Window)) while the cache
//! works.
//!
//! *Shadows* are small caches without bytes. They see the reads of a sample of all blocks, and each
//! has another share: from 3 % to the whole cache, which is LRU. One has a guarded main part, and
//! one a main part of proven blocks only. A shadow is smaller than the cache by the same factor as
//! the sample (C. Waldspurger et al., "Cache Modeling and Optimization using Miniature
//! Simulations", ATC 2017). The cache takes the share of the shadow with the fewest misses, once
//! the difference is statistically significant.
//!
//! A shadow has had its share from the start. The cache has not: after a change it holds what its
//! earlier shares have left, and may miss more than any shadow. So one more shadow, the *double*,
//! changes its share with the cache. The difference of its misses and those of LRU decides twice:
//! - While the double has missed more than LRU, no window below half of the cache is chosen. The
//!   way back to LRU is then short: a main part that is almost the whole cache may consist of
//!   blocks that are not read any more, each of which leaves only for another miss.
//! - While the double has missed less than LRU, the best shadow need not beat the current one to be
//!   chosen quickly, only the double: changes may be tried.
//!
//! A change of the whole hot set may still cost one fill of the cache more than LRU, if the new set
//! fits the cache and the old share was better for the old set.
//!
//! Counts of misses decay at two speeds: slowly, so that small differences become significant, and
//! quickly, so that a costly change of the workload is detected early. The comparison with LRU
//! decays even more slowly.

use crate::Hash;
use crate::sampler::{Owner, Sampler};
use crate::slots::Slots;
use crate::window::{ALL, GUARDED, PROVEN};

/// Shares of the shadows, in 1024ths.
const SHARES: [u32; 7] =
    [ALL, ALL / 2, ALL / 4, ALL / 10, ALL / 32, (ALL / 4) | PROVEN, (ALL / 32) | GUARDED];
/// Index of [`FIRST_SHARE`](crate::window::FIRST_SHARE) in `SHARES`.
const FIRST: usize = 0;
/// Index of LRU in `SHARES`.
const LRU: usize = 0;
/// Number of shares, from the first, that may be chosen while the cache has missed more than LRU.
const CAUTIOUS: usize = 2;
/// Slots of a shadow; up to twice that.
const SAMPLED: u32 = 1024;
/// Number of comparisons while a shadow sees as many reads as it has slots.
const LOOKS: u32 = 8;
/// Factor by which the comparison with LRU decays: a half-life of 1,024 comparisons.
const DEBT_KEEPS: f64 = 0.999_323;

/// The shadows that missed a read, and whether the double did.
struct Missed {
    shadows: [bool; SHARES.len()],
    double: bool,
}

/// Decaying counts of misses, and the difference that counts as significant.
struct Memory {
    /// Factor by which the counts decay at each comparison.
    keeps: f64,
    /// The minimum difference, in standard deviations of the number of misses, squared.
    deviations_squared: f64,
    misses: [f64; SHARES.len()],
    /// Misses of the double.
    double: f64,
}

impl Memory {
    /// Half-life of 64 comparisons, in which a shadow sees eight times as many reads as it has
    /// slots.
    const SLOW: Memory = Memory::new(0.98923, 1.0);
    /// Half-life of four comparisons.
    const QUICK: Memory = Memory::new(0.8409, 16.0);

    const fn new(keeps: f64, deviations_squared: f64) -> Memory {
        Memory { keeps, deviations_squared, misses: [0.0; SHARES.len()], double: 0.0 }
    }

    fn add(&mut self, missed: &Missed) {
        for (misses, is_missed) in self.misses.iter_mut().zip(missed.shadows) {
            *misses += f64::from(u8::from(is_missed));
        }
        self.double += f64::from(u8::from(missed.double));
    }

    /// Returns the shadow with the fewest misses among the first `allowed` and the current one, if
    /// its misses are significantly fewer than `own`.
    fn better(&self, current: usize, own: f64, allowed: usize) -> Option<usize> {
        let mut best = current;
        for shadow in 0..allowed {
            if self.misses[shadow] < self.misses[best] {
                best = shadow;
            }
        }
        let gain = own - self.misses[best];
        let is_better = gain > 0.0 && gain * gain > self.deviations_squared * own.max(1.0);
        (best != current && is_better).then_some(best)
    }

    fn decay(&mut self) {
        self.misses.iter_mut().for_each(|misses| *misses *= self.keeps);
        self.double *= self.keeps;
    }
}

/// Chooses the window's share of a volume's cache, common to all its shards.
pub struct Arbiter {
    shadows: [Slots; SHARES.len()],
    double: Slots,
    sampler: Sampler,
    /// Reads between two comparisons, and the reads since the last one.
    every: u32,
    seen: u32,
    current: usize,
    slow: Memory,
    quick: Memory,
    /// Misses of the double minus those of LRU, decaying.
    debt: f64,
}

impl Arbiter {
    /// Creates an arbiter for a cache with `slots` slots in all its shards.
    pub fn new(slots: u32) -> Arbiter {
        let one_in_log2 = (slots / SAMPLED).max(1).ilog2();
        let sampled = (slots >> one_in_log2).max(1);
        Arbiter {
            shadows: SHARES.map(|share| Slots::with_window(share, sampled)),
            double: Slots::with_window(SHARES[FIRST], sampled),
            sampler: Sampler::new(Owner::Arbiter, one_in_log2),
            every: (sampled / LOOKS).max(16),
            seen: 0,
            current: FIRST,
            slow: Memory::SLOW,
            quick: Memory::QUICK,
            debt: 0.0,
        }
    }

    /// The sample of blocks whose accesses it must see.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Returns the window's share, and the rules for main, for
    /// [`Policy::set_window_share`](crate::Policy::set_window_share).
    pub fn share(&self) -> u32 {
        SHARES[self.current]
    }

    /// Records an access to a block of the sample. Returns the window's new share if it changes.
    pub fn access(&mut self, hash: Hash) -> Option<u32> {
        let mut missed =
            Missed { shadows: [false; SHARES.len()], double: !self.double.read_hash(hash) };
        for (shadow, is_missed) in self.shadows.iter_mut().zip(&mut missed.shadows) {
            *is_missed = !shadow.read_hash(hash);
        }
        self.slow.add(&missed);
        self.quick.add(&missed);
        self.debt += f64::from(i8::from(missed.double) - i8::from(missed.shadows[LRU]));
        self.seen += 1;
        if self.seen < self.every {
            return None;
        }
        self.seen = 0;
        self.look()
    }

    /// Compares the shadows. Returns the window's new share if it changes.
    fn look(&mut self) -> Option<u32> {
        let allowed = if self.debt > 0.0 { CAUTIOUS } else { SHARES.len() };
        let current = self.current;
        let slow = self.slow.better(current, self.slow.misses[current], allowed);
        let is_ahead = self.debt < 0.0;
        let own = if is_ahead { self.quick.double } else { self.quick.misses[current] };
        let quick = self.quick.better(current, own, allowed);
        self.slow.decay();
        self.quick.decay();
        self.debt *= DEBT_KEEPS;
        self.current = quick.or(slow)?;
        self.double.set_window_share(self.share());
        Some(self.share())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::draw;
    use crate::{Kind, misses, window_share};
    use std::vec::Vec;

    /// Returns the last share for a cache of `slots` slots that reads these blocks, and the number
    /// of changes.
    fn chosen(slots: u32, blocks: impl IntoIterator<Item = u64>) -> (u32, u32) {
        let mut arbiter = Arbiter::new(slots);
        let mut changes = 0;
        for hash in blocks.into_iter().map(Hash::of) {
            if arbiter.sampler().takes(hash) {
                changes += u32::from(arbiter.access(hash).is_some());
            }
        }
        (arbiter.share(), changes)
    }

    #[test]
    fn the_share_follows_what_is_read() {
        // For a loop twice the cache's size, the largest main part has the most hits.
        let loops = (0..200_000u64).map(|read| read % 8000);
        assert_eq!(window_share(chosen(4000, loops).0), ALL / 32);
        // Each block is read again once, after 3,500 others.
        let again = (0..200_000u64)
            .map(|read| if read % 2 == 0 { read } else { read.saturating_sub(3501) });
        assert_eq!(chosen(4000, again).0, ALL);
    }

    /// Returns the arbiter after these reads, and the shares that it has chosen.
    fn shares_after(arbiter: &mut Arbiter, blocks: impl Iterator<Item = u64>) -> Vec<u32> {
        blocks.filter_map(|block| arbiter.access(Hash::of(block))).collect()
    }

    #[test]
    fn a_cache_that_has_missed_more_than_lru_keeps_half_for_the_window() {
        // A loop of twice the cache's size, for which the largest main part has the most hits.
        let loops = || (0..40_000u64).map(|read| read % 2000);
        let mut arbiter = Arbiter::new(1000);
        assert!(shares_after(&mut arbiter, loops()).iter().any(|share| window_share(*share) < 512));
        let mut arbiter = Arbiter::new(1000);
        arbiter.debt = 1e9;
        assert_eq!(shares_after(&mut arbiter, loops()), [ALL / 2]);
    }

    #[test]
    fn the_double_misses_what_the_cache_misses() {
        let mut arbiter = Arbiter::new(1000);
        let mut cache = Slots::with_window(arbiter.share(), 1000);
        let mut missed = (0, 0);
        for block in mixed(3) {
            let hash = Hash::of(block);
            missed.0 += u32::from(!cache.read_hash(hash));
            let double = arbiter.quick.double;
            let share = arbiter.access(hash);
            missed.1 += u32::from(arbiter.quick.double > double);
            if let Some(share) = share {
                cache.set_window_share(share);
            }
        }
        // The counts decay at comparisons, which hides the misses just before them.
        let hidden = missed.0 - missed.1;
        assert!(hidden <= missed.0 / 50, "{missed:?}");
    }

    #[test]
    fn chance_seldom_changes_it() {
        let mut state = 3;
        let uniform = (0..400_000).map(|_| draw(&mut state, 40_000));
        let (_, changes) = chosen(4000, uniform);
        assert!(changes < 20, "{changes}");
    }

    #[test]
    fn one_block_in_so_many_is_in_the_sample_and_it_is_none_that_another_sampler_takes() {
        for slots in [1, 1023, 1024, 4096, 1 << 20] {
            let arbiter = Arbiter::new(slots);
            let sampled: Vec<Hash> =
                (0..1 << 20).map(Hash::of).filter(|hash| arbiter.sampler().takes(*hash)).collect();
            let expected = (1 << 20) / (u64::from(slots) / 1024).max(1);
            let count = sampled.len() as u64;
            assert!(count.abs_diff(expected) <= expected / 8, "{count} of {expected}");
            let both = sampled.iter().filter(|hash| hash.is_sampled()).count() as u64;
            assert!(both.abs_diff(count / 16) <= count / 16, "{both} of {count}");
        }
    }

    /// Hot blocks, loops and scans in turns, from a seed.
    fn mixed(seed: u64) -> Vec<u64> {
        let (mut state, mut blocks) = (seed, Vec::new());
        for phase in 0..12 {
            let (hot, from) = (500 + draw(&mut state, 4000), phase * 2000);
            let kind = draw(&mut state, 3);
            for read in 0..8_000 {
                let within = draw(&mut state, hot) * draw(&mut state, hot) / hot;
                blocks.push(match kind {
                    0 => from + within,
                    1 => (1 << 32) + read % (2 * hot),
                    _ if read % 4 == 0 => (1 << 40) + (phase << 20) + read,
                    _ => within,
                });
            }
        }
        blocks
    }

    #[test]
    fn it_is_better_than_lru_and_where_it_is_not_hardly_worse() {
        let (mut all, mut all_lru) = (0, 0);
        for seed in 1..6 {
            let blocks = mixed(seed);
            // One change of the hot set may cost a fill of the cache.
            for slots in [300, 2000] {
                let [own, lru] = [Kind::Adaptive, Kind::Lru]
                    .map(|kind| misses(kind, slots, blocks.iter().copied()));
                assert!(
                    own <= lru + lru / 100 + u64::from(slots),
                    "{own} misses, LRU {lru}: seed {seed}, {slots} slots"
                );
                (all, all_lru) = (all + own, all_lru + lru);
            }
        }
        assert!(all < all_lru * 96 / 100, "{all} misses, LRU {all_lru}");
    }
}
