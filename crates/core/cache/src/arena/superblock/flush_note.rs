//! The note of the backing's flush in the superblock: the facts about write-throughs that a
//! successor needs (C1).
//!
//! ```text
//!  63           40 39   16 15            4    3        2               1             0
//! | durable round | round | unheld changes | doubt | unheld before | unheld since | sent |
//! ```
//!
//! A write-through is durable when a flush has succeeded that was sent after the change was
//! answered, and no flush that has failed in between waits to be mended. Until then a copy of it is
//! *held* in a clean slot, stamped with the round in which it was written, or it is *unheld*. A
//! round ends when a flush is sent. If a flush was sent and its result is not noted, a successor
//! cannot learn the result: the backing may have failed the flush and dropped the data that it
//! covered. So every successor writes the held copies again, and where something was unheld, it is
//! *in doubt*: the first flush of every client fails.
//!
//! The backing may have performed a change that it has not answered, so a change is held or unheld
//! from before it is sent: until its answer its copy has no round ([`Header::is_unanswered`]), and
//! an unheld change is counted.
//!
//! Older programs ignore this note: they neither hold copies nor record a doubt.

use super::FLUSH_NOTE_AT;
use crate::arena::{Arena, Header};

const SENT: u64 = 1;
const UNHELD_SINCE: u64 = 2;
const UNHELD_BEFORE: u64 = 4;
const DOUBT: u64 = 8;
/// One unanswered change without a held copy.
const UNHELD_CHANGE: u64 = 1 << 4;
/// The maximum count of them: once it is reached, the count no longer decreases.
const UNHELD_CHANGES: u64 = 0xfff << 4;
const ROUND_AT: u32 = 16;
const DURABLE_AT: u32 = 40;
const ROUNDS: u64 = 1 << 24;

/// Distinguishes the stamp of the first round from no stamp.
const STAMPED: u32 = 1 << 24;

/// The note, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FlushNote(u64);

impl FlushNote {
    fn round(self) -> u64 {
        self.0 >> ROUND_AT & (ROUNDS - 1)
    }

    fn durable_round(self) -> u64 {
        self.0 >> DURABLE_AT & (ROUNDS - 1)
    }

    fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    fn with_rounds(self, round: u64, durable: u64) -> FlushNote {
        let rest = self.0 & ((1 << ROUND_AT) - 1);
        FlushNote(rest | (round % ROUNDS) << ROUND_AT | (durable % ROUNDS) << DURABLE_AT)
    }

    /// Counts a change without a held copy that is about to be sent.
    fn begins_unheld(self) -> FlushNote {
        let is_full = self.0 & UNHELD_CHANGES == UNHELD_CHANGES;
        FlushNote(if is_full { self.0 } else { self.0 + UNHELD_CHANGE })
    }

    /// Counts its answer.
    fn ends_unheld(self) -> FlushNote {
        let counts = !matches!(self.0 & UNHELD_CHANGES, 0 | UNHELD_CHANGES);
        FlushNote(if counts { self.0 - UNHELD_CHANGE } else { self.0 })
    }

    /// Whether a write-through, answered or not, is neither durable nor held.
    fn has_unheld(self) -> bool {
        self.has(UNHELD_SINCE | UNHELD_BEFORE | UNHELD_CHANGES)
    }

    /// Notes that a flush is about to be sent, on which all data written until now depends.
    fn sent(self) -> FlushNote {
        let before = if self.has(UNHELD_SINCE) { UNHELD_BEFORE } else { 0 };
        let next = self.with_rounds(self.round() + 1, self.durable_round());
        FlushNote(next.0 & !UNHELD_SINCE | before | SENT)
    }

    /// Notes the backing's answer to the flush.
    fn answered(self, good: bool) -> FlushNote {
        if !good {
            return FlushNote(self.0 & !SENT);
        }
        let next = self.with_rounds(self.round(), self.round());
        FlushNote(next.0 & !(SENT | UNHELD_BEFORE))
    }

