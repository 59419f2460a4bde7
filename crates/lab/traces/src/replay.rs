//! A trace as the requests of a replay: on a target of another size, with other times.

use crate::info::each;
use simulator::{Error, TraceFile, Watch};
use std::path::Path;
use trace::{Access, Event, Format, Operation, Trace};

/// How addresses are mapped to a target of another size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Map {
    /// Modulo the size; with several devices, each has an equal part of the target.
    Wrap,
    /// Regions of 1 MiB keep their order and their inner addresses, and move in proportion.
    Scale,
    /// Requests beyond the end are left out.
    Clip,
}

impl Map {
    /// All of them.
    pub const ALL: [Map; 3] = [Map::Wrap, Map::Scale, Map::Clip];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Map::Wrap => "wrap",
            Map::Scale => "scale",
            Map::Clip => "clip",
        }
    }

    /// Returns the mapping of this name.
    pub fn by_name(name: &str) -> Option<Map> {
        Map::ALL.into_iter().find(|map| map.name() == name)
    }
}

/// The target's properties that its requests depend on.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Its size in bytes.
    pub bytes: u64,
    /// Requests are multiples of this, in bytes; a power of two of at least 512.
    pub unit_bytes: u64,
    /// Maximum size of a read or write, in bytes.
    pub io_bytes_max: u64,
    /// Only reads are replayed.
    pub reads_only: bool,
    /// Discards are supported.
    pub discards: bool,
}

impl Room {
    /// Returns the size of the pieces of a long read or write, in bytes.
    fn piece_bytes(&self) -> u64 {
        (self.io_bytes_max / self.unit_bytes * self.unit_bytes).max(self.unit_bytes)
    }
}

/// Counts of requests that the replay changes or leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Changes {
    /// Requests whose operation is unknown, which cover nothing, or which the target does not
    /// support.
    pub left_out: u64,
    /// Requests that are no reads, in a replay of reads alone.
    pub not_reads: u64,
    /// Requests beyond the target's end, with [`Map::Clip`], or longer than the target.
    pub beyond: u64,
    /// Requests whose bytes were extended to whole blocks of the target.
    pub extended: u64,
    /// Requests that were longer than the target supports; each was sent in pieces.
    pub split: u64,
    /// Requests whose time was before that of an earlier one by more than the window.
    pub unsorted: u64,
    /// Requests that were lost when the trace was recorded.
    pub dropped: u64,
}

/// A trace in memory, as it was recorded: the requests that a target supports.
#[derive(Debug)]
pub struct Recorded {
    /// The requests, in the order of their times; addresses are in sectors of their devices.
    events: Vec<Event>,
    /// The end of each device's last request, in bytes.
    ends: Vec<u64>,
    /// Requests that were changed or left out.
    pub changes: Changes,
    /// Whether the whole trace was read, and is not cut off.
    pub is_complete: bool,
}

/// Bytes of a region, whose inner addresses [`Map::Scale`] does not change.
const REGION_BYTES: u64 = 1 << 20;
const SECTOR_BYTES: u64 = 512;
/// Requests between two checks of the memory.
const CHECKED: usize = 1 << 20;

/// Reads a trace into memory. `devices`: only requests of these, by their names; empty: all.
/// `has_memory` is called with the bytes that will be needed next.
///
/// # Errors
/// The file cannot be read, is damaged, has no such device, contains no request that can be
/// replayed, or needs too much memory.
pub fn read(
    path: &Path,
    format: Option<Format>,
    devices: &[String],
    room: &Room,
    watch: &mut dyn Watch,
    has_memory: &dyn Fn(u64) -> Result<(), String>,
) -> Result<Recorded, Error> {
    let mut file = TraceFile::open(path, format)?;
    let mut read = Recorded {
        events: Vec::new(),
        ends: Vec::new(),
        changes: Changes::default(),
        is_complete: false,
    };
    let late = each(&mut file, devices, watch, &mut |_, access| {
        if read.events.len() == read.events.capacity() {
            let more = read.events.len().max(CHECKED);
            reserve(&mut read.events, more, has_memory).map_err(Error::Usage)?;
        }
        read.add(access, room);
        Ok(())
    })?;
    if read.events.is_empty() {
        let (path, what) = (path.display(), if room.reads_only { "read" } else { "request" });
        let message = format!("{path}: contains no {what} that can be replayed; use another trace");
        return Err(Error::Usage(message));
    }
    let notes = file.notes.unwrap_or_default();
    read.changes.unsorted = late + notes.late;
    read.changes.dropped = notes.dropped;
    read.is_complete = file.notes.is_some() && !notes.is_cut;
    Ok(read)
}

