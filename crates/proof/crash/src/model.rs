//! The kind of a disk, and its failing operations.

use crate::stamp::GRAIN;
use block::{Discard, Extent, Fua, Limits};

/// The failing operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The first one that fails, counted from 1; 0: none does.
    pub from: u32,
    /// Number of failures; 0: all from then on.
    pub count: u32,
}

impl Faults {
    /// Whether anything may hang. A watchdog may fire early in the laboratory, where time can pass
    /// while all tasks are ready: the planned hang then counts as the cause of an error.
    pub(crate) fn may_hang(&self) -> bool {
        self.hang_ns > 0
    }
}

impl Fault {
    pub(crate) fn hits(&self, number: u32) -> bool {
        let begun = self.from != 0 && number >= self.from;
        begun && (self.count == 0 || number - self.from < self.count)
    }
}

/// A day: no history lasts that long, and several of them still fit on a clock.
pub(crate) const HANGS_FOR_EVER: u64 = 86_400_000_000_000;

/// The failing operations of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Reads: the buffer is left full of garbage.
    pub read: Fault,
    /// Writes, zeroes and discards: each unit has changed or not.
    pub write: Fault,
    /// Flushes: some pending versions will never be durable, though reads still show them.
    pub flush: Fault,
    /// Whether flushes that are in progress when their process is killed may also fail, with the
    /// same losses.
    pub late_flush: bool,
    /// Reads, changes and flushes that hang for [`Faults::hang_ns`], and then continue.
    pub hang: [Fault; 3],
    /// Duration of a hang; [`HANGS_FOR_EVER`]: until the end of the history.
    pub hang_ns: u64,
}

/// The kind of a disk.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its size. A *sector* of the laboratory is represented by one stamp.
    pub sectors: u32,
    /// Sectors at its end that it has only once it has grown.
    pub absent: u32,
    /// Sectors that are never torn: 8 or 1.
    pub unit_sectors: u32,
    /// Sectors of the smallest request: 8 or 1.
    pub logical_sectors: u32,
    /// Stamps per 512 bytes: 1, or more if requests begin and end inside a block of 512 bytes. The
    /// stack above the disk sees sectors of this many stamps.
    pub stamps: u32,
    /// The longest time of one part of an operation, in virtual nanoseconds.
    pub latency_ns: u64,
    /// Effect of a discard.
    pub discard: Discard,
    /// Whether single writes can be made durable.
    pub fua: Fua,
    /// Whether every operation is immediate: for recoveries, in which only the contents matter.
    pub instant: bool,
    /// Whether it is the export of a server.
    pub over_link: bool,
    /// Whether reads, and writes without FUA, are answered before the caller can wait, as by a disk
    /// in memory.
    pub answers_now: bool,
}

impl Model {
    /// Returns the limits that a stack above this disk sees.
    pub fn limits(&self) -> Limits {
        Limits {
            block_logical_bytes: self.logical_sectors / self.stamps * 512,
            block_physical_bytes: self.unit_sectors / self.stamps * 512,
            io_best_bytes: 16 << 10,
            io_max_bytes: 32 << 10,
            flush_needed: true,
            fua: self.fua,
            discard: self.discard,
            loses_with_connection: self.over_link,
            ..Limits::plain(u64::from(self.current_sectors() / self.stamps), self.grain())
        }
    }

    /// Returns the number of its sectors before it grows.
    pub(crate) fn current_sectors(&self) -> u32 {
        self.sectors - self.absent
    }

    /// Returns the number of bytes that represent 512 bytes.
    pub(crate) fn grain(&self) -> u32 {
        GRAIN as u32 * self.stamps
    }

    /// Returns the number of sectors per 4 KiB.
    pub(crate) fn block_sectors(&self) -> u32 {
        8 * self.stamps
    }

    /// Returns the range of a request, in sectors of the laboratory: first and count.
    pub(crate) fn stamps_of(&self, at: Extent) -> (u32, u32) {
        (at.first as u32 * self.stamps, at.count * self.stamps)
    }

    pub(crate) fn unit_bytes(&self) -> usize {
        self.unit_sectors as usize * GRAIN
    }

    pub(crate) fn units(&self) -> usize {
        (self.sectors / self.unit_sectors) as usize
    }
}
