//! Hints: the class of each block, by the file that it belongs to, and how each class is treated.
//!
//! ```text
//!   miss ---> class's admission: usual | at the second access | never ---> the policy
//!   victim <- spared if its class weighs more than the candidate's <------ the policy
//! ```
//!
//! A hint is a weight, not a wall. It is looked up only at misses and evictions. A shard passes
//! every miss and every victim through its [`PolicyHints`], whatever its policy. Hints that are
//! wrong cost hits only, and the [`Judge`] suspends them when they do.

mod class_map;
mod classes;
mod first_accesses;
mod judge;

pub use class_map::{BLOCKS_END, ClassExtent, ClassMap, EXTENTS_MAX, MapError};
pub use classes::{
    CLASSES, CLASSES_MAX, Class, ClassAdmission, Treatment, Treatments, UNKNOWN, Weight,
    class_by_name,
};
pub use judge::{ClassReport, CurrentHints, Judge};

use crate::{Hash, Sampler};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use first_accesses::FirstAccesses;

/// Maximum number of victims that are spared for one eviction: a bound of the search.
pub(crate) const SPARED_MAX: u32 = 8;

/// 2^64 divided by the golden ratio: its multiples are spread evenly (Knuth, "The Art of Computer
/// Programming", volume 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A map with the treatment of its classes. It is never changed, only replaced.
#[derive(Debug, Default)]
pub struct Hints {
    /// The class of each block.
    pub map: ClassMap,
    /// The treatment of each class.
    pub treatments: Treatments,
}

impl Hints {
    /// Returns the class of a block, and its treatment.
    #[inline]
    fn of(&self, hash: Hash) -> (usize, Treatment) {
        let class = self.map.class_of(hash.block());
        (class.into(), self.treatments.of(class))
    }
}

/// Counts of the blocks of a class in a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// Blocks that were missing when they were accessed.
    pub misses: u64,
    /// Those of them that were not admitted because of their class.
    pub skipped: u64,
    /// Victims of the policy that were spared because of their class.
    pub spared: u64,
    /// Misses of blocks of the sample.
    sampled_misses: u64,
}

impl ClassCounts {
    /// Adds the counts of another shard.
    pub fn add(&mut self, other: &ClassCounts) {
        self.misses += other.misses;
        self.skipped += other.skipped;
        self.spared += other.spared;
        self.sampled_misses += other.sampled_misses;
    }
}

/// The hints of a shard, between the policy and its caller.
pub struct PolicyHints {
    hints: Arc<Hints>,
    /// Whether the hints are followed. Otherwise they only yield statistics.
    is_in_force: Arc<AtomicBool>,
    /// Misses of blocks of this sample are counted.
    sampler: Sampler,
    first_accesses: FirstAccesses,
    /// The block that was looked up for the last miss, which is usually the next candidate.
    last: Option<(Hash, Treatment)>,
    /// A multiple of [`GOLDEN`].
    drawn: u64,
    counts: [ClassCounts; CLASSES_MAX],
}

impl PolicyHints {
    /// Hints for a shard of `slots` slots.
    pub fn new(current: CurrentHints, slots: u32) -> PolicyHints {
        let CurrentHints { hints, is_in_force, sampler } = current;
        PolicyHints::with(hints, sampler, is_in_force, FirstAccesses::new(slots))
    }

    /// Hints for a simulated cache of `slots` slots over a sample of the blocks, always in force.
    fn of_sample(hints: Arc<Hints>, slots: u32) -> PolicyHints {
        let is_in_force = Arc::new(AtomicBool::new(true));
        PolicyHints::with(hints, Sampler::NONE, is_in_force, FirstAccesses::of_sample(slots))
    }

    fn with(
        hints: Arc<Hints>,
        sampler: Sampler,
        is_in_force: Arc<AtomicBool>,
        first_accesses: FirstAccesses,
    ) -> PolicyHints {
        let (last, drawn, counts) = (None, 0, [ClassCounts::default(); CLASSES_MAX]);
        PolicyHints { hints, is_in_force, sampler, first_accesses, last, drawn, counts }
    }

