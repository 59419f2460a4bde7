//! The timed driver: each request is answered with the nanosecond in which it completes.
//!
//! Nothing here waits. The link, the firmware, each channel and each die is busy until a time; a
//! request adds its load to each and completes when the slowest part does. Requests are submitted
//! in the order of time; the caller controls the queue depth.

mod flash;
mod flights;
mod spread;
mod timing;

pub use spread::Spread;
pub use timing::{Timing, slot_ns};

use crate::ftl::{Found, Ftl, Idle, MapCost, UnitAddress};
use crate::random::Random;
use crate::shape::SLOT_BYTES;
use alloc::vec::Vec;
use flash::Flash;
use flights::{Flight, Flights};

/// Sectors of a slot.
const SECTORS: u64 = SLOT_BYTES / 512;

/// Mean intervals after which a task of the firmware is surely over.
const TASKS_AGO: u64 = 64;

/// A request to a modelled drive, in 512-byte sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Read.
    Read {
        /// The first sector.
        first: u64,
        /// Their number.
        count: u32,
    },
    /// Write into the drive's volatile buffer.
    Write {
        /// The first sector.
        first: u64,
        /// Their number.
        count: u32,
    },
    /// Trim. Only whole slots are trimmed.
    Trim {
        /// The first sector.
        first: u64,
        /// Their number.
        count: u64,
    },
    /// Make all earlier writes survive a power cut.
    Flush,
}

/// A serial resource: busy until a time.
#[derive(Clone, Copy, Default)]
struct Serial {
    free: u64,
}

impl Serial {
    #[inline]
    fn take(&mut self, at: u64, duration: u64) -> u64 {
        self.free = self.free.max(at) + duration;
        self.free
    }
}

/// A flash drive in time.
pub struct Timed {
    ftl: Ftl,
    flash: Flash,
    timing: Timing,
    link_in: Serial,
    link_out: Serial,
    write_limit: Serial,
    read_limit: Serial,
    /// Programs under way, the first to end first.
    flights: Flights,
    /// Slots of the buffer in use, including those under way.
    buffered: u32,
    /// The time when the last program for the host will have ended.
    programmed: u64,
    /// The next address of a sequential reader.
    next_read: u64,
    /// The time when that address will have been read ahead, if it is.
    ahead: Option<u64>,
    /// The time when the last request completed or will complete.
    quiet: u64,
    /// The time up to which background work is done.
    background: u64,
    read_slots: u64,
    /// Number of commands so far.
    commands: u64,
    /// The firmware's time for trimmed slots that are not freed yet.
    trim_debt: u64,
    /// The time when the last round of writes begins.
    round: u64,
    /// The number of the firmware's next task of its own, and its time.
    task: (u64, u64),
    /// The time in which the drive had requests or background work.
    active: u64,
}

impl Timed {
    /// Returns a driver of this FTL with these times. [`Fast`](crate::Fast) may have aged it
    /// before.
    pub fn new(ftl: Ftl, timing: Timing) -> Timed {
        let shape = *ftl.shape();
        let staged = ftl.staged();
        Timed {
            flash: Flash::new(timing, &shape, ftl.settings().seed, ftl.erases()),
            flights: Flights::new(shape.dies),
            ftl,
            timing,
            link_in: Serial::default(),
            link_out: Serial::default(),
            write_limit: Serial::default(),
            read_limit: Serial::default(),
            buffered: staged,
            programmed: 0,
            next_read: u64::MAX,
            ahead: None,
            quiet: 0,
            background: 0,
            read_slots: 0,
            commands: 0,
            trim_debt: 0,
            round: 0,
            task: (0, 0),
            active: 0,
        }
    }

    /// Returns the FTL as it is now.
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Gives the FTL to another driver. Its buffer is unchanged.
    pub fn into_ftl(self) -> Ftl {
        self.ftl
    }

    /// Returns the times.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Returns the reads of a die so far, including retries and relocations.
    pub fn die_reads(&self) -> u64 {
        self.flash.die_reads
    }

    /// Returns the slots read by the host.
    pub fn host_reads(&self) -> u64 {
        self.read_slots
    }

    /// Returns the time when the last program for the host that has begun will have ended:
    /// everything that has left the buffer is on the flash by then.
    pub fn programmed_ns(&self) -> u64 {
        self.programmed
    }

    /// Ages the drive without time: everything under way ends, then the caller's `work` changes the
    /// FTL.
    pub fn fast_forward(self, work: impl FnOnce(&mut crate::Fast)) -> Timed {
        let mut fast = crate::Fast::new(self.ftl);
        fast.flush();
        work(&mut fast);
        fast.flush();
        let (commands, active) = (self.commands, self.active);
        Timed { commands, active, ..Timed::new(fast.into_ftl(), self.timing) }
    }

