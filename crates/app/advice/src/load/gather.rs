//! Gathers facts about a load from its requests.

use super::facts::{Facts, Mean, Process};
use super::overwrites::Overwrites;
use super::streams::Streams;
use simulator::{Accessed, DirectionCaches, Rate};
use trace::recording::Entry;
use trace::{Access, Details, Direction, Event, Marks, Operation};

/// The smallest cache that is considered, in bytes.
const SIZE_MIN: u64 = 256 << 20;
/// Maximum number of slots of the largest simulated cache: 256 GiB. The caches together take about
/// a hundredth of the machine's memory.
const SLOTS_MAX: u64 = 1 << 26;

/// Returns the sizes to consider: 256 MiB, doubled up to half of the memory, and that half.
pub fn sizes(memory_bytes: u64) -> Vec<u64> {
    let half = (memory_bytes / 2) >> 20 << 20;
    let mut sizes: Vec<u64> = std::iter::successors(Some(SIZE_MIN), |size| Some(size * 2))
        .take_while(|size| *size <= half)
        .collect();
    if sizes.last() != Some(&half) && half > SIZE_MIN {
        sizes.push(half);
    }
    if sizes.is_empty() {
        sizes.push(SIZE_MIN);
    }
    sizes
}

/// Returns the share of the blocks with which caches of these sizes take bounded memory.
pub fn sample_of(sizes: &[u64]) -> Rate {
    let slots = sizes.iter().max().map_or(1, |bytes| bytes / simulator::BLOCK_BYTES);
    Rate::new(SLOTS_MAX as f64 / slots.max(1) as f64).unwrap_or(Rate::ALL)
}

/// Gathers facts, request by request.
pub struct Gather {
    facts: Facts,
    caches: DirectionCaches,
    streams: Streams,
    /// Times of the first and the last request.
    times: Option<(u64, u64)>,
    overwrites: Overwrites,
    /// Requests of each origin: 0 is unknown, the others are processes.
    origins: Vec<Origin>,
    /// Whether marks of the kernel are known.
    has_marks: bool,
}

/// The requests of an origin.
#[derive(Clone, Copy, Default)]
struct Origin {
    /// Whether it belongs to the load that is judged.
    counts: bool,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    read_times: Mean,
}

impl Gather {
    /// Returns an empty gatherer with caches of these sizes, a sample of the blocks and a number of
    /// threads.
    pub fn new(sizes: &[u64], rate: Rate, threads: usize) -> Gather {
        Gather {
            facts: Facts { sample_rate: rate.share(), ..Facts::default() },
            caches: DirectionCaches::new(sizes, rate, threads),
            streams: Streams::default(),
            times: None,
            overwrites: Overwrites::new(rate),
            origins: Vec::new(),
            has_marks: false,
        }
    }

    /// Observes a request of the load.
    pub fn see(&mut self, access: &Access) {
        self.see_of(access, true);
    }

    /// Observes a request. If it does not count, it uses the caches, and its process is listed, but
    /// it is no part of the load.
    pub fn see_of(&mut self, access: &Access, counts: bool) {
        let origin = access.details.process.map_or(0, |process| process.saturating_add(1));
        self.caches.access_from(access, origin);
        self.count_origin(access, origin as usize, counts);
        let marks = access.details.marks;
        self.has_marks |= marks != Marks::default();
        let is_waited = marks.0 & Marks::SYNC != 0;
        // Formats that show directions only have no operations.
        let operation = access.details.operation;
        match operation {
            Some(Operation::Write { .. }) => self.overwrites.write(access, counts, is_waited),
            Some(Operation::Flush) => self.overwrites.flush(),
            _ => {}
        }
        if counts {
            self.count(access, is_waited);
        }
    }

    fn count(&mut self, access: &Access, is_waited: bool) {
        let Details { operation, took_ns, marks, .. } = access.details;
        let facts = &mut self.facts;
        match access.direction {
            Direction::Read => {
                facts.reads += 1;
                facts.read_bytes += access.bytes;
                let is_ahead = marks.0 & Marks::AHEAD != 0;
                facts.ahead_reads += u64::from(is_ahead);
                facts.read_times.add(took_ns);
                let (device, first) = (access.device, access.first_byte);
                self.streams.read(device, first, access.bytes, took_ns, is_ahead);
            }
            Direction::Write => {
                facts.writes += 1;
                facts.write_bytes += access.bytes;
                facts.background_writes += u64::from(!is_waited);
                facts.write_times.add(took_ns);
            }
            Direction::Other => facts.others += 1,
        }
        if let Some(operation) = operation {
            let flushes = facts.flushes.get_or_insert(0);
            if operation == Operation::Flush {
                *flushes += 1;
                facts.flush_times.add(took_ns);
            }
        }
        let (first, last) = self.times.unwrap_or((access.time_ns, access.time_ns));
        self.times = Some((first.min(access.time_ns), last.max(access.time_ns)));
    }

