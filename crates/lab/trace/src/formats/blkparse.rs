//! The text of blkparse in its default form (`man blkparse`, "OUTPUT DESCRIPTION AND FORMATTING").
//!
//! ```text
//!   major,minor cpu sequence time in s  process action RWBS first sector + sectors [name]
//!   259,2       0   1        0.00000000 4020    Q      R    282624       + 8       [java]
//! ```
//!
//! One kind of event counts: Q, requests as they were queued, or D, as they were sent to the
//! device. Between the two the kernel merges neighbours: a merge is an event M or F, which is
//! counted and shown. So Q gives all requests of the applications, and D fewer, larger ones. In
//! RWBS a letter D is a discard; R, W are the directions; a flush has no sectors. Lines are grouped
//! by processor, and not quite in the order of their times: they are sorted within a window
//! (`window.rs`).
//!
//! A text may be a concatenation of several. Each ends with statistics (of devices; of processes
//! with `-s`; with `-q` only `Input file sda.blktrace.0 added` is left): they are skipped and
//! counted. Events after them begin the next text, whose times start again.

use super::Found;
use crate::access::{Access, Direction, Extent, Marks};
use crate::devices::Devices;
use crate::event::Operation;
use crate::fields::{between_blanks, decimal, number};
use crate::processes::Processes;

const EXPECTED: &str = "not 'major,minor cpu sequence s process action RWBS sector + sectors'";

/// The kind of event that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Requests as they were queued.
    Queued,
    /// Requests as they were sent to the device.
    Sent,
}

/// Beginnings of the lines other than events that blkparse prints.
const STATISTICS: [&[u8]; 20] = [
    b"CPU",
    b"Total (",
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"PC Reads Queued:",
    b"PC Read Disp.:",
    b"PC Reads Req.:",
    b"PC Reads Compl.:",
    b"IO unplugs:",
    b"Allocation wait:",
    b"Dispatch wait:",
    b"Completion wait:",
    b"Throughput (R/W):",
    b"Events (",
    b"Skips:",
    b"Input file ",
];

/// State between the lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blkparse {
    event: Event,
    /// Requests that were merged into others.
    pub(crate) merged: u64,
    /// Events of other kinds.
    pub(crate) others: u64,
    /// Lines of statistics.
    pub(crate) statistics: u64,
    /// Texts that follow the statistics of another.
    pub(crate) joined: u64,
    /// Whether this text has had events, and then statistics.
    has_events: bool,
    is_ended: bool,
}

impl Blkparse {
    pub(crate) fn new(event: Event) -> Blkparse {
        Blkparse {
            event,
            merged: 0,
            others: 0,
            statistics: 0,
            joined: 0,
            has_events: false,
            is_ended: false,
        }
    }

    /// Reads a line. The flag is true if an event begins the next of several joined texts.
    pub(crate) fn line(
        &mut self,
        line: &[u8],
        devices: &mut Devices,
        processes: &mut Processes,
    ) -> (Found, bool) {
        let Some(head) = Head::of(line) else {
            if !is_statistics(line) {
                return (Err(EXPECTED), false);
            }
            self.statistics += 1;
            self.is_ended = self.has_events;
            return (Ok(None), false);
        };
        let begins = core::mem::take(&mut self.is_ended);
        self.joined += u64::from(begins);
        self.has_events = true;
        (self.event(head, process_of(line), devices, processes), begins)
    }

