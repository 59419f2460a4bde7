//! What became of a load.

use crate::data::Mismatch;
use crate::latency::Latency;
use block::Error;

/// How a load ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By its limit, or with its source.
    Limit,
    /// It was stopped.
    Stopped,
    /// The device answered with an error.
    Failed(Error),
    /// What was read is not what was written.
    Wrong(Mismatch),
    /// The device takes no time: the clock stood still over millions of answers.
    Timeless,
}

/// Reads and writes that were answered in an interval, from when they were due.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Interval {
    /// How many.
    pub count: u64,
    /// Their mean latency in nanoseconds; 0 if there was none.
    pub mean_ns: f64,
    /// What 99 of a hundred took at most, in nanoseconds, right within one percent.
    pub p99_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// What became of a load. Times are of the lane's clock.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it began.
    pub start_ns: u64,
    /// When the last answer came, the final flush's included.
    pub end_ns: u64,
    /// What of that the final flush took.
    pub flush_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Latencies of reads, from when they were due.
    pub reads: Latency,
    /// Latencies of writes, from when they were due.
    pub writes: Latency,
    /// Latencies of flushes that the source asked for.
    pub flushes: Latency,
    /// Latencies of discards, zeroes and advice.
    pub trims: Latency,
    /// Latencies of all requests with a time of their own, from when they really started. Of the others that is
    /// the same as from when they were due.
    pub served: Latency,
    /// Requests that started after they were due, as too many were under way.
    pub late_starts: u64,
    /// How long after their time requests started that a worker was free for: what the load engine itself, and the
    /// machine that it runs on, kept waiting.
    pub lateness: Latency,
    /// Answers by intervals of the load's `interval_ns`, from its start.
    pub by_interval: Vec<u32>,
    /// The latencies of the same intervals.
    pub latencies: Vec<Interval>,
    /// When each further `mark_bytes` were done, from the load's start.
    pub marks_ns: Vec<u64>,
    /// How it ended.
    pub end: End,
}

impl Record {
    /// Of a load that has done nothing yet.
    pub fn new(start_ns: u64) -> Record {
        Record {
            start_ns,
            end_ns: start_ns,
            flush_ns: 0,
            bytes: 0,
            reads: Latency::new(),
            writes: Latency::new(),
            flushes: Latency::new(),
            trims: Latency::new(),
            served: Latency::new(),
            late_starts: 0,
            lateness: Latency::new(),
            by_interval: Vec::new(),
            latencies: Vec::new(),
            marks_ns: Vec::new(),
            end: End::Limit,
        }
    }

    /// Requests answered, the final flush not among them.
    pub fn requests(&self) -> u64 {
        self.reads.count() + self.writes.count() + self.flushes.count() + self.trims.count()
    }

    /// Nanoseconds from the start to the last answer, the final flush's included.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Requests a second, over the whole time.
    pub fn per_second(&self) -> f64 {
        self.requests() as f64 * 1e9 / self.elapsed_ns().max(1) as f64
    }

    /// Bytes a second, over the whole time.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.elapsed_ns().max(1) as f64
    }

    /// Latencies of reads and writes together.
    pub fn all(&self) -> Latency {
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        all
    }
}
