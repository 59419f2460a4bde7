//! The results of a load.

use crate::data::Mismatch;
use crate::latency::Latency;
use block::Error;

/// How a load ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By its limit, or because its source ended.
    Limit,
    /// It was stopped.
    Stopped,
    /// The device answered with an error.
    Failed(Error),
    /// A read returned data that was not written.
    Wrong(Mismatch),
    /// The device takes no time: the clock did not move over a million answers.
    Timeless,
}

/// Reads and writes that were answered in an interval. Latencies count from when requests were due.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Interval {
    /// Their number.
    pub count: u64,
    /// Their mean latency in nanoseconds; 0 if there were none.
    pub mean_ns: f64,
    /// Their 99th percentile in nanoseconds, accurate to one percent.
    pub p99_ns: u64,
    /// Their maximum in nanoseconds.
    pub max_ns: u64,
}

/// The results of a load. Times are of the lane's clock.
#[derive(Clone, Debug)]
pub struct Record {
    /// The time of its start.
    pub start_ns: u64,
    /// The time of the last answer, including the final flush.
    pub end_ns: u64,
    /// The part of that time that the final flush took.
    pub flush_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Latencies of reads, from when they were due.
    pub reads: Latency,
    /// Latencies of writes, from when they were due.
    pub writes: Latency,
    /// Latencies of the source's flushes.
    pub flushes: Latency,
    /// Latencies of discards, zeroes and advice.
    pub trims: Latency,
    /// Latencies of all requests with a due time, from when they really started. The other requests
    /// start when they are due.
    pub served: Latency,
    /// Requests that started after they were due, because too many were under way.
    pub late_starts: u64,
    /// Requests that were due but waited for the answers of earlier ones, as their source requires.
    pub held_starts: u64,
    /// Delay between the due time and the start of requests for which a worker was free: delay by
    /// the load engine itself and by the machine that it runs on.
    pub lateness: Latency,
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_ns: u64,
    /// Sum of the times of all requests from their start to their answer, in nanoseconds.
    pub in_flight_ns: u128,
    /// Number of answers in each interval of the load's `interval_ns`, from its start.
    pub by_interval: Vec<u32>,
    /// The latencies of the same intervals.
    pub latencies: Vec<Interval>,
    /// The time of each further `mark_bytes`, from the load's start.
    pub marks_ns: Vec<u64>,
    /// How it ended.
    pub end: End,
}

impl Record {
    /// Returns the record of a load that has sent no requests.
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
            held_starts: 0,
            busy_ns: 0,
            in_flight_ns: 0,
            lateness: Latency::new(),
            by_interval: Vec::new(),
            latencies: Vec::new(),
            marks_ns: Vec::new(),
            end: End::Limit,
        }
    }

    /// Returns the number of requests answered, without the final flush.
    pub fn requests(&self) -> u64 {
        self.reads.count() + self.writes.count() + self.flushes.count() + self.trims.count()
    }

    /// Returns the nanoseconds from the start to the last answer, including the final flush.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Returns requests per second, over the whole time.
    pub fn per_second(&self) -> f64 {
        self.requests() as f64 * 1e9 / self.elapsed_ns().max(1) as f64
    }

    /// Returns the bytes per second, over the whole time.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.elapsed_ns().max(1) as f64
    }

    /// Returns the mean number of requests in flight while there was at least one; 0 if there was
    /// none.
    pub fn depth_mean(&self) -> f64 {
        self.in_flight_ns as f64 / self.busy_ns.max(1) as f64
    }

    /// Returns the latencies of reads and writes together.
    pub fn all(&self) -> Latency {
        let mut all = self.reads.clone();
        all.merge(&self.writes);
        all
    }
}
