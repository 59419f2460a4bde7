//! How fast the write buffer may fill: writers are slowed down before it is full, and smoothly.
//!
//! Up to seven eighths of its room the buffer takes what comes. Beyond that, too, but the answer
//! waits for blocks to be written out: for each new block a *price*, in blocks that have been
//! written out since, and the price rises as the room shrinks. In the middle it is one, so that the
//! level stays where the writers are as fast as the backing. (OpenZFS's write throttle has the same
//! shape, but waits by the clock: nothing is estimated here, so nothing is wrong while the backing
//! becomes slower, or serves others as well.) While an epoch is being written out, room comes back
//! only at its end; then what is left to write is spread over what is left of the room. (While the
//! backing flushes, nothing is written out: then the clock tells the turns, by the measured rate.)
//!
//! ```text
//!   price      A = x / (1 - x)                         x: how much of the last eighth is used
//!              B = blocks to write out / room left     while an epoch is closed
//!
//!   claimed   ----------------------o-----o--o         each writer claims the price of its blocks ...
//!   granted   -------------------->                    ... and waits until as much has been written out
//! ```
//!
//! The price is never much more than one: a writer that waits for one block, while the workers have
//! as many runs under way as writers wait ([`crate::writeback::estimator`]), waits as long as it
//! would have without the cache, and all others find the backing no busier than without it. If the
//! buffer does fill up all the same, changes go past it.

use crate::dirty::level::{Level, ONE};
use crate::dirty::limits::Pace;
use crate::planted::{Bug, planted};
use crate::stats::counters::Counters;
use alloc::boxed::Box;
use lane::Event;
use lane::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The price may be more than one by this part of it: were it not, writers as many as the backing
/// can serve would keep the buffer as full as it is.
const LONGER: u64 = 32;
/// So the price is this at most.
pub(crate) const PRICE_MAX: u64 = ONE + ONE / LONGER;
/// So many blocks that were written out while no writer waited are kept for the next writer.
const SPARE: u32 = 16;
/// Bells that writers wait at, by their place in the line: a writer that is not concerned is not
/// woken.
const BELLS: usize = 64;

/// The line of the writers that wait for blocks to be written out.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// What all writers have claimed until now, in 1024ths of a block.
    claimed: AtomicU64,
    /// Up to where they may go on.
    granted: AtomicU64,
    /// Whether blocks are being written out.
    working: AtomicBool,
    /// Ranges of zeros that are under way. One may take long, and makes room for no writer.
    zeros: AtomicU32,
    /// When the next turn begins that is told by the clock, in nanoseconds.
    next_ns: AtomicU64,
    /// Writers that wait for theirs.
    waiting: AtomicU32,
    bells: Box<[Event]>,
    /// Changes that have waited for it, and how long in all.
    slowed: AtomicU64,
    slowed_ns: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle {
            claimed: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            working: AtomicBool::new(false),
            zeros: AtomicU32::new(0),
            next_ns: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            bells: (0..BELLS).map(|_| Event::new()).collect(),
            slowed: AtomicU64::new(0),
            slowed_ns: AtomicU64::new(0),
        }
    }
}

/// When a writer may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThrottleWait {
    /// At once.
    Come,
    /// When so much has been written out ([`Throttle::after`]).
    After(u64),
    /// At this time, in nanoseconds.
    At(u64),
}

impl Throttle {
    /// When the answer of a change may go that has brought so many new blocks into a buffer of this
    /// level. `ordered`: every epoch ends with a flush of the backing.
    pub(crate) fn turn(
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
        let takes_ns = |block_ns: u64| block_ns.saturating_mul(price) / ONE;
        match price {
            0 => ThrottleWait::Come,
            // In that flush nothing is written out, and the open epoch comes behind the closed
            // ones: each block that is dirty has its share of those.
            _ if ordered => {
                let blocks = u64::from(level.dirty.max(1));
                let epochs = u64::from(level.closed + u32::from(level.closed > 0));
                let flush_ns = flush_ns.saturating_mul(epochs.min(blocks)) / blocks;
                self.claim_time(takes_ns(block_ns + flush_ns), now_ns)
            }
            _ if self.is_working() => self.claim(price),
            // The backing flushes, for as long as it takes, or the workers have not begun yet.
            _ => self.claim_time(takes_ns(block_ns), now_ns),
        }
    }

