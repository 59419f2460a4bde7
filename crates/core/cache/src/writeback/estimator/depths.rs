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
//! two, tried step by step from the smallest one, as long as each gains something. From time to
//! time all of them are measured again: the device may have become slower or faster, and a depth
//! that is not used any more keeps what it was measured to be.

use super::Begun;
use lane::atomic::{AtomicU32, AtomicU64, Ordering};

/// The depths: 1, 2 to 3, 4 to 7, ...
const DEPTHS: usize = 8;
/// A depth is sufficient if it gains at most this part less than the best one.
const PART: u64 = 16;
/// The unit of measurements, which a depth of 128 divides well.
const ONE: u64 = 1 << 16;
/// The number of runs after which a depth counts as measured: a single run may have been delayed.
const RUNS_MIN: u32 = 8;
/// The weight of a further run in the measurement of its depth: one part in this number.
const WEIGHT: u32 = 16;
/// After this number of runs all depths are measured again.
const RUNS: u32 = 4096;

/// Measurements of queues of several depths.
#[derive(Debug, Default)]
pub(super) struct Depths {
    classes: [Depth; DEPTHS],
    runs: AtomicU32,
}

/// The measurement of one depth.
#[derive(Debug, Default)]
struct Depth {
    /// The number of runs that are served in the time of one.
    served: AtomicU64,
    /// Measured runs.
    runs: AtomicU32,
}

impl Depth {
    fn served(&self) -> Option<u64> {
        let is_measured = self.runs.load(Ordering::Relaxed) >= RUNS_MIN;
        is_measured.then(|| self.served.load(Ordering::Relaxed))
    }

    /// Adds a run: first the mean of all is formed, later an easing one.
    fn record(&self, served: u64) {
        let runs = self.runs.load(Ordering::Relaxed).saturating_add(1);
        let weight = u64::from(runs.min(WEIGHT));
        let before = self.served.load(Ordering::Relaxed);
        self.served.store(before - before / weight + served / weight, Ordering::Relaxed);
        self.runs.store(runs, Ordering::Relaxed);
    }
}

impl Depths {
    /// Records a run that took `ns`, where one like it takes `least_ns` without a queue.
    pub(super) fn record(&self, begun: Begun, ns: u64, least_ns: u64) {
        if self.runs.fetch_add(1, Ordering::Relaxed) % RUNS == RUNS - 1 {
            self.classes.iter().for_each(|depth| depth.runs.store(0, Ordering::Relaxed));
        }
        let Some(class) = begun.depth.checked_ilog2() else { return };
        let served = u64::from(begun.depth).saturating_mul(ONE).saturating_mul(least_ns);
        self.classes[(class as usize).min(DEPTHS - 1)].record(served / ns.max(1));
    }

    /// Returns the minimum number of runs in flight with which the device is nearly as fast as with
    /// any number up to `most`, or the next one to try.
    pub(super) fn fastest(&self, most: u32) -> u32 {
        let classes = &self.classes[..(most.max(1).ilog2() as usize + 1).min(DEPTHS)];
        let best = classes.iter().filter_map(Depth::served).max().unwrap_or(0);
        let is_near = |depth: &Depth| depth.served().is_some_and(|it| it >= best - best / PART);
        let class = classes.iter().position(is_near);
        // It may be the best only because no deeper queue has been tried.
        let deeper = class.map_or(0, |class| class + 1);
        let is_to_grow = classes[deeper..].iter().all(|depth| depth.served().is_none());
        1 << if is_to_grow { deeper.min(classes.len() - 1) } else { class.unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs on a device whose runs take these times at depths of 1, 2, 4, ... Returns the greatest
    /// and the last number of runs in flight.
    fn run(depths: &Depths, times_ns: &[u64], runs: u32) -> (u32, u32) {
        run_from(1, depths, times_ns, times_ns[0], runs)
    }

    /// Likewise, with at least `depth_min` runs in flight, where one alone is believed to take
    /// `least_ns`.
    fn run_from(
        depth_min: u32,
        depths: &Depths,
        times_ns: &[u64],
        least_ns: u64,
        runs: u32,
    ) -> (u32, u32) {
        let mut most = 0;
        for _ in 0..runs {
            let depth = depths.fastest(u32::MAX).max(depth_min);
            most = most.max(depth);
            let class = depth.ilog2() as usize;
            // A full device serves no more at once.
            let last_ns = times_ns.last().expect("a time") << class >> (times_ns.len() - 1);
            let ns = times_ns.get(class).copied().unwrap_or(last_ns);
            depths.record(Begun { ns: 0, depth }, ns, least_ns);
        }
        (most, depths.fastest(u32::MAX).max(depth_min))
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
        run(&depths, &[100; 8], 100);
        assert_eq!([9, 4].map(|most| depths.fastest(most)), [8, 4]);
    }

    #[test]
    fn a_device_that_has_changed_is_measured_again() {
        let (serial, four) = ([100, 200], [100, 100, 100, 200]);
        let depths = Depths::default();
        assert_eq!(run(&depths, &serial, 200).1, 1);
        assert_eq!(run(&depths, &four, 2 * RUNS), (8, 4));
        assert_eq!(run(&depths, &serial, 2 * RUNS).1, 1);
        // Four servers become slower; a depth of one is not used any more.
        run(&depths, &four, 2 * RUNS);
        let slow = [500, 500, 500, 1000];
        assert_eq!(run_from(2, &depths, &slow, 100, 2 * RUNS).1, 4);
        // For a while a queue of four is much slower than it usually is.
        run_from(2, &depths, &[100, 100, 400, 400], 100, 100);
        assert_eq!(run_from(2, &depths, &four, 100, 2 * RUNS).1, 4);
    }

    #[test]
    fn single_runs_decide_nothing() {
        let depths = Depths::default();
        run(&depths, &[100, 100, 100, 200], 2 * RUNS_MIN);
        assert_eq!(depths.fastest(u32::MAX), 4);
        for ns in [1_000, 100, 100, 100, 100, 100, 100, 100] {
            assert_eq!(depths.fastest(u32::MAX), 4, "it is not measured yet");
            depths.record(Begun { ns: 0, depth: 4 }, ns, 100);
        }
        assert_eq!(depths.fastest(u32::MAX), 8);
    }

    #[test]
    fn depths_between_two_count_as_the_smaller_one() {
        let depths = Depths::default();
        for _ in 0..RUNS_MIN {
            depths.record(Begun { ns: 0, depth: 3 }, 100, 100);
            depths.record(Begun { ns: 0, depth: 0 }, 100, 100);
        }
        assert_eq!(depths.fastest(u32::MAX), 4);
        assert_eq!([0, 1, 2, 4].map(|most| depths.fastest(most)), [1, 1, 2, 4]);
        // Extremes do not overflow.
        for _ in 0..RUNS_MIN {
            depths.record(Begun { ns: 0, depth: u32::MAX }, 0, u64::MAX);
        }
        assert_eq!(depths.fastest(u32::MAX), 128);
    }
}
