//! The decision about a change (a write, zeros, a discard), over plain data: absorb it, write it
//! through, split it, or let it wait (C6, C11, C12, C13).
//!
//! A shard collects the state ([`Overlap`], [`Room`]), calls [`decide`], and carries out the
//! decision.

use crate::dirty::level::Level;

/// The reason for a write-through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    Mode,
    Unproven,
    Fua,
    Large,
    Full,
    Late,
    /// The guard bypasses the cache.
    Bypass,
}

impl Reason {
    /// Whether a write-through for this reason may cache blocks that were not cached before.
    pub(crate) fn keeps_new(self) -> bool {
        // Under CPU pressure, copy only blocks that are cached already.
        self != Reason::Bypass
    }
}

/// The resources that a change needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    /// The reason why it may not be absorbed, if any.
    pub(crate) barred: Option<Reason>,
    /// Blocks that need a slot: all blocks of a write; for zeros, the blocks that are covered in
    /// part.
    pub(crate) slots: u32,
    /// It writes zeros.
    pub(crate) is_zeros: bool,
    /// It leaves a range of zeros pending.
    pub(crate) needs_range: bool,
}

/// Requests and dirty data that a change overlaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overlap {
    /// A write-through of some of its blocks is in flight.
    pub(crate) write_through: bool,
    /// Another change waits for some of its blocks, and precedes it.
    pub(crate) is_behind: bool,
    /// A dirty block is covered or held in part only, or zeros are pending: a write-through would
    /// not replace all of it.
    pub(crate) partly: bool,
    /// A block is in flight to the backing.
    pub(crate) writing: bool,
    /// A block of the open epoch is in flight: a range of zeros that overtook it would be written
    /// before it.
    pub(crate) early: bool,
    /// Blocks of the open epoch that are already dirty.
    pub(crate) open: u32,
}

/// Room in the write buffer, and other state of the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// The volume's level, with the claims of other changes.
    pub(crate) level: Level,
    /// The buffer was full, and has not had enough room since.
    pub(crate) was_full: bool,
    /// The oldest dirty data has exceeded its maximum age.
    pub(crate) is_late: bool,
    /// An order is promised: closed epochs are written before write-throughs ...
    pub(crate) is_ordered: bool,
    /// ... and one is closed.
    pub(crate) would_overtake: bool,
    /// The shard's slots that are free or clean.
    pub(crate) slots: u32,
    /// The shard's dirty slots, and their maximum.
    pub(crate) dirty: u32,
    pub(crate) dirty_max: u32,
    /// The shard has room for another range of zeros.
    pub(crate) has_range: bool,
}

/// The decision about a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// Absorb it. Its reply waits as for a change with this number of new blocks.
    Absorb { throttle_blocks: u32 },
    /// Absorb it over dirty data that it overlaps in part, so that both are written in their order.
    AbsorbOver,
    /// Write it through.
    WriteThrough(Reason),
    /// Split it: its pieces can be absorbed or written through.
    Cut,
    /// Wait until the shard changes.
    Wait,
    /// Wait for room. `urgent`: start writeback to make room.
    WaitForRoom { urgent: bool },
}

impl Demand {
    /// Returns the maximum number of blocks that it may take; the level is not known yet.
    pub(crate) fn claim(&self, overlap: &Overlap) -> u32 {
        // A write-through takes no room, nor does a change that waits.
        let may_absorb = self.barred.is_none() || overlap.partly;
        if may_absorb && !overlap.holds_back(self) { self.slots } else { 0 }
    }

    /// Returns the number of blocks that are not dirty yet in the open epoch.
    fn new_blocks(&self, overlap: &Overlap) -> u32 {
        self.slots.saturating_sub(overlap.open)
    }
}

impl Overlap {
    /// Whether a change waits for the requests that it overlaps, regardless of room.
    fn holds_back(&self, demand: &Demand) -> bool {
        self.write_through || self.early && demand.is_zeros
    }
}

impl Room {
    /// Whether the shard lacks room for the range of zeros of a change.
    fn lacks_range(&self, demand: &Demand) -> bool {
        demand.needs_range && !self.has_range
    }

