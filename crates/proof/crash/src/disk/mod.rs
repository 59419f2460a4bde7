//! The simulated disk: the contents that reads return, the durable contents, and all versions in
//! between.
//!
//! The disk is a volatile cache in front of a medium. A change is *moving* from the moment it is
//! sent; unit by unit it takes effect (reads see it, a *version* of the unit is pending); then it
//! is completed. A flush makes changes durable that were completed before it was sent, and
//! sometimes more. The disk never tears a unit: a physical block of 4096 bytes, or of 512.

mod late;
mod server;

use crate::model::{Faults, Model};
use crate::stamp::{self, GRAIN, Shown};
use crate::trace;
use block::{Discard, Fua, Request, Stretch};
use lane::Random;
pub(crate) use server::{Carried, Role, Server};

/// Bytes of the largest unit: eight stamps.
pub(crate) const UNIT_BYTES: usize = 8 * GRAIN;

/// An event that has not happened.
pub(crate) const NEVER: u32 = u32::MAX;

/// The contents of one unit after a change that is not durable yet.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) bytes: [u8; UNIT_BYTES],
    pub(crate) digest: u64,
    change: u32,
    /// The disk's clock when it was completed.
    completed: u32,
    /// Whether a failed flush has dropped it.
    pub(crate) lost: bool,
}

/// A change that was sent and is not completed.
#[derive(Clone)]
pub(crate) struct Moving {
    pub(crate) change: u32,
    first: u32,
    count: u32,
    /// Its stamps when it was sent; empty: zeros.
    stamps: Vec<u8>,
    /// Units take effect in circular order from this one.
    rotation: u32,
    /// Number of units that have taken effect.
    applied: u32,
    fails: bool,
    fua: bool,
    /// The ring of its process that has sent it.
    pub(crate) ring: u32,
    /// The connection to the server that carries it, if the disk is a server's.
    pub(crate) carried: Option<Carried>,
}

impl Moving {
    /// Returns the units that it touches: the first, and their number.
    fn units(&self, unit_sectors: u32) -> (u32, u32) {
        let first = self.first / unit_sectors;
        let last = (self.first + self.count - 1) / unit_sectors;
        (first, last - first + 1)
    }

    fn shares_block(&self, other: &Moving, block: u32) -> bool {
        let ends = |it: &Moving| (it.first / block, (it.first + it.count).div_ceil(block));
        let ((from, to), (other_from, other_to)) = (ends(self), ends(other));
        from < other_to && other_from < to
    }

    pub(crate) fn is_applied(&self, unit_sectors: u32) -> bool {
        self.applied == self.units(unit_sectors).1
    }

    fn nth_unit(&self, index: u32, unit_sectors: u32) -> u32 {
        let (first, count) = self.units(unit_sectors);
        first + (self.rotation + index) % count
    }

    /// Returns the contents that it writes to a sector. None: it does not write there.
    pub(crate) fn stamp(&self, sector: u32) -> Option<[u8; GRAIN]> {
        let index = sector.checked_sub(self.first).filter(|index| *index < self.count)?;
        match self.stamps.is_empty() {
            true => Some([0; GRAIN]),
            false => self.stamps[index as usize * GRAIN..].first_chunk().copied(),
        }
    }

    /// Writes the change's part of `unit` into the unit's bytes.
    fn overlay(&self, unit: u32, unit_sectors: u32, bytes: &mut [u8]) {
        let start = (unit * unit_sectors).max(self.first);
        let end = ((unit + 1) * unit_sectors).min(self.first + self.count);
        let to = (start - unit * unit_sectors) as usize * GRAIN;
        let length = (end - start) as usize * GRAIN;
        if self.stamps.is_empty() {
            bytes[to..to + length].fill(0);
        } else {
            let from = (start - self.first) as usize * GRAIN;
            bytes[to..to + length].copy_from_slice(&self.stamps[from..from + length]);
        }
    }
}

/// A write at its departure for the disk, for the check that no epoch overtakes another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Position of its stamps in [`State::sent_stamps`].
    pub(crate) at: usize,
}

