//! How fast the write buffer may fill: writers are slowed down before it is full, and smoothly.
//!
//! Up to seven eighths of its room the buffer takes what comes. Beyond that, too, but the answer waits for
//! blocks to be written out: for each new block a *price*, in blocks that have been written out since, and
//! the price rises as the room shrinks. In the middle it is one, so that the level stays where the writers
//! are as fast as the backing. (OpenZFS's write throttle has the same shape, but waits by the clock: nothing
//! is estimated here, so nothing is wrong while the backing becomes slower, or serves others as well.) While
//! an epoch is being written out, room comes back only at its end; then what is left to write is spread over
//! what is left of the room. (While the backing flushes, nothing is written out: then the clock tells the
//! turns, by the measured rate.)
//!
//! ```text
//!   price      A = x / (1 - x)                         x: how much of the last eighth is used
//!              B = blocks to write out / room left     while an epoch is closed
//!
//!   claimed   ----------------------o-----o--o         each writer claims the price of its blocks ...
//!   granted   -------------------->                    ... and waits until as much has been written out
//! ```
//!
//! The price is never much more than one: a writer that waits for one block, while the crew has as many runs
//! under way as writers wait ([`crate::drain`]), waits as long as it would have without the cache, and
//! everybody else finds the backing no busier than without it. If the buffer does fill up all the same,
//! changes go past it.

use crate::drain::DRAIN_ASSUMED;
use crate::patience::Errand;
use crate::planted::{Bug, planted};
use crate::settings::Settings;
use crate::shard::Gauges;
use crate::shared::Shared;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use lane::Event;

/// The last part of the room in which writers are slowed down: an eighth.
const SLOWED: u32 = 8;
/// The price of a block for one that was written out. Prices are counted in 1024ths.
const ONE: u64 = 1024;
/// The price may be more than one by this part of it: were it not, writers as many as the backing can serve
/// would keep the buffer as full as it is.
const LONGER: u64 = 32;
/// So many blocks that were written out while nobody waited are kept for who comes next.
const SPARE: u64 = 16;
/// Bells that writers wait at, by their place in the line: who is not concerned is not woken.
const BELLS: usize = 64;

/// The line of the writers that wait for blocks to be written out.
#[derive(Debug)]
pub(crate) struct Pace {
    /// What all writers have claimed until now, in 1024ths of a block.
    claimed: AtomicU64,
    /// Up to where they may go on.
    granted: AtomicU64,
    /// Whether blocks are being written out.
    working: AtomicBool,
    /// Ranges of zeros that are under way. One may take long, and makes room for nobody.
    zeros: AtomicU32,
    /// When the next turn begins that is told by the clock, in nanoseconds.
    next_ns: AtomicU64,
    /// Writers that wait for theirs.
    waiting: AtomicU32,
    bells: [Event; BELLS],
    /// Changes that have waited for it, and how long in all.
    pub(crate) slowed: AtomicU64,
    pub(crate) slowed_ns: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            claimed: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            working: AtomicBool::new(false),
            zeros: AtomicU32::new(0),
            next_ns: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            bells: core::array::from_fn(|_| Event::new()),
            slowed: AtomicU64::new(0),
            slowed_ns: AtomicU64::new(0),
        }
    }
}

/// When a writer may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// At once.
    Come,
    /// When so much has been written out ([`Pace::after`]).
    After(u64),
    /// At this time, in nanoseconds.
    At(u64),
}

/// How full the buffer is, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    /// Dirty blocks of the open epoch.
    pub(crate) open: u32,
    /// What they may be.
    pub(crate) open_max: u32,
    /// Dirty blocks that wait to be written out.
    pub(crate) debt: u32,
    /// What they may be.
    pub(crate) debt_max: u32,
    /// Dirty blocks of all epochs.
    pub(crate) dirty: u32,
    /// What they may be.
    pub(crate) dirty_max: u32,
    /// Blocks of closed epochs that are not written out.
    pub(crate) closing: u32,
    /// Closed epochs.
    pub(crate) closed: u32,
}

/// The price where so much of the last eighth is used.
fn filling(used: u64) -> u64 {
    ONE * used / (1025 - used.min(1024))
}

