//! Rates between two readings of a volume's statistics.

use daemon::control::statistics::Statistics;
use histogram::Snapshot;
use serde::Serialize;

/// Bytes of a block.
const BLOCK_BYTES: f64 = 4096.0;

/// Two readings of a volume's statistics, and the time between them.
pub struct Interval<'a> {
    /// The earlier reading.
    pub before: &'a Statistics,
    /// The later reading.
    pub after: &'a Statistics,
}

/// Figures of a volume in an interval. Those without a value in the interval are None.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Rates {
    /// Length of the interval.
    pub seconds: f64,
    /// Reads of clients.
    pub reads_per_s: f64,
    /// Share of these that was answered from memory, from 0 to 1.
    pub hit_ratio: Option<f64>,
    /// Writes, zeroes and discards of clients.
    pub changes_per_s: f64,
    /// Bytes written by clients.
    pub written_bytes_per_s: f64,
    /// Bytes that never had to be written back, because they were overwritten before.
    pub saved_bytes_per_s: f64,
    /// Time saved by hits, summed over reads: an estimate.
    pub time_saved_ns_per_s: f64,
    /// Reads of the backing.
    pub backing_reads_per_s: f64,
    /// Changes of the backing.
    pub backing_changes_per_s: f64,
    /// Flushes of the backing.
    pub backing_flushes_per_s: f64,
    /// Median latency of hits, sampled.
    pub hit_p50_ns: Option<u64>,
    /// 99th percentile of the latency of hits, sampled.
    pub hit_p99_ns: Option<u64>,
    /// Median time of a fetch from the backing.
    pub miss_p50_ns: Option<u64>,
    /// 99th percentile of the time of a fetch from the backing.
    pub miss_p99_ns: Option<u64>,
    /// Dirty data at the end of the interval, in bytes.
    pub dirty_bytes: u64,
}

impl Interval<'_> {
    /// Returns its length in seconds, by the daemon's clock.
    pub fn seconds(&self) -> f64 {
        self.after.now_ns.saturating_sub(self.before.now_ns).max(1) as f64 / 1e9
    }

    /// Returns the growth of a count; zero if the daemon was restarted in between.
    pub fn grown(&self, count: impl Fn(&Statistics) -> u64) -> u64 {
        count(self.after).saturating_sub(count(self.before))
    }

    /// Returns the growth of a count per second.
    pub fn rate(&self, count: impl Fn(&Statistics) -> u64) -> f64 {
        self.grown(count) as f64 / self.seconds()
    }

    /// Whether the daemon counts from zero since the earlier reading.
    pub fn is_restarted(&self) -> bool {
        let reads = |stats: &Statistics| stats.counters.read_hits + stats.counters.read_misses;
        self.after.now_ns <= self.before.now_ns
            || reads(self.after) < reads(self.before)
            || self.after.counters.changes < self.before.counters.changes
    }

    /// Returns the number of reads, and how many of them were hits.
    pub fn reads(&self) -> (u64, u64) {
        let hits = self.grown(|stats| stats.counters.read_hits);
        let misses = |stats: &Statistics| stats.counters.read_misses + stats.counters.read_joins;
        (hits + self.grown(misses), hits)
    }

    /// Returns the rates of clients: reads, changes, and bytes written, each per second.
    pub fn client_rates(&self) -> [f64; 3] {
        if self.after.has_cache() {
            return [
                self.reads().0 as f64 / self.seconds(),
                self.rate(|stats| stats.counters.changes),
                self.rate(|stats| stats.counters.asked_write_bytes),
            ];
        }
        let bytes =
            |stats: &Statistics| stats.backing.kinds.as_ref().map_or(0, |kinds| kinds.write_bytes);
        [
            self.rate(|stats| stats.backing.reads),
            self.rate(|stats| stats.backing.changes),
            self.rate(bytes),
        ]
    }

    /// Returns all figures.
    pub fn rates(&self) -> Rates {
        let (reads, hits) = self.reads();
        let [reads_per_s, changes_per_s, written_bytes_per_s] = self.client_rates();
        let latencies = self.after.latencies.since(&self.before.latencies);
        let quantile = |of: &Snapshot, share| (of.count() > 0).then(|| of.quantile(share));
        Rates {
            seconds: self.seconds(),
            reads_per_s,
            hit_ratio: (reads > 0).then(|| hits as f64 / reads as f64),
            changes_per_s,
            written_bytes_per_s,
            saved_bytes_per_s: self.rate(|stats| stats.counters.blocks_saved) * BLOCK_BYTES,
            time_saved_ns_per_s: self.rate(|stats| stats.counters.time_saved_ns),
            backing_reads_per_s: self.rate(|stats| stats.backing.reads),
            backing_changes_per_s: self.rate(|stats| stats.backing.changes),
            backing_flushes_per_s: self.rate(|stats| stats.backing.flushes),
            hit_p50_ns: quantile(&latencies.hit_ns, 0.5),
            hit_p99_ns: quantile(&latencies.hit_ns, 0.99),
            miss_p50_ns: quantile(&latencies.miss_ns, 0.5),
            miss_p99_ns: quantile(&latencies.miss_ns, 0.99),
            dirty_bytes: self.after.counters.blocks_dirty * 4096,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(now_ns: u64, hits: u64, misses: u64, asked: u64) -> Statistics {
        serde_json::from_value(json!({
            "volume": "v", "now_ns": now_ns, "memory_bytes": 1, "state": "serving",
            "counters": {
                "read_hits": hits, "read_misses": misses, "asked_write_bytes": asked,
                "blocks_saved": asked / 8192, "blocks_dirty": 2,
            },
            "backing": { "reads": misses },
            "latencies": { "hit_ns": { "sum_ns": hits * 70, "max_ns": 70, "buckets": [[71, hits]] } },
        }))
        .expect("statistics")
    }

    #[test]
    fn rates_are_the_growth_between_two_readings() {
        let (before, after) = (at(1_000_000_000, 100, 50, 0), at(3_000_000_000, 400, 150, 4 << 20));
        let interval = Interval { before: &before, after: &after };
        let rates = interval.rates();
        assert_eq!((rates.reads_per_s, rates.hit_ratio), (200.0, Some(0.75)));
        assert_eq!((rates.written_bytes_per_s, rates.saved_bytes_per_s), (2097152.0, 1048576.0));
        assert_eq!((rates.hit_p50_ns, rates.miss_p50_ns), (Some(70), None));
        assert_eq!((rates.backing_reads_per_s, rates.dirty_bytes), (50.0, 8192));
        assert!(!interval.is_restarted());
    }

    #[test]
    fn a_restarted_daemon_has_no_impossible_rates() {
        let (before, after) = (at(9_000_000_000, 400, 150, 4096), at(1_000_000_000, 3, 1, 0));
        let interval = Interval { before: &before, after: &after };
        assert!(interval.is_restarted());
        assert_eq!((interval.rates().reads_per_s, interval.rates().hit_ratio), (0.0, None));
    }
}
