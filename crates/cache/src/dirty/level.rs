//! How full the write buffer is, and what that makes a new block cost (see [`crate::dirty::throttle`]).

use crate::dirty::gauges::Gauges;
use crate::dirty::limits::{DirtyLimits, SLOWED};
use lane::atomic::Ordering;

/// The price of a block for one that was written out. Prices are counted in 1024ths.
pub(crate) const ONE: u64 = 1024;

/// How full the buffer is, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    /// Dirty blocks of the open epoch.
    pub(crate) open: u32,
    /// Dirty blocks that wait to be written out.
    pub(crate) debt: u32,
    /// Dirty blocks of all epochs.
    pub(crate) dirty: u32,
    /// What these may be.
    pub(crate) max: DirtyLimits,
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
    /// `claimed`: what other changes may take before this one does.
    pub(crate) fn of(gauges: &Gauges, dirty_blocks_max: u32, claimed: u32) -> Level {
        let open = gauges.open.load(Ordering::SeqCst) + claimed;
        let dirty = gauges.dirty.load(Ordering::SeqCst) + claimed;
        let closed = gauges.closed.load(Ordering::SeqCst);
        let remaining = gauges.remaining.load(Ordering::SeqCst).max(0) as u32;
        let closing = match closed {
            0 => 0,
            1 => remaining,
            _ => dirty.saturating_sub(open),
        };
        Level {
            open,
            debt: gauges.debt() + claimed,
            dirty,
            max: gauges.limits(dirty_blocks_max),
            closing,
            closed,
        }
    }

    /// Whether so many blocks more may be dirty.
    #[inline]
    pub(crate) fn has_room_for(&self, new: u32) -> bool {
        self.has_room_behind(new) && self.open + new <= self.max.open
    }

    /// The same of blocks that can neither pass nor wait for the next epoch: only the hard limits hold them back.
    #[inline]
    pub(crate) fn has_room_behind(&self, new: u32) -> bool {
        self.dirty + new <= self.max.dirty && self.debt + new <= self.max.debt
    }

    /// Whether the last eighth of the room is in use.
    #[inline]
    pub(crate) fn is_filling(&self) -> bool {
        let near = |level: u32, max: u32| level > max - max / SLOWED;
        near(self.open, self.max.open)
            || near(self.debt, self.max.debt)
            || near(self.dirty, self.max.dirty)
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
        self.max.open.min(self.max.dirty.saturating_sub(held))
    }

    /// Whether there is room again, after there was none: a quarter of it.
    pub(crate) fn has_room_again(&self) -> bool {
        let below = |level: u32, max: u32| level <= max - max / 4;
        below(self.open, self.max.open)
            && below(self.debt, self.max.debt)
            && below(self.dirty, self.max.dirty)
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
        let entry = (all - reserve).saturating_sub(self.open);
        let ramp = u64::from(all / SLOWED).max(1);
        let beyond = (u64::from(self.open) + left).saturating_sub(u64::from(self.spread_from()));
        let whole = (left.saturating_mul(ONE) / u64::from(entry.max(1))).min(2 * ONE);
        let spread = whole * beyond.min(ramp) / ramp;
        filling(used_of_last(self.debt, self.max.debt)).max(spread)
    }

    /// The same where room comes back bit by bit.
    pub(crate) fn filling(&self) -> u64 {
        let open = used_of_last(self.open, self.max.open);
        let debt = used_of_last(self.debt, self.max.debt);
        filling(open.max(debt).max(used_of_last(self.dirty, self.max.dirty)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirty::throttle::PRICE_MAX;

    const EMPTY: Level = Level {
        open: 0,
        debt: 0,
        dirty: 0,
        max: DirtyLimits { dirty: 16000, debt: 16000, open: 8000 },
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
            let price = level.price(0).min(PRICE_MAX);
            assert!((ONE * 7 / 8..=PRICE_MAX).contains(&price), "{price} at {level:?}");
            paid += price;
            closing -= (paid / ONE).min(closing as u64) as u32;
            paid %= ONE;
            open += 1;
        }
        assert!(open < 8000 - 8000 / 20, "{open}");
    }
}
