//! How fast the write buffer may fill: writers are slowed down before it is full, and smoothly.
//!
//! Up to seven eighths of its room the buffer takes what comes. Beyond that, too, but the answer waits:
//! each new block takes its turn on a clock that all writers share, and the turns grow longer as the room
//! shrinks: in the middle they are as long as the backing takes to write a block out, so that the level
//! stays where the writers are as fast as the backing. (OpenZFS's write throttle has the same shape.) While
//! an epoch is being written out, room comes back only at its end; then what is left of it is spread over
//! what is left to write.
//!
//! ```text
//!   turn       A = block_ns * x / (1 - x)              x: how much of the last eighth is used
//!              B = time to write out / room left       while an epoch is closed
//! ```
//!
//! A turn is never much longer than the backing itself would take for the change with as many writers as
//! there are: whoever is slowed down is not slower than without the cache. A device that takes the same writes one
//! by one can take them in runs, so that is enough to keep the buffer from filling up. If it does fill up
//! all the same (the device has become slower), changes go past it.

use crate::drain::{DRAIN_ASSUMED, Drain};
use crate::patience::Errand;
use crate::settings::Settings;
use crate::shard::Gauges;
use crate::shared::Shared;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The last part of the room in which writers are slowed down: an eighth.
const SLOWED: u32 = 8;
/// Turns shorter than this part of the backing's own time for a block are not waited for one by one.
const GRAIN: u64 = 4;
/// A turn may be longer than the backing's own time by this part of it: were it not, writers as many as the
/// backing can serve would keep the buffer as full as it is.
const LONGER: u64 = 12;

/// The clock that writers share.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When the next turn begins, in nanoseconds.
    next_ns: AtomicU64,
    /// Writers that wait for theirs.
    waiting: AtomicU32,
    /// Changes that have waited for it, and how long in all.
    pub(crate) slowed: AtomicU64,
    pub(crate) slowed_ns: AtomicU64,
}

/// How full the buffer is, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    /// Dirty blocks of the open epoch.
    pub(crate) open: u32,
    /// What they may be: half of the limit.
    pub(crate) open_max: u32,
    /// Dirty blocks of all epochs.
    pub(crate) dirty: u32,
    /// What they may be.
    pub(crate) dirty_max: u32,
    /// Blocks of closed epochs that are not written out.
    pub(crate) closing: u32,
    /// Closed epochs.
    pub(crate) closed: u32,
}

/// How much of the last eighth below `max` is used, in 1024ths.
fn used_of_last(level: u32, max: u32) -> u64 {
    let last = u64::from(max / SLOWED);
    let beyond = u64::from(level).saturating_sub(u64::from(max) - last);
    (beyond * 1024).checked_div(last).map_or(0, |used| used.min(1024))
}

impl Level {
    pub(crate) fn of(gauges: &Gauges, settings: &Settings) -> Level {
        let dirty_max = gauges.dirty_limit(settings);
        let open = gauges.open.load(Ordering::Relaxed);
        let dirty = gauges.dirty.load(Ordering::Relaxed);
        let closed = gauges.closed.load(Ordering::SeqCst);
        let remaining = gauges.remaining.load(Ordering::SeqCst).max(0) as u32;
        let closing = match closed {
            0 => 0,
            1 => remaining,
            _ => dirty.saturating_sub(open),
        };
        Level { open, open_max: dirty_max.div_ceil(2), dirty, dirty_max, closing, closed }
    }

    /// Whether the last eighth of the room is in use.
    #[inline]
    pub(crate) fn is_filling(&self) -> bool {
        let near = |level: u32, max: u32| level > max - max / SLOWED;
        near(self.open, self.open_max) || near(self.dirty, self.dirty_max)
    }

    /// Whether writers may have to be slowed down: the quick look.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_filling() || self.closing > self.open_max / SLOWED
    }

    /// Whether there is room again, after there was none: a quarter of it.
    pub(crate) fn has_room_again(&self) -> bool {
        let below = |level: u32, max: u32| level <= max - max / 4;
        below(self.open, self.open_max) && below(self.dirty, self.dirty_max)
    }

    /// How long the turn of one new block is, in nanoseconds, where the backing takes `block_ns` to write
    /// one out, and `flush_ns` for a flush.
    pub(crate) fn turn_ns(&self, block_ns: u64, flush_ns: u64) -> u64 {
        let used =
            used_of_last(self.open, self.open_max).max(used_of_last(self.dirty, self.dirty_max));
        let filling = block_ns.saturating_mul(used) / (1025 - used.min(1024));
        if self.closed == 0 {
            return filling;
        }
        let time = block_ns
            .saturating_mul(u64::from(self.closing))
            .saturating_add(flush_ns.saturating_mul(u64::from(self.closed)));
        let held = self.dirty.saturating_sub(self.open);
        let room = self.open_max.min(self.dirty_max.saturating_sub(held)).saturating_sub(self.open);
        // The first quarter is for bursts; from there on, what is left is spread.
        let quarter = u64::from(self.open_max / 4).max(1);
        let ramp = u64::from(self.open).min(quarter);
        let spread = time / u64::from(room.max(1)) * ramp / quarter;
        filling.max(spread)
    }
}

