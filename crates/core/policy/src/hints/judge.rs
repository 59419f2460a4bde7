//! Suspends hints that cost hits.
//!
//! Two *shadows*, small caches without bytes, see the accesses to a sample of all blocks: one
//! follows the hints, the other does not. While the first has significantly more misses, beyond a
//! tolerance, the cache does not follow the hints either. It follows them again when they would
//! save misses. (The arbiter chooses the window's share in the same way: `arbiter.rs`.)

use super::{CLASSES_MAX, ClassCounts, Hints, PolicyHints};
use crate::arbiter::shadow_size;
use crate::sampler::Owner;
use crate::slots::Slots;
use crate::{Hash, Kind, Policy, Sampler};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

/// Comparisons while the shadows see as many accesses as they have slots.
const LOOKS: u32 = 8;
/// Hints that prefer some classes may cost this share of the accesses in misses.
const TOLERANCE: f64 = 0.01;
/// Factors by which the counts of misses decay at each comparison, and the minimum difference in
/// standard deviations, squared: those of the arbiter.
const SPEEDS: [(f64, f64); 2] = [(0.98923, 1.0), (0.8409, 16.0)];

/// Decaying counts at one speed.
#[derive(Clone, Copy, Default)]
struct Counts {
    accesses: f64,
    with: f64,
    without: f64,
}

impl Counts {
    fn decay(&mut self, keeps: f64) {
        self.accesses *= keeps;
        self.with *= keeps;
        self.without *= keeps;
    }

    /// Whether a number of misses is significant.
    fn is_significant(&self, misses: f64, deviations_squared: f64) -> bool {
        misses > 0.0 && misses * misses > deviations_squared * self.without.max(1.0)
    }
}

/// Compares a cache that follows hints with one that does not.
pub struct Judge {
    with: Slots,
    without: Slots,
    hints: Arc<Hints>,
    is_in_force: Arc<AtomicBool>,
    sampler: Sampler,
    /// Blocks per block of the sample.
    one_in: u64,
    /// Slots of a shadow.
    sampled: u32,
    /// Accesses since the last comparison.
    seen: u32,
    counts: [Counts; 2],
    /// Accesses to blocks of the sample, by class.
    accesses: [u64; CLASSES_MAX],
}

/// The hints of a cache, as its shards need them.
#[derive(Clone)]
pub struct CurrentHints {
    pub(super) hints: Arc<Hints>,
    pub(super) is_in_force: Arc<AtomicBool>,
    pub(super) sampler: Sampler,
}

/// The accesses to the blocks of a class, since hints were first set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassReport {
    /// Accesses to blocks that were cached, estimated from a sample of the blocks.
    pub hits: u64,
    /// The misses of all shards.
    pub counts: ClassCounts,
}

impl Judge {
    /// Creates a judge for a cache of this kind with `slots` slots in all its shards. Hints are in
    /// force until they are found to be costly. The arbiter of such a cache has the same sample.
    ///
    /// # Panics
    /// If the kind does not work on slots, or `slots` is 0.
    pub fn new(kind: Kind, slots: u32, hints: Arc<Hints>) -> Judge {
        let (one_in_log2, sampled) = shadow_size(slots);
        let shadow = || Slots::new(Policy::new(kind, sampled), sampled);
        let mut judge = Judge {
            with: shadow(),
            without: shadow(),
            hints: hints.clone(),
            is_in_force: Arc::new(AtomicBool::new(true)),
            sampler: Sampler::new(Owner::Arbiter, one_in_log2),
            one_in: 1 << one_in_log2,
            sampled,
            seen: 0,
            counts: [Counts::default(); 2],
            accesses: [0; CLASSES_MAX],
        };
        judge.set_hints(hints);
        judge
    }

    /// Replaces the hints. The result of earlier comparisons stays until there are new ones.
    /// Returns the earlier hints.
    pub fn set_hints(&mut self, hints: Arc<Hints>) -> Arc<Hints> {
        let of_shadow = PolicyHints::of_sample(hints.clone(), self.sampled);
        self.with.policy_mut().replace_hints(Some(of_shadow.boxed()));
        core::mem::replace(&mut self.hints, hints)
    }

    /// Returns the hints for the shards of the cache.
    pub fn current(&self) -> CurrentHints {
        let (hints, is_in_force) = (self.hints.clone(), self.is_in_force.clone());
        CurrentHints { hints, is_in_force, sampler: self.sampler }
    }

