//! The time with at least one request in flight.

/// The union of the times of requests, which are added in the order of their ends.
#[derive(Default)]
pub(crate) struct Busy {
    /// Separate spans, the latest last, that a longer request may still join.
    spans: Vec<(u64, u64)>,
    /// The length of all spans.
    ns: u64,
}

/// Maximum number of spans that are kept: a request that is in flight over more pauses than this
/// leaves no pause in them unless it is the only slow one of thousands.
const SPANS_MAX: usize = 1 << 12;

impl Busy {
    /// Adds a request.
    #[inline]
    pub(crate) fn add(&mut self, start_ns: u64, end_ns: u64) {
        let (mut start, mut end) = (start_ns, end_ns);
        while let Some((first, last)) = self.spans.last().copied().filter(|span| span.1 >= start) {
            (start, end) = (start.min(first), end.max(last));
            self.ns -= last - first;
            self.spans.pop();
        }
        if self.spans.len() == SPANS_MAX {
            self.spans.drain(..SPANS_MAX / 2);
        }
        self.spans.push((start, end));
        self.ns += end - start;
    }

    /// Returns the length of the union, in nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_once_and_a_long_request_closes_the_pauses_before() {
        let mut busy = Busy::default();
        [(0, 10), (5, 15), (20, 30), (40, 41)].iter().for_each(|(from, to)| busy.add(*from, *to));
        assert_eq!(busy.ns(), 26);
        busy.add(12, 50);
        assert_eq!(busy.ns(), 50);
        (0..3 * SPANS_MAX as u64).for_each(|n| busy.add(100 + 2 * n, 101 + 2 * n));
        assert_eq!(busy.ns(), 50 + 3 * SPANS_MAX as u64);
    }
}
