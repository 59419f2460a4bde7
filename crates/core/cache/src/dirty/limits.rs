//! The limits on dirty data: from the settings (C6), and from the backing's speed of writeback
//! (C13).
//!
//! ```text
//!   dirty   blocks of all epochs               dirty_bytes
//!   debt    blocks that wait to be written     at most the allowance: the blocks that the backing
//!                                              writes within flush_target (`ordered`: dirty_age)
//!   open    blocks of the open epoch           nearly half of `dirty`, and at most `debt`
//! ```
//!
//! All of this is arithmetic. [`crate::dirty::gauges`] counts the dirty data, and
//! [`crate::dirty::level`] compares the counts with the limits.

use crate::epochs::CHAIN_MAX;
use crate::planted::{Bug, planted};

/// Blocks per second that are assumed for a backing before its speed was measured: 50 MB/s.
const DRAIN_ASSUMED: u64 = 12_800;
/// The last part of the room, in which writers are throttled: an eighth.
pub(crate) const SLOWED: u32 = 8;
/// Blocks written early are made durable in steps of this number of blocks; a small buffer keeps
/// its eighth.
const SETTLE_STEP: u32 = 256;
/// The part of the open epoch's limit up to which ready runs wait although the device is idle:
/// small files and short bursts may be rewritten or discarded soon.
const IDLE: u32 = 32;

/// The speed of the backing for writeback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    /// Blocks per second; an assumption before it was measured.
    blocks_per_second: u64,
    /// The time of a flush of the backing, in nanoseconds; 0 before it was measured.
    pub(crate) flush_ns: u64,
}

impl Pace {
    /// Makes a measured pace; 0: not measured yet.
    pub(crate) fn new(blocks_per_second: u64, flush_ns: u64) -> Pace {
        let blocks_per_second = match blocks_per_second {
            0 => DRAIN_ASSUMED,
            rate => rate,
        };
        Pace { blocks_per_second, flush_ns }
    }

    /// Returns the time per block at the best rate, in nanoseconds.
    pub(crate) fn block_ns(self) -> u64 {
        (1_000_000_000 / self.blocks_per_second).max(1)
    }

    /// Returns the time for these blocks, in nanoseconds, if they are written together.
    fn blocks_ns(self, blocks: u32) -> u64 {
        u64::from(blocks) * 1_000_000_000 / self.blocks_per_second
    }
}

/// The limits on dirty blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirtyLimits {
    /// Dirty blocks of all epochs, in every state (C6).
    pub(crate) dirty: u32,
    /// Blocks that wait for writeback (C13).
    pub(crate) debt: u32,
    /// Blocks of the open epoch: nearly half of all dirty blocks, so that it can fill while the
    /// closing one is written back. (The rest may be on the backing already, and not durable.)
    pub(crate) open: u32,
}

impl DirtyLimits {
    /// Makes the limits for a maximum from the settings and an allowance from the measured pace.
    #[inline]
    pub(crate) fn new(dirty_blocks_max: u32, allowance: u32) -> DirtyLimits {
        let dirty = match planted(Bug::IgnoreDirtyLimit) {
            true => u32::MAX / 4,
            false => dirty_blocks_max,
        };
        let debt = match planted(Bug::IgnoreDirtyLimit) || planted(Bug::IgnoreDebt) {
            true => dirty,
            false => dirty.min(allowance),
        };
        let open = (dirty / 16 * 7 + (dirty % 16 * 7).div_ceil(16)).min(debt);
        DirtyLimits { dirty, debt, open }
    }

    /// Returns the last part of the open epoch's limit, in which writers are throttled.
    pub(crate) fn last_part(self) -> u32 {
        self.open / SLOWED
    }

    /// Whether an open epoch of this size is large enough to write back its ready runs while the
    /// device is idle.
    #[inline]
    pub(crate) fn has_some_to_write(self, open: u32) -> bool {
        open > self.open / IDLE
    }

    /// Whether an open epoch of this size should be written back early: from three quarters of its
    /// limit on ...
    #[inline]
    pub(crate) fn has_much_to_write(self, open: u32) -> bool {
        open > 0 && u64::from(open) * 4 >= u64::from(self.open) * 3
    }

