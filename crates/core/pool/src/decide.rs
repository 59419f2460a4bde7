//! The decisions: where a write goes, where a read finds its slots, what a discard gives up. All of
//! it is plain data under one lock; nothing here waits.

use crate::bits::Bits;
use crate::format::{ABSENT, LOST, Record};
use crate::layout::Layout;
use crate::member::{Member, Run, choose};
use crate::planted::{Bug, planted};
use crate::state::State;
use alloc::vec;
use alloc::vec::Vec;
use block::{Error, Kind};

/// Pieces of one write: runs of places on one member.
pub(crate) const WRITE_PIECES: usize = 4;
/// Pieces of a read that are looked up in one go.
pub(crate) const READ_PIECES: usize = 8;
/// Slots that a discard gives up in one section.
const FORGET_SLOTS: u32 = 1024;

/// What has been changed in the map and goes to the journal together.
pub(crate) struct Batch {
    pub(crate) records: Vec<Record>,
    /// Places that are free once the batch is durable.
    pub(crate) old: Vec<u32>,
    /// The same, of slots that a client has discarded.
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

    /// Notes that `record.count` slots lie somewhere else now.
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

/// Whether a place lies right behind those of a record, on the same member.
fn continues(last: &Record, place: u32, layout: &Layout) -> bool {
    if last.place >= LOST || place >= LOST {
        return last.place == place;
    }
    last.place + last.count == place && layout.owner(last.place).0 == layout.owner(place).0
}

/// Where a write goes, or part of it.
pub(crate) struct Placed {
    pub(crate) member: usize,
    /// Slots in all.
    pub(crate) count: u32,
    pub(crate) runs: [Run; WRITE_PIECES],
}

/// What a change may do.
pub(crate) enum Place<T> {
    Go(T),
    /// There is no room until this batch is committed.
    Commit(u64),
    /// There is no room until something ends.
    Wait,
    Fail(Error),
}

/// When a commit has to be made.
pub(crate) enum Arrange {
    Nothing,
    /// Before long, for its age.
    Later,
    /// Of this batch, so that the next one has room before it is needed.
    Now(u64),
}

/// Slots that are read in one piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Counted from the first slot looked up.
    pub(crate) offset: u32,
    pub(crate) count: u32,
    pub(crate) found: Found,
}

/// What the map says of some slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Data { member: usize, place: u32 },
    Zeros,
    Lost,
}

/// What a read has to fetch.
pub(crate) struct Look {
    pub(crate) pieces: [Piece; READ_PIECES],
    pub(crate) used: usize,
    /// Slots that the pieces cover.
    pub(crate) count: u32,
    /// Which readers it counts with; None: nothing is fetched.
    pub(crate) readers: Option<usize>,
}

pub(crate) struct Core {
    pub(crate) layout: Layout,
    pub(crate) pool: u128,
    /// The place of every slot, counted over all members.
    pub(crate) map: Vec<u32>,
    pub(crate) members: Vec<Member>,
    /// What has changed since the last commit began.
    pub(crate) open: Batch,
    /// What is being committed.
    pub(crate) closing: Batch,
    /// Of writes under way: the records and the slots that they will add.
    reserved_records: u32,
    reserved_slots: u32,
    /// Reads under way that began before the last turn, and since.
    pub(crate) readers: [u32; 2],
    /// Which of the two new reads count with.
    pub(crate) turn: usize,
    pub(crate) releasing: bool,
    pub(crate) commit: State,
    /// A task will commit what is open before long.
    pub(crate) armed: bool,
    /// Pages that the journal's tail must wait for, after and in the pass over the map.
    pub(crate) dirty: Bits,
    pub(crate) passing: Bits,
    /// The home of each page's newest copy.
    pub(crate) home: Vec<bool>,
}

