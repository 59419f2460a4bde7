//! Dies and channels: each is busy until a time, and new work is added at the end.
//!
//! Relocation reads and the programs that they feed do not wait for each other: controllers hold
//! data under way in memory. So no die waits for another one, and the dies' work is conserved.

use super::timing::Timing;
use crate::ftl::{Nand, Purpose, UnitAddress};
use crate::shape::{Divider, Shape};
use alloc::vec;
use alloc::vec::Vec;
use lane::Random;

pub(super) struct Flash {
    timing: Timing,
    dies: u32,
    /// Units of a superblock to pages of a block.
    pages: Divider,
    unit_slots: u32,
    /// The time when each die has finished all its work.
    die_free: Vec<u64>,
    /// The time when each die has finished the host's reads, which go before programs.
    read_free: Vec<u64>,
    channel_free: Vec<u64>,
    /// The time when each channel has finished the transfers of the host's reads, which go before
    /// all others.
    read_sent: Vec<u64>,
    /// The firmware's, which relocations occupy as commands do.
    pub(super) firmware_free: u64,
    native_free: u64,
    /// The time at which the next operations are submitted.
    pub(super) now: u64,
    /// The time when the last host unit will be programmed.
    pub(super) host_end: u64,
    /// Its location.
    pub(super) host_unit: UnitAddress,
    /// Whether a later merge has erased it since.
    pub(super) host_is_erased: bool,
    /// The latest end of all operations so far.
    pub(super) all_end: u64,
    /// The time when each superblock was opened.
    opened: Vec<u64>,
    /// The erases of each superblock.
    erases: Vec<u32>,
    /// The wear of each superblock, computed when it is erased: every operation needs it.
    worn_256: Vec<u32>,
    /// The factor of each die's times.
    die_256: Vec<u32>,
    /// A running number that spreads map pages over the dies.
    map_die: u32,
    /// The inputs of random draws: the seed, and the current command.
    seed: u64,
    pub(super) command: u64,
    /// Number of operations: reads of a die, programs of a unit.
    pub(super) die_reads: u64,
}

impl Flash {
    /// Returns dies whose superblocks were erased so often.
    pub(super) fn new(timing: Timing, shape: &Shape, seed: u64, erases: &[u32]) -> Flash {
        let Shape { dies, unit_slots, superblocks, .. } = *shape;
        Flash {
            seed,
            command: 0,
            timing,
            dies,
            pages: Divider::new(dies),
            unit_slots,
            die_free: vec![0; dies as usize],
            read_free: vec![0; dies as usize],
            channel_free: vec![0; timing.channels.max(1) as usize],
            read_sent: vec![0; timing.channels.max(1) as usize],
            firmware_free: 0,
            native_free: 0,
            now: 0,
            host_end: 0,
            host_unit: UnitAddress { superblock: 0, unit: 0, slc: false },
            host_is_erased: false,
            all_end: 0,
            opened: vec![0; superblocks as usize],
            erases: erases.to_vec(),
            worn_256: erases.iter().map(|erases| worn_256(&timing, *erases)).collect(),
            die_256: (0..dies).map(|die| timing.spread.die_factor_256(seed, die)).collect(),
            map_die: 0,
            die_reads: 0,
        }
    }

    /// Ends all operations under way.
    pub(super) fn stop(&mut self) {
        self.die_free.fill(0);
        self.read_free.fill(0);
        self.channel_free.fill(0);
        self.read_sent.fill(0);
        (self.firmware_free, self.native_free) = (0, 0);
    }

    /// Occupies a channel; returns the end of the transfer.
    #[inline]
    fn transfer(&mut self, die: usize, slots: u32) -> u64 {
        let channel = die % self.channel_free.len();
        let free = &mut self.channel_free[channel];
        *free = (*free).max(self.now) + u64::from(slots) * self.timing.channel_slot_ns;
        *free
    }

    /// Occupies a die; returns the end of the operation.
    #[inline]
    fn occupy(&mut self, die: usize, earliest: u64, duration: u64) -> u64 {
        let free = &mut self.die_free[die];
        *free = (*free).max(earliest) + duration;
        self.all_end = self.all_end.max(*free);
        *free
    }