/// How much of the last eighth below `max` is used, in 1024ths.
fn used_of_last(level: u32, max: u32) -> u64 {
    let last = u64::from(max / SLOWED);
    let beyond = u64::from(level).saturating_sub(u64::from(max) - last);
    (beyond * 1024).checked_div(last).map_or(0, |used| used.min(1024))
}

impl Level {
    pub(crate) fn of(gauges: &Gauges, settings: &Settings) -> Level {
        let open = gauges.open.load(Ordering::Relaxed);
        let dirty = gauges.dirty.load(Ordering::Relaxed);
        let closed = gauges.closed.load(Ordering::SeqCst);
        let remaining = gauges.remaining.load(Ordering::SeqCst).max(0) as u32;
        let closing = match closed {
            0 => 0,
            1 => remaining,
            _ => dirty.saturating_sub(open),
        };
        Level {
            open,
            open_max: gauges.open_limit(settings),
            debt: gauges.debt(),
            debt_max: gauges.debt_limit(settings),
            dirty,
            dirty_max: gauges.dirty_limit(settings),
            closing,
            closed,
        }
    }

    /// Whether the last eighth of the room is in use.
    #[inline]
    pub(crate) fn is_filling(&self) -> bool {
        let near = |level: u32, max: u32| level > max - max / SLOWED;
        near(self.open, self.open_max)
            || near(self.debt, self.debt_max)
            || near(self.dirty, self.dirty_max)
    }

    /// Whether writers may have to be slowed down: the quick look.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_filling() || self.closing > 0 && self.open + self.closing > self.spread_from()
    }

    /// While an epoch is being written out: up to so many blocks that are open or left to write, what comes
    /// is a burst, and beyond, what is left to write is spread over the room.
    fn spread_from(&self) -> u32 {
        self.open_room() / 4 * 3
    }

    /// What the open epoch may come to hold before the closed ones are durable.
    fn open_room(&self) -> u32 {
        let held = self.dirty.saturating_sub(self.open);
        self.open_max.min(self.dirty_max.saturating_sub(held))
    }

    /// Whether there is room again, after there was none: a quarter of it.
    pub(crate) fn has_room_again(&self) -> bool {
        let below = |level: u32, max: u32| level <= max - max / 4;
        below(self.open, self.open_max)
            && below(self.debt, self.debt_max)
            && below(self.dirty, self.dirty_max)
    }

    /// What one new block costs, in 1024ths of a block that is written out, where a flush takes as long as
    /// writing out `flush_blocks`.
    pub(crate) fn price(&self, flush_blocks: u64) -> u64 {
        if self.closing == 0 {
            return self.filling();
        }
        let all = self.open_room();
        // Something is left over for what comes while the backing flushes.
        let reserve = all / SLOWED / 2;
        let flushes = flush_blocks.saturating_mul(u64::from(self.closed));
        let left = u64::from(self.closing) + flushes.saturating_sub(u64::from(reserve));
        let room = (all - reserve).saturating_sub(self.open);
        let ramp = u64::from(all / SLOWED).max(1);
        let beyond = (u64::from(self.open) + left).saturating_sub(u64::from(self.spread_from()));
        let whole = (left.saturating_mul(ONE) / u64::from(room.max(1))).min(2 * ONE);
        let spread = whole * beyond.min(ramp) / ramp;
        filling(used_of_last(self.debt, self.debt_max)).max(spread)
    }

    /// The same where room comes back bit by bit.
    fn filling(&self) -> u64 {
        let open = used_of_last(self.open, self.open_max);
        let debt = used_of_last(self.debt, self.debt_max);
        filling(open.max(debt).max(used_of_last(self.dirty, self.dirty_max)))
    }
}

impl Pace {
    /// A change claims its turn at this price, in 1024ths of a block.
    fn claim(&self, price: u64) -> Turn {
        let mine = self.claimed.fetch_add(price, Ordering::SeqCst) + price;
        match mine > self.granted.load(Ordering::SeqCst) {
            true => Turn::After(mine),
            false => Turn::Come,
        }
    }

