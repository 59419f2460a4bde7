//! A cache without bytes that follows hints.

use crate::hints::{CLASSES_MAX, ClassCounts, ClassReport, Hints, Judge, PolicyHints};
use crate::slots::Slots;
use crate::{Arbiter, Hash, Kind, Policy, Sampler, shard_of};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A cache of one policy, with hints about the blocks. Makes the decisions of a served cache for
/// reads of single blocks, one after the other. Nothing allocates except `new`.
pub struct HintedSimulation {
    shards: Vec<Slots>,
    /// That of [`Kind::Adaptive`].
    arbiter: Option<Arbiter>,
    judge: Judge,
    /// The sample of both.
    sampler: Sampler,
}

impl HintedSimulation {
    /// Creates an empty cache of `shards` shards with `slots` slots each.
    ///
    /// # Panics
    /// If the kind does not work on slots (see [`Policy::new`]), there are no slots or more than
    /// [`Simulation::SLOTS_MAX`](crate::Simulation::SLOTS_MAX), or the number of shards is not a
    /// power of two.
    pub fn new(kind: Kind, slots: u32, shards: u32, hints: &Arc<Hints>) -> HintedSimulation {
        assert!(shards.is_power_of_two(), "{shards} shards");
        assert!(slots > 0 && slots <= crate::Simulation::SLOTS_MAX, "{slots} slots");
        let all = slots.saturating_mul(shards);
        let judge = Judge::new(kind, all, hints.clone());
        let shard = || {
            let mut shard = Slots::new(Policy::new(kind, slots), slots);
            let of_shard = PolicyHints::new(judge.current(), slots);
            shard.policy_mut().replace_hints(Some(of_shard.boxed()));
            shard
        };
        let shards = (0..shards).map(|_| shard()).collect();
        let arbiter = (kind == Kind::Adaptive).then(|| Arbiter::new(all));
        HintedSimulation { shards, arbiter, sampler: judge.sampler(), judge }
    }

    /// Reads a block. Returns whether it was cached.
    #[inline]
    pub fn read(&mut self, block: u64) -> bool {
        let hash = Hash::of(block);
        if self.sampler.takes(hash) {
            if let Some(arbiter) = &mut self.arbiter
                && let Some(share) = arbiter.access(hash)
            {
                self.judge.set_window_share(share);
            }
            self.judge.access(hash);
        }
        let number = shard_of(block, self.shards.len() as u32);
        let shard = &mut self.shards[number as usize];
        let is_hit = shard.hit(hash).is_some();
        if !is_hit {
            if let Some(arbiter) = &self.arbiter {
                shard.set_window_share(arbiter.share());
            }
            shard.miss(hash);
        }
        is_hit
    }

    /// Whether the hints are in force, or are suspended because they cost hits.
    pub fn follows_hints(&self) -> bool {
        self.judge.follows_hints()
    }

    /// Returns the accesses to the blocks of each class.
    pub fn classes(&self) -> [ClassReport; CLASSES_MAX] {
        let mut counts = [ClassCounts::default(); CLASSES_MAX];
        for shard in self.shards.iter().filter_map(|shard| shard.policy().class_counts()) {
            counts.iter_mut().zip(shard).for_each(|(sum, one)| sum.add(one));
        }
        self.judge.report(&counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassExtent, ClassMap, Treatments};

    #[test]
    fn without_a_map_it_misses_as_the_simulation_without_hints() {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_served()) {
            for shards in [1, 4] {
                let mut hinted = HintedSimulation::new(kind, 500, shards, &Arc::default());
                let mut plain = crate::Simulation::with_shards(kind, 500, shards);
                let mut state = 3;
                for read in 0..60_000u64 {
                    let block = match read % 3 {
                        0 => crate::brute_force::draw(&mut state, 100_000),
                        _ => crate::brute_force::draw(&mut state, 3000) * 7,
                    };
                    assert_eq!(hinted.read(block), plain.read(block), "{kind:?}, read {read}");
                }
                assert!(hinted.follows_hints());
            }
        }
    }

    #[test]
    fn the_hits_of_a_class_are_estimated_and_its_misses_counted() {
        let extents =
            [(0, 2), (1000, 9)].map(|(first, class)| ClassExtent { first, blocks: 1000, class });
        let map = ClassMap::new(extents, 5000).expect("sorted");
        let hints = Arc::new(Hints { map, treatments: Treatments::default() });
        let mut hinted = HintedSimulation::new(Kind::Adaptive, 4000, 1, &hints);
        let mut hits = [0; 2];
        for read in 0..20_000u64 {
            let block = read % 2000;
            hits[usize::from(block >= 1000)] += u64::from(hinted.read(block));
        }
        let classes = hinted.classes();
        assert_eq!(classes[2].counts.misses + hits[0], 10_000);
        assert_eq!(classes[9].counts.misses + hits[1], 10_000);
        for (class, hits) in [(2, hits[0]), (9, hits[1])] {
            assert!(classes[class].hits.abs_diff(hits) < hits / 5, "{:?}", classes[class]);
        }
        assert!(classes[9].counts.skipped >= 1000, "each was missed once before");
    }
}
