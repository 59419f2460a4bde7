//! The drive under its lock: its own clock, its power, its data. Synchronous decisions; nothing
//! waits.

use crate::lately::{Lately, Window};
use crate::store::{SLOT_SECTORS, Store};
use crate::versions::Versions;
use block::{Buf, Error, Extent, Kind, Result};
use drives::{Drive, Fast, Found, Op, Random};

/// The error of a command while the drive has no power.
const OFF: Error = Error::new(Kind::Io, "reach the drive: its power is off");
/// The error of the first flush after a power cut that lost data.
const TAKEN: Error = Error::new(Kind::Io, "keep all written data: a power cut has lost some of it");

/// A command to the drive, handled in one critical section.
pub(crate) enum Command<'a> {
    Read {
        at: Extent,
        into: &'a Buf,
    },
    /// `None` writes zeros.
    Write {
        at: Extent,
        from: Option<&'a Buf>,
    },
    /// Whole slots.
    Trim {
        at: Extent,
    },
    Flush,
}

impl Command<'_> {
    fn op(&self) -> Op {
        match *self {
            Command::Read { at, .. } => Op::Read { first: at.first, count: at.count },
            Command::Write { at, .. } => Op::Write { first: at.first, count: at.count },
            Command::Trim { at } => Op::Trim { first: at.first, count: u64::from(at.count) },
            Command::Flush => Op::Flush,
        }
    }
}

/// The drive's clock relative to the lanes'.
#[derive(Clone, Copy)]
enum Power {
    /// Not used yet: its time begins with the first command.
    Fresh,
    /// The lanes' time at the drive's time 0.
    On { start: u64 },
    /// Off since this time of the drive.
    Off { at: u64 },
}

/// Counts of commands and of their results.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) trims: u64,
    pub(crate) flushes: u64,
    pub(crate) refused: u64,
    pub(crate) power_cuts: u64,
    pub(crate) slots_lost: u64,
}

pub(crate) struct Device {
    /// None only while it is aged.
    drive: Option<Drive>,
    /// Whether its buffer survives a power cut.
    protected: bool,
    store: Option<Store>,
    versions: Versions,
    power: Power,
    /// The drive's time of the last command.
    last: u64,
    /// A power cut lost data, and no flush has failed for it yet.
    owed: bool,
    window: Window,
    pub(crate) counts: Counts,
}

