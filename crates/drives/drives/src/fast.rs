//! The fast-forward driver: no times, only the effects on the flash.

use crate::ftl::{Ftl, Nand, Purpose, UnitAddress};
use crate::random::Random;

/// Writes to a drive as fast as this machine can, to age it or to count operations.
pub struct Fast {
    ftl: Ftl,
}

/// Ignores all operations: the FTL counts.
struct Silent;

impl Nand for Silent {
    const TIMED: bool = false;

    #[inline]
    fn read(&mut self, _: UnitAddress, _: u32, _: u32) {}

    #[inline]
    fn look_up(&mut self) {}

    #[inline]
    fn merge(&mut self) {}

    #[inline]
    fn program(&mut self, _: UnitAddress, _: Purpose) {}

    #[inline]
    fn erase(&mut self, _: u32, _: bool) {}
}

impl Fast {
    /// Drives this FTL.
    pub fn new(ftl: Ftl) -> Fast {
        Fast { ftl }
    }

    /// Returns the FTL as it is now.
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Gives the FTL to another driver.
    pub fn into_ftl(self) -> Ftl {
        self.ftl
    }

    /// Writes one slot.
    ///
    /// # Panics
    /// If the slot lies beyond the drive's end.
    #[inline]
    pub fn write(&mut self, logical: u32) {
        self.ftl.stage(logical);
        if self.ftl.staged() >= self.ftl.shape().unit_slots {
            self.ftl.program(&mut Silent);
        }
    }

    /// Writes `count` slots in order, from `first`; wraps around at the end.
    pub fn write_sequential(&mut self, first: u32, count: u64) {
        let end = self.ftl.shape().logical_slots;
        let mut next = first % end;
        for _ in 0..count {
            self.write(next);
            next = if next + 1 == end { 0 } else { next + 1 };
        }
    }

    /// Models a sequential write of data that can be compressed to this share. If the drive
    /// compresses, only that share of the slots is written, and the others take no space and no
    /// time. Use this only for data that will be overwritten;
    /// [`Options::data_share`](crate::Options) gives the times of drives that contain only such
    /// data.
    pub fn write_compressed(&mut self, first: u32, count: u64, share: f64) {
        let share = share.max(self.ftl.settings().compression_floor()).min(1.0);
        if share >= 1.0 {
            return self.write_sequential(first, count);
        }
        let end = self.ftl.shape().logical_slots;
        let place = |number: u64| (number as f64 * share) as u64;
        for number in u64::from(first)..u64::from(first) + count {
            if place(number + 1) > place(number) {
                self.write((number % u64::from(end)) as u32);
            }
        }
    }

    /// Writes `count` random slots of the first `span`.
    pub fn write_random(&mut self, span: u32, count: u64, random: &mut Random) {
        let span = span.min(self.ftl.shape().logical_slots);
        for _ in 0..count {
            self.write(random.below(span));
        }
    }

    /// Trims one slot; returns whether it was mapped.
    ///
    /// # Panics
    /// If the slot lies beyond the drive's end.
    pub fn trim(&mut self, logical: u32) -> bool {
        self.ftl.trim(logical)
    }

    /// Programs the slots in the buffer.
    pub fn flush(&mut self) {
        while self.ftl.program(&mut Silent) > 0 {}
    }

    /// Leaves the drive idle until it has no work left.
    pub fn idle(&mut self) {
        self.flush();
        let slots = self.ftl.shape().dies * self.ftl.shape().unit_slots;
        while self.ftl.idle_step(slots, &mut Silent) != crate::ftl::Idle::Done {}
    }
}