    /// The same by the clock, for so long.
    fn claim_time(&self, ns: u64, now_ns: u64) -> Turn {
        let mut begins = now_ns;
        let _ = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            begins = next.max(now_ns);
            Some(begins.saturating_add(ns))
        });
        if begins > now_ns { Turn::At(begins) } else { Turn::Come }
    }

    /// A writer begins to wait for its turn; it ends with what is returned.
    pub(crate) fn waits(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(self)
    }

    /// Until as much has been written out as was claimed up to here, or nothing is being written out.
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

    fn is_working(&self) -> bool {
        self.working.load(Ordering::SeqCst)
    }

    /// The crew writes out: from now on writers may have to wait for it.
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

    /// So many blocks have been written out.
    pub(crate) fn grant(&self, blocks: u32) {
        let more = u64::from(blocks) * ONE;
        // What nobody claims at once is kept for a few who come soon.
        let most = self.claimed.load(Ordering::SeqCst) + (SPARE * ONE).max(2 * more);
        let before = self.granted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |granted| {
            Some((granted + more).min(most).max(granted))
        });
        let before = before.unwrap_or_else(|granted| granted);
        self.ring(before, self.granted.load(Ordering::SeqCst));
    }

    /// Nothing is being written out any more: nobody waits for that.
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

    /// How many runs may take the place of writers that wait: one for each, or for each block that is
    /// claimed, whichever is less. (Who has been granted his turn, but has not looked yet, waits no more.)
    pub(crate) fn places(&self) -> u32 {
        let claimed = self.claimed.load(Ordering::SeqCst);
        let owed = claimed.saturating_sub(self.granted.load(Ordering::SeqCst)).div_ceil(ONE);
        let writers = u64::from(self.waiting.load(Ordering::SeqCst));
        owed.min(writers + writers.div_ceil(LONGER)) as u32
    }
}

