//! Pages of the kernel's buffer of block tracepoints, as `trace_pipe_raw` of tracefs returns them.
//!
//! ```text
//!   page    time u64   committed bytes u64 (the upper bits are flags)   entries
//!   entry   kind: low 5 bits of a u32, time since the entry before: high 27 bits   then by kind:
//!           1 to 28   an event of 4 times as many bytes
//!           0         u32 length of itself and the event's bytes
//!           29        padding: u32 length; the end of the page if the time is 0
//!           30        u32: higher bits of the time since the entry before
//!           31        u32: higher bits of the absolute time, whose highest 5 are the page's
//!   event   type u16   flags u8   preemption u8   thread i32   fields, by the text `format`
//! ```
//!
//! Numbers have the byte order of the machine; the layout is that of 64-bit kernels. Sources: the
//! kernel's Documentation/trace/ring-buffer-map.rst, include/linux/ring_buffer.h and
//! kernel/trace/ring_buffer.c. Reading them costs a tenth of the text's time: the kernel does not
//! format lines.

use crate::access::Marks;
use crate::block_event::{BlockEvent, Step, operation};
use crate::event::Operation;
use crate::formats::blkparse;
use crate::ring_fields::{Field, NAME_BYTES, id, name_of, plain, thread};
use crate::ring_tasks::{TaskEvent, TaskLayouts};
use alloc::vec::Vec;

const PAGE_HEADER_BYTES: usize = 16;
/// Bits of the number of committed bytes; the others are flags.
const COMMITTED: u64 = (1 << 27) - 1;
/// Kinds of entries; smaller ones are events.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// Bits of an absolute time that an entry has.
const STAMP_BITS: u32 = 59;

/// An event of a request, with its thread and its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingEvent {
    /// Time by the clock of the trace, in nanoseconds.
    pub time_ns: u64,
    /// The thread in whose context it happened; of a completion, any.
    pub thread: u32,
    /// The device, as the kernel stores it: the major number above 20 bits of the minor one.
    pub device: u32,
    /// The first sector; 0 for a flush.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Name of its process, ended by zeros; of completions, none.
    pub name: [u8; NAME_BYTES],
    step: Step,
    operation: Option<Operation>,
    marks: Marks,
    failed: Option<i32>,
}

impl RingEvent {
    /// Returns the event with this name of its process.
    pub fn event<'a>(&self, process: &'a [u8]) -> BlockEvent<'a> {
        BlockEvent {
            time_ns: self.time_ns,
            step: self.step,
            operation: self.operation,
            marks: self.marks,
            first: self.first,
            sectors: self.sectors,
            failed: self.failed,
            process,
        }
    }

    /// Returns the name of its process; of completions, none.
    pub fn process(&self) -> &[u8] {
        plain(&self.name)
    }
}

/// An event of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingRecord {
    /// A step of a request.
    Block(RingEvent),
    /// A thread that starts, or that has another name.
    Task(TaskEvent),
}

impl RingRecord {
    /// Returns the time by the clock of the trace, in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        match self {
            RingRecord::Block(event) => event.time_ns,
            RingRecord::Task(event) => event.time_ns,
        }
    }
}

/// The layout of the events of one tracepoint.
#[derive(Clone, Copy, Debug)]
struct Layout {
    step: Step,
    id: u16,
    device: Field,
    first: Field,
    sectors: Field,
    letters: Field,
    /// Absent in completions.
    name: Option<Field>,
    /// Only in completions.
    error: Option<Field>,
}

impl Layout {
    fn of(step: Step, format: &str) -> Option<Layout> {
        let field = |name| Field::of(format, name);
        Some(Layout {
            step,
            id: id(format)?,
            device: field("dev")?,
            first: field("sector")?,
            sectors: field("nr_sector")?,
            letters: field("rwbs")?,
            name: field("comm"),
            error: field("error"),
        })
    }

    fn event(&self, time_ns: u64, bytes: &[u8]) -> Option<RingEvent> {
        let letters = self.letters.get(bytes)?;
        let end = letters.iter().position(|byte| *byte == 0).unwrap_or(letters.len());
        let letters = &letters[..end];
        let sectors = u32::try_from(self.sectors.number(bytes)?).ok()?;
        let operation = operation(letters, sectors);
        // A flush has no sector; the kernel then stores 0 or the largest number.
        let is_flush = operation == Some(Operation::Flush);
        let name = match self.name {
            Some(field) => name_of(field.get(bytes)?),
            None => [0; NAME_BYTES],
        };
        let error = match self.error {
            Some(field) => (field.number(bytes)? as u32).cast_signed(),
            None => 0,
        };
        Some(RingEvent {
            time_ns,
            thread: thread(bytes)?,
            device: self.device.number(bytes)? as u32,
            first: if is_flush { 0 } else { self.first.number(bytes)? },
            sectors,
            name,
            step: self.step,
            operation,
            marks: blkparse::marks(letters),
            failed: (error != 0).then(|| error.saturating_abs()),
        })
    }
}