/// A change to be sent.
struct Moves {
    number: u32,
    ring: u32,
    fails: bool,
}

/// The course of an operation, decided when it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) number: u32,
    /// Instants on the lane's clock: the two halves of the effect, and the completion.
    pub(crate) instants: [u64; 3],
    pub(crate) fails: bool,
    /// The disk's clock when it was sent.
    pub(crate) sent: u32,
}

/// The complete state of a disk. It is cloned for a crash, and read by the laboratory.
#[derive(Clone)]
pub struct State {
    pub(crate) model: Model,
    pub(crate) faults: Faults,
    pub(crate) visible: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    pub(crate) pending: Vec<Vec<Version>>,
    pub(crate) moving: Vec<Moving>,
    /// Changes sent by a dead process, and not fenced: they may take effect at any time.
    pub(crate) late: Vec<Moving>,
    random: Random,
    clock: u32,
    numbers: u32,
    reads: u32,
    writes: u32,
    flushes: u32,
    /// Errors returned: reads, writes, flushes.
    pub(crate) errors: [u32; 3],
    /// Errors that the process has received: reads, changes, flushes.
    pub(crate) errors_delivered: [u32; 3],
    /// The stamps of failed reads: first and count.
    failed_reads: Vec<(u32, u32)>,
    /// Increases with every change of the states that a crash could leave.
    pub(crate) changes: u64,
    pub(crate) sent: Vec<Sent>,
    pub(crate) sent_stamps: Vec<u8>,
    /// Whether `sent` is filled.
    pub(crate) notes_sent: bool,
    /// Flushes that were sent and have not ended.
    pub(super) flushing: Vec<Flight>,
    /// Flushes that a process has sent, and whose answers it has not received.
    pub(crate) flushes_asked: u32,
    /// Whether a flush has succeeded since the process began.
    pub(crate) flushed: bool,
    /// Whether only one change of a block may be in flight at a time.
    pub(crate) exclusive: bool,
    /// A sector where there were two.
    pub(crate) crowded: Option<u32>,
    /// A buffer that was changed while it was in flight.
    pub(crate) overwritten: Option<u32>,
    /// Whether a request was sent while late changes were still to arrive.
    pub(crate) overtaken: bool,
    /// The server, if the disk is the export of one.
    pub(crate) server: Option<Server>,
}

/// Returns the errors that count as returned before any request was sent.
fn excused_errors(faults: &Faults) -> [u32; 3] {
    if faults.may_hang() { [1, 1, 0] } else { [0; 3] }
}

impl State {
    /// Returns a disk full of initial stamps.
    pub fn new(model: Model, faults: Faults, seed: u64) -> State {
        let mut visible = vec![0; model.sectors as usize * GRAIN];
        stamp::fill(&mut visible, stamp::INITIAL, 0);
        State {
            durable: visible.clone(),
            visible,
            pending: vec![Vec::new(); model.units()],
            moving: Vec::new(),
            late: Vec::new(),
            random: Random::new(seed),
            clock: 1,
            numbers: 0,
            reads: 0,
            writes: 0,
            flushes: 0,
            errors: excused_errors(&faults),
            errors_delivered: [0; 3],
            failed_reads: Vec::new(),
            flushing: Vec::new(),
            flushes_asked: 0,
            flushed: false,
            exclusive: false,
            crowded: None,
            changes: 0,
            sent: Vec::new(),
            sent_stamps: Vec::new(),
            notes_sent: false,
            overwritten: None,
            overtaken: false,
            server: None,
            model,
            faults,
        }
    }

    /// Makes the disk the export of a server, or a disk of this machine.
    pub(crate) fn serve(&mut self, serves: bool) {
        self.server = serves.then(Server::default);
    }

    /// Restores power: the medium holds `image`, and nothing else is left.
    pub fn load(&mut self, image: &[u8]) {
        self.visible.copy_from_slice(image);
        self.durable.copy_from_slice(image);
        self.pending.iter_mut().for_each(Vec::clear);
        self.moving.clear();
        self.late.clear();
        self.flushing.clear();
        self.flushes_asked = 0;
        self.server = None;
        self.clock = 1;
    }