    fn event<'a>(
        &mut self,
        mut head: Head<'a, impl Iterator<Item = &'a [u8]>>,
        process: Option<&[u8]>,
        devices: &mut Devices,
        processes: &mut Processes,
    ) -> Found {
        let wanted: &[u8] = if self.event == Event::Queued { b"Q" } else { b"D" };
        match head.fields.next().ok_or(EXPECTED)? {
            action if action == wanted => {}
            b"M" | b"F" => {
                self.merged += 1;
                return Ok(None);
            }
            _ => {
                self.others += 1;
                return Ok(None);
            }
        }
        let fields = &mut head.fields;
        let rwbs = fields.next().ok_or(EXPECTED)?;
        let device = devices.named(head.device)?;
        let detailed = |mut access: Access| {
            access.details.operation = operation(rwbs);
            access.details.marks = marks(rwbs);
            access.details.process = process.map(|name| processes.named(name));
            Some(access)
        };
        match fields.next().map(number) {
            Some(Some(sector)) => {
                let is_plus = fields.next() == Some(b"+");
                let sectors = fields.next().and_then(number).filter(|_| is_plus);
                let extent = Extent::of_sectors(sector, sectors.ok_or(EXPECTED)?)?;
                extent.access(head.time_ns, device, direction(rwbs)).map(detailed)
            }
            // A flush: the name of the process follows its letters.
            _ if rwbs.starts_with(b"F") || rwbs == b"N" => {
                Extent::of_bytes(0, 0)?.access(head.time_ns, device, Direction::Other).map(detailed)
            }
            _ => Err(EXPECTED),
        }
    }
}

/// The first fields of every event, and the remaining ones.
struct Head<'a, Fields> {
    device: &'a [u8],
    time_ns: u64,
    fields: Fields,
}

impl<'a> Head<'a, ()> {
    /// Returns the head of an event. None: the line is not an event.
    fn of(line: &'a [u8]) -> Option<Head<'a, impl Iterator<Item = &'a [u8]>>> {
        let mut fields = between_blanks(line);
        let device = fields.next()?;
        let mut numbers = device.splitn(2, |byte| *byte == b',').map(number);
        numbers.next()??;
        numbers.next()??;
        // The processor and the sequence.
        number(fields.next()?)?;
        number(fields.next()?)?;
        let time_ns = decimal(fields.next()?, 9)?;
        // The process.
        number(fields.next()?)?;
        Some(Head { device, time_ns, fields })
    }
}

/// Whether the line belongs to blkparse's statistics, or names the process of the statistics:
/// `java (4020)`.
fn is_statistics(line: &[u8]) -> bool {
    STATISTICS.iter().any(|start| line.starts_with(start)) || is_process(line)
}

fn is_process(line: &[u8]) -> bool {
    let Some(inside) = line.strip_suffix(b")") else { return false };
    let Some(open) = inside.iter().rposition(|byte| *byte == b'(') else { return false };
    let numbers = &inside[open + 1..];
    let numbers = numbers.strip_suffix(b", ...").unwrap_or(numbers);
    line[..open].ends_with(b" ") && number(numbers).is_some()
}

/// Returns the name of the process at the end of an event, between brackets.
fn process_of(line: &[u8]) -> Option<&[u8]> {
    let inside = line.strip_suffix(b"]")?;
    let open = inside.iter().position(|byte| *byte == b'[')?;
    Some(&inside[open + 1..])
}

/// Returns the operation of these letters. None: neither data nor a flush nor a discard.
pub(crate) fn operation(rwbs: &[u8]) -> Option<Operation> {
    match direction(rwbs) {
        Direction::Read => Some(Operation::Read),
        // An F before the W is a flush of the device, one after it is FUA.
        Direction::Write => {
            let behind = rwbs.iter().skip_while(|letter| **letter != b'W');
            Some(Operation::Write { fua: behind.copied().any(|letter| letter == b'F') })
        }
        Direction::Other if rwbs.contains(&b'D') => Some(Operation::Discard),
        Direction::Other => rwbs.contains(&b'F').then_some(Operation::Flush),
    }
}

/// Returns the marks of these letters.
pub(crate) fn marks(rwbs: &[u8]) -> Marks {
    let has = |letter: u8, bit: u32| if rwbs.contains(&letter) { bit } else { 0 };
    let is_preflush = rwbs.first() == Some(&b'F') && rwbs.contains(&b'W');
    let preflush = if is_preflush { Marks::PREFLUSH } else { 0 };
    let letters = has(b'S', Marks::SYNC) | has(b'M', Marks::META) | has(b'A', Marks::AHEAD);
    Marks(letters | preflush)
}

fn direction(rwbs: &[u8]) -> Direction {
    let has = |letter: u8| rwbs.contains(&letter);
    match (has(b'D'), has(b'R'), has(b'W')) {
        (false, true, _) => Direction::Read,
        (false, false, true) => Direction::Write,
        _ => Direction::Other,
    }
}
