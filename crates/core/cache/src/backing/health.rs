//! The state of the backing's health, and of data that it may have lost (C8).
//!
//! ```text
//!   sent       a write-through is sent             unkept     if the next flush fails, it is lost
//!   written    a change or a run was answered      unflushed  there is something to flush
//!   flush      succeeds                            kept       what was unkept when it was sent
//!              fails                               tainted    held data is written again
//!              fails, and something was unkept     lost       the volume fails: nothing can be
//!                                                             written again
//!   retries    last for longer than retry_time     failed
//!   operator   clears the error                    well, and tainted data is written again
//! ```
//!
//! Every flag is read without a lock, while tasks of other lanes change it. So the order of two
//! stores is part of a transition; where it matters, the comment of the transition says so.

use crate::arena::Arena;
use crate::arena::superblock::Condition;
use crate::epochs::Epochs;
use crate::planted::{Bug, planted};
use crate::stats::counters::Counters;
use block::{Error, Kind, Request, Result};
use lane::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(crate) const TAINTED: Error =
    Error::new(Kind::Io, "flush: the flush of an earlier FUA write failed");

pub(crate) const IN_DOUBT: Error = Error::new(
    Kind::Io,
    "flush: an earlier process was killed during a flush of the backing, whose result is unknown; \
     writes before it may be lost",
);

/// The time after a takeover in doubt within which affected clients may return: they reconnect
/// within moments, or within their timeout for a server.
const DOUBT_NS: u64 = 600_000_000_000;

const CLEARED: Error = Error::new(
    Kind::Io,
    "flush: the volume failed while this flush waited, and the operator has cleared the error",
);

/// Errors of the backing, by kind of request.
#[derive(Debug, Default)]
struct Errors {
    reads: AtomicU64,
    writes: AtomicU64,
    zeroes: AtomicU64,
    discards: AtomicU64,
    flushes: AtomicU64,
}

/// The state of the backing's health.
#[derive(Debug)]
pub(crate) struct Health {
    /// Facts that must outlive the process are recorded here, before a client can see them.
    arena: Arena,
    /// Mirrors `epochs.failed`, for the hot paths.
    failed: AtomicBool,
    /// The number of times the failed state was cleared.
    cleared: AtomicU64,
    /// Something may have been written since the last successful flush.
    unflushed: AtomicBool,
    /// The number of notes of write-throughs, which cannot be written again from here ...
    unkept: AtomicU64,
    /// ... and how many of them the backing's last successful flush covers. A flush in flight
    /// changes neither: another one may fail meanwhile.
    kept: AtomicU64,
    /// A flush has failed while a note was not covered, and the engine has not yet acted on it.
    lost: AtomicBool,
    /// A flush of the backing has failed, and the engine has not yet acted on it.
    tainted: AtomicBool,
    /// The operator has cleared an error after a failed flush on which no commit had acted: written
    /// data must be written again.
    rewrite: AtomicBool,
    /// The arena is from an earlier process. Its write-throughs may be in the backing's volatile
    /// cache, and belong before all data that is written back now: flush the backing first (C2,
    /// C7).
    flush_first: AtomicBool,
    /// Flushes of the backing that have failed.
    flush_failures: AtomicU64,
    errors: Errors,
    /// When the first client came after a takeover in doubt, plus one; 0: none has.
    doubt_since: AtomicU64,
    /// Clients whose first flush must still fail.
    doubting: AtomicU32,
    /// The volume was taken over in doubt about an order, and has failed because of that.
    order_in_doubt: AtomicBool,
    /// Flushes that were answered with [`IN_DOUBT`].
    flushes_doubted: AtomicU64,
}

/// A flush of the backing that makes an epoch durable: the state before it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushBegun {
    /// [`Arena::flushes_failed`].
    failed_before: u64,
}

impl Health {
    /// Makes the health of a backing about which nothing is known yet.
    pub(crate) fn new(arena: Arena) -> Health {
        Health {
            arena,
            failed: AtomicBool::new(false),
            cleared: AtomicU64::new(0),
            // The previous user of the backing may not have flushed it.
            unflushed: AtomicBool::new(true),
            // An earlier process may have acknowledged a write-through.
            unkept: AtomicU64::new(u64::from(!planted(Bug::ForgiveFirstFlush))),
            kept: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            tainted: AtomicBool::new(false),
            rewrite: AtomicBool::new(false),
            flush_first: AtomicBool::new(false),
            flush_failures: AtomicU64::new(0),
            errors: Errors::default(),
            doubt_since: AtomicU64::new(0),
            doubting: AtomicU32::new(0),
            order_in_doubt: AtomicBool::new(false),
            flushes_doubted: AtomicU64::new(0),
        }
    }