/// Reserves memory for more requests, after `has_memory` has agreed.
///
/// # Errors
/// There is not enough memory.
fn reserve(
    events: &mut Vec<Event>,
    more: usize,
    has_memory: &dyn Fn(u64) -> Result<(), String>,
) -> Result<(), String> {
    let bytes = more.saturating_mul(size_of::<Event>()) as u64;
    has_memory(bytes)?;
    let mebibytes = bytes.div_ceil(1 << 20);
    // A limit of the process.
    let refused = |_| {
        format!("the system refuses {mebibytes} MiB of memory for the trace; replay a part of it")
    };
    events.try_reserve_exact(more).map_err(refused)
}

impl Recorded {
    fn add(&mut self, access: &Access, room: &Room) {
        let Some(operation) = access.operation() else {
            self.changes.left_out += 1;
            return;
        };
        if room.reads_only && operation != Operation::Read {
            self.changes.not_reads += 1;
            return;
        }
        let is_flush = operation == Operation::Flush;
        let is_supported = room.discards || operation != Operation::Discard;
        let (first, end) = match is_flush {
            true => (0, 0),
            false => {
                let end = access.first_byte + access.bytes;
                let first = access.first_byte / room.unit_bytes * room.unit_bytes;
                (first, end.next_multiple_of(room.unit_bytes))
            }
        };
        let sectors = u32::try_from((end - first) / SECTOR_BYTES);
        let (Ok(sectors), true) = (sectors, is_supported && (is_flush || access.bytes > 0)) else {
            self.changes.left_out += 1;
            return;
        };
        let is_whole = end - first == access.bytes;
        self.changes.extended += u64::from(!is_whole && !is_flush);
        let device = access.device as usize;
        if self.ends.len() <= device {
            self.ends.resize(device + 1, 0);
        }
        self.ends[device] = self.ends[device].max(end);
        self.events.push(Event {
            time_ns: access.time_ns,
            took_ns: access.details.took_ns,
            operation,
            device: access.device,
            first: first / SECTOR_BYTES,
            sectors,
            failed: None,
        });
    }

    /// Returns the number of requests that can be replayed.
    pub fn requests(&self) -> u64 {
        self.events.len() as u64
    }

    /// Returns the number of these without a recorded answer.
    pub fn unanswered(&self) -> u64 {
        self.events.iter().filter(|event| event.took_ns.is_none()).count() as u64
    }

    /// Whether all requests have the same time: the trace has no times.
    pub fn is_timeless(&self) -> bool {
        self.events.first().map(|event| event.time_ns)
            == self.events.last().map(|event| event.time_ns)
    }

