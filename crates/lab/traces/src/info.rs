//! The properties of a trace.

use crate::depths::Depths;
use crate::sizes::Sizes;
use crate::streams::Streams;
use simulator::{BLOCK_BYTES, Counted, Error, Footprint, Lru, TraceFile, Watch};
use std::path::Path;
use trace::{Access, Direction, Format, Notes, Operation, Window};

/// Memory up to which reuse is distinguished, in bytes: a block is reused within the first of these
/// that is at least as large as all blocks used since.
pub const REUSE_BYTES: [u64; 7] =
    [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30, 4 << 30];

/// Maximum number of blocks of one request that are studied for reuse and footprint.
const BLOCKS_MAX: u64 = 1 << 18;

/// Work between two looks at signals: requests, and MiB of them.
const LOOKS: u64 = 1024;

/// Requests and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Amounts {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of other requests.
    pub others: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Amounts {
    fn add(&mut self, direction: Direction, bytes: u64) {
        match direction {
            Direction::Read => {
                self.reads += 1;
                self.bytes_read = self.bytes_read.saturating_add(bytes);
            }
            Direction::Write => {
                self.writes += 1;
                self.bytes_written = self.bytes_written.saturating_add(bytes);
            }
            Direction::Other => self.others += 1,
        }
    }

    /// Returns the number of all requests.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.others
    }
}

/// The requests of a device or a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its requests.
    pub amounts: Amounts,
}

/// Block accesses by the memory that would have held the block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reuse {
    /// Accesses whose block was used again within each of [`REUSE_BYTES`], and no smaller one.
    pub within: [u64; REUSE_BYTES.len()],
    /// Accesses to blocks that were used before, but longer ago.
    pub longer: u64,
    /// Accesses to blocks for the first time.
    pub first: u64,
}

/// The properties of a trace.
#[derive(Debug)]
pub struct Info {
    /// Its format.
    pub format: Format,
    /// Whether the whole file was read.
    pub is_complete: bool,
    /// The time when it was recorded, in nanoseconds since 1970 (UTC). None: unknown.
    pub begin_ns: Option<u64>,
    /// All requests.
    pub amounts: Amounts,
    /// Number of flushes, discards, writes of zeros and advice.
    pub operations: [u64; 4],
    /// Number of writes and zeros that are durable when answered.
    pub fua: u64,
    /// Blocks of 4 KiB that are read or written.
    pub footprint: Counted,
    /// Block accesses, reads and writes.
    pub block_accesses: u64,
    /// Reads and writes by size.
    pub sizes: Sizes,
    /// Reads, and writes, that begin where one of the last 32 of the same direction ended.
    pub sequential: [u64; 2],
    /// Whether the requests have different times.
    pub has_times: bool,
    /// Time from the first request to the last one, or to the last answer if known, in
    /// nanoseconds.
    pub duration_ns: u64,
    /// Depths and busy time, of the requests whose duration is known.
    pub depths: Depths,
    /// Reuse of blocks.
    pub reuse: Reuse,
    /// Requests by device.
    pub devices: Vec<Named>,
    /// Requests by process; empty: unknown.
    pub processes: Vec<Named>,
    /// Requests whose time is before that of an earlier one.
    pub unsorted: u64,
    /// Notes on the file.
    pub notes: Notes,
}

/// A study of a trace's requests.
pub struct Study {
    amounts: Amounts,
    operations: [u64; 4],
    fua: u64,
    footprint: Footprint,
    block_accesses: u64,
    sizes: Sizes,
    sequential: [u64; 2],
    streams: Streams,
    first_ns: Option<u64>,
    last_ns: u64,
    depths: Depths,
    reuse: Lru,
    devices: Vec<Amounts>,
    processes: Vec<Amounts>,
}

impl Default for Study {
    fn default() -> Study {
        let slots = REUSE_BYTES.map(|bytes| (bytes / BLOCK_BYTES) as u32);
        Study {
            amounts: Amounts::default(),
            operations: [0; 4],
            fua: 0,
            footprint: Footprint::default(),
            block_accesses: 0,
            sizes: Sizes::default(),
            sequential: [0; 2],
            streams: Streams::default(),
            first_ns: None,
            last_ns: 0,
            depths: Depths::default(),
            reuse: Lru::new(&slots),
            devices: Vec::new(),
            processes: Vec::new(),
        }
    }
}

impl Study {
    /// Adds a request; times ascend.
    pub fn add(&mut self, access: &Access) {
        let (direction, bytes) = (access.direction, access.bytes);
        self.amounts.add(direction, bytes);
        amounts_of(&mut self.devices, access.device).add(direction, bytes);
        if let Some(process) = access.details.process {
            amounts_of(&mut self.processes, process).add(direction, bytes);
        }
        self.count_operation(access.operation());
        self.first_ns.get_or_insert(access.time_ns);
        self.last_ns = self.last_ns.max(access.time_ns);
        if let Some(took_ns) = access.details.took_ns {
            self.depths.add(access.time_ns, took_ns);
        }
        if direction != Direction::Other && bytes > 0 {
            self.add_data(access);
        }
    }

    fn add_data(&mut self, access: &Access) {
        let Access { device, direction, first_byte, bytes, .. } = *access;
        let is_read = direction == Direction::Read;
        self.sizes.add(direction, bytes);
        if self.streams.add(device, is_read, first_byte, bytes) {
            self.sequential[usize::from(!is_read)] += 1;
        }
        let (first, end) = (first_byte / BLOCK_BYTES, (first_byte + bytes).div_ceil(BLOCK_BYTES));
        for block in first..end.min(first + BLOCKS_MAX) {
            // As in a simulation: the blocks of different devices are different.
            let block = u64::from(device) << 48 | block;
            self.footprint.add(block);
            self.reuse.access(block);
            self.block_accesses += 1;
        }
    }

