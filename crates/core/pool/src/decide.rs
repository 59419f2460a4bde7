//! The decisions: the destination of a write, the slots of a read, the slots that a discard
//! releases. All of it is plain data under one lock; nothing here waits.

use crate::bits::Bits;
use crate::format::{ABSENT, LOST, Record};
use crate::layout::Layout;
use crate::member::{Member, Run, choose};
use crate::planted::{Bug, planted};
use crate::state::State;
use alloc::vec;
use alloc::vec::Vec;
use block::{Error, Kind};

/// Maximum number of pieces of one write: runs of places on one member.
pub(crate) const WRITE_PIECES: usize = 4;
/// Maximum number of pieces of a read per lookup.
pub(crate) const READ_PIECES: usize = 8;
/// Maximum number of slots that a discard releases per section.
const FORGET_SLOTS: u32 = 1024;

/// Changes of the map that go to the journal together.
pub(crate) struct Batch {
    pub(crate) records: Vec<Record>,
    /// Places that become free when the batch is durable.
    pub(crate) old: Vec<u32>,
    /// Same, for slots that a client has discarded.
    pub(crate) discarded: Vec<u32>,
}

impl Batch {
    fn new(layout: &Layout) -> Batch {
        let slots = layout.slots_max() as usize;
        Batch {
            records: Vec::with_capacity(layout.records_max() as usize),
            old: Vec::with_capacity(slots),
            discarded: Vec::with_capacity(slots),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn places(&self) -> u32 {
        (self.old.len() + self.discarded.len()) as u32
    }

    /// Records that `record.count` slots have a new place.
    fn note(&mut self, record: Record, layout: &Layout) {
        if let Some(last) = self.records.last_mut()
            && last.slot + last.count == record.slot
            && continues(last, record.place, layout)
        {
            last.count += record.count;
        } else {
            self.records.push(record);
        }
    }
}

/// Whether a place directly follows those of a record, on the same member.
fn continues(last: &Record, place: u32, layout: &Layout) -> bool {
    if last.place >= LOST || place >= LOST {
        return last.place == place;
    }
    last.place + last.count == place && layout.owner(last.place).0 == layout.owner(place).0
}

/// The destination of a write, or of a part of it.
pub(crate) struct Reservation {
    pub(crate) member: usize,
    /// Number of slots in total.
    pub(crate) count: u32,
    pub(crate) runs: [Run; WRITE_PIECES],
}

/// Whether a change may proceed.
pub(crate) enum Decision<T> {
    Go(T),
    /// There is no room until this batch is committed.
    Commit(u64),
    /// There is no room until something ends.
    Wait,
    Fail(Error),
}

/// When a commit must be made.
pub(crate) enum Arrange {
    Nothing,
    /// Soon, because of its age.
    Later,
    /// Now, of this batch, so that the next batch has room before it needs it.
    Now(u64),
}

/// Slots that are read in one piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Counted from the first slot of the lookup.
    pub(crate) offset: u32,
    pub(crate) count: u32,
    pub(crate) found: Content,
}

/// The state of some slots in the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    Data { member: usize, place: u32 },
    Zeros,
    Lost,
}

/// The pieces of a read.
pub(crate) struct Lookup {
    pub(crate) pieces: [Piece; READ_PIECES],
    pub(crate) used: usize,
    /// Number of slots in the pieces.
    pub(crate) count: u32,
    /// The group of readers that counts this read; None: it fetches nothing.
    pub(crate) readers: Option<usize>,
}

pub(crate) struct Core {
    pub(crate) layout: Layout,
    pub(crate) pool: u128,
    /// The place of each slot, numbered across all members.
    pub(crate) map: Vec<u32>,
    pub(crate) members: Vec<Member>,
    /// Changes since the last commit began.
    pub(crate) open: Batch,
    /// Changes that are being committed.
    pub(crate) closing: Batch,
    /// Reserved for writes in flight: the records and the slots that they will add.
    reserved_records: u32,
    reserved_slots: u32,
    /// Reads in flight, by the turn in which they began: this turn or the previous one.
    pub(crate) readers: [u32; 2],
    /// Index in `readers` for new reads.
    pub(crate) turn: usize,
    pub(crate) releasing: bool,
    pub(crate) commit: State,
    /// Whether a task will soon commit the open batch.
    pub(crate) armed: bool,
    /// Changed pages that must be written before the journal's tail moves on: in the next pass over
    /// the map ...
    pub(crate) dirty: Bits,
    /// ... and in the pass that is running.
    pub(crate) committing: Bits,
    /// The home of each page's newest copy.
    pub(crate) home: Vec<bool>,
}

