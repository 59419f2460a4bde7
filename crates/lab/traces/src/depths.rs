//! Requests in flight: depths at arrival, and busy time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The classes of depths: the name, and the largest depth in it.
pub const DEPTHS: [(&str, u64); 8] = [
    ("1", 1),
    ("2", 2),
    ("3", 3),
    ("4-5", 5),
    ("6-10", 10),
    ("11-20", 20),
    ("21-32", 32),
    ("> 32", u64::MAX),
];

/// Maximum number of requests that are tracked in flight; a longer queue is the sign of damaged
/// durations.
const IN_FLIGHT_MAX: usize = 1 << 18;

/// Depths and busy time of a trace with completions.
#[derive(Default, Debug)]
pub struct Depths {
    /// Requests in each class of [`DEPTHS`], by the number in flight when they arrived, themselves
    /// included.
    pub requests: [u64; DEPTHS.len()],
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_ns: u64,
    /// Sum of the durations of all requests, in nanoseconds.
    pub in_flight_ns: u128,
    /// Number of requests whose duration is known.
    pub known: u64,
    sum: u128,
    ends: BinaryHeap<Reverse<u64>>,
    busy_until_ns: u64,
}

impl Depths {
    /// Adds a request; times ascend.
    pub(crate) fn add(&mut self, time_ns: u64, took_ns: u64) {
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= time_ns) {
            self.ends.pop();
        }
        let end_ns = time_ns.saturating_add(took_ns);
        if self.ends.len() < IN_FLIGHT_MAX {
            self.ends.push(Reverse(end_ns));
        }
        let depth = self.ends.len() as u64;
        let class = DEPTHS.iter().position(|(_, most)| depth <= *most);
        self.requests[class.unwrap_or(DEPTHS.len() - 1)] += 1;
        self.known += 1;
        self.sum += u128::from(depth);
        self.in_flight_ns += u128::from(took_ns);
        self.busy_ns += end_ns.saturating_sub(time_ns.max(self.busy_until_ns));
        self.busy_until_ns = self.busy_until_ns.max(end_ns);
    }

    /// Returns the mean depth at arrival. None: no duration is known.
    pub fn mean(&self) -> Option<f64> {
        (self.known > 0).then(|| self.sum as f64 / self.known as f64)
    }

    /// Returns the end of the last request.
    pub(crate) fn end_ns(&self) -> u64 {
        self.busy_until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_counted_at_arrival_and_overlaps_are_busy_once() {
        let mut depths = Depths::default();
        [(0, 100), (10, 20), (30, 10), (50, 100), (200, 10)]
            .iter()
            .for_each(|(time, took)| depths.add(*time, *took));
        assert_eq!(depths.requests[..3], [2, 3, 0]);
        assert_eq!((depths.busy_ns, depths.in_flight_ns), (160, 240));
        assert_eq!(depths.mean(), Some(8.0 / 5.0));
    }

    #[test]
    fn absurd_durations_need_bounded_memory() {
        let mut depths = Depths::default();
        (0..IN_FLIGHT_MAX as u64 + 10).for_each(|time| depths.add(time, u64::MAX));
        assert_eq!(depths.ends.len(), IN_FLIGHT_MAX);
        assert_eq!(depths.requests[7], IN_FLIGHT_MAX as u64 + 10 - 32);
    }
}
