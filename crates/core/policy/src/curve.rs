//! The live miss-ratio curve: estimates the misses of a cache of another size, while the cache
//! works.
//!
//! Simulated caches of an eighth to four times the memory, without bytes and of the serving policy,
//! see the accesses of a sample of all blocks and are smaller by the same factor as the sample (C.
//! Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations", ATC 2017).
//! The sample consists of blocks, not of accesses: either all accesses to a block are in it, or
//! none (C. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015).
//!
//! The real miss ratio corrects the sampling error: only the difference between a point and the
//! simulation of the present size is used, and added to the real misses of the cache.
//!
//! With the adaptive policy, all sizes use the cache's current window share, and its rules for the
//! main part. A separate choice for each size would take six times the time, and was not more
//! accurate with real traces. Only the guard of the main part is decided for each smaller size: a
//! smaller cache has more reads per slot, so its arbiter turns the guard on earlier. A second
//! simulation of each smaller size always has the guard, and the better of the two counts.
//!
//! Old accesses decay: all counts are halved each time the window is full.

use crate::sampler::{Owner, Sampler};
use crate::saved::{Saved, put_u32s, put_u64s};
use crate::slots::Slots;
use crate::window::{ALL, GUARDED};
use crate::{Hash, Kind, Policy};
use alloc::vec::Vec;

/// Index of the present size among the points.
pub const PRESENT: usize = 3;
/// Number of points: the first is an eighth of the present size, each next one twice the previous.
pub const POINTS: usize = 6;

/// Minimum sampling factor, as a power of two: limits the simulations to a few thousandths of a
/// small cache's memory.
const ONE_IN_LOG2_MIN: u32 = 6;
/// Slots of the simulation of the present size, or up to twice that, if the cache is large enough.
const SAMPLED: u32 = 1024;
/// The share of a guarded cache, as the arbiter has it.
const GUARDED_SHARE: u32 = (ALL / 32) | GUARDED;
/// With fewer sampled slots than this, a curve is too inaccurate.
const SAMPLED_MIN: u32 = 1000;
/// Accesses in the window, per slot.
const WINDOW: u32 = 16;

/// A miss-ratio curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// Share of accesses that caches of each size would have missed, from an eighth to four times
    /// the present size.
    pub miss_ratios: [f64; POINTS],
    /// Share of all accesses that were reads which this size would have missed and the present one
    /// would not. Negative: this size would have missed fewer.
    pub reads_missed_more: [f64; POINTS],
    /// Number of accesses in the window, whether in the sample or not.
    pub accesses: u64,
    /// Whether the cache is too small for an accurate curve.
    pub is_too_small: bool,
    /// The same as `miss_ratios`, of caches without a compressed tier. None: the cache has none.
    pub uncompressed_miss_ratios: Option<[f64; POINTS]>,
}

impl Answer {
    /// Returns the answer for a cache with a compressed tier, without which it would have missed
    /// this share of the accesses more. The simulated caches of the curve have no tier: a cache
    /// that has one is taken for a larger one without it, by the same factor at each size.
    pub fn with_tier(self, saved: f64) -> Answer {
        let own = self.miss_ratios[PRESENT];
        let plain = self.miss_ratios.map(|ratio| (ratio + saved).clamp(0.0, 1.0));
        let larger = octaves_to(&plain, own);
        let ratio_at = |point: usize| interpolated(&plain, point as f64 + larger);
        let reads_at = |point: usize| interpolated(&self.reads_missed_more, point as f64 + larger);
        let rest = own - ratio_at(PRESENT);
        Answer {
            miss_ratios: core::array::from_fn(|point| (ratio_at(point) + rest).clamp(0.0, 1.0)),
            reads_missed_more: core::array::from_fn(|point| reads_at(point) - reads_at(PRESENT)),
            uncompressed_miss_ratios: Some(plain),
            ..self
        }
    }
}

/// Returns the value at a position between the points; behind the last one, that of the last one.
fn interpolated(values: &[f64; POINTS], position: f64) -> f64 {
    let point = (position as usize).min(POINTS - 1);
    let next = (point + 1).min(POINTS - 1);
    let part = (position - point as f64).clamp(0.0, 1.0);
    values[point] + (values[next] - values[point]) * part
}

