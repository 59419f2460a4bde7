//! The fill level of the write buffer, and the price of a new block at that level (see
//! [`crate::dirty::throttle`]).

use crate::dirty::gauges::Gauges;
use crate::dirty::limits::{DirtyLimits, SLOWED};

/// The price of one written-back block per new block. Prices are counted in 1024ths.
pub(crate) const ONE: u64 = 1024;

/// Writers may be ahead of writeback by one part in this number of the remaining room.
const LEAD_PART: u32 = 8;

/// The fill level of the buffer, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    /// Dirty blocks of the open epoch.
    pub(crate) open: u32,
    /// Dirty blocks that wait for writeback.
    pub(crate) debt: u32,
    /// Dirty blocks of all epochs.
    pub(crate) dirty: u32,
    /// The limits on these numbers.
    pub(crate) max: DirtyLimits,
    /// Blocks of closed epochs that are not written yet.
    pub(crate) closing: u32,
    /// Closed epochs.
    pub(crate) closed: u32,
}

/// Returns the price where `used` 1024ths of the last eighth are used.
fn filling(used: u64) -> u64 {
    ONE * used / (1025 - used.min(1024))
}

/// Returns the used part of the last eighth below `max`, in 1024ths.
fn used_of_last(level: u32, max: u32) -> u64 {
    let last = u64::from(max / SLOWED);
    let beyond = u64::from(level).saturating_sub(u64::from(max) - last);
    (beyond * 1024).checked_div(last).map_or(0, |used| used.min(1024))
}

