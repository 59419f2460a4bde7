//! Latencies by intervals of a load's time.
//!
//! Nothing is counted twice for them: at the end of an interval, what the load had counted at its beginning is taken
//! from what it has counted now. Only the longest latency cannot be had that way.

use crate::latency::Latency;
use crate::record::{Interval, Record};

/// The interval that answers fall into now.
pub(crate) struct Intervals {
    interval_ns: u64,
    /// When it ends, on the lane's clock.
    end_ns: u64,
    /// What reads and writes had counted when it began.
    before: Latency,
    max_ns: u64,
}

impl Intervals {
    /// Begins the first one.
    pub(crate) fn new(start_ns: u64, interval_ns: u64) -> Intervals {
        let interval_ns = interval_ns.max(1);
        let end_ns = start_ns.saturating_add(interval_ns);
        Intervals { interval_ns, end_ns, before: Latency::new(), max_ns: 0 }
    }

    /// To be called before an answer is counted: closes the interval if the answer falls into a later one.
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

    /// Works out what the interval that began last has seen.
    pub(crate) fn close(&mut self, record: &mut Record) {
        if record.latencies.len() >= record.by_interval.len() {
            return;
        }
        let all = record.all();
        let (count, mean_ns, p99_ns) = all.since(&self.before);
        // A bucket's upper end may lie above the longest.
        let p99_ns = p99_ns.min(self.max_ns);
        record.latencies.push(Interval { count, mean_ns, p99_ns, max_ns: self.max_ns });
        (self.before, self.max_ns) = (all, 0);
    }
}