/// Reads pages with the events of requests.
#[derive(Clone, Debug)]
pub struct RingPages {
    layouts: Vec<Layout>,
    tasks: Option<TaskLayouts>,
}

impl RingPages {
    /// Returns a reader. `header`: the text of `events/header_page`; `formats`: the texts of the
    /// tracepoints' `format` files. None: this kernel has another layout.
    pub fn new<'a>(
        header: &str,
        formats: impl IntoIterator<Item = (Step, &'a str)>,
    ) -> Option<RingPages> {
        let is_known =
            |name, offset, bytes| Field::of(header, name).is_some_and(|it| it.is_at(offset, bytes));
        let is_data = Field::of(header, "data").is_some_and(|it| it.offset() == PAGE_HEADER_BYTES);
        if !(is_known("timestamp", 0, 8) && is_known("commit", 8, 8) && is_data) {
            return None;
        }
        let layouts = formats.into_iter().map(|(step, format)| Layout::of(step, format));
        Some(RingPages { layouts: layouts.collect::<Option<_>>()?, tasks: None })
    }

    /// Also reads events of threads, by the texts of the `format` files of the tracepoints
    /// `task_newtask` and `task_rename`. Returns false if they have another layout.
    pub fn read_tasks(&mut self, started: &str, renamed: &str) -> bool {
        self.tasks = TaskLayouts::of(started, renamed);
        self.tasks.is_some()
    }

    /// Passes on the events of a page. Returns the number of entries that could not be read.
    pub fn read(&self, page: &[u8], mut take: impl FnMut(RingRecord)) -> u64 {
        let word = |at: usize| {
            let bytes = page.get(at..at.checked_add(4)?)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let long = |at: usize| Some(u64::from_ne_bytes(page.get(at..at + 8)?.try_into().ok()?));
        let (Some(mut time_ns), Some(committed)) = (long(0), long(8)) else { return 1 };
        let end = (PAGE_HEADER_BYTES + (committed & COMMITTED) as usize).min(page.len());
        let (mut at, mut unreadable) = (PAGE_HEADER_BYTES, 0);
        while at + 4 <= end {
            let Some(head) = word(at) else { break };
            let (kind, delta) = (head & 31, u64::from(head >> 5));
            let next = word(at + 4);
            let (data, length) = match (kind, next) {
                (PADDING, _) if delta == 0 => break,
                (PADDING, Some(length)) => (None, 4 + length as usize),
                (TIME_EXTEND, Some(high)) => {
                    time_ns = time_ns.wrapping_add(u64::from(high) << DELTA_BITS);
                    (None, 8)
                }
                (TIME_STAMP, Some(high)) => {
                    let upper = time_ns >> STAMP_BITS << STAMP_BITS;
                    time_ns = upper | u64::from(high) << DELTA_BITS | delta;
                    (None, 8)
                }
                (0, Some(length)) => (Some(at + 8), 4 + length as usize),
                (1..PADDING, _) => (Some(at + 4), 4 + 4 * kind as usize),
                _ => return unreadable + 1,
            };
            if kind != TIME_STAMP {
                time_ns = time_ns.wrapping_add(delta);
            }
            // An entry has at least its first word; a damaged length would not end.
            let Some(after) = at.checked_add(length).filter(|after| *after > at && *after <= end)
            else {
                return unreadable + 1;
            };
            if let Some(data) = data {
                match page.get(data..after).map(|bytes| self.event(time_ns, bytes)) {
                    Some(Known::Event(record)) => take(record),
                    Some(Known::Other) => {}
                    Some(Known::Damaged) | None => unreadable += 1,
                }
            }
            at = after;
        }
        unreadable
    }

    fn event(&self, time_ns: u64, bytes: &[u8]) -> Known {
        let Some(id) = bytes.first_chunk::<2>() else { return Known::Damaged };
        let id = u16::from_ne_bytes(*id);
        let record = match self.layouts.iter().find(|layout| layout.id == id) {
            Some(layout) => layout.event(time_ns, bytes).map(RingRecord::Block),
            None => match self.tasks.as_ref().and_then(|tasks| tasks.event(id, time_ns, bytes)) {
                Some(event) => event.map(RingRecord::Task),
                None => return Known::Other,
            },
        };
        record.map_or(Known::Damaged, Known::Event)
    }
}

enum Known {
    Event(RingRecord),
    /// An event of another tracepoint.
    Other,
    Damaged,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const HEADER: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";
    /// Of Linux 6.18.
    const ISSUE: &str = "\
name: block_rq_issue
ID: 2104
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;
";
    const COMPLETE: &str = "\
name: block_rq_complete
ID: 2107
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:int error;\toffset:28;\tsize:4;\tsigned:1;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
";