    /// Adds the counters of errors.
    pub(crate) fn count(&self, all: &mut Counters) {
        let load = |errors: &AtomicU64| errors.load(Ordering::Relaxed);
        all.errors_read = load(&self.errors.reads);
        all.errors_write = load(&self.errors.writes);
        all.errors_zero = load(&self.errors.zeroes);
        all.errors_discard = load(&self.errors.discards);
        all.errors_flush = load(&self.errors.flushes);
        all.failed = u64::from(self.has_failed());
        all.flushes_doubted = self.flushes_doubted.load(Ordering::Relaxed);
    }

    /// Counts a read, or a query of the allocation status, that the backing has answered with an
    /// error.
    pub(crate) fn count_read_error(&self) {
        self.errors.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counter of errors of such a request.
    pub(crate) fn errors_of(&self, request: &Request) -> &AtomicU64 {
        match request {
            Request::Read { .. } | Request::Advise { .. } => &self.errors.reads,
            Request::Write { .. } => &self.errors.writes,
            Request::Zero { .. } => &self.errors.zeroes,
            Request::Discard { .. } => &self.errors.discards,
            Request::Flush => &self.errors.flushes,
        }
    }
}

/// Transitions to the failed state and back.
impl Health {
    /// Whether the volume has failed (C8).
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Makes the volume fail, if it has not failed yet. The arena records that before a client can
    /// see it; the caller must then notify waiting tasks with `Shared::wake_all`.
    pub(crate) fn fail(&self, epochs: &mut Epochs, error: Error) {
        if epochs.fail(error) {
            self.arena.note_condition(Condition::Failed);
            self.failed.store(true, Ordering::SeqCst);
        }
    }

    /// Clears the error on the operator's request. Returns false while a discard is in progress,
    /// which ends the error itself.
    pub(crate) fn clear(&self, epochs: &mut Epochs) -> bool {
        let cleared = epochs.clear_error();
        if cleared {
            // A commit that is still in progress acts on it.
            if !epochs.is_led() && self.tainted.swap(false, Ordering::SeqCst) {
                self.lost.store(false, Ordering::SeqCst);
                self.rewrite.store(true, Ordering::SeqCst);
            }
            self.note_well();
        }
        cleared
    }

    /// Forgets failed flushes: write-throughs were abandoned with all dirty data.
    pub(crate) fn give_up(&self) {
        self.tainted.store(false, Ordering::SeqCst);
        self.lost.store(false, Ordering::SeqCst);
        self.rewrite.store(false, Ordering::SeqCst);
    }

    /// Notes that the volume serves again. To be called in the section that decides it.
    pub(crate) fn note_well(&self) {
        self.cleared.fetch_add(1, Ordering::SeqCst);
        if self.order_in_doubt.load(Ordering::SeqCst) {
            // The operator has seen the doubt: a successor need not fail because of it again.
            self.arena.note_doubt(false);
        }
        self.arena.note_flushes_mended(self.arena.flushes_failed());
        self.arena.note_condition(Condition::Well);
        self.failed.store(false, Ordering::SeqCst);
    }

    /// The number of times the failed state was cleared. If two checks of a failed volume return
    /// the same number, the volume was failed all the time between them, and nothing was written to
    /// it.
    pub(crate) fn times_cleared(&self) -> u64 {
        self.cleared.load(Ordering::SeqCst)
    }

    /// Succeeds if no error was cleared since [`Health::times_cleared`] returned this number.
    /// Otherwise the volume had failed: write-throughs may be lost, among them the newest version
    /// of the data for which a task waits. Waiting tasks report an error even if they never saw the
    /// failure.
    pub(crate) fn unless_cleared(&self, cleared: u64) -> Result {
        match self.times_cleared() == cleared {
            true => Ok(()),
            false => Err(CLEARED),
        }
    }
}

/// Clients whose writes an earlier process may have lost (C1).
impl Health {
    /// Makes the volume fail: changes that were promised to precede all later ones may be lost, and
    /// clients need not send a flush that could report it.
    pub(crate) fn fail_in_doubt(&self, epochs: &mut Epochs, error: Error) {
        self.order_in_doubt.store(true, Ordering::SeqCst);
        self.fail(epochs, error);
    }

    fn is_in_doubt(&self) -> bool {
        self.arena.is_in_doubt() || self.order_in_doubt.load(Ordering::SeqCst)
    }

    /// Whether the first flush of a client that comes at `now_ns` must fail. If so,
    /// [`Health::doubt_ends`] is called once: when the flush has failed, or the client has gone.
    pub(crate) fn doubts_client(&self, now_ns: u64) -> bool {
        if !self.is_in_doubt() {
            return false;
        }
        let first =
            self.doubt_since.compare_exchange(0, now_ns + 1, Ordering::Relaxed, Ordering::Relaxed);
        let since = first.map_or_else(|since| since - 1, |_| now_ns);
        let doubts = now_ns.saturating_sub(since) <= DOUBT_NS;
        self.doubting.fetch_add(u32::from(doubts), Ordering::SeqCst);
        doubts
    }