    /// ... down to this size, a half. Blocks that are rewritten before that are written only once.
    pub(crate) fn early_floor(self) -> u32 {
        self.open / 2
    }

    /// Whether enough blocks were written back early to flush the backing for them: as many as
    /// leave room for two full epochs beside them, up to a quarter of all dirty blocks, in steps of
    /// a MiB, and at least an eighth of the open epoch's limit. Each flush makes a drive program
    /// pages that are not full. `is_ordered`: they count as debt, so that an eighth is enough.
    pub(crate) fn has_much_to_settle(self, settling: u32, is_ordered: bool) -> bool {
        let room = match is_ordered {
            true => 0,
            false => self.dirty.saturating_sub(self.open.saturating_mul(2)).min(self.dirty / 4),
        };
        settling > 0 && settling >= (room / SETTLE_STEP * SETTLE_STEP).max(self.open / 8)
    }
}

/// C13: returns the number of blocks that may wait for writeback, so that it takes no longer than
/// `target_ns` as far as is known; 0: no target.
pub(crate) fn allowance(dirty_blocks_max: u32, target_ns: u64, pace: Pace) -> u32 {
    if target_ns == 0 {
        return dirty_blocks_max;
    }
    let time_ns = target_ns.saturating_sub(pace.flush_ns);
    // When a client's flush arrives, another one may be in progress.
    let time_ns = time_ns - pace.flush_ns.min(time_ns / 2);
    let blocks = u128::from(pace.blocks_per_second) * u128::from(time_ns) / 1_000_000_000;
    // Even a backing that is too slow for any debt gets two blocks: otherwise its speed would never
    // be measured again.
    (blocks.min(u128::from(dirty_blocks_max)) as u32).max(2)
}

/// Returns the allowance that follows the allowance `before`. When the backing becomes slower, the
/// existing debt can only be written back. Until then it may not grow, but writers are throttled
/// rather than left without room: the limit follows the debt down. (Throttled writers keep the debt
/// in the middle of the last eighth: a limit further away from the debt would never move.)
pub(crate) fn sliding_allowance(
    allowance: u32,
    before: u32,
    dirty_blocks_max: u32,
    debt: u32,
) -> u32 {
    allowance.max(before.min(dirty_blocks_max).min(debt + debt / 20))
}

/// `ordered`: returns the maximum number of closed epochs. Each takes a flush of the backing, and
/// all together must not take longer than the maximum age of dirty data (C6).
pub(crate) fn chain_max(dirty_age_ns: u64, flush_ns: u64) -> usize {
    match flush_ns {
        0 => CHAIN_MAX,
        flush_ns => usize::try_from(dirty_age_ns / flush_ns).unwrap_or(CHAIN_MAX),
    }
}

/// Returns the time to make this debt durable, in nanoseconds. In `ordered` mode each epoch is
/// written back separately, and the backing is flushed after each: many small epochs take much
/// longer than their blocks in one run. `run_ns`: the minimum time of a run of an epoch's share of
/// the debt.
pub(crate) fn flush_predicted_ns(debt: u32, epochs: u32, run_ns: u64, pace: Pace) -> u64 {
    let apart_ns = if epochs > 1 { run_ns.saturating_mul(epochs.into()) } else { 0 };
    let flushes_ns = pace.flush_ns.saturating_mul(epochs.into());
    pace.blocks_ns(debt).max(apart_ns).saturating_add(flushes_ns)
}