    /// Submits a request at `now_ns`, which never decreases from call to call; returns the time of
    /// its completion.
    ///
    /// # Panics
    /// If it reaches beyond the drive's end.
    pub fn submit(&mut self, now_ns: u64, op: Op) -> u64 {
        self.idle(now_ns);
        self.run_tasks(now_ns);
        self.commands += 1;
        self.flash.command = self.commands;
        // Independent of everything before, so the processor may compute it in parallel with the
        // following code.
        let wait_ns = self.timing.spread.wait_ns(self.ftl.settings().seed, self.commands);
        let end = match op {
            Op::Read { first, count } => self.read(now_ns, first, u64::from(count)),
            Op::Write { first, count } => self.write(now_ns, first, u64::from(count)),
            Op::Trim { first, count } => self.trim(now_ns, first, count),
            Op::Flush => self.flush(now_ns),
        };
        if self.trim_debt > 0
            && let Op::Read { count, .. } | Op::Write { count, .. } = op
        {
            self.pay_trim_debt(u64::from(count).div_ceil(SECTORS));
        }
        let end = end + wait_ns;
        self.active += end.saturating_sub(self.quiet.max(now_ns));
        self.quiet = self.quiet.max(end);
        end
    }

    /// Runs the firmware's own tasks that were due: its journal, its counters, the temperature.
    /// Commands wait for them. Those that idle time has covered are over.
    fn run_tasks(&mut self, now: u64) {
        let spread = self.timing.spread;
        if spread.task_every_ns == 0 {
            return;
        }
        let seed = self.ftl.settings().seed;
        let (mut number, mut at) = self.task;
        if at == 0 {
            // The first one comes at any time.
            at = 1 + spread.task(seed, u64::MAX).1 - spread.task_every_ns / 2;
        }
        at = at.max(now.saturating_sub(TASKS_AGO * spread.task_every_ns));
        while at <= now {
            let (duration, next) = spread.task(seed, number);
            self.flash.firmware_free = self.flash.firmware_free.max(at) + duration;
            (number, at) = (number + 1, at + next);
        }
        self.task = (number, at);
    }

    /// Returns the time in which the drive had requests, or worked in the background.
    pub fn active_ns(&self) -> u64 {
        self.active
    }

    fn write(&mut self, now: u64, first: u64, count: u64) -> u64 {
        let (start, end) = (first / SECTORS, (first + count).div_ceil(SECTORS));
        let slots = end - start;
        let timing = self.timing;
        // The firmware takes a command before its data cross the link. From then on firmware, link
        // and buffer work on a request in parallel, a slot at a time.
        let (link, slot) = (timing.link_slot_ns, timing.firmware_slot_ns);
        let rest = slots.saturating_sub(1);
        let known = self.begin_write(now + timing.command_ns);
        let handled = self.firmware(known, rest * slot);
        let sending = known.saturating_sub(timing.command_ns);
        let arrived = self.link(false).take(sending, slots * link + timing.command_ns);
        let allowed = self.write_limit.take(now, slots * timing.write_slot_ns);
        let mut fetched = 0;
        for partial in partial_slots(first, count) {
            let begun = arrived.max(handled);
            let rest = self.fetch(partial as u32, begun);
            // The firmware starts that read before it answers.
            let started =
                if rest > begun { self.firmware(begun, timing.firmware_read_ns) } else { begun };
            fetched = fetched.max(if timing.sectors_buffered { started } else { rest });
        }
        let mut time = 0;
        for (left, at) in (0..slots).rev().zip(start..end) {
            let ready = (arrived - left * link).max(handled - left * slot);
            time = self.put(at as u32, ready.max(time).max(fetched));
        }
        time.max(allowed)
    }

    /// Puts a slot into the buffer as soon as there is room. Returns the time of that.
    #[inline]
    fn put(&mut self, slot: u32, mut time: u64) -> u64 {
        // A buffer smaller than two units could never be filled and emptied in parallel.
        let most = self.ftl.settings().buffer_slots.max(2 * self.ftl.shape().unit_slots);
        while self.buffered >= most {
            let Some(Flight { end, slots, .. }) = self.flights.pop() else {
                break;
            };
            self.buffered -= slots;
            time = time.max(end);
        }
        let before = self.ftl.staged();
        let cost = self.ftl.stage(slot);
        self.buffered += self.ftl.staged() - before;
        time = self.pay_map(cost, time);
        if self.ftl.staged() >= self.ftl.shape().unit_slots {
            self.program(time);
        }
        time
    }

