//! Latencies: a histogram, and the values that a histogram has no exact answer for.

use hdrhistogram::Histogram;

/// The longest latency with a bucket of its own: an hour. Longer ones count in the last bucket.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds. Quantiles are accurate to one percent; count, mean, standard
/// deviation, minimum and maximum are exact.
///
/// The buckets are those of G. Tene's HdrHistogram with two significant digits.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum: u128,
    squares: u128,
    min: u64,
    max: u64,
}

impl Latency {
    /// Returns an empty histogram.
    pub fn new() -> Latency {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("valid bounds");
        Latency { histogram, sum: 0, squares: 0, min: u64::MAX, max: 0 }
    }

    /// Counts a latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.sum += u128::from(ns);
        self.squares += u128::from(ns) * u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds the latencies of another one.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("the same bounds");
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the count, the mean and the 99th percentile of the latencies after `earlier`, which
    /// was a copy of this.
    pub(crate) fn since(&self, earlier: &Latency) -> (u64, f64, u64) {
        let mut since = self.histogram.clone();
        since.subtract(&earlier.histogram).expect("it has counted all that the copy had");
        let count = since.len();
        let mean_ns = (self.sum - earlier.sum) as f64 / count.max(1) as f64;
        (count, mean_ns, if count == 0 { 0 } else { since.value_at_quantile(0.99) })
    }

    /// Returns the buckets in ascending order: the longest latency of each in nanoseconds, and its
    /// count. A bucket is at least a twentieth of its latency wide, so that a distribution over six
    /// decades has at most about 300.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        let mut end_ns = 0;
        for part in self.histogram.iter_recorded() {
            let ns = part.value_iterated_to().clamp(self.min, self.max);
            let count = part.count_since_last_iteration();
            match buckets.last_mut().filter(|_| ns <= end_ns) {
                Some(last) => *last = (ns, last.1 + count),
                None => {
                    end_ns = ns + ns / 20;
                    buckets.push((ns, count));
                }
            }
        }
        buckets
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the mean; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// Returns the standard deviation.
    pub fn stdev_ns(&self) -> f64 {
        let count = self.count().max(1) as f64;
        let mean = self.mean_ns();
        (self.squares as f64 / count - mean * mean).max(0.0).sqrt()
    }

    /// Returns the minimum; 0 if there are none.
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min }
    }

    /// Returns the maximum; 0 if there are none.
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// Returns the latency that the share `quantile` (0.5: half) did not exceed.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        match self.count() {
            0 => 0,
            _ => self.histogram.value_at_quantile(quantile).clamp(self.min, self.max),
        }
    }

    /// Returns the share of latencies above this, accurate to the width of a bucket.
    pub fn share_above(&self, ns: u64) -> f64 {
        let all = self.count().max(1) as f64;
        let below = self.histogram.count_between(0, ns.min(LONGEST_NS));
        1.0 - below as f64 / all
    }
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::Random;

    #[test]
    fn it_agrees_with_the_sorted_list() {
        let mut random = Random::new(5);
        let mut all: Vec<u64> = (0..5000).map(|_| random.next_u64() >> 30).collect();
        let (mut one, mut two) = (Latency::new(), Latency::new());
        for (index, ns) in all.iter().enumerate() {
            if index % 3 == 0 { &mut one } else { &mut two }.record(*ns);
        }
        one.merge(&two);
        all.sort_unstable();
        let mean = all.iter().sum::<u64>() as f64 / 5000.0;
        let variance = all.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>() / 5000.0;
        assert_eq!((one.count(), one.min_ns(), one.max_ns()), (5000, all[0], all[4999]));
        assert!((one.mean_ns() / mean - 1.0).abs() < 1e-12);
        assert!((one.stdev_ns() / variance.sqrt() - 1.0).abs() < 1e-6);
        for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = all[(quantile * 5000.0f64).ceil() as usize - 1] as f64;
            assert!((one.quantile_ns(quantile) as f64 / exact - 1.0).abs() < 0.01, "{quantile}");
        }
        assert!((one.share_above(all[2499]) - 0.5).abs() < 0.01);
    }

    #[test]
    fn buckets_hold_all_and_end_with_the_longest() {
        let mut random = Random::new(7);
        let mut latency = Latency::new();
        (0..20_000).for_each(|_| latency.record(1000 << random.below(14) | random.below(1000)));
        let buckets = latency.buckets();
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), latency.count());
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0), "{buckets:?}");
        assert_eq!(buckets.last().map(|last| last.0), Some(latency.max_ns()));
        assert!(buckets.len() < 300, "{}", buckets.len());
        let half = buckets.iter().scan(0, |all, (ns, count)| {
            *all += count;
            Some((*ns, *all))
        });
        let half = half.into_iter().find(|(_, all)| *all >= 10_000).expect("half of all").0;
        let exact = latency.quantile_ns(0.5);
        assert!((half as f64 / exact as f64 - 1.0).abs() < 0.06, "{half} for {exact}");
        assert!(Latency::new().buckets().is_empty());
    }

    #[test]
    fn nothing_and_too_much() {
        let mut latency = Latency::new();
        assert_eq!((latency.count(), latency.min_ns(), latency.quantile_ns(0.5)), (0, 0, 0));
        latency.record(u64::MAX / 2);
        assert_eq!(latency.max_ns(), u64::MAX / 2, "exact beyond the buckets");
        latency.record(0);
        assert_eq!(latency.quantile_ns(0.5), 0);
    }
}
