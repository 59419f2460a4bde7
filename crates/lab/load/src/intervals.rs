//! Latencies by intervals of a load's time.
//!
//! Nothing is counted twice for them: an interval is the difference between the counts at its end
//! and at its beginning. Only the longest latency needs a count of its own.

use crate::latency::Latency;
use crate::record::{Interval, Record};

/// The current interval.
pub(crate) struct Intervals {
    interval_ns: u64,
    /// Its end, on the lane's clock.
    end_ns: u64,
    /// The counts of reads and writes when it began.
    before: Latency,
    max_ns: u64,
}

impl Intervals {
    /// Starts the first interval.
    pub(crate) fn new(start_ns: u64, interval_ns: u64) -> Intervals {
        let interval_ns = interval_ns.max(1);
        let end_ns = start_ns.saturating_add(interval_ns);
        Intervals { interval_ns, end_ns, before: Latency::new(), max_ns: 0 }
    }

    /// Closes the interval if the answer belongs to a later one. Call it before the answer is
    /// counted.
    pub(crate) fn go_on(&mut self, now: u64, record: &mut Record) {
        if now < self.end_ns && !record.by_interval.is_empty() {
            return;
        }
        self.close(record);
        let index = (now - record.start_ns) / self.interval_ns;
        record.by_interval.resize(index as usize + 1, 0);
        record.latencies.resize(index as usize, Interval::default());
        self.end_ns = record.start_ns.saturating_add((index + 1).saturating_mul(self.interval_ns));
    }

    /// Counts an answer.
    pub(crate) fn count(&mut self, record: &mut Record, latency_ns: Option<u64>) {
        if let Some(last) = record.by_interval.last_mut() {
            *last += 1;
        }
        self.max_ns = self.max_ns.max(latency_ns.unwrap_or(0));
    }

    /// Computes the latencies of the current interval.
    pub(crate) fn close(&mut self, record: &mut Record) {
        if record.latencies.len() >= record.by_interval.len() {
            return;
        }
        let all = record.all();
        let (count, mean_ns, p99_ns) = all.since(&self.before);
        // A bucket's upper end may be larger than the maximum.
        let p99_ns = p99_ns.min(self.max_ns);
        record.latencies.push(Interval { count, mean_ns, p99_ns, max_ns: self.max_ns });
        (self.before, self.max_ns) = (all, 0);
    }
}
