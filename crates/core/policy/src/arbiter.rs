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
//! If the whole hot set changes repeatedly within a few times the cache's size, the cache may have
//! up to 2 % more misses than LRU until the change is detected.
//!
//! Counts of misses decay at two speeds: slowly, so that small differences become significant, and
//! quickly, so that a costly change of the workload is detected early.

use crate::Hash;
use crate::sampler::{Owner, Sampler};
use crate::slots::Slots;
use crate::window::{ALL, GUARDED, PROVEN};

/// Shares of the shadows, in 1024ths.
const SHARES: [u32; 7] =
    [ALL, ALL / 2, ALL / 4, ALL / 10, ALL / 32, (ALL / 4) | PROVEN, (ALL / 32) | GUARDED];
/// Index of [`FIRST_SHARE`](crate::window::FIRST_SHARE) in `SHARES`.
const FIRST: usize = 0;
/// Slots of a shadow; up to twice that.
const SAMPLED: u32 = 1024;
/// Number of comparisons while a shadow sees as many reads as it has slots.
const LOOKS: u32 = 8;

/// Decaying counts of misses, and the difference that counts as significant.
struct Memory {
    /// Factor by which the counts decay at each comparison.
    keeps: f64,
    /// The minimum difference, in standard deviations of the number of misses, squared.
    deviations_squared: f64,
    misses: [f64; SHARES.len()],
}

impl Memory {
    /// Half-life of 64 comparisons, in which a shadow sees eight times as many reads as it has
    /// slots.
    const SLOW: Memory =
        Memory { keeps: 0.98923, deviations_squared: 1.0, misses: [0.0; SHARES.len()] };
    /// Half-life of four comparisons.
    const QUICK: Memory =
        Memory { keeps: 0.8409, deviations_squared: 16.0, misses: [0.0; SHARES.len()] };

    /// Decays the counts. Returns the shadow that is significantly better than the current one, if
    /// there is one.
    fn look(&mut self, current: usize) -> Option<usize> {
        let mut best = current;
        for shadow in 0..SHARES.len() {
            if self.misses[shadow] < self.misses[best] {
                best = shadow;
            }
        }
        let (own, gain) = (self.misses[current], self.misses[current] - self.misses[best]);
        let is_better = gain * gain > self.deviations_squared * own.max(1.0);
        self.misses.iter_mut().for_each(|misses| *misses *= self.keeps);
        (best != current && is_better).then_some(best)
    }
}

/// Chooses the window's share of a volume's cache, common to all its shards.
pub struct Arbiter {
    shadows: [Slots; SHARES.len()],
    sampler: Sampler,
    /// Reads between two comparisons, and the reads since the last one.
    every: u32,
    seen: u32,
    current: usize,
    slow: Memory,
    quick: Memory,
}

impl Arbiter {
    /// Creates an arbiter for a cache with `slots` slots in all its shards.
    pub fn new(slots: u32) -> Arbiter {
        let one_in_log2 = (slots / SAMPLED).max(1).ilog2();
        let sampled = (slots >> one_in_log2).max(1);
        Arbiter {
            shadows: SHARES.map(|share| Slots::with_window(share, sampled)),
            sampler: Sampler::new(Owner::Arbiter, one_in_log2),
            every: (sampled / LOOKS).max(16),
            seen: 0,
            current: FIRST,
            slow: Memory::SLOW,
            quick: Memory::QUICK,
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
        for (shadow, slots) in self.shadows.iter_mut().enumerate() {
            if !slots.read_hash(hash) {
                self.slow.misses[shadow] += 1.0;
                self.quick.misses[shadow] += 1.0;
            }
        }
        self.seen += 1;
        if self.seen < self.every {
            return None;
        }
        self.seen = 0;
        let (slow, quick) = (self.slow.look(self.current), self.quick.look(self.current));
        self.current = quick.or(slow)?;
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
            for slots in [300, 2000] {
                let [own, lru] = [Kind::Adaptive, Kind::Lru]
                    .map(|kind| misses(kind, slots, blocks.iter().copied()));
                assert!(
                    own <= lru + lru / 40,
                    "{own} misses, LRU {lru}: seed {seed}, {slots} slots"
                );
                (all, all_lru) = (all + own, all_lru + lru);
            }
        }
        assert!(all < all_lru * 96 / 100, "{all} misses, LRU {all_lru}");
    }
}