    /// Ends the doubt of a client: its first flush was answered with [`IN_DOUBT`], or it left
    /// without one.
    pub(crate) fn doubt_ends(&self, is_answered: bool) {
        self.flushes_doubted.fetch_add(u64::from(is_answered), Ordering::Relaxed);
        self.doubting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ends the doubt when no more clients can come whose flush must fail. Otherwise a flush of
    /// each client would fail after every later takeover. While a client has not flushed yet, the
    /// doubt stays.
    pub(crate) fn settle_doubt(&self, now_ns: u64) {
        let since = self.doubt_since.load(Ordering::Relaxed);
        let is_over = since > 0 && now_ns.saturating_sub(since - 1) > DOUBT_NS;
        if is_over && self.is_in_doubt() && self.doubting.load(Ordering::SeqCst) == 0 {
            self.order_in_doubt.store(false, Ordering::SeqCst);
            self.arena.note_doubt(false);
        }
    }
}

/// Data that is written, and may be lost.
impl Health {
    /// Notes a write-through, before or after it is sent: no data here could restore it.
    pub(crate) fn note_unkept(&self) {
        self.unkept.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that something was written. To be called before the section that records the write's
    /// end: a flush after that section must see this note.
    pub(crate) fn note_written(&self) {
        self.unflushed.store(true, Ordering::SeqCst);
    }

    /// The number of failed flushes of the backing, for [`Health::has_kept`].
    pub(crate) fn flush_failures(&self) -> u64 {
        self.flush_failures.load(Ordering::SeqCst)
    }

    /// Whether no flush has failed since [`Health::flush_failures`] returned this number. A flush
    /// that failed while a write was in flight may have lost the write, which did not count as
    /// written yet. To be called in the section that records the write's end, or afterwards. Either
    /// the failed flush marks the blocks dirty again, or this check sees the failure.
    pub(crate) fn has_kept(&self, failures: u64) -> bool {
        self.flush_failures() == failures
    }

    /// Records a failed flush of the backing, whatever its purpose.
    pub(crate) fn flush_failed(&self) {
        // Immediately: after a kill now, a successor must not trust a flush of its own.
        self.arena.note_flush_failed();
        // Before the store of `tainted`: a write that ends too early to see this count is marked
        // dirty by the task that acts on `tainted`.
        self.flush_failures.fetch_add(1, Ordering::SeqCst);
        // Here, and not when a commit acts on it: a good flush until then would cover the notes.
        if self.unkept.load(Ordering::SeqCst) > self.kept.load(Ordering::SeqCst) {
            self.lost.store(true, Ordering::SeqCst);
        }
        self.tainted.store(true, Ordering::SeqCst);
    }

    /// The number of [notes][`Health::note_unkept`] that a flush covers which is sent now.
    pub(crate) fn unkept(&self) -> u64 {
        self.unkept.load(Ordering::SeqCst)
    }

    /// Records a successful flush of the backing, whatever its purpose, that covers this number of
    /// notes.
    pub(crate) fn flush_succeeded(&self, unkept: u64) {
        self.kept.fetch_max(unkept, Ordering::SeqCst);
    }

    /// Begins a flush of the backing that makes data durable. Returns None if there is nothing to
    /// flush. To be followed by [`Health::end_flush`].
    pub(crate) fn begin_flush(&self, is_needed: bool) -> Option<FlushBegun> {
        // Cleared before the flush begins: a write-through during the flush belongs to the next
        // one.
        let unflushed = self.unflushed.swap(false, Ordering::SeqCst);
        if !unflushed || !is_needed {
            return None;
        }
        Some(FlushBegun { failed_before: self.arena.flushes_failed() })
    }

    /// Ends that flush. Returns the result that can be trusted.
    pub(crate) fn end_flush(&self, begun: FlushBegun, mut result: Result) -> Result {
        // The flush of an FUA write may have failed before this one, and lost the data that this
        // one should make durable.
        if self.tainted.swap(false, Ordering::SeqCst) && result.is_ok() {
            result = Err(TAINTED);
        }
        if result.is_err() {
            self.unflushed.store(true, Ordering::SeqCst);
        } else {
            // If one of the failed flushes had lost data, the data was written again before this
            // flush.
            self.arena.note_flushes_mended(begun.failed_before);
        }
        result
    }

    /// Returns true once if a failed flush may have lost data that cannot be written again.
    pub(crate) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::SeqCst)
    }

