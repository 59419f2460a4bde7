//! What is known of the backing's health, and of what it may have lost (C8).
//!
//! ```text
//!   sent       a change goes past the cache         unkept      if the next flush fails, nothing here has it
//!   written    a change or a run has been answered  unflushed   there is something to flush
//!   flush      fails                                tainted     what is held is written again
//!              fails, and something was unkept      failed      nothing can be written again
//!   retries    last for longer than retry_time      failed
//!   operator   clears the error                     well, and what was tainted is written again
//! ```
//!
//! Every flag is read without a lock, while tasks of other lanes change it. So the order of two
//! stores is part of what a transition means; where it matters, the transition says so.

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
    "flush: a flush of the backing was under way when an earlier process was killed, and its result is not known; \
     what was written before it may be lost",
);

/// How long after a takeover in doubt clients may come whose writes it concerns: they reconnect
/// within moments, or within what they wait for a server.
const DOUBT_NS: u64 = 600_000_000_000;

const CLEARED: Error = Error::new(
    Kind::Io,
    "flush: the volume has failed while this waited, and the operator has cleared the error",
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

/// What is known of the backing's health.
#[derive(Debug)]
pub(crate) struct Health {
    /// What must outlive the process is noted here, before a client can hear of it.
    arena: Arena,
    /// Mirrors `epochs.failed`, for the hot paths.
    failed: AtomicBool,
    /// How often the failed state was ended.
    cleared: AtomicU64,
    /// Something may have been written since the last good flush.
    unflushed: AtomicBool,
    /// Something went past the cache since the backing's last good flush: if the next one fails,
    /// it cannot be written again from here.
    unkept: AtomicBool,
    /// A flush of the backing has failed, and the engine has not yet acted on it.
    tainted: AtomicBool,
    /// The operator has cleared an error after a flush had failed that no commit had acted on: what
    /// was written must be written again.
    rewrite: AtomicBool,
    /// The arena is from an earlier life. What that sent past the cache may lie in the backing's
    /// own cache, and belongs before all that is written out now: flush that first (C2, C7).
    flush_first: AtomicBool,
    /// Flushes of the backing that have failed.
    flush_failures: AtomicU64,
    errors: Errors,
    /// When the first client came after a takeover in doubt, plus one; 0: none has.
    doubt_since: AtomicU64,
    /// Clients whose first flush is still to fail.
    doubting: AtomicU32,
    /// The volume was taken over in doubt about an order, and has failed for that.
    order_in_doubt: AtomicBool,
    /// Flushes that were answered with [`IN_DOUBT`].
    flushes_doubted: AtomicU64,
}

/// A flush of the backing that makes an epoch durable, from before it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushBegun {
    /// Something that went past the cache depends on it.
    unkept: bool,
    /// [`Arena::flushes_failed`].
    failed_before: u64,
}