    /// Copies the contents of another disk of the same size, pending versions included, and forgets
    /// its moving changes.
    pub(crate) fn copy_contents(&mut self, from: &State) {
        self.visible.copy_from_slice(&from.visible);
        self.durable.copy_from_slice(&from.durable);
        for (pending, theirs) in self.pending.iter_mut().zip(&from.pending) {
            pending.clear();
            pending.extend_from_slice(theirs);
        }
        self.moving.clear();
        self.late.clear();
        self.flushing.clone_from(&from.flushing);
        self.flushes_asked = from.flushes_asked;
        self.random = from.random.clone();
        self.clock = from.clock;
        self.numbers = from.numbers;
        self.errors = from.errors;
        self.server.clone_from(&from.server);
    }

    /// Decides the course of a request of this ring. A change moves from here on.
    pub(crate) fn send(&mut self, request: &Request, ring: u32, now: u64) -> Flight {
        let (kind, counted, fault) = match request {
            Request::Read { .. } => (0, &mut self.reads, self.faults.read),
            Request::Flush => (2, &mut self.flushes, self.faults.flush),
            _ => (1, &mut self.writes, self.faults.write),
        };
        *counted += 1;
        self.overtaken |= !self.late.is_empty();
        let fails = fault.hits(*counted);
        let hangs = self.faults.hang[kind].hits(*counted);
        self.errors[kind] += u32::from(fails);
        if let Request::Read { at, .. } = request
            && fails
        {
            self.failed_reads.push(self.model.stamps_of(*at));
        }
        self.numbers += 1;
        let number = self.numbers;
        let mut instants = self.plan_instants(now);
        if hangs && !self.model.instant {
            let held = self.random.below(3) as usize;
            instants[held..].iter_mut().for_each(|instant| *instant += self.faults.hang_ns);
        }
        if request.is_change() {
            self.send_change(request, Moves { number, ring, fails });
        }
        if !self.model.instant {
            let at = request.extent().unwrap_or(block::Extent::new(0, 0));
            let (first, count) = self.model.stamps_of(at);
            trace::event(
                [kind as u64 + 100 * u64::from(fails), first.into(), count.into()],
                format_args!(
                    "  disk {number}: {} {}+{}{}{}{}",
                    ["read", "change", "flush"][kind],
                    first,
                    count,
                    Shown(first, self.moving_stamps(number)),
                    if fails { ", which will fail" } else { "" },
                    if hangs { ", which hangs" } else { "" }
                ),
            );
        }
        let flight = Flight { number, instants, fails, sent: self.clock };
        if matches!(request, Request::Flush) {
            self.flushing.push(flight);
        }
        flight
    }

    /// Whether a read of these stamps may have failed: a read within them has, or the disk hangs or
    /// has hung.
    pub(crate) fn has_failed_read(&self, (first, count): (u32, u32)) -> bool {
        let is_within = |&(at, length): &(u32, u32)| first <= at && at + length <= first + count;
        let has_hung = self.errors[0] as usize > self.failed_reads.len();
        has_hung || self.failed_reads.iter().any(is_within)
    }

    /// Returns the contents of this change, while it is moving; empty for zeros.
    fn moving_stamps(&self, number: u32) -> &[u8] {
        self.position(number).map_or(&[], |index| &self.moving[index].stamps)
    }

    pub(crate) fn plan_instants(&mut self, now: u64) -> [u64; 3] {
        if self.model.instant {
            return [now; 3];
        }
        let part = self.model.latency_ns / 3 + 1;
        let first = now + self.random.below(part);
        // Half of the operations take effect in one step.
        let halves = self.random.one_in(2);
        let second = first + if halves { self.random.below(part) } else { 0 };
        [first, second, second + self.random.below(part)]
    }