/// Returns by how many doublings the size with this miss ratio is larger than the present one; at
/// most the last point.
fn octaves_to(ratios: &[f64; POINTS], wanted: f64) -> f64 {
    for point in PRESENT..POINTS - 1 {
        let (ratio, next) = (ratios[point], ratios[point + 1]);
        if wanted >= next {
            let part = if ratio > next { (ratio - wanted) / (ratio - next) } else { 0.0 };
            return (point - PRESENT) as f64 + part.clamp(0.0, 1.0);
        }
    }
    (POINTS - 1 - PRESENT) as f64
}

/// Misses of a point.
#[derive(Clone, Copy, Default)]
struct MissCounts {
    all: u64,
    reads: u64,
}

impl MissCounts {
    fn add(&mut self, is_missed: bool, is_read: bool) {
        self.all += u64::from(is_missed);
        self.reads += u64::from(is_missed && is_read);
    }

    fn save(&self, bytes: &mut Vec<u8>) {
        put_u64s(bytes, [self.all, self.reads]);
    }

    /// Reads the misses of at most `accesses` accesses.
    fn restore(&mut self, saved: &mut Saved<'_>, accesses: u32) -> Option<()> {
        self.all = saved.count(accesses.into())?;
        self.reads = saved.count(self.all)?;
        Some(())
    }

    fn halve(&mut self) {
        *self = MissCounts { all: self.all / 2, reads: self.reads / 2 };
    }
}

/// The live curve of a volume's cache.
pub struct Curve {
    points: [Slots; POINTS],
    misses: [MissCounts; POINTS],
    /// The smaller sizes, with a guarded main part. None: the policy has none.
    guarded: Option<[Slots; PRESENT]>,
    guarded_misses: [MissCounts; PRESENT],
    sampler: Sampler,
    one_in_log2: u32,
    sampled_slots: u32,
    /// Number of accesses of the sample in the window, and its maximum.
    seen: u32,
    seen_max: u32,
}

impl Curve {
    /// Creates a curve for a cache of this policy with `slots` slots in all its shards.
    ///
    /// # Panics
    /// As [`Policy::new`].
    pub fn new(kind: Kind, slots: u32) -> Curve {
        let one_in_log2 = (slots / SAMPLED).max(1).ilog2().max(ONE_IN_LOG2_MIN);
        let simulated = |point: usize| {
            let slots = u64::from(slots) << point >> PRESENT >> one_in_log2;
            slots.max(1) as u32
        };
        let empty = |slots| Slots::new(Policy::new(kind, slots), slots);
        let guarded = |point| Slots::with_window(GUARDED_SHARE, simulated(point));
        let sampled_slots = simulated(PRESENT);
        Curve {
            points: core::array::from_fn(|point| empty(simulated(point))),
            misses: [MissCounts::default(); POINTS],
            guarded: (kind == Kind::Adaptive).then(|| core::array::from_fn(guarded)),
            guarded_misses: [MissCounts::default(); PRESENT],
            sampler: Sampler::new(Owner::Curve, one_in_log2),
            one_in_log2,
            sampled_slots,
            seen: 0,
            seen_max: sampled_slots * WINDOW,
        }
    }

    /// The sample of blocks whose accesses it must see.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Sets the window's share, as [`Policy::set_window_share`].
    pub fn set_window_share(&mut self, share: u32) {
        self.points.iter_mut().for_each(|point| point.set_window_share(share));
    }

    /// Records an access to a block of the sample. Returns true if the window is full and all
    /// counts were halved.
    pub fn access(&mut self, hash: Hash, is_read: bool) -> bool {
        for (point, missed) in self.points.iter_mut().zip(&mut self.misses) {
            missed.add(!point.read_hash(hash), is_read);
        }
        let guarded = self.guarded.iter_mut().flatten();
        for (point, missed) in guarded.zip(&mut self.guarded_misses) {
            missed.add(!point.read_hash(hash), is_read);
        }
        self.seen += 1;
        let is_full = self.seen >= self.seen_max;
        if is_full {
            self.seen /= 2;
            self.misses.iter_mut().chain(&mut self.guarded_misses).for_each(MissCounts::halve);
        }
        is_full
    }

    fn simulations(&self) -> impl Iterator<Item = &Slots> {
        self.points.iter().chain(self.guarded.iter().flatten())
    }

    /// Number of parts in which its state is saved, so that no part takes long.
    pub fn parts(&self) -> usize {
        1 + self.simulations().count()
    }