    /// Reads slots of a unit for the host, submitted at `at`; returns when the data is there.
    ///
    /// The read goes before waiting programs, but waits for the running operation. Only the end of
    /// all waiting operations is known, so the rest of the running one is computed as that time
    /// modulo a program's time.
    pub(super) fn host_read(&mut self, address: UnitAddress, slots: u32, at: u64) -> u64 {
        let die = self.die_of(address.unit);
        self.now = at;
        let (read, program) = self.times(address);
        let reads = slots.div_ceil(self.timing.read_slots).max(1);
        let retries = 1 + u64::from(self.retries(address.superblock, at));
        let duration = u64::from(reads) * read * retries;
        self.die_reads += u64::from(reads) * retries;
        let running = rest_of_running(self.die_free[die].saturating_sub(at), program);
        let start = (at + running.min(self.timing.suspend_ns)).max(self.read_free[die]);
        self.read_free[die] = start + duration;
        self.occupy(die, at, duration);
        let sent = self.send(die, slots, at);
        sent.max(start + duration + u64::from(slots) * self.timing.channel_slot_ns)
    }

    /// Occupies a channel with data for the host; returns the end of the transfer. It goes before
    /// waiting transfers, but waits for the running one, at most a unit's.
    #[inline]
    fn send(&mut self, die: usize, slots: u32, at: u64) -> u64 {
        let channel = die % self.channel_free.len();
        let unit = u64::from(self.unit_slots) * self.timing.channel_slot_ns;
        let duration = u64::from(slots) * self.timing.channel_slot_ns;
        let free = &mut self.channel_free[channel];
        let running = rest_of_running(free.saturating_sub(at), unit);
        *free = (*free).max(at) + duration;
        let sent = &mut self.read_sent[channel];
        *sent = (*sent).max(at + running) + duration;
        *sent
    }

    /// Reads and programs map pages; the reads follow one another. Returns when the reads are done.
    pub(super) fn map(&mut self, reads: u32, programs: u32, at: u64) -> u64 {
        let mut done = at;
        for _ in 0..reads {
            let address = self.next_map_unit();
            done = self.host_read(address, 1, done);
        }
        for _ in 0..programs {
            let address = self.next_map_unit();
            let die = self.die_of(address.unit);
            self.now = at;
            self.transfer(die, 1);
            // Firmware keeps its map in blocks with one bit a cell, if it has such blocks.
            let program = match self.timing.slc_program_ns {
                0 => self.timing.program_ns,
                fast => fast,
            };
            let duration = program + self.timing.channel_slot_ns;
            self.occupy(die, at, duration);
        }
        done
    }

    fn next_map_unit(&mut self) -> UnitAddress {
        self.map_die = (self.map_die + 1) % self.dies;
        UnitAddress { superblock: u32::MAX, unit: self.map_die, slc: false }
    }

    /// Returns the die of a unit of a superblock.
    #[inline]
    fn die_of(&self, unit: u32) -> usize {
        (unit - self.pages.divide(unit) * self.dies) as usize
    }

    /// Returns the times to read and to program this unit.
    #[inline]
    fn times(&self, address: UnitAddress) -> (u64, u64) {
        let spread = &self.timing.spread;
        let page = self.pages.divide(address.unit);
        let die = address.unit - page * self.dies;
        let block = spread.block_factor_256(self.seed, address.superblock, die);
        let block = (block * u64::from(self.die_256[die as usize])) >> 8;
        let of = |time: u64, factor: u32| (((time * block) >> 8) * u64::from(factor)) >> 8;
        let newer = 256 - self.worn_256(address.superblock);
        if address.slc {
            let (read, program) = (self.timing.slc_read_ns, self.timing.slc_program_ns);
            return (of(read, 256), of(program, newer));
        }
        let page = spread.page_type(page);
        let program = of(self.timing.program_ns, spread.program_256[page]);
        (of(self.timing.read_ns, spread.read_256[page]), (program * u64::from(newer)) >> 8)
    }