    fn send_change(&mut self, request: &Request, Moves { number, ring, fails }: Moves) {
        let (first, count) = self.model.stamps_of(request.extent().expect("a change has a place"));
        let mut stamps = Vec::new();
        let fua = match request {
            Request::Write { from, fua, .. } => {
                stamps = from.to_vec();
                *fua
            }
            Request::Zero { fua, .. } => *fua,
            Request::Discard { .. } if self.model.discard == Discard::Ignored => return,
            _ => false,
        };
        assert!(!fua || self.model.fua != Fua::None, "FUA for a disk without");
        if self.notes_sent && !stamps.is_empty() {
            self.sent.push(Sent { first, count, at: self.sent_stamps.len() });
            self.sent_stamps.extend_from_slice(&stamps);
        }
        let mut moving = Moving {
            change: number,
            first,
            count,
            stamps,
            rotation: 0,
            applied: 0,
            fails,
            fua,
            ring,
            carried: None,
        };
        let block = self.model.block_sectors();
        if self.exclusive && self.moving.iter().any(|other| other.shares_block(&moving, block)) {
            self.crowded = Some(moving.first);
        }
        let units = moving.units(self.model.unit_sectors).1;
        moving.rotation = self.random.below(u64::from(units)) as u32;
        self.moving.push(moving);
        self.changes += 1;
    }

    /// Applies the change to the first half of its units, or to all of them.
    pub(crate) fn apply(&mut self, flight: Flight, request: &Request, all: bool) {
        let Some(index) = self.position(flight.number) else {
            return; // a discard that the disk ignores
        };
        let mut moving = self.moving.swap_remove(index);
        if let Request::Write { from, .. } = request
            && from.to_vec() != moving.stamps
        {
            self.overwritten = Some(moving.first);
        }
        let units = moving.units(self.model.unit_sectors).1;
        let until = if all { units } else { units.div_ceil(2) };
        self.apply_units(&mut moving, until);
        self.moving.push(moving);
    }

    fn position(&self, number: u32) -> Option<usize> {
        self.moving.iter().position(|moving| moving.change == number)
    }

    fn apply_units(&mut self, moving: &mut Moving, until: u32) {
        let unit_sectors = self.model.unit_sectors;
        while moving.applied < until {
            let unit = moving.nth_unit(moving.applied, unit_sectors);
            moving.applied += 1;
            // A failed write may have changed each unit, or not.
            if moving.fails && self.random.one_in(2) {
                continue;
            }
            let length = self.model.unit_bytes();
            let start = unit as usize * length;
            let visible = &mut self.visible[start..start + length];
            moving.overlay(unit, unit_sectors, visible);
            let mut bytes = [0; UNIT_BYTES];
            bytes[..length].copy_from_slice(visible);
            self.pending[unit as usize].push(Version {
                digest: stamp::digest(&bytes[..length]),
                bytes,
                change: moving.change,
                completed: NEVER,
                lost: false,
            });
            self.changes += 1;
        }
    }

    /// Fills a read's buffer: the units of the first half, of the second, or all.
    pub(crate) fn serve_read(&mut self, request: &Request, fails: bool, half: Option<bool>) {
        let Request::Read { at, into } = request else {
            return;
        };
        self.land_late();
        let (first, count) = self.model.stamps_of(*at);
        let unit = self.model.unit_sectors;
        let middle = (first / unit + (count / unit).div_ceil(2)) * unit;
        let middle = middle.clamp(first, first + count);
        let (start, end) = match half {
            None => (first, first + count),
            Some(false) => (first, middle),
            Some(true) => (middle, first + count),
        };
        if start == end {
            return;
        }
        let bytes = &self.visible[start as usize * GRAIN..end as usize * GRAIN];
        // Units are whole sectors of the requesting stack.
        let stamps = self.model.stamps;
        let part = into.part((start - first) / stamps, (end - start) / stamps);
        if fails {
            part.write(&vec![0xee; bytes.len()]);
        } else {
            part.write(bytes);
        }
    }

    /// Answers the operation.
    pub(crate) fn complete(&mut self, flight: Flight, request: &Request) {
        self.land_late();
        match request {
            Request::Read { .. } => return,
            Request::Flush => self.complete_flush(flight),
            _ => self.complete_change(flight.number),
        }
        self.clock += 1;
        self.changes += 1;
    }

