//! A commit makes changes of the map durable, and keeps the journal from growing.
//!
//! ```text
//!   close     closes the open batch; copies some dirty pages of the map, as they are now
//!   flush     flushes the members that were written to: now the batch's data is durable
//!   journal   writes the batch's records to all members, durably: now the batch is durable
//!             flushes are answered; older places become free when no read uses them
//!   tidy      writes the copied pages; their contents are durable by now
//! ```
//! A pass over all dirty pages begins when three eighths of the journal are in use, and ends within
//! another quarter, because each commit writes a share of the pages in proportion to its share of
//! the journal. The next commit's flush makes the last pages durable, and the tail moves to the
//! start of the pass. So the journal never fills up, and no request waits for more than one share.

use crate::decide::Core;
use crate::format::{Head, LOST, Record, WEAR, encode_page};
use crate::layout::SLOT_SECTORS;
use crate::planted::{Bug, planted};
use block::{Buf, Error, Kind, Result};

const LOST_WRITES: Error = Error::new(Kind::Io, "flush: a member of the pool has lost writes");

/// The next step of a task that needs a batch committed.
pub(crate) enum Step {
    Done(Result),
    Wait,
    /// Flush these members (one bit each), then continue.
    Lead(u32),
}

/// The journal blocks of a batch: `count` blocks from the buffer's start, to be written from this
/// position of the journal on, to the members whose bit is set.
pub(crate) struct Blocks {
    pub(crate) position: u32,
    pub(crate) count: u32,
    pub(crate) members: u32,
}

/// Work that remains after a commit.
pub(crate) struct After {
    pub(crate) tidy: bool,
    pub(crate) release: bool,
}

impl Core {
    /// Returns the batch that a flush waits for; 0: nothing has to be committed.
    pub(crate) fn flush_target(&self) -> u64 {
        match (self.open.is_empty(), self.commit.running) {
            (false, _) => self.commit.open,
            (true, true) => self.commit.open - 1,
            (true, false) => 0,
        }
    }

    /// Notes that no task will commit the open batch any more. Returns the batch to commit.
    pub(crate) fn disarm(&mut self) -> u64 {
        self.armed = false;
        self.flush_target()
    }

