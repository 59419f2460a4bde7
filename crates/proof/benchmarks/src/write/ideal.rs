//! The computed maximum of a write buffer: a drive that writes `rate` blocks per second at depth,
//! one block a request, and a buffer in front of it that is always full.
//!
//! Random writes over `span` blocks while `held` of them are dirty meet a dirty block with
//! probability held / span, and then cost the drive nothing. So, with a drive that is never idle:
//!
//! ```text
//! steady:   writes a second      = rate / (1 - held / span)
//! filling:  writes to get there  = span * ln(span / (span - held)), in no time
//! draining: time at the end      = held / rate + flush
//! ```
//!
//! - unlimited time: `rate / (1 - held / span)`, the ideal;
//! - one minute including the final drain: (filling + steady * minute) / (minute + draining);
//! - a flush every T: each period of T fills, continues, and drains, during which its one client
//!   waits: (filling + steady * (T - draining)) / T, at the best `held` that memory allows;
//! - a flush target: `held` is at most rate * (target - flush).
//!
//! A dense buffer merges neighbours into runs, of which the drive writes more blocks per second
//! than single ones: the engine may exceed all of these.

use super::device::FLUSH_NS;
use super::load::{SECOND, SPAN};

/// The limits of a write buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ideal {
    /// Memory in blocks.
    pub(crate) memory: u64,
    /// Nanoseconds between two flushes, if there are any.
    pub(crate) period_ns: Option<u64>,
    /// The flush target in nanoseconds, if there is one.
    pub(crate) target_ns: Option<u64>,
    /// Nanoseconds of the run, before the final drain. None: unlimited.
    pub(crate) run_ns: Option<u64>,
}

const FLUSH_S: f64 = FLUSH_NS as f64 / SECOND as f64;

/// Returns the number of writes until `held` different blocks of the span are dirty.
fn filling(held: f64) -> f64 {
    let span = SPAN as f64;
    span * (span / (span - held)).ln()
}

fn steady(held: f64, rate: f64) -> f64 {
    rate / (1.0 - held / SPAN as f64)
}

impl Ideal {
    /// Returns writes per second over a drive of `rate` blocks per second.
    pub(crate) fn rate(&self, rate: f64) -> f64 {
        let of = |ns: u64| ns as f64 / SECOND as f64;
        let most = self.target_ns.map_or(f64::MAX, |target| rate * (of(target) - FLUSH_S));
        let most = most.min(self.memory as f64);
        // More dirty blocks are not always better: the client waits while they are drained.
        (0..=1000)
            .map(|part| self.rate_held(most * f64::from(part) / 1000.0, rate))
            .fold(0.0, f64::max)
    }

    fn rate_held(&self, held: f64, rate: f64) -> f64 {
        let draining = held / rate + FLUSH_S;
        let of = |ns: u64| ns as f64 / SECOND as f64;
        match (self.period_ns, self.run_ns) {
            (Some(period), _) if draining > of(period) => 0.0,
            (Some(period), _) => {
                (filling(held) + steady(held, rate) * (of(period) - draining)) / of(period)
            }
            (None, Some(run)) => {
                (filling(held) + steady(held, rate) * of(run)) / (of(run) + draining)
            }
            (None, None) => steady(held, rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOR_EVER: Ideal =
        Ideal { memory: SPAN / 8, period_ns: None, target_ns: None, run_ns: None };

    #[test]
    fn the_ideal_of_the_issue() {
        let bare = 1e6 / 44.0;
        let times = |memory| Ideal { memory, ..FOR_EVER }.rate(66_000.0) / bare;
        assert!((times(SPAN / 8) - 3.32).abs() < 0.01, "{}", times(SPAN / 8));
        assert!((times(SPAN / 2) - 5.81).abs() < 0.01, "{}", times(SPAN / 2));
    }

    #[test]
    fn bounds_cost_something_and_vanish_when_they_are_wide() {
        let ideal = FOR_EVER.rate(66_000.0);
        let with = |ideal: Ideal| ideal.rate(66_000.0);
        let period = |ns| with(Ideal { period_ns: Some(ns), ..FOR_EVER });
        assert!(period(5 * SECOND) < 0.99 * ideal && period(5 * SECOND) > 66_000.0);
        assert!((period(10_000 * SECOND) / ideal - 1.0).abs() < 0.001);
        let target = |ns| with(Ideal { target_ns: Some(ns), ..FOR_EVER });
        assert!(target(SECOND / 2) < target(SECOND) && target(SECOND) < ideal);
        assert_eq!(target(3600 * SECOND), ideal);
        let run = |ns| with(Ideal { run_ns: Some(ns), ..FOR_EVER });
        assert!((run(100_000 * SECOND) / ideal - 1.0).abs() < 0.001);
    }

    #[test]
    fn what_does_not_fit_between_two_flushes_is_not_held() {
        let memory = SPAN / 2;
        let rate = Ideal { memory, period_ns: Some(SECOND), ..FOR_EVER }.rate(66_000.0);
        assert!(rate > 66_000.0 && rate < 70_000.0, "{rate}");
    }
}