    /// Whether the shard lacks slots.
    fn lacks_slots(&self, demand: &Demand, new: u32) -> bool {
        demand.slots > self.slots || self.dirty + new > self.dirty_max
    }

    /// Returns the reason why the buffer cannot take this change now, if any (C6, C13), and whether
    /// the buffer counts as full from now on.
    fn refusal(&self, demand: &Demand, overlap: &Overlap) -> (Option<Reason>, bool) {
        if self.is_late {
            return (Some(Reason::Late), self.was_full);
        }
        let new = demand.new_blocks(overlap);
        if new > 0 && !self.level.has_room_for(new) {
            return (Some(Reason::Full), true);
        }
        // After a write that found no room, writes are written through until there is enough room:
        // otherwise a few would be absorbed between the write-throughs, and the workers would never
        // catch up.
        let was_full = self.was_full && new > 0 && !self.is_ordered;
        if was_full && !self.level.has_room_again() {
            return (Some(Reason::Full), true);
        }
        let lacks = self.lacks_range(demand) || self.lacks_slots(demand, new);
        (lacks.then_some(Reason::Full), self.was_full && !was_full)
    }

    /// Whether there is room for a change that can neither be written through nor wait for the next
    /// epoch: only the hard limits hold it back.
    fn has_hard_room(&self, demand: &Demand, overlap: &Overlap) -> bool {
        let new = demand.new_blocks(overlap);
        (new == 0 || self.level.has_hard_room_for(new))
            && demand.slots <= self.slots
            && !self.lacks_range(demand)
    }
}

/// Decides about a change. Also returns whether the buffer counts as full from now on.
#[inline]
pub(crate) fn decide(demand: &Demand, overlap: &Overlap, room: &Room) -> (Decision, bool) {
    if overlap.holds_back(demand) {
        return (Decision::Wait, room.was_full);
    }
    let (barred, is_full) = match demand.barred {
        Some(reason) => (Some(reason), room.was_full),
        None => room.refusal(demand, overlap),
    };
    let decision = match barred {
        None => {
            let is_slowed = room.level.is_pressed();
            let throttle_blocks = if is_slowed { demand.new_blocks(overlap) } else { 0 };
            Decision::Absorb { throttle_blocks }
        }
        Some(_) if overlap.partly => over_dirty(demand, overlap, room),
        Some(reason) if room.would_overtake => keep_order(demand, reason),
        Some(_) if overlap.writing || overlap.is_behind => Decision::Wait,
        Some(reason) => Decision::WriteThrough(reason),
    };
    (decision, is_full)
}

/// Decides about a change that should be written through but overlaps dirty data in part (C12).
fn over_dirty(demand: &Demand, overlap: &Overlap, room: &Room) -> Decision {
    match demand.slots {
        _ if room.has_hard_room(demand, overlap) => Decision::AbsorbOver,
        0 | 1 => Decision::WaitForRoom { urgent: true },
        // As a whole it might wait forever: others write a part of its blocks again as soon as that
        // part is durable. Most of its pieces can be written through.
        _ => Decision::Cut,
    }
}