    /// Members that are written to, one bit each.
    fn alive(&self) -> u32 {
        let alive = self.members.iter().enumerate().filter(|(_, member)| !member.failed);
        alive.fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Returns the next step towards the commit of batch `target`. A flush (`reports`) reports
    /// losses; later flushes do not report them again.
    pub(crate) fn step(&mut self, target: u64, reports: bool) -> Step {
        let state = &mut self.commit;
        if state.done >= target {
            let failed = target > 0 && state.last_failed >= target || state.unreported;
            if failed && reports {
                state.unreported = false;
            }
            return Step::Done(if failed { Err(LOST_WRITES) } else { Ok(()) });
        }
        if !state.is_idle() {
            return Step::Wait;
        }
        Step::Lead(self.close())
    }

    fn close(&mut self) -> u32 {
        core::mem::swap(&mut self.open, &mut self.closing);
        (self.commit.running, self.commit.disturbed) = (true, false);
        self.commit.open += 1;
        let records = self.closing.records.len() as u32;
        let blocks = records.div_ceil(self.layout.records_a_block());
        self.begin_pass();
        self.mark_dirty();
        self.choose_slice(blocks);
        let mut flushed = 0;
        for (number, member) in self.members.iter_mut().enumerate() {
            if core::mem::replace(&mut member.unflushed, false) {
                flushed |= 1 << number;
            }
        }
        flushed
    }

    fn begin_pass(&mut self) {
        let next = self.commit.newest.sequence + 1;
        let used = next - self.commit.tail;
        let idle = self.commit.pass.is_none() && self.commit.ended.is_none();
        if !idle || used < u64::from(self.layout.journal) * 3 / 8 {
            return;
        }
        core::mem::swap(&mut self.dirty, &mut self.committing);
        if self.committing.count() == 0 {
            self.commit.ended = Some(next);
        } else {
            self.commit.pass = Some(next);
        }
        if planted(Bug::TailBeforePages) {
            self.commit.tail = next;
        }
    }

    fn mark_dirty(&mut self) {
        let entries = self.layout.entries_a_page();
        for record in &self.closing.records {
            let last = record.slot + record.count - 1;
            (record.slot / entries..=last / entries).for_each(|page| _ = self.dirty.set(page));
        }
    }

    fn choose_slice(&mut self, blocks: u32) {
        let Some(began) = self.commit.pass else { return };
        let gone = self.commit.newest.sequence + 1 - began;
        let left = u64::from(self.layout.journal / 4).saturating_sub(gone).max(1);
        let share = u64::from(self.committing.count()) * u64::from(blocks.max(1));
        let share = share.div_ceil(left).min(u64::from(self.layout.slice_max()));
        let mut next = self.committing.next(0);
        while let Some(page) = next.filter(|_| (self.commit.slice.len() as u64) < share) {
            self.committing.clear(page);
            self.commit.slice.push(page);
            next = self.committing.next(page + 1);
        }
    }

    /// Copies the pages that this commit writes, as the map is now.
    pub(crate) fn copy_slice(&mut self, into: &Buf) {
        for index in 0..self.commit.slice.len() {
            let part = into.part(index as u32 * SLOT_SECTORS, SLOT_SECTORS);
            self.copy_page(self.commit.slice[index], &part);
        }
        self.commit.next_pages();
    }

    /// Copies a page of the map, as it is now.
    pub(crate) fn copy_page(&mut self, page: u32, into: &Buf) {
        let entries = self.layout.entries_a_page();
        let end = self.map.len().min(((page + 1) * entries) as usize);
        let first = end.min((page * entries) as usize);
        let (scratch, sequence) = (&mut self.commit.scratch, self.commit.pages);
        encode_page(self.pool, page, sequence, &self.map[first..end], scratch);
        into.write(scratch);
    }

    /// Marks a member as failed: data written to it since its last successful flush is lost.
    fn give_up(&mut self, number: usize) {
        self.members[number].failed = true;
        self.members[number].errors += 1;
        self.commit.disturbed = true;
        let (open, mut lost) = (self.commit.open, 0);
        for (batch, its_number) in [(&mut self.closing, open - 1), (&mut self.open, open)] {
            for record in &mut batch.records {
                if record.place >= LOST || self.layout.owner(record.place).0 != number {
                    continue;
                }
                for ahead in 0..record.count {
                    let entry = &mut self.map[(record.slot + ahead) as usize];
                    if *entry == record.place + ahead {
                        *entry = LOST;
                    }
                }
                record.place = LOST;
                lost = its_number;
            }
        }
        if lost > 0 {
            self.commit.last_failed = lost;
            self.commit.unreported = true;
        }
    }

    /// Evaluates the members' flushes, some of which may have failed. Writes the batch's journal
    /// blocks into the buffer.
    pub(crate) fn end_flush(&mut self, failed: u32, into: &Buf) -> Blocks {
        self.give_up_all(failed);
        if let Some(tail) = self.commit.ended.take() {
            self.commit.tail = tail;
        }
        let position = self.commit.next_position(&self.layout);
        let records = core::mem::take(&mut self.closing.records);
        let count = self.closing_chunks(&records, into);
        self.closing.records = records;
        Blocks { position, count, members: self.alive() }
    }

    fn give_up_all(&mut self, failed: u32) {
        (0..self.members.len())
            .filter(|number| failed >> number & 1 == 1)
            .for_each(|number| self.give_up(number));
    }

    fn closing_chunks(&mut self, records: &[Record], into: &Buf) -> u32 {
        let room = self.layout.records_a_block() as usize;
        let mut count = 0;
        for chunk in records.chunks(room) {
            let block = into.part(count * SLOT_SECTORS, SLOT_SECTORS);
            self.write_block(chunk, &block);
            count += 1;
        }
        let used = self.commit.newest.sequence + 1 - self.commit.tail;
        assert!(used <= u64::from(self.layout.journal), "the journal has run over: {used} blocks");
        count
    }

    /// Writes the block which records that a member is being rewritten completely, with the
    /// sequence of the next block, which will replace it.
    pub(crate) fn write_renewal(&mut self, number: usize, into: &Buf) {
        let state = &mut self.commit;
        let sequence = state.newest.sequence + 1;
        let absent = 1 << number;
        let head = Head { life: state.life, sequence, tail: sequence, absent, ..Head::default() };
        head.encode(self.pool, &[], &mut state.scratch);
        into.write(&state.scratch);
    }

    /// Writes one journal block after the newest; the rest of its room records the members' wear.
    pub(crate) fn write_block(&mut self, records: &[Record], into: &Buf) {
        let state = &mut self.commit;
        let absent = !self
            .members
            .iter()
            .enumerate()
            .fold(0, |alive, (number, member)| alive | u32::from(!member.failed) << number)
            & ((1 << self.layout.members) - 1);
        let mut all = [Record { slot: 0, place: 0, count: 0 }; RECORDS];
        let mut used = records.len();
        all[..used].copy_from_slice(records);
        let sequence = state.newest.sequence + 1;
        let room = (self.layout.records_a_block() as usize).min(RECORDS);
        for turn in 0..self.layout.members.min(room - used) {
            let number = (sequence as usize + turn) % self.layout.members;
            let written = self.members[number].written;
            let slot = WEAR | number as u32;
            all[used] = Record { slot, place: written as u32, count: (written >> 32) as u32 };
            used += 1;
        }
        let mut head = Head {
            life: state.life,
            sequence,
            tail: state.tail,
            previous: state.newest.sum,
            absent,
            count: used as u32,
            sum: 0,
        };
        head.sum = head.encode(self.pool, &all[..used], &mut state.scratch);
        into.write(&state.scratch);
        state.newest = head;
    }

    /// Ends a commit: the journal blocks are durable on all members except those in `failed`.
    pub(crate) fn end_commit(&mut self, failed: u32) -> After {
        self.give_up_all(failed);
        self.commit.done = self.commit.open - 1;
        self.commit.running = false;
        if self.alive() == 0 && !self.closing.is_empty() {
            self.commit.last_failed = self.commit.done;
            self.commit.unreported = true;
        }
        self.closing.records.clear();
        for (list, discarded) in
            [(&mut self.closing.old, false), (&mut self.closing.discarded, true)]
        {
            for place in list.drain(..) {
                let (member, place) = self.layout.owner(place);
                self.members[member].waiting.set(place);
                if discarded {
                    self.members[member].discarded.set(place);
                }
            }
        }
        if self.commit.disturbed {
            // The copies may name data that was lost since.
            self.commit.slice.drain(..).for_each(|page| _ = self.committing.set(page));
        }
        self.commit.tidying = !self.commit.slice.is_empty();
        if !self.commit.tidying {
            self.end_pass();
        }
        let freed = self.members.iter().any(|member| member.waiting.count() > 0);
        let release = freed && !core::mem::replace(&mut self.releasing, true);
        After { tidy: self.commit.tidying, release }
    }

    fn end_pass(&mut self) {
        if self.committing.count() == 0
            && let Some(began) = self.commit.pass.take()
        {
            self.commit.ended = Some(began);
        }
    }

    /// Returns a run of adjacent pages of the slice from `from` on: the first page, their number,
    /// and their new home.
    pub(crate) fn slice_run(&self, from: usize) -> Option<(u32, u32, usize)> {
        let first = *self.commit.slice.get(from)?;
        let home = self.home[first as usize];
        let rest = self.commit.slice[from..].iter().zip(first..);
        let together =
            rest.take_while(|(page, at)| *page == at && self.home[**page as usize] == home);
        Some((first, together.count() as u32, usize::from(!home)))
    }

    /// The members that the pages are written to.
    pub(crate) fn page_members(&self) -> u32 {
        self.alive()
    }

    /// Ends the write of the slice's pages, on all members except those in `failed`.
    pub(crate) fn end_tidy(&mut self, failed: u32) {
        for (number, member) in self.members.iter_mut().enumerate() {
            let bad = failed >> number & 1 == 1;
            member.failed |= bad;
            member.errors += u64::from(bad);
            member.unflushed |= !member.failed;
        }
        for page in self.commit.slice.drain(..) {
            self.home[page as usize] = !self.home[page as usize];
        }
        self.commit.tidying = false;
        self.end_pass();
    }
}

/// Maximum number of records of a block, for any grain.
const RECORDS: usize = 336;