impl Health {
    /// The health of a backing of which nothing is known yet.
    pub(crate) fn new(arena: Arena) -> Health {
        Health {
            arena,
            failed: AtomicBool::new(false),
            cleared: AtomicU64::new(0),
            // What wrote before us may not have flushed.
            unflushed: AtomicBool::new(true),
            // An earlier life may have sent something past, and answered it.
            unkept: AtomicBool::new(!planted(Bug::ForgiveFirstFlush)),
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

    /// Adds what was counted.
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

    /// Counts a read, or a look at what is allocated, that the backing has answered with an error.
    pub(crate) fn count_read_error(&self) {
        self.errors.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns where errors of such a request are counted.
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

/// The volume fails, and serves again.
impl Health {
    /// Whether the volume has failed (C8).
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// The volume fails, if it has not yet. It is noted where it outlives the process before a
    /// client can hear of it; what waits is then to be told by `Shared::wake_all`.
    pub(crate) fn fail(&self, epochs: &mut Epochs, error: Error) {
        if epochs.fail(error) {
            self.arena.note_condition(Condition::Failed);
            self.failed.store(true, Ordering::SeqCst);
        }
    }

    /// The operator says that the backing is well again. False: a discard is under way, which ends
    /// the error itself.
    pub(crate) fn clear(&self, epochs: &mut Epochs) -> bool {
        let cleared = epochs.clear_error();
        if cleared {
            // A commit that is still there acts on it by itself.
            if !epochs.is_led() && self.tainted.swap(false, Ordering::SeqCst) {
                self.rewrite.store(true, Ordering::SeqCst);
            }
            self.note_well();
        }
        cleared
    }

    /// What was written past the cache has been given up with all that was dirty.
    pub(crate) fn give_up(&self) {
        self.tainted.store(false, Ordering::SeqCst);
        self.rewrite.store(false, Ordering::SeqCst);
    }

    /// The volume serves again. To be noted in the section that decides it.
    pub(crate) fn note_well(&self) {
        self.cleared.fetch_add(1, Ordering::SeqCst);
        if self.order_in_doubt.load(Ordering::SeqCst) {
            // The operator knows of it: a successor need not fail for it again.
            self.arena.note_doubt(false);
        }
        self.arena.note_flushes_mended(self.arena.flushes_failed());
        self.arena.note_condition(Condition::Well);
        self.failed.store(false, Ordering::SeqCst);
    }

    /// How often the failed state was ended. Between two looks at a failed volume that find the
    /// same number it has been failed all the time, so that nothing was written to it.
    pub(crate) fn times_cleared(&self) -> u64 {
        self.cleared.load(Ordering::SeqCst)
    }

    /// Whether no error was cleared since this was [`Health::times_cleared`]. Else the volume had
    /// failed: what had gone past the cache may be lost, and with it the newest version of what a
    /// waiter waits for. Waiters report an error even if they never saw the failure.
    pub(crate) fn unless_cleared(&self, cleared: u64) -> Result {
        match self.times_cleared() == cleared {
            true => Ok(()),
            false => Err(CLEARED),
        }
    }
}

/// Clients whose writes an earlier process may have lost (C1).
impl Health {
    /// The volume fails: changes that were promised to go before all later ones may be lost, and
    /// clients need not send a flush that could report it.
    pub(crate) fn fail_in_doubt(&self, epochs: &mut Epochs, error: Error) {
        self.order_in_doubt.store(true, Ordering::SeqCst);
        self.fail(epochs, error);
    }

    fn is_in_doubt(&self) -> bool {
        self.arena.is_in_doubt() || self.order_in_doubt.load(Ordering::SeqCst)
    }

    /// Whether the first flush of a client that comes at `now_ns` must fail. If so,
    /// [`Health::doubt_ends`] is called once: when it has failed, or the client has gone.
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

    /// A client's first flush is answered with [`IN_DOUBT`], or never comes.
    pub(crate) fn doubt_ends(&self, is_answered: bool) {
        self.flushes_doubted.fetch_add(u64::from(is_answered), Ordering::Relaxed);
        self.doubting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ends the doubt once no more clients can come whose flush must fail. Otherwise every later
    /// takeover would have a flush of each client fail. A client that has not flushed yet keeps it.
    pub(crate) fn settle_doubt(&self, now_ns: u64) {
        let since = self.doubt_since.load(Ordering::Relaxed);
        let is_over = since > 0 && now_ns.saturating_sub(since - 1) > DOUBT_NS;
        if is_over && self.is_in_doubt() && self.doubting.load(Ordering::SeqCst) == 0 {
            self.order_in_doubt.store(false, Ordering::SeqCst);
            self.arena.note_doubt(false);
        }
    }
}

/// What is written, and may be lost.
impl Health {
    /// A change goes past the cache, or has: nothing here could write it again.
    pub(crate) fn note_unkept(&self) {
        self.unkept.store(true, Ordering::SeqCst);
    }

    /// Something was written. To be noted before the section that notes the write's end: a flush
    /// that comes after that must find this.
    pub(crate) fn note_written(&self) {
        self.unflushed.store(true, Ordering::SeqCst);
    }

    /// How many flushes of the backing have failed, for [`Health::has_kept`].
    pub(crate) fn flush_failures(&self) -> u64 {
        self.flush_failures.load(Ordering::SeqCst)
    }

    /// Whether no flush has failed since [`Health::flush_failures`] was this. One that failed while
    /// a write was in flight may have taken it along, and did not find it written yet. To be asked
    /// in the section that notes the write's end, or after the end was noted. Either the failed
    /// flush marks the blocks dirty again, or this check sees the failure.
    pub(crate) fn has_kept(&self, failures: u64) -> bool {
        self.flush_failures() == failures
    }

    /// A flush of the backing has failed, whatever it was for.
    pub(crate) fn flush_failed(&self) {
        // At once: killed now, a successor must not believe a flush of its own.
        self.arena.note_flush_failed();
        // Before the other: what ends without having seen this is found by the task that acts on
        // it.
        self.flush_failures.fetch_add(1, Ordering::SeqCst);
        self.tainted.store(true, Ordering::SeqCst);
    }

    /// The backing is about to be flushed so that something becomes durable. None: there is nothing
    /// to flush. To be followed by [`Health::end_flush`].
    pub(crate) fn begin_flush(&self, is_needed: bool) -> Option<FlushBegun> {
        // Taken before the flush begins: what passes while it is under way belongs to the next one.
        let unflushed = self.unflushed.swap(false, Ordering::SeqCst);
        if !unflushed || !is_needed {
            return None;
        }
        // Only by a flush: without one, what is on its way past the cache is as it was.
        let unkept = self.unkept.swap(false, Ordering::SeqCst);
        Some(FlushBegun { unkept, failed_before: self.arena.flushes_failed() })
    }

    /// That flush has ended so. Returns what is to be believed of it.
    pub(crate) fn end_flush(&self, begun: FlushBegun, mut result: Result) -> Result {
        // The flush of an FUA write may have failed before ours, and taken with it what ours was
        // for.
        if self.tainted.swap(false, Ordering::SeqCst) && result.is_ok() {
            result = Err(TAINTED);
        }
        if result.is_err() {
            self.unflushed.store(true, Ordering::SeqCst);
            if begun.unkept {
                self.unkept.store(true, Ordering::SeqCst);
            }
        } else {
            // Had one of these lost anything, it would have been written again before this flush.
            self.arena.note_flushes_mended(begun.failed_before);
        }
        result
    }

    /// For how long a flush that has failed is tried again: not at all, if it may have lost what
    /// cannot be written again.
    pub(crate) fn flush_retry_time_ns(&self, retry_time_ns: u64) -> u64 {
        match self.unkept.load(Ordering::SeqCst) {
            true => 0,
            false => retry_time_ns,
        }
    }

    /// Whether everything that was written must be written again, because the operator cleared an
    /// error; tells so once.
    pub(crate) fn take_rewrite(&self) -> bool {
        self.rewrite.swap(false, Ordering::SeqCst)
    }

    /// Whether the backing is to be flushed before anything of an epoch is sent, for an earlier
    /// life.
    pub(crate) fn is_flush_first(&self) -> bool {
        self.flush_first.load(Ordering::SeqCst)
    }

    /// From now on it is, or (after a flush) is not.
    pub(crate) fn set_flush_first(&self, first: bool) {
        self.flush_first.store(first, Ordering::SeqCst);
    }

    /// Whether nothing of an epoch may be sent: the volume has failed, or the backing is to be
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
        let health = Health::new(Arena::over(memory, &geometry, 16));
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
