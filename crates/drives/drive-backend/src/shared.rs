//! The part of a modelled drive that all lanes share.

use crate::device::{Command, Counts, Device};
use crate::lately::Lately;
use crate::state::reach;
use crate::store::{SLOT_SECTORS, Store};
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Discard, DriveState, Extent, Fua, Limits, Result, SECTOR, Stretch};
use core::sync::atomic::{AtomicU64, Ordering};
use drives::{Counters, Drive, Fast, Health, Kind, Model, ModelError, Op, Options, SLOT_BYTES};
use histogram::{Histogram, Snapshot};
use lane::Lock;

/// Whether data is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Stored, in memory that is allocated on demand: 2 MiB of addresses at a time, of which only
    /// touched pages use memory.
    Data,
    /// Not stored: a sector has no bytes (grain 0), for runs in virtual time.
    Nothing,
}

/// The loss of a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Slots of 4 KiB whose newest version is lost.
    pub slots: u64,
}

/// The counters of a drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Trim commands.
    pub trims: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Commands that were refused: without power, or the flush that reports a power cut.
    pub refused: u64,
    /// Number of power cuts.
    pub power_cuts: u64,
    /// Slots of 4 KiB that lost their newest version in them.
    pub slots_lost: u64,
    /// Whether it has power.
    pub is_on: bool,
    /// Bytes of stored data: approximately their memory.
    pub data_bytes: u64,
    /// The health of its flash; None for a hard disk.
    pub health: Option<Health>,
    /// Its recent amplification; None for a hard disk.
    pub lately: Option<Lately>,
    /// Delay of each answer after the model's time.
    pub lateness: Snapshot,
}

/// A modelled drive. Each lane uses it through a [`Modelled`](crate::Modelled).
pub struct Shared {
    model: Model,
    options: Options,
    limits: Limits,
    device: Lock<Device>,
    lateness: Histogram,
    /// Counts power cuts: a command that began before a cut and ended after it has failed.
    life: AtomicU64,
    /// The latest time, of the lanes, at which a command was answered.
    answered: AtomicU64,
}

/// A command under way.
pub(crate) struct Begun {
    /// When it completes, in the lanes' time.
    pub(crate) end: u64,
    pub(crate) life: u64,
}

impl Shared {
    /// Returns a new drive of this model.
    ///
    /// # Errors
    /// The options do not fit the model.
    pub fn new(
        model: &Model,
        options: &Options,
        keep: Keep,
    ) -> core::result::Result<Arc<Shared>, ModelError> {
        let drive = model.drive(options)?;
        let bytes = options.user_bytes.unwrap_or(model.user_bytes());
        let limits = limits_of(model, &drive, bytes / SLOT_BYTES * SLOT_SECTORS, keep);
        let store = (keep == Keep::Data).then(|| Store::new(limits.sectors));
        Ok(Arc::new(Shared {
            model: model.clone(),
            options: *options,
            limits,
            device: Lock::new(Device::new(drive, store)),
            lateness: Histogram::new(),
            life: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }))
    }

    /// Returns the model of the drive.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the options of the drive.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the limits of the device.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Replaces this drive by a new one and brings it into a state, by really writing to it without
    /// times. Takes about a second for each five million slots of 4 KiB. A hard disk has no states.
    /// The contents are zeros.
    ///
    /// One section: do not call it on a lane that serves clients.
    pub fn age(&self, state: DriveState) -> core::result::Result<(), ModelError> {
        let drive = self.model.drive(&self.options)?;
        self.device.with(|device| {
            device.replace(drive);
            device.fast_forward(|fast, window| reach(state, fast, window, self.options.seed));
        });
        Ok(())
    }

    /// Ages the drive in its current state by `work`, without times: everything under way ends
    /// before. The contents do not change. Has no effect on a hard disk.
    ///
    /// One section: do not call it on a lane that serves clients.
    pub fn precondition(&self, work: impl FnOnce(&mut Fast)) {
        self.device.with(|device| {
            device.fast_forward(|fast, window| {
                work(fast);
                window.record_fast(fast);
            });
        });
    }

    /// Cuts the power at a time of the lanes. Commands under way fail; answered writes that had not
    /// reached the flash are lost, by the seed. From then on every command fails, until
    /// [`Shared::power_on`]. If anything was lost, the first flush after that fails as well, so
    /// that a client with unflushed writes is informed.
    ///
    /// One section.
    pub fn power_cut(&self, now_ns: u64, seed: u64) -> Lost {
        let slots = self.device.with(|device| {
            // Inside, so that no command begins in the old life after this.
            self.life.fetch_add(1, Ordering::SeqCst);
            device.power_cut(now_ns, self.answered.load(Ordering::SeqCst), seed)
        });
        Lost { slots }
    }