    /// Returns the time from the first request to the last, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        match (self.events.first(), self.events.last()) {
            (Some(first), Some(last)) => last.time_ns.saturating_sub(first.time_ns),
            _ => 0,
        }
    }

    /// Returns the bytes that the trace's devices need, one after the other.
    pub fn bytes(&self) -> u64 {
        self.ends.iter().fold(0, |sum: u64, end| sum.saturating_add(region_end(*end)))
    }

    /// Divides all times by `speed`.
    pub fn hurry(&mut self, speed: f64) {
        let first_ns = self.events.first().map_or(0, |event| event.time_ns);
        for event in &mut self.events {
            event.time_ns = ((event.time_ns - first_ns) as f64 / speed) as u64;
        }
    }

    /// Shortens all idle time to this much at a time. Idle time is time with no request in flight;
    /// a request without a recorded answer counts as answered immediately.
    pub fn cap_idle(&mut self, idle_ns_max: u64) {
        let (mut busy_until_ns, mut cut_ns) = (self.events.first().map_or(0, |it| it.time_ns), 0);
        for event in &mut self.events {
            let idle_ns = event.time_ns.saturating_sub(busy_until_ns);
            cut_ns += idle_ns.saturating_sub(idle_ns_max);
            let end_ns = event.time_ns.saturating_add(event.took_ns.unwrap_or(0));
            busy_until_ns = busy_until_ns.max(end_ns);
            event.time_ns -= cut_ns;
        }
    }

    /// Places all requests on the target, as one device. Long ones are split; all pieces have the
    /// times of the whole. None: the devices do not fit on it, and no mapping was given.
    /// `has_memory` is called with the bytes that will be needed.
    ///
    /// # Errors
    /// There is not enough memory for the pieces: a request of 1 GiB has at least 512.
    pub fn place(
        mut self,
        room: &Room,
        map: Option<Map>,
        has_memory: &dyn Fn(u64) -> Result<(), String>,
    ) -> Result<Option<(Trace, Changes)>, String> {
        let usable = room.bytes / room.unit_bytes * room.unit_bytes;
        if map.is_none() && self.end_of_all() > usable {
            return Ok(None);
        }
        let bases = self.bases(usable, map);
        let total = self.bytes();
        let piece = room.piece_bytes();
        let mut placed = Vec::new();
        reserve(&mut placed, self.pieces(piece), has_memory)?;
        let mut changes = self.changes;
        for event in std::mem::take(&mut self.events) {
            if event.operation == Operation::Flush {
                placed.push(Event { device: 0, ..event });
                continue;
            }
            let bytes = u64::from(event.sectors) * SECTOR_BYTES;
            let (base, part) = bases[event.device as usize];
            let first = event.first * SECTOR_BYTES;
            let first = match map {
                _ if bytes > part => None,
                None => Some(base + first),
                Some(Map::Wrap) => Some(base + (first % part).min(part - bytes)),
                Some(Map::Scale) => Some(scaled(base + first, total, usable, room.unit_bytes))
                    .map(|first| first.min(usable - bytes)),
                Some(Map::Clip) => Some(base + first).filter(|first| first + bytes <= usable),
            };
            let Some(first) = first else {
                changes.beyond += 1;
                continue;
            };
            let is_data = is_data(&event);
            changes.split += u64::from(is_data && bytes > piece);
            let length = if is_data { piece } else { bytes };
            for at in (first..first + bytes).step_by(length as usize) {
                let sectors = (length.min(first + bytes - at) / SECTOR_BYTES) as u32;
                placed.push(Event { device: 0, first: at / SECTOR_BYTES, sectors, ..event });
            }
        }
        Ok(Some((Trace::of(placed), changes)))
    }

    /// Returns the number of requests after splits.
    fn pieces(&self, piece_bytes: u64) -> usize {
        let pieces = |event: &Event| match is_data(event) {
            true => (u64::from(event.sectors) * SECTOR_BYTES).div_ceil(piece_bytes) as usize,
            false => 1,
        };
        self.events.iter().map(pieces).sum()
    }

    /// Returns the end of the last device that has requests, without the rest of its region.
    fn end_of_all(&self) -> u64 {
        let last = self.ends.iter().rfind(|end| **end > 0).copied().unwrap_or(0);
        self.bytes().saturating_sub(region_end(last)).saturating_add(last)
    }

    /// Returns the start of each device on the target, and the longest request there.
    fn bases(&self, usable: u64, map: Option<Map>) -> Vec<(u64, u64)> {
        if map == Some(Map::Wrap) {
            let used = self.ends.iter().filter(|end| **end > 0).count().max(1) as u64;
            // Multiples of 4 KiB, so that blocks stay aligned.
            let part = usable / used / 4096 * 4096;
            let mut base = 0;
            let place = |end: &u64| {
                let next = base + if *end > 0 { part } else { 0 };
                (std::mem::replace(&mut base, next), part)
            };
            return self.ends.iter().map(place).collect();
        }
        let mut base: u64 = 0;
        let place = |end: &u64| {
            let next = base.saturating_add(region_end(*end));
            (std::mem::replace(&mut base, next), usable)
        };
        self.ends.iter().map(place).collect()
    }
}

/// Whether a request moves data, and is split if it is long.
fn is_data(event: &Event) -> bool {
    matches!(event.operation, Operation::Read | Operation::Write { .. })
}

/// Returns the end of the region in which a device ends, so that the next one starts with a region.
fn region_end(end: u64) -> u64 {
    end.div_ceil(REGION_BYTES).saturating_mul(REGION_BYTES)
}