    fn count_origin(&mut self, access: &Access, number: usize, counts: bool) {
        if self.origins.len() <= number {
            self.origins.resize(number + 1, Origin::default());
        }
        let origin = &mut self.origins[number];
        origin.counts |= counts;
        match access.direction {
            Direction::Read => {
                origin.reads += 1;
                origin.read_bytes += access.bytes;
                origin.read_times.add(access.details.took_ns);
            }
            Direction::Write => {
                origin.writes += 1;
                origin.write_bytes += access.bytes;
            }
            Direction::Other => {}
        }
    }

    /// Returns the facts. `names`: of the processes.
    pub fn end(mut self, names: &[String]) -> Facts {
        let mut facts = self.facts;
        let (mut hits, mut accessed) = self.caches.end();
        self.origins.resize(self.origins.len().max(accessed.len()), Origin::default());
        accessed.resize(self.origins.len(), Accessed::default());
        hits.iter_mut().for_each(|it| it.origins.resize(self.origins.len(), Accessed::default()));
        let own = |of: &[Accessed]| {
            let of = self.origins.iter().zip(of).filter(|(origin, _)| origin.counts);
            Accessed::sum(of.map(|(_, it)| it))
        };
        facts.accessed = own(&accessed);
        for hits in &mut hits {
            let sum = own(&hits.origins);
            (hits.read_blocks, hits.write_blocks, hits.read_ns) =
                (sum.read_blocks, sum.write_blocks, sum.read_ns);
        }
        let process = |(number, origin): (usize, &Origin)| Process {
            name: names.get(number).cloned().unwrap_or_default(),
            counts: origin.counts,
            reads: origin.reads,
            writes: origin.writes,
            read_bytes: origin.read_bytes,
            write_bytes: origin.write_bytes,
            read_times: origin.read_times,
            accessed: accessed[number + 1],
            hits: hits.iter().map(|hits| hits.origins[number + 1]).collect(),
        };
        let known = self.origins.iter().skip(1).enumerate().map(process);
        facts.processes = known.filter(|process| process.reads + process.writes > 0).collect();
        facts.processes.sort_by_key(|it| std::cmp::Reverse((it.counts, it.reads + it.writes)));
        facts.hits = hits;
        if let Some((sequential, strided)) = self.streams.shares() {
            (facts.sequential_share, facts.strided_share) = (Some(sequential), Some(strided));
            facts.followed =
                Some(Mean { count: self.streams.followed_reads, sum_ns: self.streams.followed_ns });
        }
        // A format without times has zeros.
        facts.duration_ns =
            self.times.map(|(first, last)| last - first).filter(|duration| *duration > 0);
        if !self.has_marks {
            facts.background_writes = 0;
        }
        // Without a flush, writes go through (C11).
        let is_flushed = facts.flushes.is_some_and(|count| count > 0);
        facts.overwritten_blocks = facts.flushes.map(|_| match (is_flushed, self.has_marks) {
            (false, _) => 0,
            (true, true) => self.overwrites.waited_blocks(),
            (true, false) => self.overwrites.blocks(),
        });
        facts
    }
}

/// Returns a recorded request as an access, with all that is known of it.
pub fn access_of(entry: &Entry) -> Access {
    let event = &entry.event;
    let direction = match event.operation {
        Operation::Read => Direction::Read,
        Operation::Write { .. } => Direction::Write,
        _ => Direction::Other,
    };
    let details = Details {
        operation: Some(event.operation),
        took_ns: event.took_ns,
        sent_ns: entry.sent_ns,
        process: entry.process,
        marks: entry.marks,
    };
    Access {
        time_ns: event.time_ns,
        device: event.device,
        direction,
        first_byte: event.first.saturating_mul(512),
        bytes: u64::from(event.sectors) * 512,
        details,
    }
}

/// Returns a request without an origin as an access.
pub fn access_of_event(event: &Event) -> Access {
    access_of(&Entry::from(*event))
}
