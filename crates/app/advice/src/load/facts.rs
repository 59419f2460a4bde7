//! Facts about a load, and the premises under which they are judged.

use super::machine::Machine;
use simulator::{Accessed, Hits};

/// A number of requests with their times.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Mean {
    /// Number of requests with a known time.
    pub count: u64,
    /// The sum of their times, in nanoseconds.
    pub sum_ns: u64,
}

impl Mean {
    /// Adds a request, if its time is known.
    pub(crate) fn add(&mut self, ns: Option<u64>) {
        self.count += u64::from(ns.is_some());
        self.sum_ns = self.sum_ns.saturating_add(ns.unwrap_or(0));
    }

    /// Returns the mean time in nanoseconds. None: no time is known.
    pub fn ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// The requests of a process.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Process {
    /// Its name, as the kernel shows it.
    pub name: String,
    /// Whether it belongs to the load that is judged.
    pub counts: bool,
    /// Number of its reads.
    pub reads: u64,
    /// Number of its writes.
    pub writes: u64,
    /// Bytes of its reads.
    pub read_bytes: u64,
    /// Bytes of its writes.
    pub write_bytes: u64,
    /// Times of its reads.
    pub read_times: Mean,
    /// Blocks of its reads and writes.
    pub accessed: Accessed,
    /// The cached part of them, by size as in [`Facts::hits`].
    pub hits: Vec<Accessed>,
}

/// Observations of a load.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Facts {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of other requests: flushes, discards, zeros.
    pub others: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub write_bytes: u64,
    /// Number of flushes. None: flushes are not distinguished from others.
    pub flushes: Option<u64>,
    /// Time from the first request to the last, or of watching, in nanoseconds. None: unknown.
    pub duration_ns: Option<u64>,
    /// Times of the reads.
    pub read_times: Mean,
    /// Times of the writes.
    pub write_times: Mean,
    /// Times of the flushes.
    pub flush_times: Mean,
    /// Number of reads that the kernel made ahead of a program, as far as they are marked.
    pub ahead_reads: u64,
    /// Number of writes for which no program waited, as far as writes are marked: writeback by the
    /// kernel.
    pub background_writes: u64,
    /// Share of the bytes of reads that begin where an earlier read ends. None: addresses are
    /// unknown.
    pub sequential_share: Option<f64>,
    /// Share of the bytes of reads that continue a stream in steps, or backward.
    pub strided_share: Option<f64>,
    /// Reads that continue any stream and were not made ahead by the kernel, and their known times.
    pub followed: Option<Mean>,
    /// Blocks of writes that were written again before the next flush, and within two and a half
    /// seconds. None: flushes or times are unknown.
    pub overwritten_blocks: Option<u64>,
    /// Blocks of reads and writes.
    pub accessed: Accessed,
    /// Hits by size; empty if addresses are unknown.
    pub hits: Vec<Hits>,
    /// Share of the blocks that was simulated.
    pub sample_rate: f64,
    /// Requests by process, those of the load first; empty: unknown.
    pub processes: Vec<Process>,
    /// Events that were lost before they were seen.
    pub lost: u64,
}

/// Origin of the times of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The times were recorded.
    Recorded,
    /// The user gave a time.
    Given,
    /// Nothing is known.
    Assumed,
}

impl Source {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Source::Recorded => "recorded",
            Source::Given => "given",
            Source::Assumed => "assumed",
        }
    }
}

/// The time of a read and of a write without a cache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// Time of a read in nanoseconds.
    pub read_ns: f64,
    /// Time of a write in nanoseconds.
    pub write_ns: f64,
    /// Time of a flush in nanoseconds.
    pub flush_ns: f64,
    /// Their origin.
    pub source: Source,
}

/// Time of a request that is assumed if nothing is known: that of a SATA SSD.
const ASSUMED_NS: f64 = 100_000.0;

impl Latency {
    /// Returns the latency of a load: the recorded means, else the given time, else an assumption.
    pub fn of(facts: &Facts, given_ns: Option<u64>) -> Latency {
        if let Some(ns) = given_ns {
            let ns = ns as f64;
            return Latency { read_ns: ns, write_ns: ns, flush_ns: ns, source: Source::Given };
        }
        let (read, write) = (facts.read_times.ns(), facts.write_times.ns());
        let source = match read.or(write) {
            Some(_) => Source::Recorded,
            None => Source::Assumed,
        };
        let any = read.or(write).unwrap_or(ASSUMED_NS);
        let (read_ns, write_ns) = (read.unwrap_or(any), write.unwrap_or(any));
        let flush_ns = facts.flush_times.ns().unwrap_or(write_ns);
        Latency { read_ns, write_ns, flush_ns, source }
    }
}

/// The premises of advice.
#[derive(Clone, PartialEq, Debug)]
pub struct Premises {
    /// Times without a cache.
    pub latency: Latency,
    /// The memory of the machine. None: unknown.
    pub machine: Option<Machine>,
    /// Pages of files that were read again soon after their eviction, on the whole machine, while
    /// the load was watched. None: unknown.
    pub refaults: Option<u64>,
    /// The backing in the recommended command.
    pub backing: String,
}
