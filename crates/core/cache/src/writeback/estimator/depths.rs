//! The number of runs in flight with which a device is fastest.
//!
//! Most devices serve several requests at once, and some of them only gradually more: while each
//! takes longer than alone, all together are still served faster. While runs wait for nothing but
//! each other, the gain of a deeper queue is measured:
//!
//! ```text
//!              the number of runs in flight
//!   served  =  ---------------------------------------------------
//!              the time of a run / the time of a run without a queue
//! ```
//!
//! It is the number of runs that the device serves in the time of one. The depths are powers of
//! two, tried step by step, as long as each gains something.

use super::Begun;
use lane::atomic::{AtomicU32, AtomicU64, Ordering};

/// The depths: 1, 2, 4, ... 128.
const DEPTHS: usize = 8;
/// A depth is sufficient if it gains at most this part less than the best one.
const PART: u64 = 16;
/// The weight of one run in the measurement of its depth: one part in this number.
const WEIGHT: u64 = 16;
/// After this number of runs deeper queues are tried again: the device may have changed.
const RUNS: u32 = 1024;

/// Measurements of queues of several depths.
#[derive(Debug, Default)]
pub(super) struct Depths {
    /// For each depth, the number of runs that are served in the time of one, in 256ths; 0: not
    /// measured.
    served: [AtomicU64; DEPTHS],
    runs: AtomicU32,
}

impl Depths {
    /// Records a run that took `ns`, where one like it takes `least_ns` without a queue.
    pub(super) fn record(&self, begun: Begun, ns: u64, least_ns: u64) {
        let depth = begun.depth.max(1);
        let class = depth.ilog2() as usize;
        if !depth.is_power_of_two() || class >= DEPTHS {
            return;
        }
        let served = u64::from(depth).saturating_mul(256).saturating_mul(least_ns) / ns.max(1);
        let served = match self.served[class].load(Ordering::Relaxed) {
            0 => served,
            before => before - before / WEIGHT + served / WEIGHT,
        };
        self.served[class].store(served.max(1), Ordering::Relaxed);
        if self.runs.fetch_add(1, Ordering::Relaxed) % RUNS == RUNS - 1 {
            let deeper = self.served.iter().skip(class + 1);
            deeper.for_each(|depth| depth.store(0, Ordering::Relaxed));
        }
    }

    /// Returns the minimum number of runs in flight with which the device is nearly as fast as with
    /// any number up to `most`, or the next one to try.
    pub(super) fn fastest(&self, most: u32) -> u32 {
        let depths = (most.max(1).ilog2() as usize + 1).min(DEPTHS);
        let at = |class: usize| self.served[class].load(Ordering::Relaxed);
        let best = (0..depths).map(at).max().unwrap_or(0);
        let is_near = |class: &usize| at(*class) >= best - best / PART;
        let class = (0..depths).find(is_near).unwrap_or(0);
        // It may be the best only because no deeper queue has been tried.
        let is_deepest = (class + 1..depths).all(|deeper| at(deeper) == 0);
        let is_to_grow = is_deepest && class + 1 < depths && best > 0;
        1 << (class + usize::from(is_to_grow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs on a device whose runs take these times at depths of 1, 2, 4, ... Returns the greatest
    /// and the last number of runs in flight.
    fn run(depths: &Depths, times_ns: &[u64], runs: u32) -> (u32, u32) {
        let mut most = 0;
        for _ in 0..runs {
            let depth = depths.fastest(u32::MAX);
            most = most.max(depth);
            let ns = times_ns.get(depth.ilog2() as usize).copied();
            // A full device serves no more at once.
            let last = *times_ns.last().expect("a time") * u64::from(depth);
            let ns = ns.unwrap_or(last >> (times_ns.len() - 1));
            depths.record(Begun { ns: 0, depth }, ns, times_ns[0]);
        }
        (most, depths.fastest(u32::MAX))
    }

    #[test]
    fn the_depth_grows_while_the_device_gains() {
        // One at a time; four servers; a device that gains less and less.
        let queue = |times: &[u64]| run(&Depths::default(), times, 200);
        assert_eq!(queue(&[100, 200]), (2, 1));
        assert_eq!(queue(&[100, 100, 100, 200]), (8, 4));
        assert_eq!(queue(&[43, 66, 74, 108, 210]), (16, 8));
        assert_eq!(queue(&[100; 8]), (128, 128), "the deepest one that is measured");
        // Deeper ones do not count where they are not allowed.
        let depths = Depths::default();
        run(&depths, &[100; 8], 20);
        assert_eq!([9, 4].map(|most| depths.fastest(most)), [8, 4]);
    }

    #[test]
    fn a_device_that_has_changed_is_measured_again() {
        let depths = Depths::default();
        assert_eq!(run(&depths, &[100, 200], 200).1, 1);
        assert_eq!(run(&depths, &[100, 100, 100, 200], 2 * RUNS), (8, 4));
        assert_eq!(run(&depths, &[100, 200], 2 * RUNS).1, 1);
    }

    #[test]
    fn other_depths_are_no_measure() {
        let depths = Depths::default();
        depths.record(Begun { ns: 0, depth: 3 }, 100, 100);
        depths.record(Begun { ns: 0, depth: 256 }, 100, 100);
        assert_eq!(depths.fastest(u32::MAX), 1);
        depths.record(Begun { ns: 0, depth: 0 }, 0, u64::MAX);
        assert_eq!(depths.fastest(u32::MAX), 2, "extremes do not overflow");
        assert_eq!([0, 1, 2].map(|most| depths.fastest(most)), [1, 1, 2]);
    }
}