    /// Returns the part by which wear has changed a block's times, in 1/256: worn cells are
    /// programmed faster and erased more slowly.
    #[inline]
    fn worn_256(&self, superblock: u32) -> u32 {
        self.worn_256.get(superblock as usize).copied().unwrap_or(0)
    }

    /// Returns the read retries: one for each full span of the data's age, and one more with a
    /// probability equal to the elapsed part of the current span.
    fn retries(&self, superblock: u32, at: u64) -> u32 {
        let span = self.timing.retry_age_ns;
        if span == 0 {
            return 0;
        }
        let opened = self.opened.get(superblock as usize).copied().unwrap_or(at);
        let age = at.saturating_sub(opened);
        let near = u128::from(age % span) << 32 > u128::from(span) * u128::from(self.draw() as u32);
        (age / span + u64::from(near)).min(u64::from(self.timing.retries)) as u32
    }

    fn draw(&self) -> u64 {
        Random::nth(self.seed, self.command)
    }
}

/// Returns the wear of a block with this number of erases, in 1/256.
fn worn_256(timing: &Timing, erases: u32) -> u32 {
    let worn = u64::from(erases) * u64::from(timing.wear_256);
    worn.checked_div(u64::from(timing.endurance)).unwrap_or(0).min(128) as u32
}

/// Returns the rest of the running operation, if operations of one length have this time left
/// together.
#[inline]
fn rest_of_running(waiting: u64, each: u64) -> u64 {
    if waiting == 0 { 0 } else { (waiting - 1) % each.max(1) + 1 }
}

impl Nand for Flash {
    const TIMED: bool = true;

    fn read(&mut self, address: UnitAddress, slots: u32, runs: u32) {
        let die = self.die_of(address.unit);
        let (read, _) = self.times(address);
        let reads = slots.div_ceil(self.timing.read_slots);
        self.die_reads += u64::from(reads);
        let duration = u64::from(reads) * read + u64::from(slots) * self.timing.channel_slot_ns;
        self.occupy(die, self.now, duration);
        self.transfer(die, slots);
        let firmware = u64::from(runs) * self.timing.firmware_relocate_ns
            + u64::from(slots - runs) * self.timing.firmware_slot_ns;
        self.firmware_free = self.firmware_free.max(self.now) + firmware;
    }

    fn look_up(&mut self) {
        let now = self.now;
        let done = self.map(1, 0, self.firmware_free.max(now));
        self.now = now;
        if self.timing.map_blocks {
            self.firmware_free = done;
        }
    }

    fn merge(&mut self) {
        self.firmware_free = self.firmware_free.max(self.now) + self.timing.map_merge_ns;
    }

    fn program(&mut self, address: UnitAddress, purpose: Purpose) {
        let die = self.die_of(address.unit);
        let (_, program) = self.times(address);
        let transfer = u64::from(self.unit_slots) * self.timing.channel_slot_ns;
        let mut earliest = self.transfer(die, self.unit_slots) - transfer;
        if purpose == Purpose::Host && !address.slc && self.timing.native_slot_ns > 0 {
            earliest = earliest.max(self.native_free);
            let limit = u64::from(self.unit_slots) * self.timing.native_slot_ns;
            self.native_free = self.native_free.max(self.now) + limit;
        }
        let end = self.occupy(die, earliest, transfer + program);
        if purpose == Purpose::Host {
            self.host_end = end;
            self.host_unit = address;
            self.host_is_erased = false;
        }
    }

    fn erase(&mut self, superblock: u32, slc: bool) {
        let erase = if slc { self.timing.slc_erase_ns } else { self.timing.erase_ns };
        self.opened[superblock as usize] = self.now;
        let erases = &mut self.erases[superblock as usize];
        *erases += 1;
        self.worn_256[superblock as usize] = worn_256(&self.timing, *erases);
        let erase = (erase * u64::from(256 + self.worn_256(superblock))) >> 8;
        self.host_is_erased |= superblock == self.host_unit.superblock;
        for die in 0..self.dies as usize {
            self.occupy(die, self.now, (erase * u64::from(self.die_256[die])) >> 8);
        }
    }
}