    /// Returns the same, on the heap, to be swapped in a section without an allocation.
    pub fn boxed(self) -> Box<PolicyHints> {
        Box::new(self)
    }

    /// Continues the counts of earlier hints of this shard, and remembers the same accesses.
    pub(crate) fn continue_from(&mut self, earlier: &mut PolicyHints) {
        core::mem::swap(&mut self.first_accesses, &mut earlier.first_accesses);
        self.counts = earlier.counts;
        self.drawn = earlier.drawn;
    }

    fn are_in_force(&self) -> bool {
        self.is_in_force.load(Ordering::Relaxed)
    }

    /// The counts of each class.
    pub(crate) fn counts(&self) -> &[ClassCounts; CLASSES_MAX] {
        &self.counts
    }

    /// Records a missing block. Returns whether its class forbids that it is admitted.
    pub(crate) fn skips(&mut self, hash: Hash) -> bool {
        let (class, treatment) = self.hints.of(hash);
        self.last = Some((hash, treatment));
        let is_skipped = self.are_in_force()
            && match treatment.admission {
                ClassAdmission::Usual => false,
                ClassAdmission::SecondAccess => !self.first_accesses.returns(hash.block()),
                ClassAdmission::Never => true,
            };
        let counts = &mut self.counts[class];
        counts.misses += 1;
        counts.skipped += u64::from(is_skipped);
        counts.sampled_misses += u64::from(self.sampler.takes(hash));
        is_skipped
    }

    /// Returns the weight of a candidate, which victims are compared with, while hints are in
    /// force.
    pub(crate) fn weight_of(&self, candidate: Hash) -> Option<Weight> {
        let treatment = || match self.last {
            Some((last, treatment)) if last == candidate => treatment,
            _ => self.hints.of(candidate).1,
        };
        self.are_in_force().then(|| treatment().weight)
    }

    /// Whether a victim is spared for a candidate of this weight. One of twice the weight is spared
    /// every other time, so that it stays twice as long.
    pub(crate) fn spares(&mut self, victim: Hash, candidate: Weight) -> bool {
        let (class, treatment) = self.hints.of(victim);
        if treatment.weight <= candidate {
            return false;
        }
        self.drawn = self.drawn.wrapping_add(GOLDEN);
        let drawn = ((self.drawn >> 40) * u64::from(treatment.weight.bits())) >> 24;
        let is_spared = drawn >= u64::from(candidate.bits());
        self.counts[class].spared += u64::from(is_spared);
        is_spared
    }

    /// Whether a write to these blocks may change the map of files.
    pub(crate) fn outdates_map(&self, blocks: Range<u64>) -> bool {
        self.hints.map.has_class(blocks, classes::is_of_map)
    }

