//! The fence of changes to an export: which change may be sent when, and which flush may succeed.
//!
//! A server executes a change when it likes, also after the connection that carried it has ended.
//! Only the answer shows that a change is over. So each change is entered in a table before it is
//! sent, and removed after its answer. When its connection ends, the entry becomes a *fence*:
//!
//! ```text
//!   free --begin--> sent --answered--> free
//!                     | the connection has ended
//!                     v
//!                  fenced --settle time--> settled --good flush--> free
//! ```
//!
//! The request itself is sent again, with the same bytes, on another connection: whenever the
//! server executes the old copy, it writes those bytes. Other changes of the range are held until
//! the old copy cannot be executed any more: its answer has come after all, or [`SETTLE_NS`] have
//! passed (premise 5 of SEMANTICS.md).
//!
//! A change that was never answered may have been executed, and a server that restarts may lose it
//! without a sign. So its entry stays after the settle time, and no cache may keep data that was
//! read in its range ([`Fence::may_keep`]), until a flush that began afterwards has succeeded: the
//! contents that the server shows from then on are durable.
//!
//! The same holds for answered changes that no flush covers when their session ends. They count as
//! lost, but a server that was not restarted still has them, and may lose them later without a
//! sign. So a settled entry for the whole export stays until the next good flush. One slot is
//! always free for it.
//!
//! Flushes have a connection of their own, the *anchor*, which is made before the connection of
//! changes. A *session* is the life of an anchor. As long as the anchor answers, the server was not
//! restarted since its start, so a flush on the anchor covers the changes that any connection of
//! the session has carried. If the anchor ends, a server may have been restarted and have lost its
//! volatile cache: answered changes that no flush covers count as a *loss*, and the next flush
//! fails.
//!
//! The state lies in memory that a holder retains ([`Table`]), so that a next process continues
//! with it. This module is synchronous; it uses neither sockets nor clocks.

pub mod planted;
mod table;

pub use table::{Export, TABLE_BYTES};

use block::{Extent, Memory};
use planted::{Bug, planted};
use std::collections::VecDeque;
use std::sync::Arc;
use table::{Entry, Field, SLOTS, State, Table};

/// Time after the end of a connection from which on a server executes none of its requests any
/// more.
pub const SETTLE_NS: u64 = 30_000_000_000;
/// Maximum number of changes that are sent and not answered.
pub const SENT_MAX: usize = 64;
/// Instead of the number of a request: the entry only holds changes. Its request was answered on
/// another connection, or there is none.
const ANSWERED: u64 = u64::MAX;
/// Slots that no change takes ([`Fence::session_ends`]).
const SLOTS_SPARE: usize = 1;

/// Result of [`Fence::begin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Begin {
    /// The change is in the table: send it.
    Sent(Sent),
    /// It may not be sent before this time, in nanoseconds. Try again then.
    Held(u64),
    /// As many changes as possible are sent. Try again after an answer.
    Full,
}

/// One copy of a change that is in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Sent {
    slot: usize,
    copy: u64,
    session: u64,
    is_durable: bool,
}

impl Sent {
    /// Returns its slot of the table, by which a next process finds it: part of its cookie.
    pub fn slot(&self) -> usize {
        self.slot
    }
}

/// A flush that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct FlushMark {
    answered: u64,
    losses: u64,
    session: u64,
    /// The number of the last entry that had settled.
    settled: u64,
}

/// Answered changes were lost, or may have been: the flush must fail. Later flushes do not fail for
/// the same loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost;

/// The fence of one export, for the process that serves it.
pub struct Fence {
    table: Table,
    /// The copy in each slot; 0: of an earlier process, or none.
    copies: Vec<u64>,
    /// The request in each slot; 0: of an earlier process, or none; or [`ANSWERED`].
    requests: Vec<u64>,
    free: Vec<usize>,
    /// The slots of fences.
    fenced: Vec<usize>,
    /// The slots that wait for a flush after the settle time, each with a number that grows.
    settled: VecDeque<(u64, usize)>,
    settled_count: u64,
    /// Whether executed changes need a flush to be durable.
    needs_flush: bool,
    sent: usize,
    copies_begun: u64,
    requests_begun: u64,
    session: u64,
    /// Only with a planted bug: an entry that is written late.
    late: Option<(usize, Entry)>,
}

