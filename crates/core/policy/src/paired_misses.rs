//! Decaying counts of the accesses that one of several simulated caches missed and another did not.
//!
//! The simulations see the same accesses, so most hits and misses are common to them. Only the
//! other accesses show a difference, and only their number is random: it is far smaller than that
//! of all misses, so a difference is significant earlier (Q. McNemar, "Note on the Sampling Error
//! of the Difference Between Correlated Proportions or Percentages", Psychometrika 12, 1947).

/// The counts of each pair of caches.
pub(crate) struct PairedMisses<const CACHES: usize> {
    /// Accesses that the first cache missed and the second did not.
    only: [[f64; CACHES]; CACHES],
    /// All misses of each cache.
    all: [f64; CACHES],
}

impl<const CACHES: usize> PairedMisses<CACHES> {
    /// No access was counted.
    pub(crate) const NONE: PairedMisses<CACHES> =
        PairedMisses { only: [[0.0; CACHES]; CACHES], all: [0.0; CACHES] };

    /// Counts an access. `missed`: which of the caches missed it.
    #[inline]
    pub(crate) fn add(&mut self, missed: &[bool; CACHES]) {
        let rows = self.only.iter_mut().zip(&mut self.all).zip(missed);
        for ((row, all), _) in rows.filter(|(_, missed)| **missed) {
            *all += 1.0;
            for (count, missed) in row.iter_mut().zip(missed) {
                *count += if *missed { 0.0 } else { 1.0 };
            }
        }
    }

    /// Reduces the weight of the accesses until now to this part.
    pub(crate) fn fade(&mut self, keeps: f64) {
        self.only.iter_mut().flatten().chain(&mut self.all).for_each(|count| *count *= keeps);
    }

    /// Returns the misses of a cache.
    pub(crate) fn misses(&self, cache: usize) -> f64 {
        self.all[cache]
    }

    /// Returns by how many misses a cache is better than another one; negative: worse.
    pub(crate) fn gain(&self, better: usize, than: usize) -> f64 {
        self.only[than][better] - self.only[better][than]
    }

    /// Whether the difference of two caches is at least this number of standard deviations,
    /// squared.
    pub(crate) fn is_significant(&self, one: usize, other: usize, deviations_squared: f64) -> bool {
        let gain = self.gain(one, other);
        let different = self.only[one][other] + self.only[other][one];
        gain * gain >= deviations_squared * different.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accesses_that_one_cache_misses_alone_are_evidence() {
        let mut pairs = PairedMisses::NONE;
        (0..1_000_000).for_each(|_| pairs.add(&[true, true, true]));
        assert_eq!((pairs.gain(0, 1), pairs.misses(2)), (0.0, 1e6));
        for _ in 0..20 {
            pairs.add(&[false, true, true]);
            pairs.add(&[true, true, false]);
        }
        assert_eq!([pairs.gain(0, 1), pairs.gain(1, 0), pairs.gain(0, 2)], [20.0, -20.0, 0.0]);
        assert!(pairs.is_significant(0, 1, 16.0) && pairs.is_significant(1, 0, 16.0));
        assert!(!pairs.is_significant(0, 2, 16.0), "both have 20 misses of their own");
        pairs.fade(0.5);
        assert_eq!(pairs.gain(0, 1), 10.0);
        assert!(!pairs.is_significant(0, 1, 16.0));
    }
}