/// A writer that waits for its turn. Dropping it says that it does not any more.
pub(crate) struct Waiting<'a>(&'a Pace);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// When the answer of a change may go that has brought so many new blocks.
    pub(crate) fn turn(&self, new: u32, now_ns: u64) -> Turn {
        let block_ns = self.drain.block_ns().unwrap_or(1_000_000_000 / DRAIN_ASSUMED);
        let flush_ns = self.drain.flush_ns.load(Ordering::Relaxed);
        let level = Level::of(&self.gauges, &self.settings.now());
        let price = match self.gauges.is_ordered() {
            true => level.filling(),
            false => level.price(flush_ns / block_ns),
        };
        let price = price.min(ONE + ONE / LONGER) * u64::from(new);
        let takes_ns = |block_ns: u64| block_ns.saturating_mul(price) / ONE;
        match price {
            0 => Turn::Come,
            // Every epoch ends with a flush, in which nothing is written out, the open one behind the closed
            // ones too: each block that is dirty has its share of those.
            _ if self.gauges.is_ordered() => {
                let blocks = u64::from(level.dirty.max(1));
                let epochs = u64::from(level.closed + u32::from(level.closed > 0));
                let flush_ns = flush_ns.saturating_mul(epochs.min(blocks)) / blocks;
                self.pace.claim_time(takes_ns(block_ns + flush_ns), now_ns)
            }
            _ if self.pace.is_working() => self.pace.claim(price),
            // The backing flushes, for as long as it takes, or the crew has not begun yet.
            _ => self.pace.claim_time(takes_ns(block_ns), now_ns),
        }
    }

    /// Whoever waits for blocks to be written out goes on, if none are any more.
    pub(crate) fn end_work(&self) {
        if self.drain.in_flight() <= self.pace.zeros.load(Ordering::SeqCst) {
            self.pace.work_ends();
        }
    }

    /// Changes that are on their way past the cache.
    pub(crate) fn passing(&self) -> u32 {
        self.patience.waiting(Errand::Change).saturating_sub(self.drain.in_flight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use lane::World;

    const EMPTY: Level = Level {
        open: 0,
        open_max: 8000,
        debt: 0,
        debt_max: 16000,
        dirty: 0,
        dirty_max: 16000,
        closing: 0,
        closed: 0,
    };

    #[test]
    fn a_buffer_with_room_takes_what_comes() {
        for open in [0, 4000, 7000] {
            let level = Level { open, dirty: open, ..EMPTY };
            assert!(!level.is_pressed());
            assert_eq!(level.price(100), 0);
        }
    }

    #[test]
    fn prices_rise_smoothly_and_are_a_block_for_a_block_in_the_middle() {
        let at = |open| Level { open, dirty: open, ..EMPTY }.price(0);
        let middle = at(7500);
        assert!((1000..1050).contains(&middle), "{middle}");
        let mut before = 0;
        for open in 7000..8000 {
            let price = at(open);
            assert!(
                price >= before && price < before + before / 8 + 50 || open > 7900,
                "at {open}"
            );
            before = price;
        }
        assert!(before > 100 * ONE);
    }

    #[test]
    fn what_is_left_of_the_room_lasts_until_the_closed_epoch_is_written_out() {
        // A sixteenth of the room stays free, half of the rest is used, and as much is still to be written: the
        // same pace.
        let level =
            Level { open: 3750, debt: 7500, dirty: 7500, closing: 3750, closed: 1, ..EMPTY };
        assert!(level.is_pressed());
        assert_eq!(level.price(400), ONE);
        assert!(level.price(1000) > ONE);
        // A burst after a small epoch is not slowed down.
        let burst = Level { open: 1000, dirty: 1032, closing: 32, closed: 1, ..EMPTY };
        assert!(burst.price(100) < ONE / 32);
        assert!(!burst.is_pressed());
        // It lasts to the end, without a jump.
        let (mut open, mut closing, mut paid) = (1, 7400, 0);
        while closing > 0 {
            let level = Level {
                open,
                debt: open + closing,
                dirty: open + 7400,
                closing,
                closed: 1,
                ..EMPTY
            };
            let price = level.price(0).min(ONE + ONE / LONGER);
            assert!((ONE * 7 / 8..=ONE + ONE / LONGER).contains(&price), "{price} at {level:?}");
            paid += price;
            closing -= (paid / ONE).min(closing as u64) as u32;
            paid %= ONE;
            open += 1;
        }
        assert!(open < 8000 - 8000 / 20, "{open}");
    }

    /// Tasks that each claim one block at this price; how many have been answered after each of the steps.
    fn answered(pace: &Arc<Pace>, price: u64, writers: u32, steps: &[fn(&Pace)]) -> Vec<u32> {
        let mut world = World::chosen(7);
        let lane = world.lane();
        let done = Arc::new(AtomicU32::new(0));
        for _ in 0..writers {
            let (pace, done) = (pace.clone(), done.clone());
            let writer = async move {
                if let Turn::After(mine) = pace.claim(price) {
                    let _waiting = pace.waits();
                    pace.after(mine).await;
                }
                done.fetch_add(1, Ordering::SeqCst);
            };
            lane.spawn(writer).expect("a lane has room for them");
        }
        let step = |step: &fn(&Pace)| {
            step(pace);
            while world.step() {}
            done.load(Ordering::SeqCst)
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn a_writer_waits_for_as_many_blocks_as_it_brings_and_no_longer() {
        let pace = Arc::new(Pace::default());
        pace.work_begins();
        let steps: [fn(&Pace); 4] = [
            |_| (),
            |pace| pace.grant(1),
            |pace| pace.grant(3),
            |pace| {
                pace.grant(200);
            },
        ];
        assert_eq!(answered(&pace, ONE, 100, &steps), [0, 1, 4, 100]);
        assert_eq!(pace.places(), 0);
        // A few that nobody waited for are kept, not all.
        assert_eq!(answered(&pace, ONE, 500, &[|_| (), |pace| pace.grant(10)]), [104, 114]);
    }

    #[test]
    fn turns_by_the_clock_follow_each_other() {
        let pace = Pace::default();
        assert_eq!(pace.claim_time(10, 1000), Turn::Come);
        assert_eq!(pace.claim_time(10, 1000), Turn::At(1010));
        assert_eq!(pace.claim_time(10, 1005), Turn::At(1020));
        assert_eq!(pace.claim_time(10, 2000), Turn::Come, "nothing is saved up");
    }

    #[test]
    fn nobody_waits_while_nothing_is_written_out() {
        let pace = Arc::new(Pace::default());
        assert_eq!(answered(&pace, ONE, 3, &[|_| ()]), [3]);
        pace.work_begins();
        let ends: [fn(&Pace); 2] = [|_| (), |pace| pace.work_ends()];
        assert_eq!(answered(&pace, ONE, 100, &ends), [0, 100]);
        pace.work_begins();
        assert_eq!(answered(&pace, ONE, 1, &[|_| ()]), [0], "nothing is left over from before");
    }
}