    /// A change claims its turn at this price, in 1024ths of a block.
    pub(crate) fn claim(&self, price: u64) -> ThrottleWait {
        let mine = self.claimed.fetch_add(price, Ordering::SeqCst) + price;
        match mine > self.granted.load(Ordering::SeqCst) {
            true => ThrottleWait::After(mine),
            false => ThrottleWait::Come,
        }
    }

    /// The same by the clock, for so long.
    pub(crate) fn claim_time(&self, ns: u64, now_ns: u64) -> ThrottleWait {
        let mut begins = now_ns;
        let _ = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            begins = next.max(now_ns);
            Some(begins.saturating_add(ns))
        });
        if begins > now_ns { ThrottleWait::At(begins) } else { ThrottleWait::Come }
    }

    /// A writer begins to wait for its turn; it ends with what is returned.
    pub(crate) fn waits(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Until as much has been written out as was claimed up to here, or nothing is being written
    /// out.
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

    /// A change was slowed down by so much.
    pub(crate) fn note_slowed(&self, ns: u64) {
        self.slowed.fetch_add(1, Ordering::Relaxed);
        self.slowed_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Adds what was counted.
    pub(crate) fn count(&self, all: &mut Counters) {
        all.changes_slowed = self.slowed.load(Ordering::Relaxed);
        all.slowed_ns = self.slowed_ns.load(Ordering::Relaxed);
    }

    pub(crate) fn is_working(&self) -> bool {
        self.working.load(Ordering::SeqCst)
    }

    /// The workers write out: from now on writers may have to wait for it.
    pub(crate) fn work_begins(&self) {
        self.working.store(true, Ordering::SeqCst);
    }

    /// A range of zeros begins to be written out.
    pub(crate) fn zeros_begin(&self) {
        self.zeros.fetch_add(1, Ordering::SeqCst);
    }

    /// It has been, or has failed.
    pub(crate) fn zeros_end(&self) {
        self.zeros.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ranges of zeros that are under way.
    pub(crate) fn zeros_under_way(&self) -> u32 {
        self.zeros.load(Ordering::SeqCst)
    }

    /// So many blocks have been written out, where the last part of the room is `last` blocks.
    pub(crate) fn grant(&self, blocks: u32, last: u32) {
        let more = u64::from(blocks) * ONE;
        // What is not claimed at once is kept for a few that come soon, but they must not fill the
        // room.
        let spare = (2 * blocks).min(last / 2).max(SPARE.min(last / 4));
        let most = self.claimed.load(Ordering::SeqCst) + u64::from(spare) * ONE;
        let before = self.granted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |granted| {
            Some((granted + more).min(most).max(granted))
        });
        let before = before.unwrap_or_else(|granted| granted);
        self.ring(before, self.granted.load(Ordering::SeqCst));
    }

    /// So many requests of the write-out are under way. If all of them are zeros, no writer waits
    /// for them.
    pub(crate) fn still_under_way(&self, requests: u32) {
        if requests <= self.zeros_under_way() {
            self.work_ends();
        }
    }

    /// Nothing is being written out any more: no writer waits for that.
    pub(crate) fn work_ends(&self) {
        if self.working.swap(false, Ordering::SeqCst) {
            let claimed = self.claimed.load(Ordering::SeqCst);
            self.granted.fetch_max(claimed, Ordering::SeqCst);
            if !planted(Bug::ForgetTurn) {
                self.bells.iter().for_each(Event::notify);
            }
        }
    }

    /// Wakes those whose turn is between these two.
    fn ring(&self, from: u64, to: u64) {
        if !self.is_awaited() || from >= to {
            return;
        }
        let (first, last) = (from / ONE, to / ONE);
        for turn in first..=last.min(first + BELLS as u64 - 1) {
            self.bells[turn as usize % BELLS].notify();
        }
    }

    /// Whether a writer waits for its turn.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// How many runs may take the place of writers that wait: one for each, or for each block that
    /// is claimed, whichever is less. (A writer that has been granted its blocks, but has not
    /// looked yet, waits no more.)
    pub(crate) fn places(&self) -> u32 {
        let claimed = self.claimed.load(Ordering::SeqCst);
        let owed = claimed.saturating_sub(self.granted.load(Ordering::SeqCst)).div_ceil(ONE);
        let writers = u64::from(self.waiting.load(Ordering::SeqCst));
        owed.min(writers + writers.div_ceil(LONGER)) as u32
    }
}

/// A writer that waits for its turn. Dropping it says that it does not any more.
pub(crate) struct Waiting<'a>(&'a Throttle);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