    fn complete_flush(&mut self, flight: Flight) {
        self.flushing.retain(|other| other.number != flight.number);
        match flight.fails {
            true => self.fail_flush(),
            false => {
                self.flush(flight.sent);
                // Behind a link, the answer may get lost.
                self.flushed |= self.server.is_none() || self.model.instant;
            }
        }
    }

    fn complete_change(&mut self, number: u32) {
        let Some(index) = self.position(number) else {
            return;
        };
        let moving = self.moving.swap_remove(index);
        let (first, count) = moving.units(self.model.unit_sectors);
        for unit in first..first + count {
            let pending = &mut self.pending[unit as usize];
            let Some(at) = pending.iter().position(|version| version.change == number) else {
                continue;
            };
            pending[at].completed = self.clock;
            if moving.fua && !moving.fails {
                // Even if a flush has dropped it, it is on the medium on its own.
                pending[at].lost = false;
                self.settle(unit as usize, at);
            }
        }
    }

    /// Removes the versions of `unit` up to `last` from the cache; the newest that is not lost is
    /// durable.
    fn settle(&mut self, unit: usize, last: usize) {
        let length = self.model.unit_bytes();
        let kept = self.pending[unit][..=last].iter().rev().find(|version| !version.lost);
        if let Some(version) = kept {
            let start = unit * length;
            self.durable[start..start + length].copy_from_slice(&version.bytes[..length]);
        }
        self.pending[unit].drain(..=last);
    }

    fn flush(&mut self, sent: u32) {
        for unit in 0..self.pending.len() {
            let pending = &self.pending[unit];
            let Some(mut last) = pending.iter().rposition(|version| version.completed < sent)
            else {
                continue;
            };
            // It may make more versions durable than it must.
            while last + 1 < self.pending[unit].len() && self.random.one_in(2) {
                last += 1;
            }
            self.settle(unit, last);
        }
    }

    /// Fails a flush as on Linux: data that could not be written is clean from then on, and
    /// readable. This includes changes that were not answered yet when the flush was sent, as far
    /// as they had taken effect when it failed.
    fn fail_flush(&mut self) {
        for version in self.pending.iter_mut().flatten() {
            version.lost |= self.random.one_in(2);
        }
    }

    /// Notes that the process receives the answer.
    pub(crate) fn record_delivery(&mut self, flight: Flight, request: &Request) {
        let kind = match request {
            Request::Read { .. } => 0,
            Request::Flush => 2,
            _ => 1,
        };
        self.errors_delivered[kind] += u32::from(flight.fails);
    }

    /// Returns the stretches of zeros and of other contents, as reads would show them.
    pub(crate) fn status(&self, at: block::Extent) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let stamps = self.model.stamps;
        for sector in at.first as u32..at.end() as u32 {
            let mut all = sector * stamps..(sector + 1) * stamps;
            let zero = all.all(|sector| self.sector(sector).0 == [0; GRAIN]);
            Stretch::push(&mut stretches, Stretch { sectors: 1, hole: false, zero });
        }
        stretches
    }

    /// Returns the stamps of one sector, as reads see them and as they are on the medium.
    pub(crate) fn sector(&self, sector: u32) -> (&[u8], &[u8]) {
        let range = sector as usize * GRAIN..(sector as usize + 1) * GRAIN;
        (&self.visible[range.clone()], &self.durable[range])
    }

    /// Returns one unit with all of a moving change in it.
    pub(crate) fn with_moving(&self, moving: &Moving, unit: usize) -> [u8; UNIT_BYTES] {
        let length = self.model.unit_bytes();
        let mut bytes = [0; UNIT_BYTES];
        bytes[..length].copy_from_slice(&self.visible[unit * length..(unit + 1) * length]);
        moving.overlay(unit as u32, self.model.unit_sectors, &mut bytes);
        bytes
    }

    /// Returns the units that a moving change has not reached yet.
    pub(crate) fn units_ahead_of<'a>(
        &self,
        moving: &'a Moving,
    ) -> impl Iterator<Item = usize> + 'a {
        let unit_sectors = self.model.unit_sectors;
        let count = moving.units(unit_sectors).1;
        (moving.applied..count).map(move |index| moving.nth_unit(index, unit_sectors) as usize)
    }
}
