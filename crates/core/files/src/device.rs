//! Reads of a volume through a small cache, within the bounds.

use crate::SECTOR_BYTES;
use crate::bounds::Bounds;
use crate::fault::{Fault, Step};
use crate::source::ReadAt;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a line of the cache. A line of an inode table has at least 32 inodes.
const LINE: usize = 16 << 10;
const LINES: usize = 256;

/// Bytes of the volume that were read together.
#[derive(Default)]
struct Line {
    /// Number of the line in the volume, and one more; 0: the line is empty.
    key: u64,
    data: Vec<u8>,
}

/// A volume, with the budget that is left.
pub(crate) struct Device<'a> {
    source: &'a mut dyn ReadAt,
    bytes: u64,
    lines: Vec<Line>,
    left: Bounds,
}

impl<'a> Device<'a> {
    pub(crate) fn new(source: &'a mut dyn ReadAt, bounds: &Bounds) -> Device<'a> {
        let bytes = source.bytes();
        let lines = (0..LINES).map(|_| Line::default()).collect();
        Device { source, bytes, lines, left: bounds.clone() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts a record.
    pub(crate) fn step(&mut self) -> Step {
        self.left.steps = self.left.steps.checked_sub(1).ok_or(Fault::Exhausted)?;
        Ok(())
    }

    /// Counts a file whose first bytes are to be read. False: no others may be.
    pub(crate) fn may_peek(&mut self) -> bool {
        let left = self.left.peeks.checked_sub(1);
        self.left.peeks = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns the maximum depth of directories.
    pub(crate) fn depth_max(&self) -> u32 {
        self.left.depth
    }

    /// Fills `into` with the bytes from `offset` on.
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Step {
        let mut done = 0;
        while done < into.len() {
            let at = offset.checked_add(done as u64).ok_or(Fault::Damaged)?;
            let (number, within) = (at / LINE as u64, (at % LINE as u64) as usize);
            let line = self.line(number)?;
            let found = line.get(within..).filter(|found| !found.is_empty());
            let found = found.ok_or(Fault::Damaged)?;
            let length = found.len().min(into.len() - done);
            into[done..done + length].copy_from_slice(&found[..length]);
            done += length;
        }
        Ok(())
    }

    /// Returns a line, read if it is not cached.
    fn line(&mut self, number: u64) -> Step<&[u8]> {
        let slot = (number % LINES as u64) as usize;
        if self.lines[slot].key != number + 1 {
            let start = number.checked_mul(LINE as u64).ok_or(Fault::Damaged)?;
            let length = self.bytes.saturating_sub(start).min(LINE as u64);
            if length == 0 {
                return Err(Fault::Damaged);
            }
            let left = self.left.read_bytes.checked_sub(length);
            self.left.read_bytes = left.ok_or(Fault::Exhausted)?;
            let line = &mut self.lines[slot];
            line.key = 0;
            line.data.resize(length as usize, 0);
            if self.source.read_at(start, &mut line.data).is_err() {
                let left = self.left.failed_reads.checked_sub(1);
                self.left.failed_reads = left.ok_or(Fault::Exhausted)?;
                return Err(Fault::Unreadable);
            }
            line.key = number + 1;
        }
        Ok(&self.lines[slot].data)
    }
}

/// A partition of a volume, or all of it.
pub(crate) struct Part<'d, 's> {
    pub(crate) device: &'d mut Device<'s>,
    /// Its first byte, in the volume. A multiple of a sector.
    first: u64,
    bytes: u64,
}

impl<'d, 's> Part<'d, 's> {
    /// Returns the part of the volume that these sectors contain, without those outside.
    pub(crate) fn new(device: &'d mut Device<'s>, first_sector: u64, sectors: u64) -> Part<'d, 's> {
        let first = first_sector.saturating_mul(SECTOR_BYTES).min(device.bytes());
        let first = first - first % SECTOR_BYTES;
        let bytes = sectors.saturating_mul(SECTOR_BYTES).min(device.bytes() - first);
        Part { device, first, bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn first_sector(&self) -> u64 {
        self.first / SECTOR_BYTES
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.bytes / SECTOR_BYTES
    }

    /// Fills `into` with the bytes from `offset` of the partition on.
    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Step {
        let end = offset.checked_add(into.len() as u64).ok_or(Fault::Damaged)?;
        if end > self.bytes {
            return Err(Fault::Damaged);
        }
        let steps = 1 + into.len() as u64 / LINE as u64;
        let left = self.device.left.steps.checked_sub(steps);
        self.device.left.steps = left.ok_or(Fault::Exhausted)?;
        self.device.read(self.first + offset, into)
    }

    /// Returns this number of bytes from `offset` of the partition on.
    pub(crate) fn read_vec(&mut self, offset: u64, length: usize) -> Step<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(offset, &mut bytes)?;
        Ok(bytes)
    }
}
