//! Time in which a volume's clients wait for at least one request.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of the number of requests, in the lower part of the state.
const COUNT_BITS: u32 = 16;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// Bits of a nanosecond clock that are left out, so that the rest fits into the upper part for a
/// year.
const CLOCK_SHIFT: u32 = 7;

/// Sums up the time in which at least one request is in flight, for all lanes of a volume.
/// (Requests that are answered immediately are never in flight.)
#[derive(Debug, Default)]
pub struct BusyTime {
    /// The number of requests in flight, and since when there is at least one. One word, so that no
    /// lane sees the one without the other.
    state: AtomicU64,
    /// Sum of the completed periods, in units of `1 << CLOCK_SHIFT` nanoseconds.
    completed: AtomicU64,
}

fn clock(now_ns: u64) -> u64 {
    now_ns >> CLOCK_SHIFT << COUNT_BITS
}

/// Returns the units from the moment of a state to another moment. Lanes read the clock at their
/// own times, so the other moment may be slightly earlier: no time.
fn elapsed(state: u64, now: u64) -> u64 {
    let units = now.wrapping_sub(state & !COUNT_MASK) >> COUNT_BITS;
    if units >> (u64::BITS - COUNT_BITS - 1) == 0 { units } else { 0 }
}

impl BusyTime {
    /// Counts a request from now on.
    pub(crate) fn begin(&self, now_ns: u64) {
        let next = |state: u64| match state & COUNT_MASK {
            0 => Some(clock(now_ns) | 1),
            // More are in flight than are counted: the time goes on until the first of them ends.
            COUNT_MASK => None,
            _ => Some(state + 1),
        };
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Ends the count of a request.
    pub(crate) fn end(&self, now_ns: u64) {
        let next = |state: u64| (state & COUNT_MASK > 0).then(|| state - 1);
        let former = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if let Ok(state) = former
            && state & COUNT_MASK == 1
        {
            self.completed.fetch_add(elapsed(state, clock(now_ns)), Ordering::Relaxed);
        }
    }

    /// Returns the time in which at least one request was in flight until now, in nanoseconds.
    pub fn total_ns(&self, now_ns: u64) -> u64 {
        let state = self.state.load(Ordering::Relaxed);
        let current = if state & COUNT_MASK > 0 { elapsed(state, clock(now_ns)) } else { 0 };
        (self.completed.load(Ordering::Relaxed) + current) << CLOCK_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1 << CLOCK_SHIFT;

    #[test]
    fn overlapping_requests_count_once_and_pauses_do_not() {
        let busy = BusyTime::default();
        busy.begin(10 * UNIT);
        busy.begin(20 * UNIT);
        assert_eq!(busy.total_ns(25 * UNIT), 15 * UNIT, "up to now");
        busy.end(30 * UNIT);
        busy.end(40 * UNIT);
        assert_eq!(busy.total_ns(70 * UNIT), 30 * UNIT);
        busy.begin(70 * UNIT);
        busy.end(75 * UNIT);
        assert_eq!(busy.total_ns(90 * UNIT), 35 * UNIT);
    }

    #[test]
    fn a_lane_whose_clock_is_behind_adds_nothing() {
        let busy = BusyTime::default();
        busy.begin(10 * UNIT);
        busy.end(9 * UNIT);
        assert_eq!(busy.total_ns(9 * UNIT), 0);
        busy.end(9 * UNIT);
        assert_eq!(busy.total_ns(9 * UNIT), 0, "none was in flight");
    }

    #[test]
    fn the_clock_may_wrap() {
        let busy = BusyTime::default();
        let wrap = 1 << (u64::BITS - COUNT_BITS + CLOCK_SHIFT);
        busy.begin(wrap - 2 * UNIT);
        busy.end(wrap + 3 * UNIT);
        assert_eq!(busy.total_ns(wrap + 9 * UNIT), 5 * UNIT);
    }
}