    /// Notes that a successor has made the held copies dirty; a flush that was in progress will
    /// never be answered.
    fn taken_over(self) -> FlushNote {
        let doubt = if self.has(SENT) && self.has_unheld() { DOUBT } else { 0 };
        // The backing may have performed a change that was in flight, and no flush has covered it.
        let since = if self.has(UNHELD_CHANGES) { UNHELD_SINCE } else { 0 };
        FlushNote(self.0 & !(SENT | UNHELD_CHANGES) | since | doubt)
    }

    fn is_unflushed(self, stamp: u32) -> bool {
        if stamp & STAMPED == 0 {
            return false;
        }
        let after = |round: u64| round.wrapping_sub(self.durable_round()) & (ROUNDS - 1);
        after(u64::from(stamp & !STAMPED)) <= after(self.round())
    }
}

impl Arena {
    fn flush_note(&self) -> FlushNote {
        FlushNote(self.load_word(FLUSH_NOTE_AT))
    }

    fn change_flush_note(&self, change: impl Fn(FlushNote) -> FlushNote) {
        self.update(FLUSH_NOTE_AT, |word| change(FlushNote(word)).0);
    }

    /// Notes that a flush of the backing is about to be sent. Only one is in progress at a time.
    pub(crate) fn note_flush_sent(&self) {
        self.change_flush_note(FlushNote::sent);
    }

    /// Notes the flush's result: before a client is answered, and after
    /// [`Arena::note_flush_failed`] if it failed. A good one covers nothing while an earlier one
    /// has failed and its loss is not mended: the backing may have dropped what both should cover.
    pub(crate) fn note_flush_answered(&self, good: bool) {
        let covers = good && !self.has_lost_flush();
        self.change_flush_note(|note| note.answered(covers));
    }

    /// Notes that the backing may have lost changes that no flush has covered: for a successor that
    /// equals a flush of them without a result.
    pub(crate) fn note_changes_lost(&self) {
        self.change_flush_note(|note| if note.has(SENT) { note } else { note.sent() });
    }

    /// Notes that a change which is about to be answered is neither durable nor held in memory.
    pub(crate) fn note_unheld(&self) {
        // The word is contended, so it is usually only read: nearly every such change finds the
        // note already set.
        if !self.flush_note().has(UNHELD_SINCE) {
            self.change_flush_note(|note| FlushNote(note.0 | UNHELD_SINCE));
        }
    }

    /// Notes that a change without a held copy is about to be sent.
    pub(crate) fn note_unheld_begins(&self) {
        self.change_flush_note(FlushNote::begins_unheld);
    }

    /// Notes that it was answered: after [`Arena::note_unheld`], if it is not durable.
    pub(crate) fn note_unheld_ends(&self) {
        self.change_flush_note(FlushNote::ends_unheld);
    }

    /// Notes that held copies count as dirty from now on.
    pub(crate) fn note_flush_taken_over(&self) {
        self.change_flush_note(FlushNote::taken_over);
    }