impl Fence {
    /// Creates the fence of an export, in fresh memory of [`TABLE_BYTES`].
    pub fn new(memory: &Arc<Memory>, export: Export) -> Fence {
        let mut fence = Fence::over(Table::new(memory, export));
        fence.free.extend((0..SLOTS).rev());
        fence
    }

    /// Continues with the memory of an earlier process. Its changes without an answer count as sent
    /// until [`Fence::changes_end`]. None: the memory is damaged, of another version, or of another
    /// export.
    pub fn adopt(memory: &Arc<Memory>, export: Export, now_ns: u64) -> Option<Fence> {
        let mut fence = Fence::over(Table::adopt(memory, export)?);
        for slot in (0..SLOTS).rev() {
            match fence.table.entry(slot)?.state {
                State::Sent if planted(Bug::SkipOldAnswers) => fence.release(slot),
                State::Free => fence.free.push(slot),
                State::Sent => fence.sent += 1,
                State::Fenced { until_ns } => {
                    let until_ns = until_ns.min(now_ns.saturating_add(SETTLE_NS));
                    fence.fence(slot, until_ns);
                }
            }
        }
        (fence.sent <= SENT_MAX).then_some(fence)
    }

    fn over(table: Table) -> Fence {
        Fence {
            table,
            copies: vec![0; SLOTS],
            requests: vec![0; SLOTS],
            free: Vec::with_capacity(SLOTS),
            fenced: Vec::with_capacity(SLOTS),
            settled: VecDeque::with_capacity(SLOTS),
            settled_count: 0,
            needs_flush: true,
            sent: 0,
            copies_begun: 0,
            requests_begun: 0,
            session: 0,
            late: None,
        }
    }

    /// Notes that executed changes of this export are durable without a flush.
    pub fn needs_no_flush(&mut self) {
        self.needs_flush = false;
    }

    /// Returns the number of a new request, for [`Fence::begin`].
    pub fn request(&mut self) -> u64 {
        self.requests_begun += 1;
        self.requests_begun
    }

    /// Enters a copy of a change, if it may be sent now. `request` is its number: copies of one
    /// request have the same range and the same bytes. `is_durable`: its answer shows that it is
    /// durable.
    pub fn begin(&mut self, at: Extent, is_durable: bool, request: u64, now_ns: u64) -> Begin {
        self.write_late();
        self.expire(now_ns);
        if let Some(until_ns) = self.held_until(at, request) {
            return Begin::Held(until_ns);
        }
        if self.sent == SENT_MAX {
            return Begin::Full;
        }
        let Some(slot) = self.take_slot() else {
            return Begin::Held(self.first_end().unwrap_or(now_ns));
        };
        let (first, sectors) = (at.first, u64::from(at.count));
        let entry = Entry { first, sectors, is_durable, state: State::Sent };
        match planted(Bug::EnterAfterSend) {
            true => self.late = Some((slot, entry)),
            false => self.table.put(slot, entry),
        }
        self.copies_begun += 1;
        (self.copies[slot], self.requests[slot]) = (self.copies_begun, request);
        self.sent += 1;
        Begin::Sent(Sent { slot, copy: self.copies_begun, session: self.session, is_durable })
    }

    /// Handles the answer to a copy, with or without an error of the server. The copy is over.
    pub fn answered(&mut self, copy: Sent) {
        self.write_late();
        self.count_answer(copy.is_durable, copy.session == self.session);
        if self.copies[copy.slot] == copy.copy {
            let request = self.requests[copy.slot];
            self.end(copy.slot);
            self.request_ends(request);
        }
    }

    /// Handles an answer to a change of an earlier process, by its slot. False: there is no such
    /// change.
    pub fn answered_earlier(&mut self, slot: usize) -> bool {
        let entry = (slot < SLOTS && self.copies[slot] == 0).then(|| self.table.entry(slot));
        match entry.flatten() {
            Some(Entry { state: State::Sent, is_durable, .. }) => {
                self.count_answer(is_durable, true);
                self.end(slot);
                true
            }
            _ => false,
        }
    }