impl Core {
    /// A pool whose map is `map`; what it does not name is free. None: two slots are in one place.
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
            passing: Bits::new(layout.pages),
            home,
            layout,
            pool,
        })
    }

    /// Slots that may still be added to the open batch, if `records` records fit in, too.
    fn room(&self, records: u32) -> u32 {
        let used = self.open.records.len() as u32 + self.reserved_records + records;
        if used > self.layout.records_max() {
            return 0;
        }
        self.layout.slots_max() - self.open.places() - self.reserved_slots
    }

    /// What to wait for, when the open batch has no room.
    fn wait_for_room<T>(&self) -> Place<T> {
        match self.open.is_empty() {
            true => Place::Wait,
            false => Place::Commit(self.commit.open),
        }
    }

    /// What to wait for, when no member has a free place.
    fn wait_for_place<T>(&self) -> Place<T> {
        if self.members.iter().all(|member| member.failed) {
            return Place::Fail(Error::new(Kind::Io, "write: all members of the pool have failed"));
        }
        let freed = |member: &Member| member.waiting.count() + member.ready.count();
        if self.open.places() > 0 {
            return Place::Commit(self.commit.open);
        }
        let coming = self.closing.places() > 0
            || self.reserved_slots > 0
            || self.releasing
            || self.members.iter().any(|member| freed(member) > 0);
        match coming {
            true => Place::Wait,
            false => Place::Fail(Error::new(Kind::NoSpace, "write: the pool has no free place")),
        }
    }

    /// Finds places for the first of `want` slots, at least one.
    pub(crate) fn place(&mut self, want: u32) -> Place<Placed> {
        let want = want.min(self.room(WRITE_PIECES as u32));
        if want == 0 {
            return self.wait_for_room();
        }
        let Some(number) = choose(&self.members) else { return self.wait_for_place() };
        let member = &mut self.members[number];
        let mut placed = Placed { member: number, count: 0, runs: Default::default() };
        for run in &mut placed.runs {
            match member.take(want - placed.count) {
                Some(taken) if placed.count < want => *run = taken,
                _ => break,
            }
            placed.count += run.count;
            member.in_flight += 1;
            if placed.count == want {
                break;
            }
        }
        self.reserved_records += WRITE_PIECES as u32;
        self.reserved_slots += placed.count;
        Place::Go(placed)
    }

    /// The write of `placed` has ended. False: it has to go elsewhere.
    pub(crate) fn publish(
        &mut self,
        placed: &Placed,
        slot: u32,
        failures: u32,
        took_ns: u64,
    ) -> bool {
        self.reserved_records -= WRITE_PIECES as u32;
        self.reserved_slots -= placed.count;
        let member = &mut self.members[placed.member];
        let runs = placed.runs.iter().filter(|run| run.count > 0);
        runs.clone().for_each(|_| member.ended(took_ns));
        member.errors += u64::from(failures);
        // Whatever was written to a member that has failed meanwhile may be lost.
        member.failed |= failures > 0;
        if member.failed {
            return false;
        }
        let base = self.layout.base(placed.member);
        let mut slot = slot;
        for run in runs {
            self.members[placed.member].wrote(run.count);
            self.assign(Record { slot, place: base + run.first, count: run.count }, false);
            slot += run.count;
        }
        true
    }

    /// Changes the map, and notes it for the journal.
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

    /// Gives up the first of `count` slots; returns how many.
    pub(crate) fn forget(&mut self, slot: u32, count: u32) -> Place<u32> {
        let count = count.min(FORGET_SLOTS);
        let map = &self.map[slot as usize..(slot + count) as usize];
        let absent = map.iter().take_while(|place| **place == ABSENT).count() as u32;
        if absent > 0 {
            return Place::Go(absent);
        }
        let count = count.min(self.room(1));
        if count == 0 {
            return self.wait_for_room();
        }
        self.assign(Record { slot, place: ABSENT, count }, true);
        Place::Go(count)
    }

    /// When what is open has to be committed, as far as nothing else sees to it.
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

    fn found(&self, slot: u32) -> Found {
        match self.map[slot as usize] {
            ABSENT => Found::Zeros,
            LOST => Found::Lost,
            place => {
                let (member, place) = self.layout.owner(place);
                Found::Data { member, place }
            }
        }
    }

    /// The first piece of `count` slots.
    pub(crate) fn piece(&self, slot: u32, count: u32) -> (Found, u32) {
        let first = self.found(slot);
        let follows = |ahead: &u32| {
            let next = self.found(slot + ahead);
            match (first, next) {
                (Found::Data { member, place }, Found::Data { member: other, place: there }) => {
                    member == other && place + ahead == there
                }
                _ => first == next,
            }
        };
        let length = (1..count).take_while(follows).count() as u32 + 1;
        (first, length)
    }

    /// Looks up the first of `count` slots, as many as a few pieces cover.
    pub(crate) fn look(&mut self, slot: u32, count: u32) -> Look {
        let none = Piece { offset: 0, count: 0, found: Found::Zeros };
        let mut look = Look { pieces: [none; READ_PIECES], used: 0, count: 0, readers: None };
        while look.used < READ_PIECES && look.count < count {
            let (found, length) = self.piece(slot + look.count, count - look.count);
            look.pieces[look.used] = Piece { offset: look.count, count: length, found };
            look.used += 1;
            look.count += length;
            if let Found::Data { member, .. } = found {
                self.members[member].in_flight += 1;
                look.readers = Some(self.turn);
            }
        }
        if look.readers.is_some() {
            self.readers[self.turn] += 1;
        }
        look
    }

    /// The reads of a look have ended; `failed` has a bit for each piece that did. True: a task may
    /// be waiting for that.
    pub(crate) fn looked(&mut self, look: &Look, failed: u32, took_ns: u64) -> bool {
        let Some(turn) = look.readers else { return false };
        for (index, piece) in look.pieces[..look.used].iter().enumerate() {
            if let Found::Data { member, .. } = piece.found {
                let member = &mut self.members[member];
                member.ended(took_ns);
                member.reads += 1;
                member.errors += u64::from(failed >> index & 1);
            }
        }
        self.readers[turn] -= 1;
        self.readers[turn] == 0 && turn != self.turn
    }
}

/// The map of a pool in which nothing was ever written.
pub(crate) fn blank_map(layout: &Layout) -> Vec<u32> {
    vec![ABSENT; layout.logical as usize]
}