impl Level {
    /// Returns the current level. `claimed`: blocks that other changes may take before this one.
    pub(crate) fn of(gauges: &Gauges, dirty_blocks_max: u32, claimed: u32) -> Level {
        let open = gauges.open() + claimed;
        let dirty = gauges.dirty() + claimed;
        let closed = gauges.closed();
        let remaining = gauges.remaining().max(0) as u32;
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

    /// Whether `new` more blocks may be dirty.
    #[inline]
    pub(crate) fn has_room_for(&self, new: u32) -> bool {
        self.has_hard_room_for(new) && self.open + new <= self.max.open
    }

    /// Whether `new` blocks may be dirty of a change that can neither be written through nor wait
    /// for the next epoch: only the hard limits hold it back.
    #[inline]
    pub(crate) fn has_hard_room_for(&self, new: u32) -> bool {
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

    /// Returns the used part of the room between the floor of early writeback and the last eighth,
    /// in 1024ths.
    pub(crate) fn filled(&self) -> u32 {
        let part = |level: u32, max: u32| {
            let (floor, top) = (u64::from(max / 2), u64::from(max - max / SLOWED));
            let above = u64::from(level).saturating_sub(floor).min(top - floor);
            (above * ONE).checked_div(top - floor).unwrap_or(0) as u32
        };
        part(self.open, self.max.open)
            .max(part(self.debt, self.max.debt))
            .max(part(self.dirty, self.max.dirty))
    }

    /// Whether writers may have to be throttled: the quick check.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_filling() || self.closing > 0 && self.open + self.closing > self.spread_from()
    }

    /// While an epoch is being written back: up to this number of blocks that are open or left to
    /// write, new writes count as a burst; beyond it, the blocks left to write are spread over the
    /// room.
    fn spread_from(&self) -> u32 {
        self.open_room() / 4 * 3
    }

    /// Returns the maximum size of the open epoch before the closed ones are durable.
    fn open_room(&self) -> u32 {
        let held = self.dirty.saturating_sub(self.open);
        self.max.open.min(self.max.dirty.saturating_sub(held))
    }

    /// Returns the number of blocks that writers may claim ahead of writeback: an eighth of the
    /// remaining room, so that a backing that stops does not fill the buffer. 0 while an epoch is
    /// closed, because then room becomes free only at the end of its writeback.
    pub(crate) fn lead(&self) -> u32 {
        if self.closing > 0 {
            return 0;
        }
        let left = |level: u32, max: u32| max.saturating_sub(level);
        let open = left(self.open, self.max.open);
        let debt = left(self.debt, self.max.debt);
        open.min(debt).min(left(self.dirty, self.max.dirty)) / LEAD_PART
    }

    /// Whether a quarter of the room is free again, after there was none.
    pub(crate) fn has_room_again(&self) -> bool {
        let below = |level: u32, max: u32| level <= max - max / 4;
        below(self.open, self.max.open)
            && below(self.debt, self.max.debt)
            && below(self.dirty, self.max.dirty)
    }

    /// Returns the price of one new block, in 1024ths of a written-back block, where a flush takes
    /// as long as the writeback of `flush_blocks`.
    pub(crate) fn price(&self, flush_blocks: u64) -> u64 {
        if self.closing == 0 {
            return self.filling();
        }
        let all = self.open_room();
        // Reserves room for writes that arrive while the backing flushes.
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

    /// Returns the price where room becomes free gradually.
    pub(crate) fn filling(&self) -> u64 {
        let open = used_of_last(self.open, self.max.open);
        let debt = used_of_last(self.debt, self.max.debt);
        filling(open.max(debt).max(used_of_last(self.dirty, self.max.dirty)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirty::gauges::Stage;
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
    fn the_room_is_filled_from_a_half_to_where_writers_are_throttled() {
        let filled = |open| Level { open, debt: open, dirty: open, ..EMPTY }.filled();
        assert_eq!([0, 4000, 5500, 7000, 9000].map(filled), [0, 0, 512, 1024, 1024]);
        assert_eq!(Level { debt: 14_000, ..EMPTY }.filled(), 1024, "of other epochs");
        assert!(!Level { open: 7000, ..EMPTY }.is_filling(), "and not before");
        let none = DirtyLimits { dirty: 0, debt: 0, open: 0 };
        assert_eq!(Level { max: none, ..EMPTY }.filled(), 0);
    }

    #[test]
    fn the_lead_of_writers_is_a_part_of_the_smallest_room() {
        let lead = |level: Level| level.lead();
        assert_eq!(lead(Level { open: 7200, debt: 7200, dirty: 7200, ..EMPTY }), 100);
        assert_eq!(lead(Level { open: 7200, debt: 7200, dirty: 15_920, ..EMPTY }), 10);
        assert_eq!(lead(Level { open: 7200, debt: 15_960, dirty: 7200, ..EMPTY }), 5);
        assert_eq!(lead(Level { open: 7993, ..EMPTY }), 0);
        assert_eq!(lead(Level { open: 8001, ..EMPTY }), 0, "a limit has become smaller");
        assert_eq!(lead(Level { open: 7200, closing: 1, closed: 1, ..EMPTY }), 0);
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
        // A sixteenth of the room stays free, half of the rest is used, and the same amount is
        // still to be written: the same pace.
        let level =
            Level { open: 3750, debt: 7500, dirty: 7500, closing: 3750, closed: 1, ..EMPTY };
        assert!(level.is_pressed());
        assert_eq!(level.price(400), ONE);
        assert!(level.price(1000) > ONE);
        // A burst after a small epoch is not throttled.
        let burst = Level { open: 1000, dirty: 1032, closing: 32, closed: 1, ..EMPTY };
        assert!(burst.price(100) < ONE / 32);
        assert!(!burst.is_pressed());
        // The room lasts to the end, and the price has no jump.
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

    #[test]
    fn a_level_counts_what_other_changes_may_take_as_taken() {
        let gauges = Gauges::new(1);
        (0..10).for_each(|_| gauges.block_dirtied(Stage::Open));
        (0..7).for_each(|_| gauges.block_dirtied(Stage::Closing));
        (0..13).for_each(|_| gauges.block_dirtied(Stage::Closed));
        let max = DirtyLimits { dirty: 1600, debt: 1600, open: 700 };
        let level = |closing, closed| Level { open: 13, debt: 20, dirty: 33, max, closing, closed };
        assert_eq!(Level::of(&gauges, 1600, 3), level(0, 0));
        // For one closed epoch the number of blocks left to write is known; for several, all dirty
        // blocks count.
        gauges.publish_closed(1, 0);
        assert_eq!(Level::of(&gauges, 1600, 3), level(7, 1));
        gauges.publish_closed(2, 0);
        assert_eq!(Level::of(&gauges, 1600, 3), level(20, 2));
    }

    #[test]
    fn there_is_room_up_to_each_limit_and_no_further() {
        let full = Level { open: 7990, debt: 15_990, dirty: 15_990, ..EMPTY };
        assert!(full.has_room_for(10) && !full.has_room_for(11));
        let open = Level { open: 7991, ..full };
        assert!(
            !open.has_room_for(10) && open.has_hard_room_for(10),
            "behind, the epoch is another"
        );
        for level in [Level { debt: 15_991, ..full }, Level { dirty: 15_991, ..full }] {
            assert!(!level.has_room_for(10) && !level.has_hard_room_for(10));
            assert!(level.has_room_for(9) && level.has_hard_room_for(9));
        }
    }

    #[test]
    fn it_is_filling_in_the_last_eighth_of_any_limit_and_has_room_again_below_the_last_quarter() {
        let open = |open| Level { open, ..EMPTY };
        let debt = |debt| Level { debt, ..EMPTY };
        let dirty = |dirty| Level { dirty, ..EMPTY };
        assert!(!open(7000).is_filling() && open(7001).is_filling() && open(7001).is_pressed());
        assert!(!debt(14_000).is_filling() && debt(14_001).is_filling());
        assert!(!dirty(14_000).is_filling() && dirty(14_001).is_filling());
        assert!(open(6000).has_room_again() && !open(6001).has_room_again());
        assert!(debt(12_000).has_room_again() && !debt(12_001).has_room_again());
        assert!(dirty(12_000).has_room_again() && !dirty(12_001).has_room_again());
    }

    #[test]
    fn while_an_epoch_is_written_out_it_is_pressed_from_three_quarters_of_the_room_on() {
        let level = |open, closing| Level { open, dirty: open, closing, closed: 1, ..EMPTY };
        assert!(!level(3000, 3000).is_pressed() && level(3000, 3001).is_pressed());
        assert!(level(6000, 1).is_pressed() && !level(6500, 0).is_pressed());
        // Blocks of closed epochs, written or not, take room: of 4000 blocks 3000 are three
        // quarters.
        let held = |open| Level { dirty: open + 12_000, ..level(open, 1000) };
        assert!(!held(2000).is_pressed() && held(2001).is_pressed());
        let more = Level { dirty: 20_000, ..level(1, 1) };
        assert!(more.is_pressed(), "there is no room at all");
    }

    #[test]
    fn the_price_of_filling_follows_the_limit_that_is_nearest() {
        assert_eq!([0, 1, 512, 1023, 1024, 2000].map(filling)[..3], [0, 1, 1022]);
        assert_eq!([1023, 1024].map(filling), [523_776, ONE * ONE]);
        let used = [6999, 7000, 7001, 7500, 8000, 9000].map(|level| used_of_last(level, 8000));
        assert_eq!(used, [0, 0, 1, 512, 1024, 1024]);
        assert_eq!(used_of_last(7, 7), 0, "there is no last eighth");
        let levels = [
            Level { open: 7500, debt: 14_500, dirty: 14_500, ..EMPTY },
            Level { open: 7250, debt: 15_000, dirty: 14_500, ..EMPTY },
            Level { open: 7250, debt: 14_500, dirty: 15_000, ..EMPTY },
        ];
        for level in levels {
            assert_eq!((level.filling(), level.price(1000)), (1022, 1022));
        }
    }

    #[test]
    fn while_an_epoch_is_written_out_the_price_is_what_is_left_to_write_by_what_is_left_of_the_room()
     {
        // 7500 blocks of the room can be used, 2500 are used: 4000 are spread over 5000. The level
        // is halfway up the ramp.
        let level =
            Level { open: 2500, debt: 6500, dirty: 6500, closing: 4000, closed: 1, ..EMPTY };
        assert_eq!(level.price(0), 819 / 2);
        assert_eq!(Level { closing: 4500, ..level }.price(0), 921);
        assert_eq!(Level { closing: 3500, ..level }.price(0), 0);
        // A flush counts beyond the reserve, once for each epoch.
        assert_eq!((level.price(500), level.price(1500)), (819 / 2, ONE));
        assert_eq!(Level { closed: 2, ..level }.price(750), ONE);
        // At most two, even where no room is left.
        assert_eq!(Level { closing: 12_000, ..level }.price(0), 2 * ONE);
        assert_eq!(Level { open: 7500, dirty: 12_000, ..level }.price(0), 2 * ONE);
        // The debt may be nearer to its limit.
        assert_eq!(Level { debt: 15_000, ..level }.price(0), 1022);
    }
}