    /// Returns true once if everything that was written must be written again, because the operator
    /// cleared an error.
    pub(crate) fn take_rewrite(&self) -> bool {
        self.rewrite.swap(false, Ordering::SeqCst)
    }

    /// Whether the backing must be flushed before any block of an epoch is sent, because of an
    /// earlier process.
    pub(crate) fn is_flush_first(&self) -> bool {
        self.flush_first.load(Ordering::SeqCst)
    }

    /// Sets or (after a flush) clears that the backing must be flushed first.
    pub(crate) fn set_flush_first(&self, first: bool) {
        self.flush_first.store(first, Ordering::SeqCst);
    }

    /// Whether no block of an epoch may be sent: the volume has failed, or the backing must be
    /// flushed first.
    pub(crate) fn must_not_send(&self) -> bool {
        self.has_failed() || self.is_flush_first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use alloc::sync::Arc;
    use block::{Kind, Memory};

    const ERROR: Error = Error::new(Kind::Io, "test");

    fn failed() -> (Health, Epochs) {
        let geometry = Geometry { slots: 8, region_blocks: 8, ..Geometry::default() };
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, 16)));
        let health = Health::new(Arena::from_memory(memory, &geometry, 16));
        let mut epochs = Epochs::new(1, 0, 0);
        health.tainted.store(true, Ordering::SeqCst);
        health.fail(&mut epochs, ERROR);
        (health, epochs)
    }

    #[test]
    fn what_is_tainted_when_the_error_is_cleared_is_to_be_written_again_once() {
        let (health, mut epochs) = failed();
        assert!(health.has_failed() && !health.take_rewrite());
        assert!(health.clear(&mut epochs) && !health.has_failed());
        assert!(health.take_rewrite(), "it was tainted");
        assert!(!health.take_rewrite(), "it is told once");
    }

    #[test]
    fn a_write_through_is_covered_by_a_good_flush_of_any_purpose() {
        let (health, _) = failed();
        health.note_unkept();
        health.flush_succeeded(health.unkept());
        health.flush_failed();
        assert!(!health.take_lost(), "an earlier flush has covered it");
        let before = health.unkept();
        health.note_unkept();
        health.flush_succeeded(before);
        health.flush_failed();
        assert!(health.take_lost(), "it was written after that flush had been sent");
        assert!(!health.take_lost(), "it is reported once");
    }

    #[test]
    fn no_flush_hides_that_one_before_it_has_lost_a_write_through() {
        for is_good in [None, Some(false), Some(true)] {
            let (health, _) = failed();
            health.note_unkept();
            health.flush_failed();
            // The next one is in flight, or has ended, before a commit acts on the first.
            let unkept = health.unkept();
            match is_good {
                None => {}
                Some(false) => health.flush_failed(),
                Some(true) => health.flush_succeeded(unkept),
            }
            assert!(health.take_lost(), "{is_good:?}");
        }
    }

    #[test]
    fn what_was_given_up_is_not_written_again() {
        let (health, mut epochs) = failed();
        health.give_up();
        assert!(health.clear(&mut epochs) && !health.take_rewrite());
        health.tainted.store(true, Ordering::SeqCst);
        health.fail(&mut epochs, ERROR);
        assert!(health.clear(&mut epochs));
        health.give_up();
        assert!(!health.take_rewrite());
    }

    #[test]
    fn a_doubt_ends_once_its_time_is_over_and_every_client_of_it_has_flushed_or_gone() {
        let (health, _) = failed();
        health.arena.note_doubt(true);
        health.settle_doubt(DOUBT_NS * 2);
        assert!(health.arena.is_in_doubt(), "its time begins with the first client");
        assert!(health.doubts_client(10) && health.doubts_client(DOUBT_NS));
        let later = DOUBT_NS + 11;
        assert!(!health.doubts_client(later), "it comes too late");
        for is_answered in [true, false] {
            health.settle_doubt(later);
            assert!(health.arena.is_in_doubt(), "one of them has not flushed");
            health.doubt_ends(is_answered);
        }
        health.settle_doubt(DOUBT_NS);
        assert!(health.arena.is_in_doubt(), "others may come");
        health.settle_doubt(later);
        assert!(!health.arena.is_in_doubt() && !health.doubts_client(later));
        assert_eq!(health.flushes_doubted.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_order_in_doubt_fails_no_successor_after_the_operator_has_cleared_the_error() {
        let (health, mut epochs) = failed();
        assert!(health.clear(&mut epochs));
        health.arena.note_doubt(true);
        health.fail_in_doubt(&mut epochs, ERROR);
        assert!(health.has_failed() && health.arena.is_in_doubt());
        assert!(health.clear(&mut epochs) && !health.arena.is_in_doubt());
        assert!(health.doubts_client(1), "clients must learn of it all the same");
    }
}
