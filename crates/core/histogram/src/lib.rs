//! Latency histograms: fixed memory, no lock, and the bucket is found by arithmetic.
//!
//! The buckets are log-linear, from nanoseconds to a minute: every power of two is divided into
//! eight equal parts, so a bucket's width is at most an eighth of its values. Source of the idea:
//! G. Tene, HdrHistogram (hdrhistogram.github.io).
//!
//! ```text
//! 0 .. 64 ns | 64 72 80 ... 120 | 128 144 ... 240 | 256 ... | ... 60 s | 68.7 s and above
//!   bucket 0 |      1 ... 8     |     9 ... 16    |                    |   bucket 241
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod json;

use core::sync::atomic::{AtomicU64, Ordering};

/// All values below two to this power share one bucket: clocks are not more precise.
const FIRST_BITS: u32 = 6;
/// All values from two to this power on share one bucket: 68.7 seconds.
const LAST_BITS: u32 = 36;
/// Each power of two is divided into two to this power parts.
const PART_BITS: u32 = 3;
const PARTS: usize = 1 << PART_BITS;
const BUCKETS: usize = (LAST_BITS - FIRST_BITS) as usize * PARTS + 2;

/// Counts of latencies. Any thread may record.
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

#[inline]
fn bucket_of(ns: u64) -> usize {
    if ns < 1 << FIRST_BITS {
        return 0;
    }
    if ns >= 1 << LAST_BITS {
        return BUCKETS - 1;
    }
    let power = ns.ilog2();
    let part = (ns >> (power - PART_BITS)) as usize & (PARTS - 1);
    1 + (power - FIRST_BITS) as usize * PARTS + part
}

/// The maximum latency of a bucket.
fn upper_of(bucket: usize) -> u64 {
    match bucket {
        0 => (1 << FIRST_BITS) - 1,
        last if last == BUCKETS - 1 => u64::MAX,
        _ => {
            let (power, part) = ((bucket - 1) / PARTS, (bucket - 1) % PARTS);
            (((PARTS + part + 1) as u64) << (power as u32 + FIRST_BITS - PART_BITS)) - 1
        }
    }
}

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Histogram {
        Histogram {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// Records one latency.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.counts[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        // Checked first: a new maximum is rare, and a load is cheaper than a locked instruction.
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// Returns the current counts. A latency that is being recorded at this moment may be included
    /// in the count but not yet in the mean.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            counts: core::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            max_ns: self.max_ns.load(Ordering::Relaxed),
        }
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// The counts of a [`Histogram`] at one moment: 2 KB of plain data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    counts: [u64; BUCKETS],
    sum_ns: u64,
    max_ns: u64,
}

impl Snapshot {
    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the latency that the share `quantile` of all latencies (0.5: half; 0.99) does not
    /// exceed, in nanoseconds. The result is the upper end of a bucket: never too low, and too high
    /// by less than an eighth (below 64 ns: by less than 64 ns). 0 if the histogram is empty; a
    /// `quantile` outside 0 to 1 is clamped.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let exact = quantile.clamp(0.0, 1.0) * self.count() as f64;
        // Rounded up by hand, as the crate is `no_std`; the lowest rank is 1.
        let rank = (exact as u64 + u64::from(exact as u64 as f64 != exact)).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_of(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// Maximum latency in nanoseconds, exact; 0 if the histogram is empty.
    pub fn max(&self) -> u64 {
        self.max_ns
    }

    /// Mean in nanoseconds, exact; 0 if the histogram is empty.
    pub fn mean(&self) -> u64 {
        self.sum_ns / self.count().max(1)
    }

    /// Sum in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum_ns
    }