/// Moves an address in proportion, by whole regions.
fn scaled(first: u64, total: u64, usable: u64, unit: u64) -> u64 {
    let regions = u128::from((usable / REGION_BYTES).max(1));
    let region =
        u128::from(first / REGION_BYTES) * regions / u128::from((total / REGION_BYTES).max(1));
    let within = first % REGION_BYTES / unit * unit;
    region as u64 * REGION_BYTES + within
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn room(bytes: u64) -> Room {
        Room { bytes, unit_bytes: 512, io_bytes_max: MIB, reads_only: false, discards: true }
    }

    /// Reads requests of an offset and a length, 1 ms apart, each answered within 0.4 ms.
    fn recorded(requests: &[(&str, u64, u64, &str)], room: &Room) -> Recorded {
        let mut text = "op,offset,length,time_ns,took_ns,device,process\n".to_owned();
        for (number, (operation, offset, length, device)) in requests.iter().enumerate() {
            let time_ns = 5_000 + number as u64 * 1_000_000;
            text += &format!("{operation},{offset},{length},{time_ns},400000,{device},\n");
        }
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("trace.csv");
        std::fs::write(&path, text).expect("written");
        read(&path, None, &[], room, &mut (), &|_| Ok(())).expect("a trace")
    }

    fn place(read: Recorded, room: &Room, map: Option<Map>) -> Option<(Trace, Changes)> {
        read.place(room, map, &|_| Ok(())).expect("memory")
    }

    /// Returns the first sector and the sectors of each placed request.
    fn placed(
        requests: &[(&str, u64, u64, &str)],
        room: &Room,
        map: Option<Map>,
    ) -> Vec<(u64, u32)> {
        let (trace, _) = place(recorded(requests, room), room, map).expect("it fits");
        trace.events().iter().map(|event| (event.first, event.sectors)).collect()
    }

    #[test]
    fn a_trace_that_fits_keeps_its_addresses_and_devices_follow_one_another() {
        let requests = [("R", 4096, 4096, "a"), ("W", 0, 8192, "b"), ("F", 0, 0, "a")];
        assert_eq!(placed(&requests, &room(4 * MIB), None), [(8, 8), (2048, 16), (0, 0)]);
        let room = room(MIB);
        assert!(place(recorded(&requests, &room), &room, None).is_none());
        let one = [("R", 0, MIB, "a")];
        assert_eq!(placed(&one, &room, None), [(0, 2048)], "to the last byte");
    }

    #[test]
    fn each_mapping_keeps_requests_on_the_target() {
        let requests = [
            ("R", 0, 4096, "a"),
            ("R", 3 * MIB + 4096, 4096, "a"),
            ("R", 8 * MIB - 4096, 4096, "a"),
        ];
        let room = room(2 * MIB);
        let placed = |map| placed(&requests, &room, Some(map));
        assert_eq!(placed(Map::Wrap), [(0, 8), (2048 + 8, 8), (4096 - 8, 8)]);
        assert_eq!(placed(Map::Scale), [(0, 8), (8, 8), (4096 - 8, 8)]);
        assert_eq!(placed(Map::Clip), [(0, 8)]);
        let (_, changes) = place(recorded(&requests, &room), &room, Some(Map::Clip)).expect("two");
        assert_eq!(changes.beyond, 2);
        // Two devices have a half each.
        let requests = [("R", 0, 512, "a"), ("R", MIB + 512, 512, "b"), ("R", 9 * MIB, 512, "a")];
        let wrapped = super::tests::placed(&requests, &room, Some(Map::Wrap));
        assert_eq!(wrapped, [(0, 1), (2048 + 1, 1), (0, 1)]);
    }

    #[test]
    fn long_requests_are_split_and_small_ones_extended_to_blocks() {
        let room = Room { unit_bytes: 4096, ..room(8 * MIB) };
        let read = recorded(&[("W", 512, 2 * MIB, "a"), ("R", 4096, 4096, "a")], &room);
        let (trace, changes) = place(read, &room, None).expect("it fits");
        let found: Vec<_> = trace.events().iter().map(|it| (it.first, it.sectors)).collect();
        assert_eq!(found, [(0, 2048), (2048, 2048), (4096, 8), (8, 8)]);
        assert_eq!((changes.split, changes.extended), (1, 1));
    }

    #[test]
    fn times_are_divided_and_idle_time_is_capped() {
        let requests = [("R", 0, 512, "a"), ("R", 0, 512, "a"), ("R", 0, 512, "a")];
        let room = room(MIB);
        let times = |read: Recorded| {
            let (trace, _) = place(read, &room, None).expect("it fits");
            trace.events().iter().map(|event| event.time_ns).collect::<Vec<_>>()
        };
        let mut read = recorded(&requests, &room);
        read.hurry(2.0);
        assert_eq!(times(read), [0, 500_000, 1_000_000]);
        let mut read = recorded(&requests, &room);
        // Answered after 400 us, then idle for 600.
        read.cap_idle(100_000);
        assert_eq!(times(read), [5_000, 505_000, 1_005_000]);
    }

    #[test]
    fn reads_alone_leave_out_the_rest() {
        let room = Room { reads_only: true, ..room(MIB) };
        let read = recorded(&[("R", 0, 512, "a"), ("W", 0, 512, "a"), ("F", 0, 0, "a")], &room);
        assert_eq!((read.requests(), read.changes.not_reads), (1, 2));
        assert_eq!(read.unanswered(), 0);
    }

    #[test]
    fn the_memory_for_pieces_is_checked_before() {
        let room = Room { io_bytes_max: 4096, ..room(1 << 30) };
        let read = recorded(&[("R", 0, 1 << 30, "a"), ("F", 0, 0, "a")], &room);
        let refused = read.place(&room, None, &|bytes| Err(format!("{bytes} bytes")));
        let expected = ((1 << 18) + 1) * size_of::<Event>();
        assert_eq!(refused.expect_err("refused"), format!("{expected} bytes"));
    }
}
