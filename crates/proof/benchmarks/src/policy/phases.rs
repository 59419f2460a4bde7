//! The choices of the arbiter in each phase of a load, beside the misses of the cache, of LRU, and
//! of each shadow: the share that the arbiter could have chosen.

use ::policy::{Arbiter, Kind, Record, Simulation};

/// Number of phases of a load.
const PHASES: usize = 64;

/// A part of a load.
pub(super) struct Phase {
    /// The share at its end, as [`Arbiter::share`] returns it.
    pub(super) share: u32,
    pub(super) reads: u64,
    pub(super) misses: u64,
    pub(super) lru_misses: u64,
    /// Reads of the sample, and the misses of each shadow among them.
    pub(super) shadows: Record,
}

impl Phase {
    /// Returns the misses that a shadow expects of the whole cache.
    pub(super) fn expected(&self, shadow: usize) -> f64 {
        let sampled = self.shadows.reads.max(1) as f64;
        self.shadows.misses[shadow] as f64 * self.reads as f64 / sampled
    }

    /// Returns the index of its share among those of the shadows.
    pub(super) fn chosen(&self) -> usize {
        Arbiter::shares().iter().position(|share| *share == self.share).unwrap_or(0)
    }

    /// Returns the fewest misses that a shadow expects.
    pub(super) fn best(&self) -> f64 {
        (0..Arbiter::shares().len()).map(|shadow| self.expected(shadow)).fold(f64::MAX, f64::min)
    }
}

/// Returns the phases of a load in a cache of `slots` slots.
pub(super) fn phases(load: &[u64], slots: u32) -> Vec<Phase> {
    let (mut cache, mut lru) =
        (Simulation::new(Kind::Adaptive, slots), Simulation::new(Kind::Lru, slots));
    let mut before = Record::default();
    let mut phase = |blocks: &[u64]| {
        let (mut misses, mut lru_misses) = (0, 0);
        for &block in blocks {
            misses += u64::from(!cache.read(block));
            lru_misses += u64::from(!lru.read(block));
        }
        let arbiter = cache.arbiter().expect("the policy has one");
        let now = *arbiter.record();
        let mut shadows = now;
        shadows.reads -= before.reads;
        shadows.misses.iter_mut().zip(before.misses).for_each(|(misses, old)| *misses -= old);
        before = now;
        let (share, reads) = (arbiter.share(), blocks.len() as u64);
        Phase { share, reads, misses, lru_misses, shadows }
    };
    load.chunks(load.len().div_ceil(PHASES).max(1)).map(&mut phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_of_a_loop_add_up_and_the_largest_main_part_is_chosen_and_best() {
        let load: Vec<u64> = (0..64_000).map(|read| read % 2_000).collect();
        let phases = phases(&load, 1_000);
        assert_eq!(phases.len(), PHASES);
        assert_eq!(phases.iter().map(|phase| phase.reads).sum::<u64>(), 64_000);
        assert!(phases.iter().all(|phase| phase.lru_misses == 1_000), "LRU misses all");
        let last = &phases[PHASES - 1];
        // All blocks of so small a cache are in the sample.
        assert_eq!(last.shadows.reads, 1_000);
        assert_eq!(::policy::window_share(last.share), 32);
        assert!(last.expected(last.chosen()) <= last.best() * 1.05, "{}", last.best());
        assert!((last.expected(0) - 1_000.0).abs() < 1e-9, "the first is LRU");
        assert!(last.misses < 700, "{}", last.misses);
    }
}
