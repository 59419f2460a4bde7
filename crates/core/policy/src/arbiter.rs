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
use crate::saved::{COUNT_MAX, Saved, put_u32s, put_u64s};
use crate::slots::Slots;
use crate::window::{ALL, GUARDED, PROVEN};
use alloc::vec::Vec;

/// Shares of the shadows, in 1024ths.
const SHARES: [u32; 7] =
    [ALL, ALL / 2, ALL / 4, ALL / 10, ALL / 32, (ALL / 4) | PROVEN, (ALL / 32) | GUARDED];
/// Index of [`FIRST_SHARE`](crate::window::FIRST_SHARE) in `SHARES`.
const FIRST: usize = 0;
/// Slots of a shadow; up to twice that.
const SAMPLED: u32 = 1024;

/// Returns the binary logarithm of the number of blocks per block of the sample, and the number of
/// slots of a shadow, for a cache with `slots` slots.
pub(crate) fn shadow_size(slots: u32) -> (u32, u32) {
    let one_in_log2 = (slots / SAMPLED).max(1).ilog2();
    (one_in_log2, (slots >> one_in_log2).max(1))
}

/// The counts of misses at one speed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Factor by which the counts decay at each comparison.
    pub keeps: f64,
    /// The minimum difference, in standard deviations of the number of misses, squared.
    pub deviations_squared: f64,
}

/// The numbers that decide when an arbiter changes its choice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tuning {
    /// Number of comparisons, at least one, while a shadow sees as many reads as it has slots.
    pub looks: u32,
    /// Makes small differences significant.
    pub slow: Speed,
    /// Detects costly changes early.
    pub quick: Speed,
}

impl Tuning {
    /// Half-lives of 64 and of four comparisons. In 64, a shadow sees eight times as many reads as
    /// it has slots.
    pub const DEFAULT: Tuning = Tuning {
        looks: 8,
        slow: Speed { keeps: 0.98923, deviations_squared: 1.0 },
        quick: Speed { keeps: 0.8409, deviations_squared: 16.0 },
    };
}

/// Decaying counts of the misses of some shadows.
struct Memory<const SHADOWS: usize> {
    speed: Speed,
    misses: [f64; SHADOWS],
}

impl<const SHADOWS: usize> Memory<SHADOWS> {
    fn new(speed: Speed) -> Memory<SHADOWS> {
        Memory { speed, misses: [0.0; SHADOWS] }
    }

    /// Decays the counts. Returns the shadow that is significantly better than the current one, if
    /// there is one.
    fn look(&mut self, current: usize) -> Option<usize> {
        let mut best = current;
        for shadow in 0..SHADOWS {
            if self.misses[shadow] < self.misses[best] {
                best = shadow;
            }
        }
        let (own, gain) = (self.misses[current], self.misses[current] - self.misses[best]);
        let is_better = gain * gain > self.speed.deviations_squared * own.max(1.0);
        self.misses.iter_mut().for_each(|misses| *misses *= self.speed.keeps);
        (best != current && is_better).then_some(best)
    }
}

/// The reads that the shadows have seen since the start, and their misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// Number of reads; each shadow has seen all of them.
    pub reads: u64,
    /// The misses of each shadow, in the order of [`Arbiter::shares`].
    pub misses: [u64; SHARES.len()],
}

/// Chooses the window's share of a volume's cache, common to all its shards.
pub struct Arbiter {
    shadows: [Slots; SHARES.len()],
    sampler: Sampler,
    /// Reads between two comparisons, and the reads since the last one.
    every: u32,
    seen: u32,
    current: usize,
    slow: Memory<{ SHARES.len() }>,
    quick: Memory<{ SHARES.len() }>,
    record: Record,
}

impl Arbiter {
    /// Creates an arbiter for a cache with `slots` slots in all its shards.
    pub fn new(slots: u32) -> Arbiter {
        Arbiter::with_tuning(slots, &Tuning::DEFAULT)
    }

    /// Same as `new`, with other numbers. Only for comparisons.
    pub fn with_tuning(slots: u32, tuning: &Tuning) -> Arbiter {
        let (one_in_log2, sampled) = shadow_size(slots);
        Arbiter {
            shadows: SHARES.map(|share| Slots::with_window(share, sampled)),
            sampler: Sampler::new(Owner::Arbiter, one_in_log2),
            every: (sampled / tuning.looks.max(1)).max(16),
            seen: 0,
            current: FIRST,
            slow: Memory::new(tuning.slow),
            quick: Memory::new(tuning.quick),
            record: Record::default(),
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

    /// The shares from which it chooses, as [`Arbiter::share`] returns them. The first is LRU.
    pub fn shares() -> &'static [u32] {
        &SHARES
    }

    /// Returns the misses of each share's shadow since the start, to examine choices.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Number of parts in which its state is saved, so that no part takes long.
    pub fn parts(&self) -> usize {
        1 + SHARES.len()
    }

    /// Appends a part of its state, in the order of their numbers.
    pub fn save(&self, part: usize, bytes: &mut Vec<u8>) {
        let Some(shadow) = part.checked_sub(1) else {
            put_u32s(bytes, [self.current as u32, self.seen]);
            let decaying = self.slow.misses.iter().chain(&self.quick.misses);
            let decaying = decaying.map(|misses| misses.to_bits());
            return put_u64s(bytes, decaying.chain([self.record.reads]).chain(self.record.misses));
        };
        if let Some(slots) = self.shadows.get(shadow) {
            slots.save(bytes, |_| 0);
        }
    }

    /// Returns the arbiter of a cache with this number of slots, as an earlier process has saved
    /// it. None: the bytes are not of an arbiter for this cache.
    pub fn restored(slots: u32, saved: &mut Saved<'_>) -> Option<Arbiter> {
        let mut arbiter = Arbiter::new(slots);
        arbiter.current = saved.small_count(SHARES.len() as u32 - 1)? as usize;
        arbiter.seen = saved.small_count(arbiter.every - 1)?;
        for misses in arbiter.slow.misses.iter_mut().chain(&mut arbiter.quick.misses) {
            *misses = saved.decaying_count()?;
        }
        arbiter.record.reads = saved.count(COUNT_MAX)?;
        for misses in &mut arbiter.record.misses {
            *misses = saved.count(arbiter.record.reads)?;
        }
        for shadow in &mut arbiter.shadows {
            shadow.restore(saved, arbiter.sampler, |_, _| Some(()))?;
        }
        Some(arbiter)
    }

    /// Records an access to a block of the sample. Returns the window's new share if it changes.
    pub fn access(&mut self, hash: Hash) -> Option<u32> {
        for (shadow, slots) in self.shadows.iter_mut().enumerate() {
            if !slots.read_hash(hash) {
                self.slow.misses[shadow] += 1.0;
                self.quick.misses[shadow] += 1.0;
                self.record.misses[shadow] += 1;
            }
        }
        self.record.reads += 1;
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
    fn the_record_has_the_misses_of_each_share() {
        let mut arbiter = Arbiter::new(1000);
        (0..20_000u64).for_each(|read| _ = arbiter.access(Hash::of(read % 2000)));
        let record = arbiter.record();
        assert_eq!(record.reads, 20_000);
        let of = |wanted: u32| {
            let shadow = Arbiter::shares().iter().position(|share| *share == wanted);
            record.misses[shadow.expect("it is one of them")]
        };
        assert_eq!(of(ALL), 20_000, "LRU misses all of a loop that does not fit");
        assert!((10_000..13_000).contains(&of(ALL / 32)), "{record:?}");
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