    /// Handles the end of the connection of changes: no more answers come, and its changes may
    /// still be executed.
    pub fn changes_end(&mut self, now_ns: u64) {
        self.write_late();
        let until_ns = match planted(Bug::EndFenceEarly) {
            true => now_ns,
            false => now_ns.saturating_add(SETTLE_NS),
        };
        for slot in 0..SLOTS {
            if self.state(slot) == State::Sent {
                self.release_older(self.requests[slot]);
                self.sent -= 1;
                self.fence(slot, until_ns);
            }
        }
    }

    /// Handles the end of the anchor, and with it of the connection of changes: the server may have
    /// been restarted.
    pub fn session_ends(&mut self, now_ns: u64) {
        if self.has_unflushed() {
            self.doubt_all();
            if !planted(Bug::ForgetLostChanges) {
                self.table.add(Field::Losses);
            }
        }
        self.table.set(Field::Flushed, self.table.get(Field::Answered));
        self.session += 1;
        self.changes_end(now_ns);
    }

    /// Handles the connections of an earlier process whose answers this one cannot read, because
    /// the keys have ended with that process: none of its sent changes counts as answered, and its
    /// last flush not as done.
    pub fn abandon(&mut self, now_ns: u64) {
        if planted(Bug::TrustUnreadable) {
            for slot in 0..SLOTS {
                let _ = self.answered_earlier(slot);
            }
        }
        self.session_ends(now_ns);
    }

    /// Begins a flush, which is then sent on the anchor.
    ///
    /// # Errors
    /// Changes were lost that no flush has reported.
    pub fn flush_begins(&mut self, now_ns: u64) -> Result<FlushMark, Lost> {
        self.report(self.table.get(Field::Reported))?;
        if planted(Bug::FlushedAtBegin) {
            self.table.set(Field::Flushed, self.table.get(Field::Answered));
        }
        Ok(self.mark(now_ns))
    }

    /// Marks the changes that a flush covers which no client has requested: it reports no loss.
    pub fn mark(&mut self, now_ns: u64) -> FlushMark {
        self.expire(now_ns);
        FlushMark {
            answered: self.table.get(Field::Answered),
            losses: self.table.get(Field::Losses),
            session: self.session,
            settled: self.settled_count,
        }
    }

    /// Handles the answer to a flush. `is_done`: without an error of the server.
    ///
    /// # Errors
    /// Changes were lost since the flush began.
    pub fn flush_ends(&mut self, mark: FlushMark, is_done: bool) -> Result<(), Lost> {
        self.report(mark.losses)?;
        if is_done && mark.session == self.session {
            let flushed = self.table.get(Field::Flushed).max(mark.answered);
            self.table.set(Field::Flushed, flushed);
            self.cover(mark.settled);
        }
        Ok(())
    }

    /// Whether a cache may keep data that a read of these sectors returns, if the read is sent
    /// after this call. Only valid once the connections of an earlier process have ended.
    pub fn may_keep(&self, at: Extent) -> bool {
        let is_unanswered = |slot: &usize| self.requests[*slot] != ANSWERED;
        let fenced = self.fenced.iter().copied().filter(is_unanswered);
        let slots = fenced.chain(self.settled.iter().map(|(_, slot)| *slot));
        let mut entries = slots.filter_map(|slot| self.table.entry(slot));
        planted(Bug::KeepUnanswered) || !entries.any(|entry| entry.overlaps(at))
    }

    /// Whether changes were lost that no flush has reported.
    pub fn has_loss(&self) -> bool {
        self.table.get(Field::Losses) != self.table.get(Field::Reported)
    }

    /// Notes that the losses until now are reported, to a cache that writes the changes again.
    pub fn note_reported(&mut self) {
        self.table.set(Field::Reported, self.table.get(Field::Losses));
    }

    /// Counts a loss, for changes of an earlier process about which nothing is known.
    pub fn lose(&mut self) {
        self.table.add(Field::Losses);
    }

