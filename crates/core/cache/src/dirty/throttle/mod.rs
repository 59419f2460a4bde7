//! The throttle: it slows writers down before the write buffer is full, gradually.
//!
//! Up to seven eighths of its room the buffer absorbs writes without delay. Beyond that it absorbs
//! them too, but the reply waits for writeback: each new block has a *price*, in blocks written
//! back since, and the price rises as the room shrinks. In the middle of the last eighth it is one,
//! so the level is stable where the writers are as fast as the backing. (OpenZFS's write throttle
//! has the same shape, but waits by the clock. Nothing is estimated here, so there is no error
//! while the backing becomes slower, or also serves others.) While an epoch is being written back,
//! room becomes free only at its end; then the blocks left to write are spread over the remaining
//! room. (While the backing flushes, nothing is written back; then writers wait by the clock, at
//! the measured rate.)
//!
//! ```text
//!   price      A = x / (1 - x)                       x: the used part of the last eighth
//!              B = blocks to write back / room left  while an epoch is closed
//!
//!   claimed   ---------------o-----o--o   each writer claims the price of its blocks ...
//!   granted   ------------->              ... and waits until that many are written back
//! ```
//!
//! The price is never much more than one. The workers have at least as many runs in flight as
//! writers wait, and beside reads and write-throughs hardly more ([`crate::writeback::estimator`]).
//! So a writer that waits for one block waits no longer than it would without the cache, and the
//! backing is no busier for other requests. If the buffer fills up nevertheless, changes are
//! written through.
//!
//! One request may take a drive many times as long as others: its firmware has work of its own, or
//! its buffer is full while its flash programs slow pages. Runs may also be longer than a writer's
//! change, or end just before its claim. A writer does not wait for all of that. After its *turn*,
//! the time in which the backing usually writes the blocks of all writers, it may continue *ahead*
//! of writeback, by an eighth of the remaining room. Its claim stays, so that later writers wait
//! for it too, and a backing that serves nothing for longer holds the writers back as before. If
//! that room shrinks, because an epoch is closed or the backing has become slower, writers continue
//! at the distance that they have: one of them would wait for all of the difference.
//!
//! Turns become longer as the writers use their lead:
//!
//! ```text
//!   B |          _________    A  the usual time of all writers' blocks, at the measured rate
//!     |        .              B  twice the time of an undisturbed run, for each writer
//!   A | . . .
//!     +-------------------
//!       0       1/2      1    the used part of the lead
//! ```
//!
//! If the measured rate is of an earlier, faster phase, the writers keep the distance at which a
//! turn lasts as long as the backing takes, and most of their lead. Beside reads, whose share the
//! measured rate lacks, all turns have the length B.

use crate::dirty::level::{Level, ONE};
use crate::dirty::limits::Pace;
use crate::planted::{Bug, planted};
use crate::stats::counters::Counters;
use alloc::boxed::Box;
use lane::Event;
use lane::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The maximum price is one plus one part in this number. With a maximum of one, the level would
/// never fall while the writers alone keep the backing busy.
const LONGER: u64 = 32;
/// The maximum price.
pub(crate) const PRICE_MAX: u64 = ONE + ONE / LONGER;
/// Minimum number of written-back blocks that no writer has claimed and that are kept for the next
/// writers; fewer where the room is small.
const SPARE: u32 = 16;
/// Turns grow during one part in this number of the lead.
const GROWING_PART: u64 = 2;
/// The longest turn, in times of an undisturbed run for each writer. A run that takes longer was
/// queued in the device (as for the window of the estimator).
const WAIT_MAX: u64 = 2;
/// The number of events on which writers wait, by their position in the queue: only the writers
/// concerned are woken.
const BELLS: usize = 64;

/// The queue of the writers that wait for writeback.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// The sum of all writers' claims, in 1024ths of a block.
    claimed: AtomicU64,
    /// The position up to which writers may continue.
    granted: AtomicU64,
    /// The last position of a writer that has continued after a wait.
    continued: AtomicU64,
    /// Whether blocks are being written back.
    working: AtomicBool,
    /// Ranges of zeros in flight. One may take long, and makes no room for writers.
    zeros: AtomicU32,
    /// The next time at which a writer that waits by the clock may continue, in nanoseconds.
    next_ns: AtomicU64,
    /// Writers that wait.
    waiting: AtomicU32,
    /// The blocks of the last change that was throttled.
    last_blocks: AtomicU32,
    bells: Box<[Event]>,
    /// Changes that were throttled, and their total delay.
    slowed: AtomicU64,
    slowed_ns: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle {
            claimed: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            continued: AtomicU64::new(0),
            working: AtomicBool::new(false),
            zeros: AtomicU32::new(0),
            next_ns: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            last_blocks: AtomicU32::new(0),
            bells: (0..BELLS).map(|_| Event::new()).collect(),
            slowed: AtomicU64::new(0),
            slowed_ns: AtomicU64::new(0),
        }
    }
}