    /// Whether blocks of this class are never admitted, whatever the judge has decided.
    pub(crate) fn never_admits(&self, block: u64) -> bool {
        self.hints.of(Hash::of(block)).1.admission == ClassAdmission::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::draw;
    use crate::{Kind, Policy};
    use alloc::vec::Vec;

    const METADATA: u8 = 2;
    const MEDIA: u8 = 9;
    const FREE: u8 = 1;

    /// Blocks below 1000 are metadata, then big media, free space and unknown.
    fn hints() -> Arc<Hints> {
        let extent = |first, class| ClassExtent { first, blocks: 1000, class };
        let extents = [extent(0, METADATA), extent(1000, MEDIA), extent(2000, FREE)];
        let map = ClassMap::new(extents, 10_000).expect("sorted");
        Arc::new(Hints { map, treatments: Treatments::default() })
    }

    fn of_shard() -> PolicyHints {
        PolicyHints::of_sample(hints(), 1000)
    }

    #[test]
    fn the_class_decides_about_a_miss() {
        let mut shard = of_shard();
        let mut skips = |block| shard.skips(Hash::of(block));
        assert!(!skips(5) && !skips(5000));
        assert!(skips(1005), "the first access");
        assert!(!skips(1005), "the second one");
        assert!(skips(1005), "it was evicted since");
        assert!(skips(2005) && skips(2005));
        let counts = shard.counts();
        let of = |class: u8| counts[usize::from(class)];
        assert_eq!((of(MEDIA).misses, of(MEDIA).skipped), (3, 2));
        assert_eq!((of(FREE).misses, of(FREE).skipped), (2, 2));
        assert_eq!((of(METADATA).misses, of(METADATA).skipped), (1, 0));
    }

    #[test]
    fn writes_of_metadata_and_directories_outdate_the_map() {
        let of_map = CLASSES.iter().zip(0..).filter(|(_, number)| classes::is_of_map(*number));
        let names: Vec<_> = of_map.map(|(class, _)| class.name).collect();
        assert_eq!(names, ["metadata", "directories"]);
        let shard = of_shard();
        let outdates = [990..1000, 990..1010, 1000..1010, 2000..2005, 5000..9000]
            .map(|blocks| shard.outdates_map(blocks));
        assert_eq!(outdates, [true, true, false, false, false]);
    }

    #[test]
    fn suspended_hints_only_count() {
        let mut shard = of_shard();
        shard.is_in_force.store(false, Ordering::Relaxed);
        assert!(!shard.skips(Hash::of(2005)) && !shard.skips(Hash::of(1005)));
        assert_eq!(shard.counts()[usize::from(FREE)].misses, 1);
        assert_eq!(shard.weight_of(Hash::of(5)), None);
        assert!(shard.never_admits(2005));
    }

    #[test]
    fn a_victim_of_twice_the_weight_is_spared_every_other_time() {
        let mut shard = of_shard();
        let spared = |shard: &mut PolicyHints, victim: u64, candidate: u64| {
            let weight = shard.weight_of(Hash::of(candidate)).expect("in force");
            (0..1000).filter(|_| shard.spares(Hash::of(victim), weight)).count()
        };
        assert_eq!(spared(&mut shard, 5, 6), 0, "the same class");
        assert_eq!(spared(&mut shard, 1005, 5), 0, "a lighter class");
        assert!((480..520).contains(&spared(&mut shard, 5, 5000)), "2 and 1");
        assert!((860..890).contains(&spared(&mut shard, 5, 1005)), "2 and 1/4");
        assert!(shard.counts()[usize::from(METADATA)].spared > 1000);
    }

    #[test]
    fn each_served_policy_keeps_heavy_blocks_longer() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
            let mut slots = crate::slots::Slots::new(Policy::new(kind, 512), 512);
            slots.policy_mut().replace_hints(Some(of_shard().boxed()));
            // As many reads of metadata as of blocks without a class.
            let (mut state, mut hits) = (5, [0; 2]);
            for _ in 0..40_000 {
                let is_metadata = draw(&mut state, 2) == 0;
                let block = draw(&mut state, 1000) + if is_metadata { 0 } else { 5000 };
                hits[usize::from(is_metadata)] += u32::from(slots.read_hash(Hash::of(block)));
            }
            let [others, metadata] = hits;
            assert!(metadata > others * 5 / 4, "{kind:?}: {metadata} and {others} hits");
        }
    }

    #[test]
    fn a_replaced_map_continues_counts_and_accesses() {
        let mut policy = Policy::new(Kind::Adaptive, 100);
        assert!(policy.replace_hints(Some(of_shard().boxed())).is_none());
        let media = Hash::of(1005);
        assert_eq!(policy.miss(media), crate::Verdict::Skip);
        assert!(policy.replace_hints(Some(of_shard().boxed())).is_some());
        assert_eq!(policy.miss(media), crate::Verdict::Keep);
        let counts = policy.class_counts().expect("it has hints");
        assert_eq!(counts[usize::from(MEDIA)].misses, 2);
        assert!(policy.replace_hints(None).is_some());
        assert_eq!(policy.miss(media), crate::Verdict::Keep);
        assert!(policy.class_counts().is_none());
    }
}