    fn pages() -> RingPages {
        RingPages::new(HEADER, [(Step::Issue, ISSUE), (Step::Complete, COMPLETE)]).expect("known")
    }

    fn bytes(id: u16, error: i32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..2].copy_from_slice(&id.to_ne_bytes());
        bytes[4..8].copy_from_slice(&311u32.to_ne_bytes());
        bytes[8..12].copy_from_slice(&(7u32 << 20 | 3).to_ne_bytes());
        bytes[16..24].copy_from_slice(&800u64.to_ne_bytes());
        bytes[24..28].copy_from_slice(&8u32.to_ne_bytes());
        bytes[28..32].copy_from_slice(&error.to_ne_bytes());
        bytes[34..36].copy_from_slice(b"RA");
        bytes[44..46].copy_from_slice(b"dd");
        bytes
    }

    /// Returns a page with these entries.
    fn page(time_ns: u64, entries: &[u8]) -> Vec<u8> {
        // A flag of lost events is above the length.
        let committed = entries.len() as u64 | 1 << 31;
        let mut page = [time_ns.to_ne_bytes(), committed.to_ne_bytes()].concat();
        page.extend_from_slice(entries);
        page.resize(4096, 0);
        page
    }

    fn head(kind: u32, delta: u32) -> [u8; 4] {
        (kind | delta << 5).to_ne_bytes()
    }

    fn read(page: &[u8]) -> (Vec<RingEvent>, u64) {
        let mut events = Vec::new();
        let unreadable = pages().read(page, |record| match record {
            RingRecord::Block(event) => events.push(event),
            RingRecord::Task(event) => panic!("{event:?}"),
        });
        (events, unreadable)
    }

    #[test]
    fn entries_of_all_kinds_are_read_with_their_times() {
        let entries = [
            &head(16, 5)[..],
            &bytes(2104, 0),
            // Far later: 3 << 27, and 7.
            &head(TIME_EXTEND, 7),
            &3u32.to_ne_bytes(),
            // A length of its own; another tracepoint.
            &head(0, 1),
            &68u32.to_ne_bytes(),
            &bytes(2104, 0),
            &head(2, 1),
            &[9; 8],
            &head(PADDING, 1),
            &4u32.to_ne_bytes(),
            // An absolute time.
            &head(TIME_STAMP, 2),
            &1u32.to_ne_bytes(),
            &head(16, 1),
            &bytes(2107, -5),
            // The rest of the page is empty.
            &head(PADDING, 0),
            &[7; 40],
        ];
        let (events, unreadable) = read(&page(1000, &entries.concat()));
        assert_eq!((events.len(), unreadable), (3, 0));
        let later = 1005 + (3 << DELTA_BITS) + 7 + 1;
        assert_eq!((events[0].time_ns, events[1].time_ns), (1005, later));
        assert_eq!(events[2].time_ns, (1 << DELTA_BITS) + 2 + 1);
        let first = &events[0];
        assert_eq!((first.thread, first.device, first.process()), (311, 7 << 20 | 3, &b"dd"[..]));
        let event = first.event(b"x");
        assert_eq!((event.step, event.operation), (Step::Issue, Some(Operation::Read)));
        assert_eq!((event.first, event.sectors, event.marks), (800, 8, Marks(Marks::AHEAD)));
        assert_eq!((event.process, event.failed), (&b"x"[..], None));
        let last = events[2].event(b"");
        assert_eq!((last.step, last.failed), (Step::Complete, Some(5)));
    }

    #[test]
    fn other_layouts_and_damaged_pages_are_refused() {
        let other = HEADER.replace("offset:16", "offset:12");
        assert!(RingPages::new(&other, [(Step::Issue, ISSUE)]).is_none());
        assert!(RingPages::new(HEADER, [(Step::Issue, HEADER)]).is_none());
        assert_eq!(read(&[]), (Vec::new(), 1));
        // An event that ends behind the page's data; one that is too short.
        assert_eq!(read(&page(0, &head(28, 1))).1, 1);
        let short = [&head(2, 1)[..], &2104u16.to_ne_bytes(), &[0; 6]].concat();
        assert_eq!(read(&page(0, &short)).1, 1);
    }

    proptest! {
        #[test]
        fn no_page_panics(
            entries in proptest::collection::vec(any::<u32>(), 0..100),
            committed in any::<u64>(),
        ) {
            let entries: Vec<u8> = entries.iter().flat_map(|it| it.to_ne_bytes()).collect();
            let mut page = page(1, &entries);
            let _ = read(&page);
            page[8..16].copy_from_slice(&committed.to_ne_bytes());
            let _ = read(&page);
            let _ = read(&entries);
        }
    }
}