/// The backing's times for the blocks of a writer that waits, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterTimes {
    /// At its measured rate, if writers alone are served.
    pub(crate) usual_ns: Option<u64>,
    /// Without a queue.
    pub(crate) least_ns: u64,
}

/// When a writer may continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThrottleWait {
    /// Immediately.
    Immediate,
    /// After writeback has reached this position ([`Throttle::after`]).
    After(u64),
    /// At this time, in nanoseconds.
    At(u64),
}

impl Throttle {
    /// Returns when the reply may be sent for a change that has added `new` blocks to a buffer of
    /// this level. `ordered`: every epoch ends with a flush of the backing.
    pub(crate) fn delay(
        &self,
        new: u32,
        level: &Level,
        ordered: bool,
        pace: Pace,
        now_ns: u64,
    ) -> ThrottleWait {
        let (block_ns, flush_ns) = (pace.block_ns(), pace.flush_ns);
        let price = match ordered {
            true => level.filling(),
            false => level.price(flush_ns / block_ns),
        };
        let price = price.min(PRICE_MAX) * u64::from(new);
        if price > 0 {
            self.last_blocks.store(new, Ordering::Relaxed);
        }
        let takes_ns = |block_ns: u64| block_ns.saturating_mul(price) / ONE;
        match price {
            0 => ThrottleWait::Immediate,
            // Nothing is written back during a flush of the backing, and the open epoch's flush
            // follows those of the closed ones: each dirty block has its share of all of them.
            _ if ordered => {
                let blocks = u64::from(level.dirty.max(1));
                let epochs = u64::from(level.closed + u32::from(level.closed > 0));
                let flush_ns = flush_ns.saturating_mul(epochs.min(blocks)) / blocks;
                self.claim_time(takes_ns(block_ns + flush_ns), now_ns)
            }
            _ if self.is_working() => self.claim(price),
            // The backing is flushing, or the workers have not begun yet.
            _ => self.claim_time(takes_ns(block_ns), now_ns),
        }
    }

    /// Claims a position for a change at this price, in 1024ths of a block.
    pub(crate) fn claim(&self, price: u64) -> ThrottleWait {
        let mine = self.claimed.fetch_add(price, Ordering::SeqCst) + price;
        match mine > self.granted.load(Ordering::SeqCst) {
            true => ThrottleWait::After(mine),
            false => ThrottleWait::Immediate,
        }
    }