    /// Holds all changes of the export for the settle time, because nothing is known about the
    /// changes of an earlier process.
    pub fn hold_all(&mut self, sectors: u64, until_ns: u64) {
        let Some(slot) = self.free.pop() else { return };
        let state = State::Fenced { until_ns };
        self.table.put(slot, Entry { first: 0, sectors, is_durable: false, state });
        (self.copies[slot], self.requests[slot]) = (0, ANSWERED);
        self.fenced.push(slot);
    }

    /// Whether answered changes exist that no flush covers.
    pub fn has_unflushed(&self) -> bool {
        self.table.get(Field::Answered) > self.table.get(Field::Flushed)
    }

    /// Number of changes that are sent and not answered.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Number of copies of changes that ended connections have left within the settle time.
    pub fn fences(&mut self, now_ns: u64) -> usize {
        self.expire(now_ns);
        self.fenced.len()
    }

    /// Returns the time from which on no change of an ended connection can be executed any more.
    /// None: that is so now.
    pub fn settled_at(&mut self, now_ns: u64) -> Option<u64> {
        self.expire(now_ns);
        self.ends().max()
    }

    /// Records the sockets of the present connections, by the kernel's cookies; 0: none.
    pub fn set_sockets(&self, sockets: Sockets) {
        self.table.set(Field::ChangesSocket, sockets.changes);
        self.table.set(Field::AnchorSocket, sockets.anchor);
    }

    /// Returns the sockets that were recorded last.
    pub fn sockets(&self) -> Sockets {
        Sockets {
            changes: self.table.get(Field::ChangesSocket),
            anchor: self.table.get(Field::AnchorSocket),
        }
    }

    /// Returns an error if there are more losses than `known`, which are then reported.
    fn report(&mut self, known: u64) -> Result<(), Lost> {
        let losses = self.table.get(Field::Losses);
        if losses == known {
            return Ok(());
        }
        self.table.set(Field::Reported, losses);
        Err(Lost)
    }

    fn count_answer(&mut self, is_durable: bool, is_of_session: bool) {
        match (is_durable, is_of_session) {
            (true, _) => {}
            (false, true) => self.table.add(Field::Answered),
            // The answer was on its way when the session ended.
            (false, false) => {
                self.doubt_all();
                self.table.add(Field::Losses);
            }
        }
    }

    fn state(&self, slot: usize) -> State {
        self.table.entry(slot).map_or(State::Free, |entry| entry.state)
    }

    /// Ends a copy that is over.
    fn end(&mut self, slot: usize) {
        if !self.take_ended(slot) {
            self.sent -= 1;
        }
        self.release(slot);
    }

    /// Takes a slot out of those whose connections have ended. False: it is none of them.
    fn take_ended(&mut self, slot: usize) -> bool {
        if let Some(index) = self.fenced.iter().position(|&fenced| fenced == slot) {
            self.fenced.swap_remove(index);
            return true;
        }
        let index = self.settled.iter().position(|(_, settled)| *settled == slot);
        index.and_then(|index| self.settled.remove(index)).is_some()
    }

    /// Handles the answer to a request: all its copies write the same bytes, which a flush covers
    /// as those of each answered change.
    fn request_ends(&mut self, request: u64) {
        for &slot in &self.fenced {
            if self.requests[slot] == request {
                self.requests[slot] = ANSWERED;
            }
        }
        self.release_older(request);
    }

    fn release(&mut self, slot: usize) {
        self.table.set_state(slot, State::Free);
        (self.copies[slot], self.requests[slot]) = (0, 0);
        self.free.push(slot);
    }

    fn fence(&mut self, slot: usize, until_ns: u64) {
        self.table.set_state(slot, State::Fenced { until_ns });
        self.fenced.push(slot);
    }

    /// Releases the entry of an earlier copy of this request: a later one replaces it.
    fn release_older(&mut self, request: u64) {
        let settled = self.settled.iter().map(|(_, slot)| *slot);
        let mut ended = self.fenced.iter().copied().chain(settled);
        let older = ended.find(|&slot| request != 0 && self.requests[slot] == request);
        if let Some(slot) = older {
            self.end(slot);
        }
    }