    fn count_operation(&mut self, operation: Option<Operation>) {
        let index = match operation {
            Some(Operation::Flush) => 0,
            Some(Operation::Discard) => 1,
            Some(Operation::Zero { fua, .. }) => {
                self.fua += u64::from(fua);
                2
            }
            Some(Operation::Advise) => 3,
            Some(Operation::Write { fua }) => {
                self.fua += u64::from(fua);
                return;
            }
            Some(Operation::Read) | None => return,
        };
        self.operations[index] += 1;
    }

    fn reuse(&self) -> Reuse {
        let mut within = [0; REUSE_BYTES.len()];
        let mut before = self.block_accesses;
        for (count, bytes) in within.iter_mut().zip(REUSE_BYTES) {
            let misses = self.reuse.misses((bytes / BLOCK_BYTES) as u32).unwrap_or(before);
            *count = before - misses;
            before = misses;
        }
        let first = self.footprint.count().blocks.min(before);
        Reuse { within, longer: before - first, first }
    }

    /// Returns the properties of the requests, with the facts of their file.
    fn info(self, file: &TraceFile, late: u64) -> Info {
        let first_ns = self.first_ns.unwrap_or(0);
        let end_ns = self.last_ns.max(self.depths.end_ns());
        let notes = file.notes.unwrap_or_default();
        Info {
            format: file.format,
            is_complete: file.notes.is_some(),
            begin_ns: file.begin_ns(),
            operations: self.operations,
            fua: self.fua,
            footprint: self.footprint.count(),
            block_accesses: self.block_accesses,
            sizes: self.sizes,
            sequential: self.sequential,
            has_times: self.last_ns > first_ns,
            duration_ns: end_ns - first_ns,
            reuse: self.reuse(),
            devices: named(&self.devices, file.devices().names()),
            processes: named(&self.processes, file.processes().names()),
            amounts: self.amounts,
            depths: self.depths,
            unsorted: late + notes.late,
            notes,
        }
    }
}

fn amounts_of(all: &mut Vec<Amounts>, index: u32) -> &mut Amounts {
    let index = index as usize;
    if all.len() <= index {
        all.resize(index + 1, Amounts::default());
    }
    &mut all[index]
}

/// Returns those that have requests, with most requests first.
fn named(all: &[Amounts], names: &[String]) -> Vec<Named> {
    let pairs = all.iter().zip(names).filter(|(amounts, _)| amounts.requests() > 0);
    let mut named: Vec<Named> =
        pairs.map(|(amounts, name)| Named { name: name.clone(), amounts: *amounts }).collect();
    named.sort_by_key(|named| std::cmp::Reverse(named.amounts.requests()));
    named
}

/// Reads a trace, and returns its properties. `devices`: only requests of these, by their names;
/// empty: all.
///
/// # Errors
/// The file cannot be read, is damaged, has no such device, or contains no request. If `watch` ends
/// it, the properties are those of its beginning.
pub fn study(
    path: &Path,
    format: Option<Format>,
    devices: &[String],
    watch: &mut dyn Watch,
) -> Result<Info, Error> {
    let mut file = TraceFile::open(path, format)?;
    let mut study = Study::default();
    let late = each(&mut file, devices, watch, &mut |_, access| {
        study.add(access);
        Ok(())
    })?;
    Ok(study.info(&file, late))
}

/// Calls `with` for all requests of these devices in the order of their times, as far as a window
/// of 65,536 requests allows. A request that is later than that gets the time of the one before.
/// Returns the number of those.
///
/// # Errors
/// As [`study`], or that of `with`.
pub fn each(
    file: &mut TraceFile,
    devices: &[String],
    watch: &mut dyn Watch,
    with: &mut dyn FnMut(&TraceFile, &Access) -> Result<(), Error>,
) -> Result<u64, Error> {
    let (mut window, mut read, mut sorted) = (Window::default(), Vec::new(), Vec::new());
    let (mut last_ns, mut count, mut work) = (0, 0u64, 0);
    let mut goes_on = true;
    while goes_on {
        goes_on = file.next(&mut read)? && watch.look("read", file.share());
        let names = file.devices().names();
        let counts = |access: &&Access| {
            devices.is_empty() || devices.contains(&names[access.device as usize])
        };
        read.iter().filter(counts).for_each(|access| window.put(*access, &mut sorted));
        if !goes_on {
            window.finish(&mut sorted);
        }
        for mut access in sorted.drain(..) {
            access.time_ns = access.time_ns.max(last_ns);
            last_ns = access.time_ns;
            count += 1;
            with(file, &access)?;
            // A request of 1 GiB is 262,144 block accesses.
            work += 1 + (access.bytes >> 20);
            if work < LOOKS {
                continue;
            }
            work = 0;
            if !watch.look("read", file.share()) {
                (goes_on, file.notes) = (false, None);
                break;
            }
        }
        read.clear();
    }
    check(file, devices, count > 0)?;
    Ok(window.late)
}

fn check(file: &TraceFile, devices: &[String], is_any: bool) -> Result<(), Error> {
    let (path, names) = (file.path(), file.devices().names());
    let missing = devices.iter().find(|device| !names.contains(device));
    if let (Some(missing), true) = (missing, file.notes.is_some()) {
        let shown = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
        let message = format!("--device {missing}: {path} has no such device; it has {shown}");
        return Err(Error::Usage(message));
    }
    match is_any {
        true => Ok(()),
        false if file.notes.is_none() => Err(Error::Interrupted),
        false => Err(Error::Malformed(format!("{path}: contains no request; use another trace"))),
    }
}