    /// Adds the counts of another snapshot.
    pub fn merge(&mut self, other: &Snapshot) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the counts since an earlier snapshot of the same histogram. The maximum of that
    /// interval is unknown: the result has the upper end of its highest bucket, or the overall
    /// maximum if that is lower.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let mut since = Snapshot {
            counts: core::array::from_fn(|bucket| {
                self.counts[bucket].saturating_sub(earlier.counts[bucket])
            }),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            max_ns: 0,
        };
        let longest = since.buckets().last().map_or(0, |(upper, _)| upper);
        since.max_ns = longest.min(self.max_ns);
        since
    }

    /// Returns the buckets that are not empty, in ascending order: the maximum latency of the
    /// bucket in nanoseconds (`u64::MAX`: unlimited), and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let held = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        held.map(|(bucket, &count)| (upper_of(bucket), count))
    }
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        Snapshot { counts: [0; BUCKETS], sum_ns: 0, max_ns: 0 }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use lane::Random;
    use std::vec::Vec;

    #[test]
    fn buckets_follow_one_another_and_are_at_most_an_eighth_wide() {
        let mut lower = 0u64;
        for bucket in 0..BUCKETS {
            let upper = upper_of(bucket);
            assert_eq!((bucket_of(lower), bucket_of(upper)), (bucket, bucket), "at {lower}");
            if bucket > 0 && bucket < BUCKETS - 1 {
                assert!((upper - lower + 1) * 8 <= lower, "bucket {bucket} is {lower}..={upper}");
            }
            lower = upper.wrapping_add(1);
        }
        assert_eq!(lower, 0, "the last bucket reaches to the end");
        assert_eq!(upper_of(BUCKETS - 2), (1 << LAST_BITS) - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list_or_less_than_an_eighth_above() {
        let mut random = Random::new(1);
        for round in 0..50 {
            let histogram = Histogram::new();
            let length = 1 + random.below(400);
            let mut all: Vec<u64> = (0..length)
                .map(|_| 64 + (random.next_u64() >> (28 + random.below(30))) % (60 << 30))
                .collect();
            all.iter().for_each(|&ns| histogram.record(ns));
            all.sort_unstable();
            let snapshot = histogram.snapshot();
            assert_eq!(snapshot.count(), length);
            assert_eq!(snapshot.max(), all[all.len() - 1]);
            assert_eq!(snapshot.mean(), all.iter().sum::<u64>() / length);
            for quantile in [0.0, 0.25, 0.5, 0.9, 0.99, 1.0] {
                let rank = (quantile * length as f64).ceil().max(1.0) as usize;
                let (exact, reported) = (all[rank - 1], snapshot.quantile(quantile));
                assert!(reported >= exact && reported - exact < exact.div_ceil(8), "round {round}");
            }
        }
    }

    #[test]
    fn the_ends_and_nothing_at_all() {
        let histogram = Histogram::new();
        let empty = histogram.snapshot();
        assert_eq!((empty.count(), empty.quantile(0.5), empty.max(), empty.mean()), (0, 0, 0, 0));
        assert_eq!(empty.buckets().count(), 0);
        histogram.record(0);
        assert_eq!(histogram.snapshot().quantile(1.0), 0, "never above the maximum");
        histogram.record(1 << 40);
        let both = histogram.snapshot();
        assert_eq!(both.buckets().collect::<Vec<_>>(), [(63, 1), (u64::MAX, 1)]);
        assert_eq!((both.quantile(0.5), both.quantile(0.51)), (63, 1 << 40));
        assert_eq!((both.quantile(-1.0), both.quantile(2.0)), (63, 1 << 40));
        assert_eq!(both.quantile(f64::NAN), 63);
    }

    #[test]
    fn merged_is_as_if_counted_in_one() {
        let (one, two, all) = (Histogram::new(), Histogram::new(), Histogram::new());
        let mut random = Random::new(2);
        for _ in 0..1000 {
            let bits = 6 + random.below(34);
            let ns = random.below(1 << bits);
            if random.one_in(3) { &one } else { &two }.record(ns);
            all.record(ns);
        }
        let mut merged = one.snapshot();
        merged.merge(&two.snapshot());
        assert_eq!(merged, all.snapshot());
    }

    #[test]
    fn what_was_counted_between_two_looks_is_their_difference() {
        let histogram = Histogram::new();
        histogram.record(1_000_000);
        let before = histogram.snapshot();
        [100, 200, 5_000].iter().for_each(|&ns| histogram.record(ns));
        let since = histogram.snapshot().since(&before);
        assert_eq!((since.count(), since.sum()), (3, 5_300));
        assert!((5_000..5_625).contains(&since.max()), "{}", since.max());
        assert_eq!(since.quantile(1.0), since.max());
        let nothing = before.since(&histogram.snapshot());
        assert_eq!((nothing.count(), nothing.max()), (0, 0), "of a daemon that began anew");
    }

    #[test]
    fn threads_lose_nothing() {
        let histogram = Histogram::new();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let histogram = &histogram;
                scope.spawn(move || (0..1000).for_each(|ns| histogram.record(ns * 4 + thread)));
            }
        });
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.count(), snapshot.max()), (4000, 3999));
        assert_eq!(snapshot.sum(), 3999 * 4000 / 2);
    }
}