    /// Lets fences settle whose time is over.
    fn expire(&mut self, now_ns: u64) {
        let mut index = 0;
        while let Some(&slot) = self.fenced.get(index) {
            match self.state(slot) {
                State::Fenced { until_ns } if until_ns > now_ns => index += 1,
                _ => {
                    self.fenced.swap_remove(index);
                    match self.needs_flush && self.requests[slot] != ANSWERED {
                        true => self.settle(slot),
                        false => self.release(slot),
                    }
                }
            }
        }
    }

    /// Lets an entry wait for a flush that begins from now on.
    fn settle(&mut self, slot: usize) {
        self.settled_count += 1;
        self.settled.push_back((self.settled_count, slot));
    }

    /// Releases the settled entries up to this number: a flush covers their changes.
    fn cover(&mut self, settled: u64) {
        while let Some(&(number, slot)) = self.settled.front()
            && number <= settled
        {
            self.settled.pop_front();
            self.release(slot);
        }
    }

    /// Takes a free slot, if there are two or settled entries can be merged.
    fn take_slot(&mut self) -> Option<usize> {
        if self.free.len() <= SLOTS_SPARE && self.settled.len() > 1 {
            self.merge_settled();
        }
        (self.free.len() > SLOTS_SPARE).then(|| self.free.pop()).flatten()
    }

    /// Lets no data be kept, wherever it is read, until a flush succeeds that begins from now on.
    fn doubt_all(&mut self) {
        if planted(Bug::KeepAfterLoss) {
            return;
        }
        if !self.settled.is_empty() {
            return self.merge_settled();
        }
        // The table of an older program may be full. Then a fence becomes one of the whole export.
        let slot = self.free.pop().or_else(|| self.fenced.pop());
        let Some(slot) = slot else { return };
        let is_fence = matches!(self.state(slot), State::Fenced { .. });
        let until_ns = self.table.entry(slot).and_then(until).filter(|_| is_fence).unwrap_or(0);
        self.doubt_in(slot, until_ns);
        match is_fence {
            true => self.fenced.push(slot),
            false => self.settle(slot),
        }
    }

    /// Makes this slot an entry of no request, for the whole export.
    fn doubt_in(&mut self, slot: usize, until_ns: u64) {
        let (sectors, state) = (self.table.sectors(), State::Fenced { until_ns });
        self.table.put(slot, Entry { first: 0, sectors, is_durable: false, state });
        (self.copies[slot], self.requests[slot]) = (0, 0);
    }

    /// Replaces the settled entries by one for the whole export, which waits for a new flush. A
    /// free slot takes it if there is one: after a kill between two stores to a slot in use, a
    /// next process would find neither the old range nor the new one.
    fn merge_settled(&mut self) {
        let oldest = |settled: &mut VecDeque<(u64, usize)>| Some(settled.pop_front()?.1);
        let Some(slot) = self.free.pop().or_else(|| oldest(&mut self.settled)) else { return };
        self.doubt_in(slot, 0);
        self.cover(self.settled_count);
        self.settle(slot);
    }

    /// Returns the end of the last fence that holds a request. None: no fence does.
    fn held_until(&self, at: Extent, request: u64) -> Option<u64> {
        if planted(Bug::ResendOtherBytes) {
            return None;
        }
        let others = self.fenced.iter().filter(|&&slot| self.requests[slot] != request);
        let entries = others.filter_map(|&slot| self.table.entry(slot));
        entries.filter(|entry| entry.overlaps(at)).filter_map(until).max()
    }

    fn ends(&self) -> impl Iterator<Item = u64> {
        self.fenced.iter().filter_map(|&slot| until(self.table.entry(slot)?))
    }

    fn first_end(&self) -> Option<u64> {
        self.ends().min()
    }

    /// Writes the entry that a planted bug has left out.
    fn write_late(&mut self) {
        if let Some((slot, entry)) = self.late.take() {
            self.table.put(slot, entry);
        }
    }
}

fn until(entry: Entry) -> Option<u64> {
    match entry.state {
        State::Fenced { until_ns } => Some(until_ns),
        _ => None,
    }
}

/// Sockets of an export, by the kernel's cookies (`SO_COOKIE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sockets {
    /// That of the changes.
    pub changes: u64,
    /// That of the flushes.
    pub anchor: u64,
}

#[cfg(test)]
mod tests;