    /// Appends a part of its state, in the order of their numbers.
    pub fn save(&self, part: usize, bytes: &mut Vec<u8>) {
        let Some(simulation) = part.checked_sub(1) else {
            put_u32s(bytes, [self.seen]);
            let misses = self.misses.iter().chain(&self.guarded_misses);
            return misses.for_each(|misses| misses.save(bytes));
        };
        if let Some(slots) = self.simulations().nth(simulation) {
            slots.save(bytes, |_| 0);
        }
    }

    /// Returns the curve for this cache, as an earlier process has saved it. None: the bytes are
    /// not of a curve for this cache. The window's share must be set next.
    ///
    /// # Panics
    /// As [`Policy::new`].
    pub fn restored(kind: Kind, slots: u32, saved: &mut Saved<'_>) -> Option<Curve> {
        let mut curve = Curve::new(kind, slots);
        curve.seen = saved.small_count(curve.seen_max - 1)?;
        for misses in curve.misses.iter_mut().chain(&mut curve.guarded_misses) {
            misses.restore(saved, curve.seen)?;
        }
        let guarded = curve.guarded.iter_mut().flatten();
        for slots in curve.points.iter_mut().chain(guarded) {
            slots.restore(saved, curve.sampler, |_, _| Some(()))?;
        }
        Some(curve)
    }

    /// Returns the misses of each size, with the guard of the main part where it has fewer.
    fn best_misses(&self) -> [MissCounts; POINTS] {
        let mut best = self.misses;
        if self.guarded.is_some() {
            for (best, guarded) in best.iter_mut().zip(self.guarded_misses) {
                if guarded.all < best.all {
                    *best = guarded;
                }
            }
        }
        best
    }