/// Returns the maximum number of a shard's dirty slots: a sixteenth of its slots is reserved for
/// reads.
pub(crate) fn dirty_slots_max(slots: u32) -> u32 {
    slots - (slots / 16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn the_open_epoch_may_hold_nearly_half_and_no_more_than_the_debt() {
        let limits = DirtyLimits::new(1600, u32::MAX);
        assert_eq!(limits, DirtyLimits { dirty: 1600, debt: 1600, open: 700 });
        assert_eq!(DirtyLimits::new(1600, 100), DirtyLimits { dirty: 1600, debt: 100, open: 100 });
        // The smallest buffer has room for one block of each of two epochs.
        assert_eq!(DirtyLimits::new(2, u32::MAX).open, 1);
    }

    #[test]
    fn the_open_epoch_is_written_early_from_three_quarters_down_to_a_half() {
        let limits = DirtyLimits { dirty: 1600, debt: 1600, open: 800 };
        assert!(!limits.has_much_to_write(599) && limits.has_much_to_write(600));
        assert_eq!((limits.early_floor(), limits.last_part()), (400, 100));
        let much = |limits: DirtyLimits, settling| limits.has_much_to_settle(settling, false);
        assert!(!much(limits, 99) && much(limits, 100));
        let least = |open| {
            let limits = DirtyLimits { open, ..limits };
            (0..=1600).find(|settling| much(limits, *settling))
        };
        assert_eq!([700, 650, 500].map(least), [Some(87), Some(256), Some(256)]);
        assert!(DirtyLimits { open: 650, ..limits }.has_much_to_settle(81, true));
        let none = DirtyLimits { dirty: 2, debt: 2, open: 0 };
        assert!(!none.has_much_to_write(0) && !much(none, 0));
    }

    #[test]
    fn what_may_wait_is_what_the_backing_writes_within_the_target() {
        let pace = Pace::new(1000, 0);
        assert_eq!(allowance(50_000, 0, pace), 50_000, "no target");
        assert_eq!(allowance(50_000, 3 * SECOND_NS, pace), 3000);
        assert_eq!(allowance(2000, 3 * SECOND_NS, pace), 2000);
        // Two flushes: the one in progress, and its own; but at least half of the remaining time.
        assert_eq!(allowance(50_000, 3 * SECOND_NS, Pace::new(1000, SECOND_NS / 2)), 2000);
        assert_eq!(allowance(50_000, 3 * SECOND_NS, Pace::new(1000, 2 * SECOND_NS)), 500);
        assert_eq!(allowance(50_000, SECOND_NS, Pace::new(1000, 2 * SECOND_NS)), 2);
        assert_eq!(
            allowance(50_000, SECOND_NS, Pace::new(0, 0)),
            DRAIN_ASSUMED as u32,
            "not measured"
        );
    }

    #[test]
    fn the_allowance_follows_the_debt_down_and_jumps_up() {
        assert_eq!(sliding_allowance(100, 4000, 8000, 2000), 2100);
        assert_eq!(sliding_allowance(100, 1000, 8000, 2000), 1000, "it never rises with the debt");
        assert_eq!(sliding_allowance(100, 4000, 1500, 2000), 1500, "nor above the settings");
        assert_eq!(sliding_allowance(5000, 4000, 8000, 2000), 5000);
    }

    #[test]
    fn epochs_apart_take_longer_than_together() {
        let pace = Pace::new(1000, SECOND_NS / 100);
        assert_eq!(flush_predicted_ns(500, 1, SECOND_NS, pace), SECOND_NS / 2 + SECOND_NS / 100);
        let run_ns = SECOND_NS / 10;
        assert_eq!(flush_predicted_ns(500, 10, run_ns, pace), SECOND_NS + SECOND_NS / 10);
        assert_eq!(chain_max(SECOND_NS, 0), CHAIN_MAX);
        assert_eq!(chain_max(SECOND_NS, SECOND_NS / 10), 10);
    }

    #[test]
    fn a_sixteenth_of_the_slots_is_kept_for_reading() {
        assert_eq!((dirty_slots_max(1600), dirty_slots_max(15), dirty_slots_max(1)), (1500, 14, 0));
    }

    #[test]
    fn a_block_takes_its_share_of_a_second() {
        assert_eq!(
            [1000, 3, 2_000_000_000].map(|rate| Pace::new(rate, 0).block_ns()),
            [1_000_000, 333_333_333, 1]
        );
    }

    #[test]
    fn what_does_not_divide_by_sixteen_is_rounded_up_for_the_open_epoch() {
        assert_eq!(
            [1600, 1601, 1607, 1615].map(|dirty| DirtyLimits::new(dirty, u32::MAX).open),
            [700, 701, 704, 707]
        );
    }
}