    /// Claims a time for a change, for this duration.
    pub(crate) fn claim_time(&self, ns: u64, now_ns: u64) -> ThrottleWait {
        let mut begins = now_ns;
        let _ = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            begins = next.max(now_ns);
            Some(begins.saturating_add(ns))
        });
        if begins > now_ns { ThrottleWait::At(begins) } else { ThrottleWait::Immediate }
    }

    /// Counts a writer that begins to wait, until the returned value is dropped.
    pub(crate) fn begin_wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Returns the turn of a waiting writer: the time after which it may continue up to `lead`
    /// blocks ahead of writeback. `write_throughs`: the number of writers that do not wait, but use
    /// the backing.
    pub(crate) fn turn_ns(&self, times: WriterTimes, lead: u32, write_throughs: u32) -> u64 {
        let waiting = self.waiting().max(1);
        let writers = u64::from(waiting) + u64::from(write_throughs);
        let long_ns = times.least_ns.saturating_mul(WAIT_MAX).saturating_mul(writers);
        let usual_ns = match (times.usual_ns, writers) {
            (None, _) => return long_ns,
            // Without the cache, a lone writer's request would be alone in the backing.
            (Some(usual_ns), 1) => usual_ns.min(times.least_ns),
            (Some(usual_ns), _) => usual_ns.saturating_mul(writers),
        };
        let part = (u64::from(lead) * ONE / GROWING_PART).max(1);
        let used = u128::from(self.ahead().min(part)) * u128::from(ONE) / u128::from(part);
        let longer_ns = u128::from(long_ns.saturating_sub(usual_ns)) * used * used;
        usual_ns.saturating_add((longer_ns / u128::from(ONE * ONE)) as u64)
    }

    /// Waits until writeback has reached this position, or nothing is being written back.
    pub(crate) async fn after(&self, mine: u64) {
        let bell = &self.bells[(mine / ONE) as usize % BELLS];
        loop {
            let seen = bell.seen();
            if mine <= self.granted.load(Ordering::SeqCst) || !self.is_working() {
                return;
            }
            bell.after(seen).await;
        }
    }

    /// Returns how far writers that have continued are ahead of writeback, in 1024ths of a block.
    pub(crate) fn ahead(&self) -> u64 {
        let continued = self.continued.load(Ordering::SeqCst);
        continued.saturating_sub(self.granted.load(Ordering::SeqCst))
    }

    /// Notes that the writer at this position continues.
    pub(crate) fn note_continued(&self, mine: u64) {
        self.continued.fetch_max(mine, Ordering::SeqCst);
    }

    /// Counts a change that was delayed for this time.
    pub(crate) fn note_slowed(&self, ns: u64) {
        self.slowed.fetch_add(1, Ordering::Relaxed);
        self.slowed_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Adds the counters of the throttle.
    pub(crate) fn count(&self, all: &mut Counters) {
        all.changes_slowed = self.slowed.load(Ordering::Relaxed);
        all.slowed_ns = self.slowed_ns.load(Ordering::Relaxed);
    }

    pub(crate) fn is_working(&self) -> bool {
        self.working.load(Ordering::SeqCst)
    }

    /// Notes that the workers write back: from now on writers may have to wait for that.
    pub(crate) fn work_begins(&self) {
        self.working.store(true, Ordering::SeqCst);
    }

    /// Counts a range of zeros whose writeback begins.
    pub(crate) fn zeros_begin(&self) {
        self.zeros.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the writeback of a range of zeros, written or failed.
    pub(crate) fn zeros_end(&self) {
        self.zeros.fetch_sub(1, Ordering::SeqCst);
    }

    /// The number of ranges of zeros in flight.
    pub(crate) fn zeros_under_way(&self) -> u32 {
        self.zeros.load(Ordering::SeqCst)
    }

    /// Grants written-back blocks to the writers, where the last part of the room is `last` blocks.
    pub(crate) fn grant(&self, blocks: u32, last: u32) {
        let more = u64::from(blocks) * ONE;
        // Blocks that are not claimed now are kept for a few writes that come soon, but these must
        // not fill the room.
        let spare = (2 * blocks).min(last / 2).max(SPARE.min(last / 4));
        let most = self.claimed.load(Ordering::SeqCst) + u64::from(spare) * ONE;
        let before = self.granted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |granted| {
            Some((granted + more).min(most).max(granted))
        });
        let before = before.unwrap_or_else(|granted| granted);
        self.ring(before, self.granted.load(Ordering::SeqCst));
    }

    /// Checks the `requests` in flight of the writeback. If all of them are zeros, no writer waits
    /// for them.
    pub(crate) fn end_work_if_only_zeros(&self, requests: u32) {
        if requests <= self.zeros_under_way() {
            self.work_ends();
        }
    }

    /// Ends the wait of all writers, because nothing is being written back any more.
    pub(crate) fn work_ends(&self) {
        if self.working.swap(false, Ordering::SeqCst) {
            let claimed = self.claimed.load(Ordering::SeqCst);
            self.granted.fetch_max(claimed, Ordering::SeqCst);
            if !planted(Bug::ForgetTurn) {
                self.bells.iter().for_each(Event::notify);
            }
        }
    }

    /// Wakes the writers whose position is between these two.
    fn ring(&self, from: u64, to: u64) {
        if !self.is_awaited() || from >= to {
            return;
        }
        let (first, last) = (from / ONE, to / ONE);
        for turn in first..=last.min(first + BELLS as u64 - 1) {
            self.bells[turn as usize % BELLS].notify();
        }
    }

    /// The number of writers that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Whether a writer waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns the blocks of the last change that was throttled; 0: none was.
    pub(crate) fn last_blocks(&self) -> u32 {
        self.last_blocks.load(Ordering::Relaxed)
    }

    /// Returns the number of runs that may replace waiting writers: one for each writer and one
    /// more for every 32, or one for each claimed block, whichever is less. (A writer whose blocks
    /// are granted, but that has not checked yet, no longer counts as waiting.)
    pub(crate) fn runs_for_writers(&self) -> u32 {
        let claimed = self.claimed.load(Ordering::SeqCst);
        let owed = claimed.saturating_sub(self.granted.load(Ordering::SeqCst)).div_ceil(ONE);
        let writers = u64::from(self.waiting());
        owed.min(writers + writers.div_ceil(LONGER)) as u32
    }
}

/// A writer that waits. Dropping it ends the wait.
pub(crate) struct Waiting<'a>(&'a Throttle);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
