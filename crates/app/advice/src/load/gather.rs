//! Gathers facts about a load from its requests.

use super::facts::Facts;
use super::streams::Streams;
use simulator::{DirectionCaches, Error, Rate, each_access};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use trace::recording::MAGIC;
use trace::{Access, Details, Direction, Event, Format, Operation, Trace};

/// The smallest cache that is considered, in bytes.
const SIZE_MIN: u64 = 256 << 20;
/// Time after which a write is written back without a flush: half of the default of `dirty_age`.
const WRITEBACK_NS: u64 = 2_500_000_000;
/// Maximum size of a file whose blocks are all simulated; of larger ones, a sample is.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
/// The same of a compressed file.
const WHOLE_PACKED_BYTES_MAX: u64 = 1 << 20;
/// First bytes of files compressed by gzip, xz and zstd.
const PACKED: [&[u8]; 3] = [b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"];
/// The sample of larger traces.
const SAMPLE: f64 = 0.125;
/// Maximum size of a recording that is read as a whole, with the times of its requests.
const RECORDING_BYTES_MAX: u64 = 2 << 30;
const BLOCK_BYTES: u64 = simulator::BLOCK_BYTES;

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

/// Gathers facts, request by request.
pub struct Gather {
    facts: Facts,
    caches: DirectionCaches,
    streams: Streams,
    /// Times of the first and the last request.
    times: Option<(u64, u64)>,
    overwrites: Overwrites,
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
            overwrites: Overwrites::default(),
        }
    }

    /// Observes a request of which only the direction is known.
    pub fn see(&mut self, access: &Access) {
        let facts = &mut self.facts;
        match access.direction {
            Direction::Read => {
                facts.reads += 1;
                facts.read_bytes += access.bytes;
                self.streams.read(access.device, access.first_byte, access.bytes);
            }
            Direction::Write => {
                facts.writes += 1;
                facts.write_bytes += access.bytes;
            }
            Direction::Other => facts.others += 1,
        }
        let (first, last) = self.times.unwrap_or((access.time_ns, access.time_ns));
        self.times = Some((first.min(access.time_ns), last.max(access.time_ns)));
        self.caches.access(access);
    }

    /// Observes a request with its operation, and the time that it took.
    pub fn see_event(&mut self, event: &Event) {
        let direction = match event.operation {
            Operation::Read => Direction::Read,
            Operation::Write { .. } => Direction::Write,
            _ => Direction::Other,
        };
        let access = Access {
            time_ns: event.time_ns,
            device: event.device,
            direction,
            first_byte: event.first * 512,
            bytes: u64::from(event.sectors) * 512,
            details: Details::default(),
        };
        self.see(&access);
        let flushes = self.facts.flushes.get_or_insert(0);
        let times = match event.operation {
            Operation::Read => Some(&mut self.facts.read_times),
            Operation::Write { .. } => {
                self.overwrites.write(&access);
                Some(&mut self.facts.write_times)
            }
            Operation::Flush => {
                *flushes += 1;
                self.overwrites.flush();
                Some(&mut self.facts.flush_times)
            }
            _ => None,
        };
        if let (Some(times), Some(ns)) = (times, event.took_ns) {
            times.add(ns);
        }
    }

    /// Returns the facts.
    pub fn end(self) -> Facts {
        let mut facts = self.facts;
        (facts.hits, facts.accessed) = self.caches.end();
        facts.sequential_share = self.streams.share();
        // A format without times has zeros.
        facts.duration_ns =
            self.times.map(|(first, last)| last - first).filter(|duration| *duration > 0);
        // Without a flush, writes go through (C11).
        let counts = facts.flushes.is_some_and(|count| count > 0);
        facts.overwritten_blocks =
            facts.flushes.map(|_| if counts { self.overwrites.overwritten } else { 0 });
        facts
    }
}

/// Blocks that were written since the last flush.
#[derive(Default)]
struct Overwrites {
    written: HashMap<(u32, u64), u64>,
    overwritten: u64,
}

/// Maximum number of blocks that are remembered between flushes.
const WRITTEN_MAX: usize = 1 << 22;

impl Overwrites {
    fn write(&mut self, access: &Access) {
        if access.bytes == 0 {
            return;
        }
        if self.written.len() >= WRITTEN_MAX {
            self.written.clear();
        }
        let last = (access.first_byte + access.bytes - 1) / BLOCK_BYTES;
        for block in access.first_byte / BLOCK_BYTES..=last {
            let before = self.written.insert((access.device, block), access.time_ns);
            let is_soon = |before: u64| access.time_ns.saturating_sub(before) < WRITEBACK_NS;
            self.overwritten += u64::from(before.is_some_and(is_soon));
        }
    }

    fn flush(&mut self) {
        self.written.clear();
    }
}

/// Gathers facts about a trace in a file, which may be compressed.
///
/// # Errors
/// The file cannot be read, is not a trace, or has no reads and writes.
pub fn gather_trace(
    path: &Path,
    format: Option<Format>,
    sizes: &[u64],
    threads: usize,
) -> Result<(Facts, Format), Error> {
    let bytes = path.metadata().map_or(0, |data| data.len());
    let start = start_of(path);
    let may_record = format.is_none_or(|format| format == Format::Recording);
    let is_recording = may_record && start.starts_with(&MAGIC);
    let whole_max = match PACKED.iter().any(|magic| start.starts_with(magic)) {
        true => WHOLE_PACKED_BYTES_MAX,
        false => WHOLE_BYTES_MAX,
    };
    let rate = match bytes <= whole_max {
        true => Rate::ALL,
        false => Rate::new(SAMPLE).expect("a share"),
    };
    let mut gather = Gather::new(sizes, rate, threads);
    let format = if is_recording && bytes <= RECORDING_BYTES_MAX {
        let place = path.display();
        let content =
            std::fs::read(path).map_err(|error| Error::Io(format!("{place}: {error}")))?;
        let trace = Trace::parse(&content)
            .map_err(|malformed| Error::Malformed(format!("{place}: {malformed}")))?;
        trace.events().iter().for_each(|event| gather.see_event(event));
        Format::Recording
    } else {
        each_access(path, format, |access| gather.see(access))?
    };
    let facts = gather.end();
    if facts.reads + facts.writes == 0 {
        let message = format!("{}: contains no read or write; use another trace", path.display());
        return Err(Error::Malformed(message));
    }
    Ok((facts, format))
}

/// Returns the first bytes of a file; none if it cannot be read.
fn start_of(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    let file = std::fs::File::open(path);
    _ = file.and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start));
    start
}