/// Decides about a change that should be written through, and would overtake closed epochs.
fn keep_order(demand: &Demand, reason: Reason) -> Decision {
    match reason {
        // In pieces it can be absorbed.
        Reason::Large => Decision::Cut,
        // As a whole it might wait forever: smaller changes take the room as soon as there is some.
        Reason::Full if demand.slots > 1 => Decision::Cut,
        _ => Decision::WaitForRoom { urgent: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirty::limits::DirtyLimits;

    const LEVEL: Level = Level {
        open: 0,
        debt: 0,
        dirty: 0,
        max: DirtyLimits { dirty: 1600, debt: 1600, open: 800 },
        closing: 0,
        closed: 0,
    };
    const ROOM: Room = Room {
        level: LEVEL,
        was_full: false,
        is_late: false,
        is_ordered: false,
        would_overtake: false,
        slots: 100,
        dirty: 0,
        dirty_max: 90,
        has_range: true,
    };
    const WRITE: Demand = Demand { barred: None, slots: 4, is_zeros: false, needs_range: false };
    const FUA: Demand = Demand { barred: Some(Reason::Fua), ..WRITE };
    const LARGE: Demand = Demand { barred: Some(Reason::Large), ..WRITE };
    const ZEROS: Demand = Demand { slots: 0, is_zeros: true, needs_range: true, ..WRITE };
    const NOTHING: Overlap = Overlap {
        write_through: false,
        is_behind: false,
        partly: false,
        writing: false,
        early: false,
        open: 0,
    };
    const PARTLY: Overlap = Overlap { partly: true, ..NOTHING };
    const ORDERED: Room = Room { is_ordered: true, would_overtake: true, ..ROOM };
    const ABSORB: Decision = Decision::Absorb { throttle_blocks: 0 };
    const FULL: Decision = Decision::WriteThrough(Reason::Full);
    const OVER: Decision = Decision::AbsorbOver;
    const URGENT: Decision = Decision::WaitForRoom { urgent: true };
    const PATIENT: Decision = Decision::WaitForRoom { urgent: false };

    fn at(open: u32, dirty: u32) -> Room {
        Room { level: Level { open, debt: dirty, dirty, ..LEVEL }, ..ROOM }
    }

    #[test]
    fn each_case_has_its_decision() {
        let one = |demand| Demand { slots: 1, ..demand };
        let full = at(797, 797);
        let barred = |reason| Demand { barred: Some(reason), ..WRITE };
        let meets = |overlap: Overlap| Overlap { open: 4, ..overlap };
        let table = [
            ("it fits", WRITE, NOTHING, ROOM, ABSORB),
            ("zeros fit", ZEROS, NOTHING, ROOM, ABSORB),
            (
                "it fills the last eighth",
                WRITE,
                NOTHING,
                at(701, 701),
                Decision::Absorb { throttle_blocks: 4 },
            ),
            (
                "three of its blocks are dirty",
                WRITE,
                Overlap { open: 3, ..NOTHING },
                at(701, 701),
                Decision::Absorb { throttle_blocks: 1 },
            ),
            (
                "a write-through is under way",
                WRITE,
                Overlap { write_through: true, ..NOTHING },
                ROOM,
                Decision::Wait,
            ),
            (
                "the same, and it is barred",
                FUA,
                Overlap { write_through: true, ..PARTLY },
                ROOM,
                Decision::Wait,
            ),
            (
                "zeros over an early block",
                ZEROS,
                Overlap { early: true, ..NOTHING },
                ROOM,
                Decision::Wait,
            ),
            (
                "a write over an early block",
                WRITE,
                Overlap { early: true, writing: true, ..NOTHING },
                ROOM,
                ABSORB,
            ),
            (
                "it is absorbed though others wait",
                WRITE,
                Overlap { is_behind: true, ..NOTHING },
                ROOM,
                ABSORB,
            ),
            ("no room in the open epoch", WRITE, NOTHING, full, FULL),
            (
                "the same, but it replaces",
                WRITE,
                meets(NOTHING),
                full,
                Decision::Absorb { throttle_blocks: 0 },
            ),
            ("over the limits, but it replaces", WRITE, meets(NOTHING), at(900, 1700), ABSORB),
            ("no dirty block more", WRITE, NOTHING, at(0, 1597), FULL),
            (
                "full before, not enough room",
                WRITE,
                NOTHING,
                Room { was_full: true, ..at(601, 601) },
                FULL,
            ),
            (
                "full before, room again",
                WRITE,
                NOTHING,
                Room { was_full: true, ..at(600, 600) },
                ABSORB,
            ),
            (
                "full before, but it replaces",
                WRITE,
                meets(NOTHING),
                Room { was_full: true, ..at(601, 601) },
                ABSORB,
            ),
            (
                "full before, ordered",
                WRITE,
                NOTHING,
                Room { was_full: true, is_ordered: true, ..at(601, 601) },
                ABSORB,
            ),
            (
                "too old",
                WRITE,
                NOTHING,
                Room { is_late: true, ..ROOM },
                Decision::WriteThrough(Reason::Late),
            ),
            ("too few slots", WRITE, NOTHING, Room { slots: 3, ..ROOM }, FULL),
            ("too many dirty slots", WRITE, NOTHING, Room { dirty: 87, ..ROOM }, FULL),
            ("just enough of them", WRITE, NOTHING, Room { slots: 4, dirty: 86, ..ROOM }, ABSORB),
            ("no place for a range", ZEROS, NOTHING, Room { has_range: false, ..ROOM }, FULL),
            ("a write needs none", WRITE, NOTHING, Room { has_range: false, ..ROOM }, ABSORB),
            ("FUA", FUA, NOTHING, ROOM, Decision::WriteThrough(Reason::Fua)),
            (
                "FUA, over a block that is written",
                FUA,
                Overlap { writing: true, ..NOTHING },
                ROOM,
                Decision::Wait,
            ),
            (
                "FUA, behind another change",
                FUA,
                Overlap { is_behind: true, ..NOTHING },
                ROOM,
                Decision::Wait,
            ),
            ("over a part", FUA, PARTLY, ROOM, OVER),
            (
                "over a part that is written",
                FUA,
                Overlap { writing: true, is_behind: true, ..PARTLY },
                ROOM,
                OVER,
            ),
            ("over a part, the open epoch is full", WRITE, PARTLY, full, OVER),
            ("over a part, too old", WRITE, PARTLY, Room { is_late: true, ..ROOM }, OVER),
            ("over a part, no room", FUA, PARTLY, at(0, 1597), Decision::Cut),
            ("over a part, but it replaces", FUA, meets(PARTLY), at(0, 1600), OVER),
            ("one block over a part, no room", one(FUA), PARTLY, at(0, 1600), URGENT),
            ("over a part, just enough slots", FUA, PARTLY, Room { slots: 4, ..ROOM }, OVER),
            ("over a part, no slots", FUA, PARTLY, Room { slots: 3, ..ROOM }, Decision::Cut),
            (
                "zeros over a part, no place for a range",
                Demand { barred: Some(Reason::Mode), ..ZEROS },
                PARTLY,
                Room { has_range: false, ..ROOM },
                URGENT,
            ),
            ("ordered, it fits", WRITE, NOTHING, ORDERED, ABSORB),
            ("ordered, large", LARGE, NOTHING, ORDERED, Decision::Cut),
            ("ordered, full", WRITE, NOTHING, Room { level: full.level, ..ORDERED }, Decision::Cut),
            (
                "ordered, full, one block",
                one(WRITE),
                NOTHING,
                Room { level: at(800, 800).level, ..ORDERED },
                PATIENT,
            ),
            ("ordered, FUA", FUA, NOTHING, ORDERED, PATIENT),
            ("ordered, too old", WRITE, NOTHING, Room { is_late: true, ..ORDERED }, PATIENT),
            ("ordered, over a part", FUA, PARTLY, ORDERED, OVER),
            (
                "ordered, nothing closed",
                FUA,
                NOTHING,
                Room { would_overtake: false, ..ORDERED },
                Decision::WriteThrough(Reason::Fua),
            ),
            ("the mode", barred(Reason::Mode), NOTHING, ROOM, Decision::WriteThrough(Reason::Mode)),
            (
                "the guard",
                barred(Reason::Bypass),
                NOTHING,
                full,
                Decision::WriteThrough(Reason::Bypass),
            ),
        ];
        for (name, demand, overlap, room, expected) in table {
            assert_eq!(decide(&demand, &overlap, &room).0, expected, "{name}");
        }
    }

    #[test]
    fn the_buffer_counts_as_full_from_a_write_without_room_to_one_with_enough() {
        let is_full = |demand: &Demand, room: &Room| decide(demand, &NOTHING, room).1;
        let was_full = |room: Room| Room { was_full: true, ..room };
        assert!(is_full(&WRITE, &at(797, 797)) && !is_full(&WRITE, &ROOM));
        assert!(is_full(&WRITE, &was_full(at(601, 601))) && !is_full(&WRITE, &was_full(ROOM)));
        // The buffer has enough room, even if this shard lacks resources.
        assert!(!is_full(&WRITE, &Room { slots: 0, ..was_full(ROOM) }));
        // These do not depend on the room: barred, too old, without a new block, in an order.
        assert!(is_full(&FUA, &was_full(ROOM)) && is_full(&ZEROS, &was_full(ROOM)));
        assert!(is_full(&WRITE, &Room { is_late: true, ..was_full(ROOM) }));
        assert!(is_full(&WRITE, &Room { is_ordered: true, ..was_full(ROOM) }));
        assert!(!is_full(&FUA, &at(797, 797)));
    }

    /// Visits every combination of demand and overlap, with every kind of room.
    fn all(mut visit: impl FnMut(&Demand, &Overlap, &Room)) {
        let reasons = [Reason::Mode, Reason::Unproven, Reason::Fua, Reason::Large, Reason::Bypass];
        let levels = [at(0, 0), at(601, 601), at(797, 797), at(800, 1600)];
        for bits in 0_u32..1 << 14 {
            let bit = |number: u32| bits >> number & 1 != 0;
            for barred in reasons.map(Some).into_iter().chain([None]) {
                for slots in [0, 1, 4] {
                    let demand =
                        Demand { barred, slots, is_zeros: bit(0), needs_range: bit(0) && bit(1) };
                    let overlap = Overlap {
                        write_through: bit(2),
                        is_behind: bit(3),
                        partly: bit(4),
                        writing: bit(5),
                        early: bit(5) && bit(6),
                        open: u32::from(bit(7)),
                    };
                    let room = Room {
                        was_full: bit(8),
                        is_late: bit(9),
                        is_ordered: bit(10),
                        would_overtake: bit(10) && bit(11),
                        slots: if bit(11) { 100 } else { 1 },
                        has_range: bit(12),
                        ..levels[(bits >> 12) as usize % 4]
                    };
                    visit(&demand, &overlap, &room);
                }
            }
        }
    }

    #[test]
    fn no_combination_breaks_a_promise() {
        all(|demand, overlap, room| {
            let (decision, _) = decide(demand, overlap, room);
            let case = (demand, overlap, room, decision);
            let new = demand.new_blocks(overlap);
            let waits = overlap.write_through || overlap.early && demand.is_zeros;
            assert!(!waits || decision == Decision::Wait, "nothing overtakes: {case:?}");
            match decision {
                Decision::Absorb { throttle_blocks } => {
                    assert!(demand.barred.is_none() && !room.is_late, "{case:?}");
                    assert!(new == 0 || room.level.has_room_for(new), "C6: {case:?}");
                    assert!(throttle_blocks == 0 || room.level.is_pressed(), "{case:?}");
                }
                Decision::AbsorbOver => {
                    assert!(overlap.partly, "{case:?}");
                    assert!(new == 0 || room.level.has_hard_room_for(new), "C6: {case:?}");
                }
                Decision::WriteThrough(reason) => {
                    assert!(!overlap.partly && !overlap.writing && !overlap.is_behind, "{case:?}");
                    assert!(!room.would_overtake, "it would overtake a closed epoch: {case:?}");
                    assert!(demand.barred.is_none_or(|barred| barred == reason), "{case:?}");
                }
                Decision::Cut => assert!(demand.slots > 1 || demand.barred == Some(Reason::Large)),
                Decision::Wait => assert!(waits || overlap.writing || overlap.is_behind),
                Decision::WaitForRoom { urgent } => {
                    assert_eq!(urgent, overlap.partly, "{case:?}");
                    assert!(urgent || room.would_overtake, "{case:?}");
                }
            }
            if matches!(decision, Decision::Absorb { .. } | OVER) {
                assert!(demand.slots <= room.slots && !room.lacks_range(demand), "{case:?}");
                let claimed = demand.claim(overlap);
                assert_eq!(claimed, demand.slots, "what it takes is claimed: {case:?}");
            }
        });
    }
}