    /// Programs a unit out of the buffer.
    fn program(&mut self, at: u64) {
        self.flash.now = at;
        let slots = self.ftl.program(&mut self.flash);
        let UnitAddress { superblock, unit, .. } = self.flash.host_unit;
        let end = self.flash.host_end;
        let erases = self.ftl.erases()[superblock as usize];
        let erases = erases - u32::from(self.flash.host_is_erased);
        self.flights.push(Flight { end, superblock, unit, slots, erases });
        self.programmed = self.programmed.max(end);
    }

    #[inline]
    fn pay_map(&mut self, cost: MapCost, time: u64) -> u64 {
        let time = time + self.timing.map_hit_ns;
        if cost == MapCost::default() {
            return time;
        }
        let done = self.flash.map(cost.reads, cost.programs, time);
        if self.timing.map_blocks {
            self.flash.firmware_free = self.flash.firmware_free.max(done);
        }
        if cost.merges > 0 {
            let merging = u64::from(cost.merges) * self.timing.map_merge_ns;
            self.firmware(done, merging);
        }
        done
    }

    /// Returns when the firmware has begun a write that arrives at this time.
    ///
    /// It looks at its queue in rounds. Writes that have arrived when a round begins belong to it;
    /// others wait for the next one.
    fn begin_write(&mut self, at: u64) -> u64 {
        let mut duration = self.timing.firmware_write_ns;
        if at > self.round {
            self.round = at.max(self.flash.firmware_free);
            duration += self.timing.write_latency_ns;
        }
        self.firmware(at, duration)
    }

    fn firmware(&mut self, at: u64, duration: u64) -> u64 {
        let free = &mut self.flash.firmware_free;
        *free = (*free).max(at) + duration;
        *free
    }

    fn link(&mut self, out: bool) -> &mut Serial {
        if out && !self.timing.half_duplex { &mut self.link_out } else { &mut self.link_in }
    }

    fn read(&mut self, now: u64, first: u64, count: u64) -> u64 {
        let (start, end) = (first / SECTORS, (first + count).div_ceil(SECTORS));
        let slots = end - start;
        self.read_slots += slots;
        let firmware =
            self.timing.firmware_read_ns + slots.saturating_sub(1) * self.timing.firmware_slot_ns;
        let begun = self.firmware(now + self.timing.command_ns, firmware);
        let follows = self.timing.read_ahead && start == self.next_read;
        let data = match self.ahead.filter(|_| follows) {
            Some(ahead) => begun.max(ahead),
            None => self.gather(start, end, begun),
        };
        let until = (end + slots).min(u64::from(self.ftl.shape().logical_slots));
        self.ahead = follows.then(|| self.gather(end, until, begun));
        self.next_read = end;
        let limit = self.read_limit.take(now, slots * self.timing.read_slot_ns);
        let slot = self.timing.link_slot_ns;
        // The firmware takes a command before its data cross the link.
        let command = if self.timing.half_duplex { self.timing.command_ns } else { 0 };
        let sent = self.link(true).take(begun - command, slots * slot + command);
        sent.max(data + slot).max(limit) + self.timing.read_latency_ns
    }

    /// Reads slots from their locations; returns when the last one is there.
    fn gather(&mut self, start: u64, end: u64, at: u64) -> u64 {
        let mut done = at;
        let mut unit: Option<(UnitAddress, u32)> = None;
        for slot in start..end {
            let cost = self.ftl.look_up(slot as u32);
            let known = self.pay_map(cost, at);
            done = done.max(known);
            let Found::Flash(place) = self.ftl.find(slot as u32) else {
                continue;
            };
            unit = match unit {
                Some((same, slots)) if same == place => Some((same, slots + 1)),
                Some((other, slots)) => {
                    done = done.max(self.flash.host_read(other, slots, known));
                    Some((place, 1))
                }
                None => Some((place, 1)),
            };
        }
        if let Some((place, slots)) = unit {
            // A map page that had to be read first has delayed `done`.
            let known = if end - start == 1 { done } else { at };
            done = done.max(self.flash.host_read(place, slots, known));
        }
        done
    }

    /// Reads a slot that is written only in part. A buffer of whole slots waits for that; in a
    /// buffer of sectors the rest may arrive later.
    fn fetch(&mut self, slot: u32, at: u64) -> u64 {
        match self.ftl.find(slot) {
            Found::Flash(place) => self.flash.host_read(place, 1, at),
            Found::Buffer | Found::Nowhere => at,
        }
    }