    /// The blocks whose accesses it must see.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Whether the cache follows the hints. Otherwise they are suspended, because they cost hits.
    pub fn follows_hints(&self) -> bool {
        self.is_in_force.load(Ordering::Relaxed)
    }

    /// The hints.
    pub fn hints(&self) -> &Arc<Hints> {
        &self.hints
    }

    /// Sets the share of the policy's window, as
    /// [`Policy::set_window_share`](crate::Policy::set_window_share) does.
    pub fn set_window_share(&mut self, share: u32) {
        self.with.set_window_share(share);
        self.without.set_window_share(share);
    }

    /// Records an access to a block of the sample.
    pub fn access(&mut self, hash: Hash) {
        self.accesses[usize::from(self.hints.map.class_of(hash.block()))] += 1;
        let with = f64::from(u8::from(!self.with.read_hash(hash)));
        let without = f64::from(u8::from(!self.without.read_hash(hash)));
        for counts in &mut self.counts {
            counts.accesses += 1.0;
            counts.with += with;
            counts.without += without;
        }
        self.seen += 1;
        if self.seen >= (self.sampled / LOOKS).max(16) {
            self.seen = 0;
            self.compare();
        }
    }

    /// Decides whether the hints are in force.
    fn compare(&mut self) {
        let was_in_force = self.is_in_force.load(Ordering::Relaxed);
        let is_changed = self.counts.iter().zip(SPEEDS).any(|(counts, (_, deviations))| {
            let cost = match was_in_force {
                true => counts.with - counts.without - TOLERANCE * counts.accesses,
                false => counts.without - counts.with,
            };
            counts.is_significant(cost, deviations)
        });
        if is_changed {
            self.is_in_force.store(!was_in_force, Ordering::Relaxed);
        }
        for (counts, (keeps, _)) in self.counts.iter_mut().zip(SPEEDS) {
            counts.decay(keeps);
        }
    }

    /// Returns the report on each class, with the counts of all shards.
    pub fn report(&self, counts: &[ClassCounts; CLASSES_MAX]) -> [ClassReport; CLASSES_MAX] {
        let mut reports = [ClassReport::default(); CLASSES_MAX];
        for (class, report) in reports.iter_mut().enumerate() {
            report.counts = counts[class];
            let hits = self.accesses[class].saturating_sub(counts[class].sampled_misses);
            report.hits = hits * self.one_in;
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::draw;
    use crate::{ClassExtent, ClassMap, Treatments};

    const SLOTS: u32 = 1000;
    const FREE: u8 = 1;

    /// All blocks below 10,000 are of this class.
    fn judge(kind: Kind, class: u8) -> Judge {
        let extent = ClassExtent { first: 0, blocks: 10_000, class };
        let map = ClassMap::new([extent], 1 << 20).expect("sorted");
        Judge::new(kind, SLOTS, Arc::new(Hints { map, treatments: Treatments::default() }))
    }

    fn follows(judge: &Judge) -> bool {
        judge.is_in_force.load(Ordering::Relaxed)
    }

    #[test]
    fn hot_blocks_of_free_space_end_the_hints_within_the_reads_of_two_caches() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
            let mut judge = judge(kind, FREE);
            let mut state = 7;
            (0..2 * SLOTS).for_each(|_| judge.access(Hash::of(draw(&mut state, 500))));
            assert!(!follows(&judge), "{kind:?}");
            let hits = judge.report(&[ClassCounts::default(); CLASSES_MAX])[usize::from(FREE)].hits;
            assert_eq!(hits, 2 * u64::from(SLOTS), "no shard has reported misses");
        }
    }

    #[test]
    fn they_return_when_they_would_save_misses() {
        let mut judge = judge(Kind::Lru, FREE);
        let mut state = 7;
        (0..2 * SLOTS).for_each(|_| judge.access(Hash::of(draw(&mut state, 500))));
        assert!(!follows(&judge));
        // Free space is read once from now on, beside a hot set that fits.
        for read in 0..40_000u64 {
            judge.access(Hash::of(read % 9_999));
            judge.access(Hash::of(20_000 + draw(&mut state, 900)));
        }
        assert!(follows(&judge));
    }

    #[test]
    fn a_replaced_map_does_not_end_a_suspension() {
        let mut judge = judge(Kind::Adaptive, FREE);
        let mut state = 7;
        (0..2 * SLOTS).for_each(|_| judge.access(Hash::of(draw(&mut state, 500))));
        judge.set_hints(Arc::new(Hints::default()));
        (0..SLOTS).for_each(|_| judge.access(Hash::of(draw(&mut state, 500))));
        assert!(!follows(&judge));
    }
}
