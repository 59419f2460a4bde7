//! The backing's latency for write-throughs, by their size.

use lane::atomic::{AtomicU64, Ordering};

/// Size classes that are measured separately: each is twice the one before, in blocks; the last one
/// is unlimited.
const SIZES: usize = 16;
/// Assumed latency of a size without a measurement, in nanoseconds: that of a usual disk.
const ASSUMED_NS: u64 = 1_000_000;

/// Mean latencies of writes, in nanoseconds.
#[derive(Debug)]
pub(crate) struct WriteTimes([AtomicU64; SIZES]);

impl WriteTimes {
    pub(crate) fn new() -> WriteTimes {
        WriteTimes(core::array::from_fn(|_| AtomicU64::new(ASSUMED_NS)))
    }

    fn of(&self, blocks: u32) -> &AtomicU64 {
        &self.0[(blocks.max(1).ilog2() as usize).min(SIZES - 1)]
    }

    /// Records a write of this number of blocks.
    pub(crate) fn took(&self, blocks: u32, ns: u64) {
        let mean = self.of(blocks);
        let before = mean.load(Ordering::Relaxed);
        mean.store(before - before / 8 + ns / 8, Ordering::Relaxed);
    }

    /// Returns the expected latency of a write of this number of blocks.
    pub(crate) fn expected_ns(&self, blocks: u32) -> u64 {
        self.of(blocks).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_write_is_that_of_the_last_ones_of_its_size() {
        let times = WriteTimes::new();
        (0..100).for_each(|_| times.took(1, 8_000));
        (0..100).for_each(|_| times.took(u32::MAX, 80_000_000));
        assert!((7_900..9_000).contains(&times.expected_ns(1)), "{}", times.expected_ns(1));
        assert_eq!(times.expected_ns(2), ASSUMED_NS);
        assert!(times.expected_ns(1 << 20) > 70_000_000);
    }
}