impl Pace {
    /// When the turn of a change of `new` blocks begins; `now_ns`: at once. `passing`: so many writers wait for
    /// the backing itself.
    pub(crate) fn turn(
        &self,
        level: &Level,
        drain: &Drain,
        new: u32,
        passing: u32,
        now_ns: u64,
    ) -> u64 {
        let block_ns = drain.block_ns().unwrap_or(1_000_000_000 / DRAIN_ASSUMED);
        let flush_ns = drain.flush_ns.load(Ordering::Relaxed);
        let alone_ns = drain.least_of(new).unwrap_or(block_ns * u64::from(new));
        let writers = u64::from(self.waiting.load(Ordering::Relaxed) + passing) + 1;
        // Many writers share what the backing can do, few of them wait for each other.
        let one_ns = drain.least_of(1).unwrap_or(block_ns).max(1);
        let shared_ns =
            u128::from(alone_ns) * u128::from(block_ns.min(one_ns)) / u128::from(one_ns);
        let bare_ns = (alone_ns / writers).max(shared_ns as u64);
        let most = bare_ns + bare_ns / LONGER;
        let turn = level.turn_ns(block_ns, flush_ns).saturating_mul(u64::from(new)).min(most);
        let mut begins = now_ns;
        let _ = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            begins = next.max(now_ns);
            Some(begins.saturating_add(turn))
        });
        match begins - now_ns < alone_ns / GRAIN / u64::from(new.max(1)) {
            true => now_ns,
            false => begins,
        }
    }
}

/// A writer that waits for its turn. Dropping it says that it does not any more.
pub(crate) struct Waiting<'a>(&'a Pace);

impl Pace {
    /// Whether a writer waits for its turn.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// A writer begins to wait for its turn, for so long.
    pub(crate) fn waits(&self, ns: u64) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.slowed.fetch_add(1, Ordering::Relaxed);
        self.slowed_ns.fetch_add(ns, Ordering::Relaxed);
        Waiting(self)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Changes that are on their way past the cache.
    pub(crate) fn passing(&self) -> u32 {
        self.patience.waiting(Errand::Change).saturating_sub(self.drain.in_flight())
    }

    /// When the turn of a change of `new` blocks begins.
    pub(crate) fn turn_of(&self, new: u32, now_ns: u64) -> u64 {
        let level = Level::of(&self.gauges, &self.settings.now());
        self.pace.turn(&level, &self.drain, new, self.passing(), now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Level =
        Level { open: 0, open_max: 8000, dirty: 0, dirty_max: 16000, closing: 0, closed: 0 };

    #[test]
    fn a_buffer_with_room_takes_what_comes() {
        for open in [0, 4000, 7000] {
            let level = Level { open, dirty: open, ..EMPTY };
            assert!(!level.is_pressed());
            assert_eq!(level.turn_ns(15_000, 1_500_000), 0);
        }
    }

    #[test]
    fn turns_grow_smoothly_and_are_as_long_as_a_write_out_in_the_middle() {
        let at = |open| Level { open, dirty: open, ..EMPTY }.turn_ns(15_000, 0);
        let middle = at(7500);
        assert!((14_500..15_500).contains(&middle), "{middle}");
        let mut before = 0;
        for open in 7000..8000 {
            let turn = at(open);
            assert!(turn >= before, "at {open}");
            before = turn;
        }
        assert!(before > 1_000_000);
    }

    #[test]
    fn what_is_left_of_the_room_lasts_until_the_closed_epoch_is_written_out() {
        // Half of the room is used, and as much is still to be written: the same pace.
        let level = Level { open: 4000, dirty: 8000, closing: 4000, closed: 1, ..EMPTY };
        let turn = level.turn_ns(15_000, 0);
        assert!((14_500..15_500).contains(&turn), "{turn}");
        // A burst after a small epoch is not slowed down.
        let burst = Level { open: 1000, dirty: 1032, closing: 32, closed: 1, ..EMPTY };
        assert!(burst.turn_ns(15_000, 1_500_000) < 500);
    }

    #[test]
    fn nobody_waits_longer_than_for_the_backing_itself() {
        let drain = Drain::default();
        for run in 0..200u64 {
            assert!(drain.may_begin(run * 15_000, crate::drain::Rivals::default()));
            drain.end(run * 15_000 + 44_000, run * 15_000, 1, 16, crate::drain::Rivals::default());
        }
        let pace = Pace::default();
        let full = Level { open: 8000, dirty: 8000, ..EMPTY };
        let mut now = 1_000_000_000;
        for _ in 0..100 {
            let begins = pace.turn(&full, &drain, 1, 0, now);
            assert!(begins - now <= 44_000 + 44_000 / LONGER, "{}", begins - now);
            now = begins + 1_000;
        }
    }
}