    fn trim(&mut self, now: u64, first: u64, count: u64) -> u64 {
        let (start, end) = (first.div_ceil(SECTORS), (first + count) / SECTORS);
        let mut trimmed = 0;
        let before = *self.ftl.counters();
        for slot in start..end {
            trimmed += u64::from(self.ftl.trim(slot as u32));
        }
        let after = self.ftl.counters();
        let pages = after.map_reads - before.map_reads;
        let merges = after.map_merges - before.map_merges;
        // Where changes are gathered, the slots of a range are freed when its page is merged.
        let freed = if self.ftl.gathers_changes() { 0 } else { trimmed };
        self.trim_debt += freed * self.timing.trim_slot_ns
            + pages * self.timing.read_ns
            + merges * self.timing.map_merge_ns;
        let command = self.timing.command_ns;
        let arrived = self.link(false).take(now, command);
        self.firmware(arrived, self.timing.firmware_trim_ns)
    }

    /// Pays a part of the firmware's time for trimmed slots. A TRIM is answered before its slots
    /// are free: freeing them takes the firmware longer. It continues after each of the host's
    /// commands, and in idle time.
    fn pay_trim_debt(&mut self, slots: u64) {
        let at_once = u64::from(self.timing.trim_slots_at_once) * self.timing.trim_slot_ns;
        let paid = self.trim_debt.min(slots * at_once);
        self.trim_debt -= paid;
        self.flash.firmware_free += paid;
    }

    fn flush(&mut self, now: u64) -> u64 {
        let command = self.timing.command_ns;
        let arrived = self.link(false).take(now, command);
        let begun = self.firmware(arrived, self.timing.firmware_write_ns);
        if self.timing.protected {
            return begun + self.timing.flush_ns;
        }
        while self.ftl.staged() > 0 {
            self.program(begun);
        }
        begun.max(self.programmed) + self.timing.flush_ns
    }

    /// Lets time pass to `until_ns`; background work runs in the idle part of it. `submit` does the
    /// same first, so callers need this only to observe a drive that is left idle.
    pub fn idle(&mut self, until_ns: u64) {
        let start = self.quiet.saturating_add(self.timing.idle_ns).max(self.background);
        if start >= until_ns {
            return;
        }
        self.trim_debt = self.trim_debt.saturating_sub(until_ns - start);
        let mut time = start;
        while self.ftl.staged() > 0 {
            self.program(time);
        }
        let slots = self.ftl.shape().dies * self.ftl.shape().unit_slots;
        let (mut before, mut is_done) = (time, false);
        while time < until_ns {
            self.flash.now = time;
            self.flash.all_end = time;
            is_done = self.ftl.idle_step(slots, &mut self.flash) == Idle::Done;
            if is_done {
                break;
            }
            // A step is small, because a host's request waits for the step that has begun.
            // The next one begins when the firmware is free and the one before has ended, so the
            // dies have work while the firmware looks for more.
            let worked = self.flash.firmware_free.max(before).saturating_sub(time);
            before = self.flash.all_end;
            time += (worked * 256 / u64::from(self.timing.idle_share_256.max(1))).max(1);
        }
        // Time without work left is idle.
        self.active += time.min(until_ns) - start;
        self.background = if is_done { until_ns } else { time };
    }

    /// Cuts the power at a time not before the last request's. The buffer is lost; each unit under
    /// way is lost or not as a whole, by the seed. Returns the logical slots whose newest version
    /// is lost, in order; the caller, which keeps the data, has an older version of each or none.
    /// Nothing is lost if the buffer is protected.
    pub fn power_cut(&mut self, now_ns: u64, seed: u64) -> Vec<u64> {
        let mut lost = Vec::new();
        if self.timing.protected {
            return lost;
        }
        let mut random = Random::new(seed);
        self.ftl.drop_buffer(|slot| lost.push(u64::from(slot)));
        for Flight { end, superblock, unit, erases, .. } in self.flights.take_all() {
            // A superblock that was erased since has other contents by now, and the unit's slots
            // were written again or moved.
            let is_there = self.ftl.erases()[superblock as usize] == erases;
            if end > now_ns && random.bits() & 1 == 0 && is_there {
                self.ftl.lose_unit(superblock, unit, |slot| lost.push(u64::from(slot)));
            }
        }
        lost.sort_unstable();
        lost.dedup();
        self.buffered = 0;
        (self.programmed, self.round) = (0, 0);
        self.flash.stop();
        self.ahead = None;
        self.quiet = now_ns;
        self.background = now_ns;
        lost
    }
}

/// Returns the first and the last slot, if the request covers only a part of them.
fn partial_slots(first: u64, count: u64) -> impl Iterator<Item = u64> {
    let end = first + count;
    let head = (!first.is_multiple_of(SECTORS)).then_some(first / SECTORS);
    let tail = (!end.is_multiple_of(SECTORS)).then_some(end / SECTORS);
    head.into_iter().chain(tail.filter(move |tail| Some(*tail) != head))
}