impl Core {
    /// Creates a pool with the map `map`; places that are not in it are free. None: two slots have
    /// the same place.
    pub(crate) fn new(
        layout: Layout,
        pool: u128,
        map: Vec<u32>,
        mut members: Vec<Member>,
        home: Vec<bool>,
        commit: State,
    ) -> Option<Core> {
        for (number, member) in members.iter_mut().enumerate() {
            (0..layout.data(number)).for_each(|place| _ = member.free.set(place));
        }
        for place in map.iter().filter(|place| **place < LOST) {
            let (member, place) = layout.owner(*place);
            if !members[member].free.clear(place) {
                return None;
            }
        }
        Some(Core {
            open: Batch::new(&layout),
            closing: Batch::new(&layout),
            map,
            members,
            reserved_records: 0,
            reserved_slots: 0,
            readers: [0; 2],
            turn: 0,
            releasing: false,
            commit,
            armed: false,
            dirty: Bits::new(layout.pages),
            committing: Bits::new(layout.pages),
            home,
            layout,
            pool,
        })
    }

    /// Returns the number of slots that may still be added to the open batch together with
    /// `records` records.
    fn room(&self, records: u32) -> u32 {
        let used = self.open.records.len() as u32 + self.reserved_records + records;
        if used > self.layout.records_max() {
            return 0;
        }
        self.layout.slots_max() - self.open.places() - self.reserved_slots
    }

    /// Returns the event to wait for when the open batch has no room.
    fn wait_for_room<T>(&self) -> Decision<T> {
        match self.open.is_empty() {
            true => Decision::Wait,
            false => Decision::Commit(self.commit.open),
        }
    }

    /// Returns the event to wait for when no member has a free place.
    fn wait_for_place<T>(&self) -> Decision<T> {
        if self.members.iter().all(|member| member.failed) {
            return Decision::Fail(Error::new(
                Kind::Io,
                "write: all members of the pool have failed",
            ));
        }
        let freed = |member: &Member| member.waiting.count() + member.ready.count();
        if self.open.places() > 0 {
            return Decision::Commit(self.commit.open);
        }
        let coming = self.closing.places() > 0
            || self.reserved_slots > 0
            || self.releasing
            || self.members.iter().any(|member| freed(member) > 0);
        match coming {
            true => Decision::Wait,
            false => Decision::Fail(Error::new(Kind::NoSpace, "write: the pool has no free place")),
        }
    }

    /// Reserves places for the first of `want` slots, at least for one.
    pub(crate) fn reserve(&mut self, want: u32) -> Decision<Reservation> {
        let want = want.min(self.room(WRITE_PIECES as u32));
        if want == 0 {
            return self.wait_for_room();
        }
        let Some(number) = choose(&self.members) else { return self.wait_for_place() };
        let member = &mut self.members[number];
        let mut reserved = Reservation { member: number, count: 0, runs: Default::default() };
        for run in &mut reserved.runs {
            match member.take(want - reserved.count) {
                Some(taken) if reserved.count < want => *run = taken,
                _ => break,
            }
            reserved.count += run.count;
            member.in_flight += 1;
            if reserved.count == want {
                break;
            }
        }
        self.reserved_records += WRITE_PIECES as u32;
        self.reserved_slots += reserved.count;
        Decision::Go(reserved)
    }

    /// Ends the write of `reserved`, and changes the map. Returns false if the data must be written
    /// elsewhere.
    pub(crate) fn publish(
        &mut self,
        reserved: &Reservation,
        slot: u32,
        failures: u32,
        took_ns: u64,
    ) -> bool {
        self.reserved_records -= WRITE_PIECES as u32;
        self.reserved_slots -= reserved.count;
        let member = &mut self.members[reserved.member];
        let runs = reserved.runs.iter().filter(|run| run.count > 0);
        runs.clone().for_each(|_| member.end_request(took_ns));
        member.errors += u64::from(failures);
        // Data that was just written to a failed member may be lost.
        member.failed |= failures > 0;
        if member.failed {
            return false;
        }
        let base = self.layout.base(reserved.member);
        let mut slot = slot;
        for run in runs {
            self.members[reserved.member].count_write(run.count);
            self.assign(Record { slot, place: base + run.first, count: run.count }, false);
            slot += run.count;
        }
        true
    }

