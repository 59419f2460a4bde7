//! The memory of a fence. Another process may have written it, so nothing in it is trusted.
//!
//! ```text
//!   word  0      version of this layout; written last when the table is made
//!         1      size of the export, in sectors
//!         2, 3   abilities of the export, as its server described them
//!         4, 5   sockets of the changes and of the anchor, by the kernel's cookies; 0: none
//!         6      answered changes that are not durable by themselves
//!         7      of these, covered by a flush
//!         8      losses
//!         9      losses that a flush has reported
//!        16 ...  slots of 4 words, one for each copy of a change
//!
//!   slot  0      first sector
//!         1      number of sectors; bit 63: the change is durable once it is answered
//!         2      0: free; 1: sent; otherwise fenced until this time (monotonic clock, ns), and
//!                settled from then on
//!         3      unused
//! ```
//!
//! The state of a slot is written last, and read first. The process may be killed between any two
//! stores: counters are changed before the slots that they replace.

use block::{Extent, Memory};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Version of the layout. Any change of the layout changes it.
const VERSION: u64 = 0x6f64_6665_6e63_6501;
/// Number of slots: those of sent changes, and of the copies that connections have left within the
/// settle time.
pub(super) const SLOTS: usize = 1024;
const SLOT_WORDS: usize = 4;
const HEADER_WORDS: usize = 16;
/// Size of the memory.
pub const TABLE_BYTES: usize = 8 * (HEADER_WORDS + SLOTS * SLOT_WORDS);

const DURABLE: u64 = 1 << 63;
const FREE: u64 = 0;
const SENT: u64 = 1;

/// Words of the header.
#[derive(Clone, Copy)]
pub(super) enum Field {
    ChangesSocket = 4,
    AnchorSocket = 5,
    Answered = 6,
    Flushed = 7,
    Losses = 8,
    Reported = 9,
}

/// The description of an export by which a next process recognizes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Export {
    /// In sectors.
    pub sectors: u64,
    /// Its abilities, in any form that is the same for the same abilities.
    pub abilities: [u64; 2],
}

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Free,
    Sent,
    Fenced { until_ns: u64 },
}

/// Contents of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) first: u64,
    pub(super) sectors: u64,
    pub(super) is_durable: bool,
    pub(super) state: State,
}

impl Entry {
    /// Whether it covers a sector of this extent.
    pub(super) fn overlaps(&self, at: Extent) -> bool {
        let end = at.first + u64::from(at.count);
        self.first < end && at.first < self.first + self.sectors
    }
}

/// The table in its memory.
pub(super) struct Table {
    memory: Arc<Memory>,
    export: Export,
}

impl Table {
    pub(super) fn new(memory: &Arc<Memory>, export: Export) -> Table {
        let table = Table { memory: memory.clone(), export };
        table.store(1, export.sectors);
        table.store(2, export.abilities[0]);
        table.store(3, export.abilities[1]);
        table.store(0, VERSION);
        table
    }

    /// Returns the table in the memory of an earlier process, if it is one of this export.
    pub(super) fn adopt(memory: &Arc<Memory>, export: Export) -> Option<Table> {
        if memory.bytes() < TABLE_BYTES {
            return None;
        }
        let table = Table { memory: memory.clone(), export };
        let found = Export { sectors: table.load(1), abilities: [table.load(2), table.load(3)] };
        let is_ordered = table.get(Field::Flushed) <= table.get(Field::Answered)
            && table.get(Field::Reported) <= table.get(Field::Losses);
        (table.load(0) == VERSION && found == export && is_ordered).then_some(table)
    }

    /// Size of the export.
    pub(super) fn sectors(&self) -> u64 {
        self.export.sectors
    }

    fn load(&self, word: usize) -> u64 {
        self.memory.word(8 * word).load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        self.memory.word(8 * word).store(value, Ordering::Release);
    }

    pub(super) fn get(&self, field: Field) -> u64 {
        self.load(field as usize)
    }

    pub(super) fn set(&self, field: Field, value: u64) {
        self.store(field as usize, value);
    }

    pub(super) fn add(&self, field: Field) {
        self.set(field, self.get(field).wrapping_add(1));
    }

    /// Returns the contents of a slot. None: they are invalid.
    pub(super) fn entry(&self, slot: usize) -> Option<Entry> {
        let at = HEADER_WORDS + slot * SLOT_WORDS;
        let state = match self.load(at + 2) {
            FREE => State::Free,
            SENT => State::Sent,
            until_ns => State::Fenced { until_ns },
        };
        let (first, length) = (self.load(at), self.load(at + 1));
        let entry =
            Entry { first, sectors: length & !DURABLE, is_durable: length & DURABLE != 0, state };
        let end = first.checked_add(entry.sectors);
        let is_inside = end.is_some_and(|end| end <= self.export.sectors) && entry.sectors > 0;
        (is_inside || state == State::Free).then_some(entry)
    }

    /// Fills a free slot.
    pub(super) fn put(&self, slot: usize, entry: Entry) {
        let at = HEADER_WORDS + slot * SLOT_WORDS;
        self.store(at, entry.first);
        self.store(at + 1, entry.sectors | if entry.is_durable { DURABLE } else { 0 });
        self.set_state(slot, entry.state);
    }

    pub(super) fn set_state(&self, slot: usize, state: State) {
        let word = match state {
            State::Free => FREE,
            State::Sent => SENT,
            State::Fenced { until_ns } => until_ns.max(SENT + 1),
        };
        self.store(HEADER_WORDS + slot * SLOT_WORDS + 2, word);
    }
}