    /// Returns the curve of a window in which the cache itself had `accesses` accesses and `misses`
    /// misses. None: nothing was recorded yet.
    pub fn answer(&self, accesses: u64, misses: u64) -> Option<Answer> {
        if accesses == 0 || self.seen == 0 {
            return None;
        }
        let sampled = accesses as f64 / (1u64 << self.one_in_log2) as f64;
        let all = self.best_misses();
        let (own, present) = (misses as f64 / accesses as f64, all[PRESENT]);
        let more = |missed: u64, present: u64| (missed as f64 - present as f64) / sampled;
        let mut miss_ratios =
            all.map(|missed| (own + more(missed.all, present.all)).clamp(0.0, 1.0));
        let mut reads_missed_more = all.map(|missed| more(missed.reads, present.reads));
        // Misses cannot increase with the size: differences in that direction are chance.
        for point in (0..PRESENT).rev() {
            miss_ratios[point] = miss_ratios[point].max(miss_ratios[point + 1]);
            reads_missed_more[point] = reads_missed_more[point].max(reads_missed_more[point + 1]);
        }
        for point in PRESENT + 1..POINTS {
            miss_ratios[point] = miss_ratios[point].min(miss_ratios[point - 1]);
            reads_missed_more[point] = reads_missed_more[point].min(reads_missed_more[point - 1]);
        }
        Some(Answer {
            miss_ratios,
            reads_missed_more,
            accesses,
            is_too_small: self.sampled_slots < SAMPLED_MIN,
            uncompressed_miss_ratios: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::draw;
    use crate::{Arbiter, Simulation};
    use std::vec::Vec;

    /// Returns the curve after these accesses to a cache of `slots` slots.
    fn answer_after(kind: Kind, slots: u32, blocks: &[u64]) -> Answer {
        curve_after(kind, slots, blocks).0
    }

    /// Returns also the accesses after which the counts were halved.
    fn curve_after(kind: Kind, slots: u32, blocks: &[u64]) -> (Answer, Vec<usize>) {
        let mut curve = Curve::new(kind, slots);
        let sampler = curve.sampler();
        let (mut cache, mut arbiter) = (Simulation::new(kind, slots), Arbiter::new(slots));
        curve.set_window_share(arbiter.share());
        let (mut accesses, mut missed, mut halvings) = (0, 0, Vec::new());
        for (access, &block) in blocks.iter().enumerate() {
            accesses += 1;
            missed += u64::from(!cache.read(block));
            let hash = Hash::of(block);
            if arbiter.sampler().takes(hash)
                && let Some(share) = arbiter.access(hash)
            {
                curve.set_window_share(share);
            }
            if sampler.takes(hash) && curve.access(hash, block % 2 == 0) {
                (accesses, missed) = (accesses / 2, missed / 2);
                halvings.push(access);
            }
        }
        (curve.answer(accesses, missed).expect("something was seen"), halvings)
    }

    /// Returns the miss ratio of a cache of `slots` slots in the same window.
    fn miss_ratio(kind: Kind, slots: u32, blocks: &[u64], halvings: &[usize]) -> f64 {
        let mut cache = Simulation::new(kind, slots);
        let (mut accesses, mut missed) = (0u64, 0u64);
        for (access, &block) in blocks.iter().enumerate() {
            accesses += 1;
            missed += u64::from(!cache.read(block));
            if halvings.contains(&access) {
                (accesses, missed) = (accesses / 2, missed / 2);
            }
        }
        missed as f64 / accesses as f64
    }

    fn zipf_like(blocks: u64, count: usize) -> Vec<u64> {
        let mut state = 11;
        let mut one = || {
            let near = draw(&mut state, blocks) * draw(&mut state, blocks) / blocks;
            near * draw(&mut state, blocks) / blocks
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn it_reports_what_other_sizes_would_miss() {
        let (slots, blocks) = (131_072, zipf_like(1 << 19, 3_000_000));
        for kind in [Kind::Lru, Kind::Adaptive] {
            let (answer, halvings) = curve_after(kind, slots, &blocks);
            assert!(!answer.is_too_small);
            assert_eq!(answer.reads_missed_more[PRESENT], 0.0);
            // Every second block is only read.
            let [more, all] = [answer.reads_missed_more[0], answer.miss_ratios[0]];
            let share = more / (all - answer.miss_ratios[PRESENT]);
            assert!((0.3..0.7).contains(&share), "{share} of the misses are reads");
            for point in [0, 1, PRESENT] {
                let ratio = answer.miss_ratios[point];
                let slots = slots << point >> PRESENT;
                let full = miss_ratio(kind, slots, &blocks, &halvings);
                assert!((ratio - full).abs() < 0.03, "{kind:?}, {slots} slots: {ratio}, {full}");
            }
        }
    }

    #[test]
    fn a_cache_with_a_tier_is_taken_for_a_larger_one() {
        let plain = Answer {
            miss_ratios: [0.8, 0.7, 0.6, 0.5, 0.3, 0.1],
            reads_missed_more: [0.3, 0.2, 0.1, 0.0, -0.2, -0.4],
            accesses: 1000,
            is_too_small: false,
            uncompressed_miss_ratios: None,
        };
        let is_near = |found: [f64; POINTS], expected: [f64; POINTS]| {
            let pairs = found.into_iter().zip(expected);
            assert!(pairs.clone().all(|(one, other)| (one - other).abs() < 1e-9), "{found:?}");
        };
        // 70 % without the tier, so it is as good as twice the memory.
        let twice = plain.with_tier(0.2);
        is_near(twice.miss_ratios, [0.9, 0.8, 0.7, 0.5, 0.3, 0.3]);
        is_near(
            twice.uncompressed_miss_ratios.expect("it has a tier"),
            [1.0, 0.9, 0.8, 0.7, 0.5, 0.3],
        );
        is_near(twice.reads_missed_more, [0.4, 0.3, 0.2, 0.0, -0.2, -0.2]);
        let half_more = plain.with_tier(0.1);
        is_near(half_more.miss_ratios, [0.85, 0.75, 0.65, 0.5, 0.3, 0.2]);
        let none = plain.with_tier(0.0);
        is_near(none.miss_ratios, plain.miss_ratios);
        let more_than_all_sizes = plain.with_tier(0.45);
        assert!((more_than_all_sizes.miss_ratios[PRESENT] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_loop_that_fits_into_twice_the_memory_is_seen() {
        let slots = 65_536;
        let blocks: Vec<u64> = (0..2_000_000).map(|access| access % 100_000).collect();
        let answer = answer_after(Kind::Lru, slots, &blocks);
        assert!(answer.miss_ratios[PRESENT] > 0.99, "{answer:?}");
        assert!(answer.miss_ratios[PRESENT + 1] < 0.15, "{answer:?}");
    }

    #[test]
    fn a_small_cache_says_so_and_one_that_was_not_used_says_nothing() {
        assert!(answer_after(Kind::Lru, 60_000, &zipf_like(100_000, 50_000)).is_too_small);
        assert_eq!(Curve::new(Kind::Lru, 64).answer(0, 0), None);
        assert!(Curve::new(Kind::Lru, 1).points.len() == POINTS);
    }
}