    /// Changes the map, and records the change for the journal.
    fn assign(&mut self, record: Record, discarded: bool) {
        for ahead in 0..record.count {
            let new = if record.place >= LOST { record.place } else { record.place + ahead };
            let old = core::mem::replace(&mut self.map[(record.slot + ahead) as usize], new);
            if old >= LOST {
                continue;
            }
            if planted(Bug::ReuseTooEarly) {
                let (member, place) = self.layout.owner(old);
                self.members[member].free.set(place);
            } else if discarded {
                self.open.discarded.push(old);
            } else {
                self.open.old.push(old);
            }
        }
        self.open.note(record, &self.layout);
    }

    /// Releases the first of `count` slots. Returns how many.
    pub(crate) fn forget(&mut self, slot: u32, count: u32) -> Decision<u32> {
        let count = count.min(FORGET_SLOTS);
        let map = &self.map[slot as usize..(slot + count) as usize];
        let absent = map.iter().take_while(|place| **place == ABSENT).count() as u32;
        if absent > 0 {
            return Decision::Go(absent);
        }
        let count = count.min(self.room(1));
        if count == 0 {
            return self.wait_for_room();
        }
        self.assign(Record { slot, place: ABSENT, count }, true);
        Decision::Go(count)
    }

    /// Returns when the open batch must be committed, if no other task will do it.
    pub(crate) fn arrange(&mut self) -> Arrange {
        let half_full = self.open.records.len() as u32 > self.layout.records_max() / 2
            || self.open.places() > self.layout.slots_max() / 2;
        if half_full && self.commit.is_idle() {
            return Arrange::Now(self.commit.open);
        }
        match !self.open.is_empty() && !core::mem::replace(&mut self.armed, true) {
            true => Arrange::Later,
            false => Arrange::Nothing,
        }
    }

    fn content_of(&self, slot: u32) -> Content {
        match self.map[slot as usize] {
            ABSENT => Content::Zeros,
            LOST => Content::Lost,
            place => {
                let (member, place) = self.layout.owner(place);
                Content::Data { member, place }
            }
        }
    }

    /// Returns the first piece of `count` slots.
    pub(crate) fn piece(&self, slot: u32, count: u32) -> (Content, u32) {
        let first = self.content_of(slot);
        let follows = |ahead: &u32| {
            let next = self.content_of(slot + ahead);
            match (first, next) {
                (
                    Content::Data { member, place },
                    Content::Data { member: other, place: there },
                ) => member == other && place + ahead == there,
                _ => first == next,
            }
        };
        let length = (1..count).take_while(follows).count() as u32 + 1;
        (first, length)
    }

    /// Looks up the first of `count` slots, as many as a few pieces cover.
    pub(crate) fn look_up(&mut self, slot: u32, count: u32) -> Lookup {
        let none = Piece { offset: 0, count: 0, found: Content::Zeros };
        let mut lookup = Lookup { pieces: [none; READ_PIECES], used: 0, count: 0, readers: None };
        while lookup.used < READ_PIECES && lookup.count < count {
            let (found, length) = self.piece(slot + lookup.count, count - lookup.count);
            lookup.pieces[lookup.used] = Piece { offset: lookup.count, count: length, found };
            lookup.used += 1;
            lookup.count += length;
            if let Content::Data { member, .. } = found {
                self.members[member].in_flight += 1;
                lookup.readers = Some(self.turn);
            }
        }
        if lookup.readers.is_some() {
            self.readers[self.turn] += 1;
        }
        lookup
    }

    /// Ends the reads of a lookup; `failed` has a bit for each failed piece. Returns true if a task
    /// may be waiting for this.
    pub(crate) fn end_lookup(&mut self, lookup: &Lookup, failed: u32, took_ns: u64) -> bool {
        let Some(turn) = lookup.readers else { return false };
        for (index, piece) in lookup.pieces[..lookup.used].iter().enumerate() {
            if let Content::Data { member, .. } = piece.found {
                let member = &mut self.members[member];
                member.end_request(took_ns);
                member.reads += 1;
                member.errors += u64::from(failed >> index & 1);
            }
        }
        self.readers[turn] -= 1;
        self.readers[turn] == 0 && turn != self.turn
    }
}

/// The map of a new pool, in which nothing is written.
pub(crate) fn blank_map(layout: &Layout) -> Vec<u32> {
    vec![ABSENT; layout.logical as usize]
}