    /// Whether the first flush of every client must fail.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.flush_note().has(DOUBT)
    }

    /// Notes whether the first flush of every client must fail.
    pub(crate) fn note_doubt(&self, doubt: bool) {
        self.change_flush_note(|note| match doubt {
            true => FlushNote(note.0 | DOUBT),
            false => FlushNote(note.0 & !DOUBT),
        });
    }

    /// Whether a successor needs this note: a flush over changes that are not durable is in
    /// progress, or was when an earlier process was killed.
    pub(crate) fn must_outlive_process(&self, holds_copies: bool) -> bool {
        let note = self.flush_note();
        note.has(DOUBT) || note.has(SENT) && (holds_copies || note.has_unheld())
    }

    /// Whether the backing may have dropped changes of which memory has no held copy: a flush over
    /// them was in progress at a kill. A clean slot may then be newer than the backing.
    pub(crate) fn may_have_lost_changes(&self) -> bool {
        self.must_outlive_process(false)
    }

    /// Whether a change is neither durable nor held in memory.
    pub(crate) fn has_unheld(&self) -> bool {
        self.flush_note().has_unheld()
    }

    /// Returns the stamp for a copy of data that was written to the backing by now.
    pub(crate) fn round_stamp(&self) -> u32 {
        STAMPED | self.flush_note().round() as u32
    }

    /// Whether a copy with this stamp is not known to be durable.
    pub(crate) fn is_unflushed_stamp(&self, stamp: u32) -> bool {
        // Most clean slots have no stamp: the note is not read for them.
        stamp != 0 && self.flush_note().is_unflushed(stamp)
    }

    /// Whether this is the header of a clean slot whose block was written through and is not known
    /// to be durable.
    #[inline]
    pub(crate) fn is_unflushed(&self, header: &Header) -> bool {
        header.is_unanswered() || self.is_unflushed_stamp(header.stamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(note: FlushNote) -> u32 {
        STAMPED | note.round() as u32
    }

    #[test]
    fn a_copy_is_unflushed_until_a_flush_succeeds_that_was_sent_after_it() {
        // Also where the rounds wrap around.
        let mut note = FlushNote(0).with_rounds(ROUNDS - 100, ROUNDS - 100);
        for _ in 0..200 {
            let before = stamp(note);
            assert!(note.is_unflushed(before) && !note.is_unflushed(0));
            let sent = note.sent();
            let beside = stamp(sent);
            assert!(sent.is_unflushed(before) && sent.is_unflushed(beside));
            let failed = sent.answered(false);
            assert!(failed.is_unflushed(before) && failed.is_unflushed(beside));
            note = failed.sent().answered(true);
            assert!(!note.is_unflushed(before) && !note.is_unflushed(beside));
        }
    }

    #[test]
    fn an_unheld_change_leaves_doubt_from_before_its_sending_until_it_was_flushed() {
        let under_way = FlushNote(0).begins_unheld();
        assert!(!under_way.taken_over().has(DOUBT), "no flush was under way");
        assert!(under_way.sent().taken_over().has(DOUBT));
        assert!(FlushNote(0).sent().begins_unheld().taken_over().has(DOUBT));
        let outlived = under_way.sent().answered(true);
        assert!(outlived.sent().taken_over().has(DOUBT), "no flush covers what is not answered");
        assert!(!outlived.ends_unheld().sent().taken_over().has(DOUBT), "it was durable");
        let next = under_way.taken_over();
        assert!(!next.has(UNHELD_CHANGES) && next.sent().taken_over().has(DOUBT));
        assert!(!next.sent().answered(true).sent().taken_over().has(DOUBT));
    }

    #[test]
    fn more_unheld_changes_than_can_be_counted_never_count_as_none() {
        let many = (0..5000).fold(FlushNote(0).sent(), |note, _| note.begins_unheld());
        let ended = (0..5000).fold(many, |note, _| note.ends_unheld());
        assert!(ended.taken_over().has(DOUBT) && ended.round() == many.round());
        let few = (0..4000).fold(FlushNote(0).sent(), |note, _| note.begins_unheld());
        let ended = (0..4000).fold(few, |note, _| note.ends_unheld());
        assert_eq!(ended, FlushNote(0).sent());
    }

    #[test]
    fn a_killed_flush_leaves_doubt_only_where_something_was_unheld() {
        let unheld = |note: FlushNote| FlushNote(note.0 | UNHELD_SINCE);
        assert!(!FlushNote(0).sent().taken_over().has(DOUBT), "everything was held");
        assert!(!unheld(FlushNote(0)).taken_over().has(DOUBT), "no flush was under way");
        assert!(unheld(FlushNote(0)).sent().taken_over().has(DOUBT));
        assert!(unheld(FlushNote(0).sent()).taken_over().has(DOUBT), "written beside the flush");
        let covered = unheld(FlushNote(0)).sent().answered(true);
        assert!(!covered.sent().taken_over().has(DOUBT), "an earlier flush has covered it");
        let failed = unheld(FlushNote(0)).sent().answered(false);
        assert!(failed.sent().taken_over().has(DOUBT));
        let beside = unheld(FlushNote(0).sent()).answered(true);
        assert!(
            beside.sent().taken_over().has(DOUBT),
            "the flush that was under way covers nothing"
        );
    }
}
