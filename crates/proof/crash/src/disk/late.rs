//! The I/O of a dead process, and the disk under its successor.

use super::{Moving, State};
use crate::model::{Fault, Faults};
use crate::stamp::GRAIN;

/// Fills the sectors that another program writes: no stamp of an operation.
const FOREIGN: u8 = 0xfe;

impl State {
    /// Lets a change of a dead process arrive, if it was not fenced.
    pub(super) fn land_late(&mut self) {
        if !self.late.is_empty() && self.random.one_in(2) {
            let mut moving = self.late.swap_remove(0);
            self.land(&mut moving);
        }
    }

    /// Kills the process: nothing waits any more for its moving changes. Each of them arrives late,
    /// or never; until all that will arrive have, the disk is not fenced.
    pub(crate) fn orphan(&mut self) {
        for moving in std::mem::take(&mut self.moving) {
            if moving.is_applied(self.model.unit_sectors) || self.random.one_in(2) {
                self.complete_applied(moving.change);
            } else {
                self.late.push(moving);
            }
        }
        self.end_flushes(self.faults.late_flush);
        self.changes += 1;
    }

    /// Ends the flushes that were in progress when their process was killed: each fails, succeeds,
    /// or is never carried out.
    pub(crate) fn end_flushes(&mut self, may_fail: bool) {
        self.flushes_asked = 0;
        for flight in std::mem::take(&mut self.flushing) {
            let fails_late = !flight.fails && may_fail && self.random.one_in(2);
            self.errors[2] += u32::from(fails_late);
            if flight.fails || fails_late {
                self.fail_flush();
            } else if self.random.one_in(2) {
                self.flush(flight.sent);
            }
            self.clock += 1;
        }
    }

    /// Lets one of the late changes arrive. False: there are none.
    pub(crate) fn land_next(&mut self) -> bool {
        if self.late.is_empty() {
            return false;
        }
        let index = self.random.below(self.late.len() as u64) as usize;
        let mut moving = self.late.swap_remove(index);
        self.land(&mut moving);
        true
    }

    /// Makes these operations fail, counted from now.
    pub(crate) fn set_faults(&mut self, faults: Faults) {
        let later = |fault: Fault, done: u32| match fault.from {
            0 => fault,
            from => Fault { from: from + done, ..fault },
        };
        self.faults = Faults {
            read: later(faults.read, self.reads),
            write: later(faults.write, self.writes),
            flush: later(faults.flush, self.flushes),
            late_flush: faults.late_flush,
            ..Faults::default()
        };
    }

    /// Whether reads show a version here that a failed flush has dropped.
    pub(crate) fn has_lost(&self, sector: u32) -> bool {
        let pending = &self.pending[(sector / self.model.unit_sectors) as usize];
        let (visible, durable) = self.sector(sector);
        match pending.iter().rfind(|version| !version.lost) {
            None => visible != durable,
            Some(version) => {
                let at = (sector % self.model.unit_sectors) as usize * GRAIN;
                visible != &version.bytes[at..at + GRAIN]
            }
        }
    }

    /// Another program writes to one of the units that has no pending change, if there is any.
    pub(crate) fn write_foreign(&mut self, number: usize) {
        let settled: Vec<usize> =
            (0..self.pending.len()).filter(|&unit| self.pending[unit].is_empty()).collect();
        if settled.is_empty() {
            return;
        }
        let (unit, bytes) = (settled[number % settled.len()], self.model.unit_bytes());
        let range = unit * bytes..(unit + 1) * bytes;
        self.visible[range.clone()].fill(FOREIGN);
        self.durable[range].fill(FOREIGN);
    }

    /// Applies the rest of a change, which is then complete for the disk.
    pub(crate) fn land(&mut self, moving: &mut Moving) {
        let until = moving.units(self.model.unit_sectors).1;
        self.apply_units(moving, until);
        self.complete_applied(moving.change);
    }

    /// Marks the applied part of this change as completed.
    pub(crate) fn complete_applied(&mut self, change: u32) {
        let clock = self.clock;
        let versions = self.pending.iter_mut().flatten();
        versions
            .filter(|version| version.change == change)
            .for_each(|version| version.completed = clock);
        self.clock += 1;
    }
}