    /// Restores the power, at a time of the lanes. One section.
    pub fn power_on(&self, now_ns: u64) {
        self.device.with(|device| device.power_on(now_ns));
    }

    /// Whether it has power. One section.
    pub fn is_on(&self) -> bool {
        self.device.with(|device| device.is_on())
    }

    /// Returns the health of the flash; None for a hard disk. One section.
    pub fn health(&self) -> Option<Health> {
        self.device.with(|device| self.health_of(device))
    }

    /// Returns the time in which the drive had requests, or worked in the background, in
    /// nanoseconds; None for a hard disk. One section.
    pub fn active_ns(&self) -> Option<u64> {
        self.device.with(|device| device.drive().active_ns())
    }

    fn health_of(&self, device: &Device) -> Option<Health> {
        match (&self.model.kind, device.drive()) {
            (Kind::Flash(model), Drive::Flash(flash)) => Some(Health::of(model, flash)),
            _ => None,
        }
    }

    /// Returns the counters of the flash translation layer; None for a hard disk. One section.
    pub fn counters(&self) -> Option<Counters> {
        self.device.with(|device| match device.drive() {
            Drive::Flash(flash) => Some(*flash.ftl().counters()),
            Drive::Disk(_) => None,
        })
    }

    /// Returns the delay of each answer after the model's time, in the lanes' time: the error of
    /// the emulation, as far as the lane's own clock shows it.
    pub fn lateness(&self) -> Snapshot {
        self.lateness.snapshot()
    }

    /// Returns all counters. One section.
    pub fn report(&self) -> Report {
        let (counts, is_on, data_bytes, health, lately) = self.device.with(|device| {
            let data = device.store().map_or(0, Store::bytes);
            (device.counts, device.is_on(), data, self.health_of(device), device.lately())
        });
        let Counts { reads, writes, trims, flushes, refused, power_cuts, slots_lost } = counts;
        Report {
            reads,
            writes,
            trims,
            flushes,
            refused,
            power_cuts,
            slots_lost,
            is_on,
            data_bytes,
            health,
            lately,
            lateness: self.lateness(),
        }
    }

    /// Submits a request to a drive that stores no data, at a time of its user not before the last
    /// one's; returns when it completes. It avoids the lane in runs in virtual time that have the
    /// drive to themselves. `ahead` has the first sectors of some later requests, where they are
    /// known: their map entries are prefetched. One section.
    ///
    /// # Errors
    /// The drive has no power, or the flush reports a power cut.
    ///
    /// # Panics
    /// If it stores data, or the request reaches beyond its end.
    pub fn foresee(&self, now_ns: u64, op: Op, ahead: impl Iterator<Item = u64>) -> Result<u64> {
        self.device.with(|device| {
            // In the section of a request, so that no lock waits for the memory.
            ahead.for_each(|sector| device.prefetch(sector));
            device.foresee(now_ns, op)
        })
    }

    /// One section.
    pub(crate) fn begin(&self, now: u64, command: &Command<'_>) -> Result<Begun> {
        self.device.with(|device| {
            let end = device.admit(now, command)?;
            Ok(Begun { end, life: self.life.load(Ordering::SeqCst) })
        })
    }

    /// Ends a command after the lane has slept until its end. False: the power was cut in that
    /// time.
    pub(crate) fn end(&self, now: u64, begun: &Begun) -> bool {
        // Recorded before the check: either a cut sees the answer, or this check sees the cut.
        self.answered.fetch_max(begun.end, Ordering::SeqCst);
        if self.life.load(Ordering::SeqCst) != begun.life {
            return false;
        }
        self.lateness.record(now.saturating_sub(begun.end));
        true
    }

    /// One section.
    pub(crate) fn status(&self, at: Extent) -> Vec<Stretch> {
        const MOST: usize = 1024;
        let known = self.device.with(|device| device.store().map(|store| store.status(at, MOST)));
        known.unwrap_or_else(|| alloc::vec![Stretch::data(at.count)])
    }
}

fn limits_of(model: &Model, drive: &Drive, sectors: u64, keep: Keep) -> Limits {
    let grain = if keep == Keep::Data { SECTOR as u32 } else { 0 };
    // A hard disk has no TRIM, nor have drives whose file says that TRIM frees nothing.
    let (protected, trims) = match drive {
        Drive::Flash(flash) => (flash.timing().protected, flash.ftl().settings().trim_256 > 0),
        Drive::Disk(_) => (false, false),
    };
    Limits {
        flush_needed: !protected,
        fua: Fua::Emulated,
        discard: if trims { Discard::Zeroes } else { Discard::Ignored },
        zero_fast: false,
        rotational: matches!(model.kind, Kind::Disk(_)),
        ..Limits::plain(sectors, grain)
    }
}
