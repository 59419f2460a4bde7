//! Requests to a pool, and the contents that it may therefore show, slot by slot.

use crash::{INITIAL, Operation, ZERO, decode};
use pool::SLOT_SECTORS;

const NEVER: u64 = u64::MAX;

/// A change of one slot.
#[derive(Clone, Debug)]
struct Version {
    operation: Operation,
    /// Whether it leaves zeros.
    zeros: bool,
    sent: u64,
    answered: u64,
    /// Whether a flush that covers it was answered with success.
    durable: bool,
    /// Whether a flush that may have covered it has failed.
    excused: bool,
}

/// All changes of all slots.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    slots: Vec<Vec<Version>>,
    clock: u64,
    operation: Operation,
    /// Whether requests may fail in this life: errors are answers, too.
    pub(crate) faulty: bool,
}

/// Contents seen in a slot; None: it could not be read.
pub(crate) type Seen = Option<Operation>;

/// Returns the contents of one slot's bytes.
pub(crate) fn seen_in(bytes: &[u8], slot: u32) -> Result<Operation, String> {
    let mut seen = None;
    for (index, stamp) in bytes.chunks_exact(crash::GRAIN).enumerate() {
        let sector = slot * SLOT_SECTORS + index as u32;
        let found = decode(stamp, sector).map_err(|wrong| format!("slot {slot}: {wrong:?}"))?;
        if *seen.get_or_insert(found) != found {
            return Err(format!("slot {slot} is torn: {seen:?} and {found}"));
        }
    }
    seen.filter(|seen| *seen != INITIAL).ok_or(format!("slot {slot} shows what was never written"))
}

impl Book {
    /// Returns the book of a pool of this many slots, all of them never written.
    pub(crate) fn new(slots: u32) -> Book {
        let slots = (0..slots).map(|_| Vec::new()).collect();
        let mut book = Book { slots, clock: 1, operation: crash::FIRST, faulty: false };
        book.begin(&vec![Some(ZERO); book.slots.len()]);
        book
    }

    /// Begins a new life: the contents seen are durable.
    pub(crate) fn begin(&mut self, seen: &[Seen]) {
        for (versions, seen) in self.slots.iter_mut().zip(seen) {
            let operation = seen.unwrap_or(ZERO);
            let base = Version {
                operation,
                zeros: operation == ZERO,
                sent: 0,
                answered: 0,
                durable: true,
                excused: false,
            };
            *versions = vec![base];
            if seen.is_none() {
                // Lost for good: until it is written again, nothing is promised.
                versions[0].durable = false;
            }
        }
    }

    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Notes that a change is sent; returns the name of its stamps.
    pub(crate) fn sent(&mut self, slot: u32, count: u32, zeros: bool) -> Operation {
        self.operation += 1;
        let (operation, sent) = (self.operation, self.tick());
        for versions in &mut self.slots[slot as usize..(slot + count) as usize] {
            let answered = NEVER;
            let (durable, excused) = (false, false);
            versions.push(Version { operation, zeros, sent, answered, durable, excused });
        }
        operation
    }

    /// Notes that it was answered with success; with `durable`, it is durable, too.
    pub(crate) fn answered(&mut self, operation: Operation, durable: bool) {
        let now = self.tick();
        for version in self.slots.iter_mut().flatten().filter(|it| it.operation == operation) {
            version.answered = now;
            version.durable |= durable;
        }
    }

    /// Notes that a flush sent at this tick was answered.
    pub(crate) fn flushed(&mut self, sent: u64, good: bool) {
        let now = self.tick();
        for version in self.slots.iter_mut().flatten() {
            if good && version.answered < sent && !version.excused {
                version.durable = true;
            }
            version.excused |= !good && version.sent < now;
        }
    }

    fn judge(
        &self,
        slot: u32,
        seen: Seen,
        replaces: impl Fn(&Version) -> bool,
    ) -> Result<(), String> {
        let Some(seen) = seen else {
            return if self.faulty { Ok(()) } else { Err(format!("slot {slot} cannot be read")) };
        };
        let versions = &self.slots[slot as usize];
        let shows = |it: &&Version| if it.zeros { seen == ZERO } else { seen == it.operation };
        let may_show = |it: &Version| {
            !versions.iter().any(|newer| replaces(newer) && newer.sent > it.answered)
        };
        if versions.iter().filter(shows).any(may_show) {
            return Ok(());
        }
        Err(format!("slot {slot} shows {seen}, after {versions:?}"))
    }

    /// Checks whether a slot may hold this after a power cut.
    pub(crate) fn judge_crash(&self, slot: u32, seen: Seen) -> Result<(), String> {
        self.judge(slot, seen, |newer| newer.durable)
    }

    /// Checks whether a read sent at this tick may return this.
    pub(crate) fn judge_read(&self, slot: u32, seen: Seen, sent: u64) -> Result<(), String> {
        self.judge(slot, seen, |newer| newer.answered < sent)
    }
}