impl Device {
    pub(crate) fn new(drive: Drive, store: Option<Store>) -> Device {
        let protected = matches!(&drive, Drive::Flash(flash) if flash.timing().protected);
        Device {
            drive: Some(drive),
            protected,
            store,
            versions: Versions::default(),
            power: Power::Fresh,
            last: 0,
            owed: false,
            window: Window::default(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn drive(&self) -> &Drive {
        self.drive.as_ref().expect("the drive is away only while it is aged")
    }

    fn drive_mut(&mut self) -> &mut Drive {
        self.drive.as_mut().expect("the drive is away only while it is aged")
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.power, Power::Off { .. })
    }

    /// Runs a command at a time of the lanes; returns when it completes, in the same time. The data
    /// changes immediately: until the command is answered, a reader may see either version.
    pub(crate) fn admit(&mut self, lane_now: u64, command: &Command<'_>) -> Result<u64> {
        let op = command.op();
        let start = self.arrive(lane_now, op)?;
        if self.store.is_none() {
            return Ok(start + self.submit(op));
        }
        self.catch_up();
        self.apply(command);
        let end = self.submit(op);
        self.follow();
        Ok(start + end)
    }

    /// Runs a command on a drive that stores no data.
    pub(crate) fn foresee(&mut self, lane_now: u64, op: Op) -> Result<u64> {
        assert!(self.store.is_none(), "a drive that keeps data needs a buffer");
        let start = self.arrive(lane_now, op)?;
        Ok(start + self.submit(op))
    }

    #[inline]
    pub(crate) fn prefetch(&self, sector: u64) {
        if let Drive::Flash(flash) = self.drive()
            && let Some(entry) = flash.ftl().entry((sector / SLOT_SECTORS) as u32)
        {
            block::prefetch(entry);
        }
    }

    /// Records the arrival of a command at a time of the lanes; returns the lanes' time at the
    /// drive's time 0.
    fn arrive(&mut self, lane_now: u64, op: Op) -> Result<u64> {
        let start = match self.power {
            Power::On { start } => start,
            Power::Off { .. } => {
                self.counts.refused += 1;
                return Err(OFF);
            }
            Power::Fresh => {
                self.power = Power::On { start: lane_now };
                lane_now
            }
        };
        // Each lane has a clock of its own, and the drive needs a single one.
        self.last = self.last.max(lane_now.saturating_sub(start));
        self.count(op);
        if op == Op::Flush && core::mem::take(&mut self.owed) {
            self.counts.refused += 1;
            return Err(TAKEN);
        }
        Ok(start)
    }

    fn submit(&mut self, op: Op) -> u64 {
        let now = self.last;
        let end = self.drive_mut().submit(now, op);
        if let (Op::Write { .. }, Some(Drive::Flash(flash))) = (op, &self.drive) {
            self.window.record(flash.ftl());
        }
        end
    }

    /// Returns its recent amplification; None for a hard disk.
    pub(crate) fn lately(&self) -> Option<Lately> {
        match self.drive() {
            Drive::Flash(flash) => Some(self.window.lately(flash.ftl())),
            Drive::Disk(_) => None,
        }
    }

    fn count(&mut self, op: Op) {
        let counter = match op {
            Op::Read { .. } => &mut self.counts.reads,
            Op::Write { .. } => &mut self.counts.writes,
            Op::Trim { .. } => &mut self.counts.trims,
            Op::Flush => &mut self.counts.flushes,
        };
        *counter += 1;
    }

    /// Advances the drive and its versions to the last command's time.
    fn catch_up(&mut self) {
        let now = self.last;
        self.drive_mut().idle(now);
        self.follow();
        if let Some(store) = &mut self.store {
            self.versions.settle(now, |page| store.give_back(page));
        }
    }

    /// Records which versions have left the drive's buffer.
    fn follow(&mut self) {
        match self.drive.as_ref() {
            Some(Drive::Flash(flash)) => {
                let staged = |slot| flash.ftl().find(slot as u32) == Found::Buffer;
                self.versions.left_buffer(flash.programmed_ns(), staged);
            }
            Some(Drive::Disk(disk)) => {
                let staged = |slot| disk.is_waiting(slot * SLOT_SECTORS, SLOT_SECTORS);
                self.versions.left_buffer(disk.settled_ns(), staged);
            }
            None => {}
        }
    }

    /// Applies the command to the data.
    fn apply(&mut self, command: &Command<'_>) {
        let Some(store) = &mut self.store else { return };
        match *command {
            Command::Read { at, into } => store.read(at, into),
            Command::Write { at, from } => {
                if !self.protected {
                    for slot in at.first / SLOT_SECTORS..at.end().div_ceil(SLOT_SECTORS) {
                        self.versions.overwrite(slot, || store.page(slot));
                    }
                }
                match from {
                    Some(from) => store.write(at, from),
                    None => store.zero(at),
                }
            }
            Command::Trim { at } => {
                let (mut next, end) = (at.first / SLOT_SECTORS, at.end() / SLOT_SECTORS);
                while let Some(slot) = self.versions.any(next, end) {
                    self.versions.forget(slot, |page| store.give_back(page));
                    next = slot + 1;
                }
                store.zero(at);
            }
            Command::Flush => {}
        }
    }

    /// Cuts the power at a time of the lanes, not before `answered`. Returns the number of slots
    /// that lost their newest version; 0 if the power is already off.
    pub(crate) fn power_cut(&mut self, lane_now: u64, answered: u64, seed: u64) -> u64 {
        let start = match self.power {
            Power::Off { .. } => return 0,
            Power::Fresh => lane_now,
            Power::On { start } => start,
        };
        self.last = self.last.max(lane_now.max(answered).saturating_sub(start));
        self.catch_up();
        let lost = self.lose(seed);
        self.power = Power::Off { at: self.last };
        self.owed |= lost > 0;
        self.counts.power_cuts += 1;
        self.counts.slots_lost += lost;
        lost
    }

    /// Loses the data of a power cut at this time: restores the versions before.
    fn lose(&mut self, seed: u64) -> u64 {
        let now = self.last;
        let mut lost = match self.drive_mut() {
            Drive::Flash(flash) => flash.power_cut(now, seed),
            Drive::Disk(_) => alloc::vec::Vec::new(),
        };
        let mut random = Random::new(seed);
        if let Drive::Disk(disk) = self.drive_mut() {
            let at_risk = disk.at_risk_bytes(now);
            disk.power_cut(now);
            if self.store.is_none() {
                return at_risk.div_ceil(drives::SLOT_BYTES);
            }
            // The disk has written some of its cache already, in its own order.
            lost.extend(self.versions.unsettled().filter(|_| random.bits() & 1 == 0));
        }
        let Some(store) = &mut self.store else { return lost.len() as u64 };
        for slot in &lost {
            if let Some(page) = self.versions.settled(*slot) {
                store.restore(*slot, page);
            }
        }
        self.versions.clear(|page| store.give_back(page));
        lost.len() as u64
    }

    /// Restores the power at a time of the lanes; no time passes for the drive while it is off.
    pub(crate) fn power_on(&mut self, lane_now: u64) {
        if let Power::Off { at } = self.power {
            self.power = Power::On { start: lane_now.saturating_sub(at) };
        }
    }

    /// Ends everything under way, then ages a flash drive by `work` without time; its clock starts
    /// again.
    pub(crate) fn fast_forward(&mut self, work: impl FnOnce(&mut Fast, &mut Window)) {
        let window = &mut self.window;
        let work = |fast: &mut Fast| work(fast, window);
        self.drive = match self.drive.take() {
            Some(Drive::Flash(flash)) => {
                Some(Drive::Flash(alloc::boxed::Box::new(flash.fast_forward(work))))
            }
            other => other,
        };
        if let Some(store) = &mut self.store {
            self.versions.clear(|page| store.give_back(page));
        }
        self.power = Power::Fresh;
        self.last = 0;
    }

    /// Replaces this drive by another one without data.
    pub(crate) fn replace(&mut self, drive: Drive) {
        let sectors = self.store.as_ref().map(Store::sectors);
        let counts = self.counts;
        *self = Device::new(drive, sectors.map(Store::new));
        self.counts = counts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drives::{Model, Options};

    #[test]
    fn older_versions_are_as_many_as_the_drives_buffer_holds() {
        for name in ["samsung-840-evo-120", "wd-velociraptor-1000"] {
            let model = Model::preset(name).expect("a preset");
            let slots = 4096;
            let options = Options { user_bytes: Some(slots * 4096), ..Options::default() };
            let drive = model.drive(&options).expect("a sound drive");
            let mut device = Device::new(drive, Some(Store::new(slots * SLOT_SECTORS)));
            let (mut random, mut now, mut most) = (Random::new(1), 0, 0);
            for _ in 0..20_000 {
                // Few slots, so that many are written again while they are under way.
                let slot = u64::from(random.below(300));
                let at = Extent::new(slot * SLOT_SECTORS, SLOT_SECTORS as u32);
                now = device.admit(now, &Command::Write { at, from: None }).expect("it has power");
                most = most.max(device.versions.pages());
            }
            let held = match device.drive() {
                Drive::Flash(flash) => flash.ftl().settings().buffer_slots as usize,
                Drive::Disk(_) => (64 << 20) / 4096,
            };
            // Each unsettled version also keeps a settled one.
            assert!((1..=2 * held).contains(&most), "{name}: {most} pages, {held} slots of buffer");
            device.admit(now, &Command::Flush).expect("it has power");
            now += 60_000_000_000;
            device.admit(now, &Command::Flush).expect("it has power");
            assert_eq!(device.versions.pages(), 0, "{name}: all has settled");
        }
    }
}
