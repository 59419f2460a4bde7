//! Counts of dirty data that are read without a lock.
//!
//! Only this file changes a number. Each transition of a block or of an epoch is a method here,
//! which changes all numbers that count it. A transition is made in the section in which the block
//! changes lists, so the numbers agree between two sections (`Gauges::check`):
//!
//! ```text
//!               open --------------------> closed ----------> closing ---> written ---> clean
//!   block_dirtied  | shard_closed   epoch_begun  closing_written    block_cleaned
//!                  |
//!                  |  early_begun         early_written        early_settled, block_cleaned
//!                  '-----> under way ---------> settling ------> clean
//! ```

use crate::arena::Arena;
use crate::dirty::claims::{Claim, Claims};
use crate::dirty::limits::{self, DirtyLimits, Pace};
use crate::planted::{Bug, planted};
use crate::settings::Settings;
use crate::stats::counters::Counters;
use lane::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use lane::planted::Race;

/// The stage of a dirty block on its way to the backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Its epoch is open, and it waits to be written.
    Open,
    /// Its epoch is closed, and waits for older epochs.
    Closed,
    /// Its epoch is being written back, and it waits to be written.
    Closing,
    /// Its epoch is being written back, and it is written.
    Written,
    /// It was written early, and is not known to be durable.
    Settling,
    /// Its write has ended, and no list holds it.
    Ended,
}

/// Lowers a count. It must not fall below zero.
#[inline]
fn lower(count: &AtomicU32, by: u32, order: Ordering) {
    let before = count.fetch_sub(by, order);
    if cfg!(feature = "laboratory") {
        assert!(before >= by, "a gauge of {before} is lowered by {by}");
    }
}

/// State shared by all shards: counts and measurements that are read inside sections.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// The next admission number.
    sequence: AtomicU64,
    /// Dirty blocks of all epochs.
    dirty: AtomicU32,
    /// Blocks that may be taken by changes that are being decided.
    claims: Claims,
    /// Dirty blocks of the open epoch.
    open: AtomicU32,
    /// Blocks and zeroed ranges of the epoch that is being written back that are not written yet.
    remaining: AtomicI64,
    /// When the open epoch's first change was admitted, plus one; 0: it has none.
    open_since: AtomicU64,
    /// The same for the oldest closed epoch that is not durable.
    closing_since: AtomicU64,
    /// Epochs that are closed, or being closed, and not durable.
    closed: AtomicU32,
    /// An order is promised: closed epochs become durable before changes that are sent now.
    /// Write-throughs wait for them, and the flusher writes them back (`ordered`, and until the
    /// last epoch closed in that mode is durable).
    ordered: AtomicBool,
    /// A change was written through since the open epoch began (`ordered`: it belongs to that
    /// epoch).
    written_through: AtomicBool,
    /// C13: blocks that may wait for writeback, at the measured drain rate.
    allowance: AtomicU32,
    /// Measured latency of the backing's reads in nanoseconds; `u64::MAX`: not measured yet.
    backing_read_ns: AtomicU64,
    /// Sampled latency of a hit in nanoseconds; 0: not sampled yet.
    hit_ns: AtomicU64,
    /// A change waits for room: write back, whatever the level.
    urgent: AtomicBool,
    /// The buffer was full, and has not had enough room since.
    full: AtomicBool,
    /// The workers may write back blocks of the open epoch ...
    early: AtomicBool,
    /// ... while it has more than this number of blocks.
    early_floor: AtomicU32,
    /// Blocks that are being written back early, while their epoch is not begun.
    under_way: AtomicU32,
    /// Blocks that were written back early and are not known to be durable, while their epoch is
    /// not begun.
    settling: AtomicU32,
    /// Early writeback was on since the last blocks were settled.
    was_early: AtomicBool,
    /// The open epoch may hold ranges of zeros.
    has_ranges: AtomicBool,
    /// Copies of write-throughs for which no flush has succeeded yet.
    held: AtomicU32,
    /// Those of them that the flush in progress may cover.
    held_before_flush: AtomicU32,
}

impl Gauges {
    /// Makes the gauges of an empty volume with this number of shards.
    pub(crate) fn new(shards: u32) -> Gauges {
        Gauges {
            sequence: AtomicU64::new(1),
            dirty: AtomicU32::new(0),
            claims: Claims::new(shards),
            open: AtomicU32::new(0),
            remaining: AtomicI64::new(0),
            open_since: AtomicU64::new(0),
            closing_since: AtomicU64::new(0),
            closed: AtomicU32::new(0),
            ordered: AtomicBool::new(false),
            written_through: AtomicBool::new(false),
            allowance: AtomicU32::new(u32::MAX),
            backing_read_ns: AtomicU64::new(u64::MAX),
            hit_ns: AtomicU64::new(0),
            urgent: AtomicBool::new(false),
            early: AtomicBool::new(false),
            early_floor: AtomicU32::new(0),
            full: AtomicBool::new(false),
            under_way: AtomicU32::new(0),
            settling: AtomicU32::new(0),
            was_early: AtomicBool::new(false),
            has_ranges: AtomicBool::new(false),
            held: AtomicU32::new(0),
            held_before_flush: AtomicU32::new(0),
        }
    }

    /// Claims this number of blocks for a change until its decision; returns what other changes
    /// have claimed.
    #[inline]
    pub(crate) fn claim(&self, blocks: u32) -> Claim<'_> {
        self.claims.claim(blocks)
    }

    /// Takes room for another held copy, if fewer than `most` blocks are held or dirty.
    pub(crate) fn hold(&self, most: u32) -> bool {
        let room = most.saturating_sub(self.dirty.load(Ordering::Relaxed));
        let more = |held| (held < room).then(|| held + 1);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts a held copy again. A flush has removed it from the count but does not cover it,
    /// because its change was answered after that flush was sent.
    pub(crate) fn hold_on(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a flush of the backing is about to be sent.
    pub(crate) fn note_flush_sent(&self) {
        self.held_before_flush.store(self.held.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Notes that the flush has succeeded.
    pub(crate) fn note_flush_succeeded(&self) {
        let durable = self.held_before_flush.swap(0, Ordering::Relaxed);
        self.held.fetch_sub(durable, Ordering::Relaxed);
    }

    /// Adds the current values at `now_ns`.
    pub(crate) fn count(&self, all: &mut Counters, now_ns: u64) {
        all.hit_ns = self.hit_ns.load(Ordering::Relaxed);
        all.blocks_dirty = u64::from(self.dirty.load(Ordering::SeqCst));
        all.allowance_blocks = u64::from(self.allowance.load(Ordering::Relaxed));
        all.dirty_age_ns = self.age(now_ns);
        all.epochs_closed = u64::from(self.closed.load(Ordering::SeqCst));
        all.backing_read_ns = match self.backing_read_ns.load(Ordering::Relaxed) {
            u64::MAX => 0,
            measured => measured,
        };
    }

    /// Begins the order: from now on closed epochs are written before write-throughs. The arena
    /// records that first, for a successor.
    pub(crate) fn begin_order(&self, arena: &Arena) {
        arena.note_ordered(true);
        self.ordered.store(true, Ordering::SeqCst);
    }

    /// Ends the order.
    pub(crate) fn end_order(&self, arena: &Arena) {
        self.ordered.store(false, Ordering::SeqCst);
        arena.note_ordered(false);
    }

    /// Whether no change was made since the open epoch began.
    pub(crate) fn is_open_empty(&self) -> bool {
        let write_through_done =
            self.written_through.load(Ordering::SeqCst) && !planted(Bug::ForgetPasses);
        self.open_since.load(Ordering::SeqCst) == 0 && !write_through_done
    }

    /// Whether closed epochs are written before write-throughs.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::SeqCst)
    }

    /// Returns the limits on dirty blocks.
    #[inline]
    pub(crate) fn limits(&self, dirty_blocks_max: u32) -> DirtyLimits {
        DirtyLimits::new(dirty_blocks_max, self.allowance.load(Ordering::Relaxed))
    }

    /// C13: updates the number of blocks that may wait for writeback, with the pace measured since
    /// the last call.
    pub(crate) fn follow_pace(&self, settings: &Settings, pace: Pace) {
        let before = self.allowance.load(Ordering::Relaxed);
        let allowance = limits::sliding_allowance(
            self.allowed(settings, pace),
            before,
            settings.dirty_blocks_max,
            self.debt(),
        );
        self.allowance.store(allowance, Ordering::Relaxed);
    }

    /// Sets the allowance after a change of the settings, which takes effect immediately (C12).
    pub(crate) fn set_allowance(&self, settings: &Settings, pace: Pace) {
        self.allowance.store(self.allowed(settings, pace), Ordering::Relaxed);
    }

    fn allowed(&self, settings: &Settings, pace: Pace) -> u32 {
        // `ordered`: no flush waits for the debt, but it may not become too old.
        let target_ns = match self.is_ordered() {
            true => settings.dirty_age_ns,
            false => settings.flush_target_ns,
        };
        limits::allowance(settings.dirty_blocks_max, target_ns, pace)
    }

    /// Returns the number of epochs in which the debt would be made durable, one after another.
    pub(crate) fn epochs_to_flush(&self) -> u32 {
        let open = || u32::from(self.open.load(Ordering::Relaxed) > 0);
        match self.is_ordered() {
            true => (self.closed.load(Ordering::SeqCst) + open()).max(1),
            false => 1,
        }
    }

    /// Returns the number of blocks that a flush would have to write. Blocks that are written and
    /// only wait for the backing's flush do not count. In `ordered` mode they are not counted
    /// separately, so all dirty blocks count.
    pub(crate) fn debt(&self) -> u32 {
        let open = self.open.load(Ordering::Relaxed);
        match self.is_ordered() {
            true => self.dirty.load(Ordering::Relaxed).max(open),
            false => {
                let remaining = self.remaining.load(Ordering::SeqCst).max(0) as u32;
                open + self.under_way.load(Ordering::SeqCst) + remaining
            }
        }
    }

    /// Records the time of a read that was answered from memory.
    pub(crate) fn hit_sampled(&self, ns: u64) {
        let before = self.hit_ns.load(Ordering::Relaxed);
        let now = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        self.hit_ns.store(now, Ordering::Relaxed);
    }

    /// Records the time of a read of the backing, at least 1 ns.
    pub(crate) fn backing_read_took(&self, ns: u64) {
        let before = self.backing_read_ns.load(Ordering::Relaxed);
        let now = if before == u64::MAX { ns } else { before - before / 8 + ns / 8 };
        self.backing_read_ns.store(now, Ordering::Relaxed);
    }

    /// Measured latency of the backing's reads in nanoseconds; `u64::MAX`: not measured yet.
    #[inline]
    pub(crate) fn backing_read_ns(&self) -> u64 {
        self.backing_read_ns.load(Ordering::Relaxed)
    }

    /// Returns the time that a hit saves at the moment, in nanoseconds; 0: not measured yet.
    pub(crate) fn saved_per_hit_ns(&self) -> u64 {
        match self.backing_read_ns.load(Ordering::Relaxed) {
            u64::MAX => 0,
            backing_ns => backing_ns.saturating_sub(self.hit_ns.load(Ordering::Relaxed)),
        }
    }

    /// Age of the oldest dirty data, in nanoseconds.
    pub(crate) fn age(&self, now_ns: u64) -> u64 {
        let since = |gauge: &AtomicU64| match gauge.load(Ordering::Relaxed) {
            0 => now_ns,
            since => since - 1,
        };
        now_ns.saturating_sub(since(&self.open_since).min(since(&self.closing_since)))
    }

    /// Dirty blocks of all epochs.
    #[inline]
    pub(crate) fn dirty(&self) -> u32 {
        self.dirty.load(Ordering::SeqCst)
    }

    /// Dirty blocks of the open epoch.
    #[inline]
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::SeqCst)
    }

    /// Blocks that are being written back early.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way.load(Ordering::SeqCst)
    }

    /// Blocks and zeroed ranges of the epoch that is being written back that are not written yet.
    #[inline]
    pub(crate) fn remaining(&self) -> i64 {
        self.remaining.load(Ordering::SeqCst)
    }

    /// Epochs that are closed, or being closed, and not durable.
    #[inline]
    pub(crate) fn closed(&self) -> u32 {
        self.closed.load(Ordering::SeqCst)
    }

    /// When the open epoch's first change was admitted, plus one; 0: it has none.
    pub(crate) fn open_since(&self) -> u64 {
        self.open_since.load(Ordering::Relaxed)
    }

    /// Whether the open epoch may hold ranges of zeros.
    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges.load(Ordering::SeqCst)
    }

    /// The blocks that may wait for writeback (C13).
    pub(crate) fn allowance(&self) -> u32 {
        self.allowance.load(Ordering::Relaxed)
    }

    /// Whether the buffer was full, and has not had enough room since.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Whether the workers may write back blocks of the open epoch.
    pub(crate) fn is_early(&self) -> bool {
        self.early.load(Ordering::SeqCst)
    }

    /// Whether early writeback has left blocks that are not known to be durable. Blocks of ready
    /// runs do not count: a flush of the backing after each short pause of a writer costs more
    /// than they do.
    pub(crate) fn has_rest_to_settle(&self) -> bool {
        self.was_early.load(Ordering::SeqCst) && self.settling.load(Ordering::SeqCst) > 0
    }

    /// Notes that blocks were settled. If none is left, early writeback has left none.
    pub(crate) fn note_settled(&self) {
        if self.settling.load(Ordering::SeqCst) == 0 {
            self.was_early.store(false, Ordering::SeqCst);
        }
    }

    /// Whether the open epoch has more blocks than early writeback should leave.
    pub(crate) fn is_above_floor(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.early_floor.load(Ordering::Relaxed)
    }

    /// Whether the open epoch has enough blocks to begin early writeback.
    #[inline]
    pub(crate) fn has_much_to_write(&self, limits: DirtyLimits) -> bool {
        limits.has_much_to_write(self.open.load(Ordering::Relaxed))
    }

    /// Whether enough blocks were written back early to flush the backing for them.
    pub(crate) fn has_much_to_settle(&self, limits: DirtyLimits) -> bool {
        limits.has_much_to_settle(self.settling.load(Ordering::SeqCst), self.is_ordered())
            && self.closed.load(Ordering::SeqCst) == 0
    }
}

/// Transitions of blocks. Each is made in a section of the block's shard.
impl Gauges {
    /// Counts a block that becomes dirty.
    #[inline]
    pub(crate) fn block_dirtied(&self, stage: Stage) {
        match lane::planted::planted(Race::StoreSum) {
            true => self.dirty.store(self.dirty.load(Ordering::Relaxed) + 1, Ordering::Relaxed),
            false => _ = self.dirty.fetch_add(1, Ordering::Relaxed),
        }
        match stage {
            Stage::Open => _ = self.open.fetch_add(1, Ordering::Relaxed),
            Stage::Closing => _ = self.remaining.fetch_add(1, Ordering::SeqCst),
            Stage::Closed => {}
            Stage::Written | Stage::Settling | Stage::Ended => unreachable!("it was not dirty"),
        }
    }

    /// Removes a dirty block that a newer version replaces, or that the operator discards.
    #[inline]
    pub(crate) fn block_dropped(&self, stage: Stage) {
        match stage {
            Stage::Open => lower(&self.open, 1, Ordering::Relaxed),
            Stage::Closing => self.closing_written(1),
            Stage::Settling => lower(&self.settling, 1, Ordering::SeqCst),
            Stage::Closed | Stage::Written | Stage::Ended => {}
        }
        lower(&self.dirty, 1, Ordering::Relaxed);
    }

    /// Removes a written block that is durable now.
    pub(crate) fn block_cleaned(&self) {
        lower(&self.dirty, 1, Ordering::Relaxed);
    }

    /// Counts a block of the open epoch whose write begins.
    pub(crate) fn early_begun(&self) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        lower(&self.open, 1, Ordering::Relaxed);
    }

    /// Ends the write of a block of the open epoch. The block is then counted as written, reopened
    /// or dropped.
    pub(crate) fn early_ended(&self) {
        lower(&self.under_way, 1, Ordering::SeqCst);
    }

    /// Counts a block that was written early, until a flush of the backing covers it.
    pub(crate) fn early_written(&self) {
        self.settling.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a block that was written early: a flush of the backing has covered it, or has
    /// failed.
    pub(crate) fn early_settled(&self) {
        lower(&self.settling, 1, Ordering::SeqCst);
    }

    /// Counts a block of the open epoch that waits again: its write, or the flush after it, has
    /// failed.
    pub(crate) fn block_reopened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes the blocks of a shard's open epoch when the epoch is closed.
    pub(crate) fn shard_closed(&self, blocks: u32) {
        lower(&self.open, blocks, Ordering::Relaxed);
    }

    /// Counts a shard's part of the epoch whose writeback begins: blocks and ranges that wait,
    /// blocks that were written early, and blocks that are being written early.
    pub(crate) fn epoch_begun(&self, waiting: u32, settling: u32, under_way: u32) {
        lower(&self.settling, settling, Ordering::SeqCst);
        lower(&self.under_way, under_way, Ordering::SeqCst);
        self.remaining.fetch_add(i64::from(waiting + under_way), Ordering::SeqCst);
    }

    /// Removes blocks or ranges of the epoch that is being written back: they are written, or were
    /// dropped.
    #[inline]
    pub(crate) fn closing_written(&self, pieces: u32) {
        let before = self.remaining.fetch_sub(i64::from(pieces), Ordering::SeqCst);
        if cfg!(feature = "laboratory") {
            assert!(before >= i64::from(pieces), "of {before} pieces {pieces} are written");
        }
    }

    /// Counts blocks or ranges of the closing epoch that must be written again, or that a recovery
    /// has found.
    pub(crate) fn closing_waits(&self, pieces: u32) {
        self.remaining.fetch_add(i64::from(pieces), Ordering::SeqCst);
    }
}

/// Transitions of changes and epochs.
impl Gauges {
    /// Numbers a change that is being absorbed. Returns its number, and whether it is the first one
    /// of its epoch.
    #[inline]
    pub(crate) fn change_absorbed(&self, now_ns: u64) -> (u64, bool) {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let (since, order) = (now_ns + 1, Ordering::Relaxed);
        let is_first = self.open_since.compare_exchange(0, since, order, order).is_ok();
        (sequence, is_first)
    }

    /// Notes that the open epoch has a range of zeros.
    pub(crate) fn range_absorbed(&self) {
        self.has_ranges.store(true, Ordering::SeqCst);
    }

    /// Notes a write-through before its answer.
    pub(crate) fn change_written_through(&self) {
        self.written_through.store(true, Ordering::SeqCst);
    }

    /// Continues after the highest recovered number; `is_dirty`: a recovered change is to be
    /// written back.
    pub(crate) fn recovered(&self, sequence: u64, is_dirty: bool) {
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        self.urgent.store(is_dirty, Ordering::Relaxed);
        // The maximum age: the flusher starts immediately.
        self.open_since.store(u64::from(is_dirty), Ordering::Relaxed);
    }

    /// Sets the age of recovered changes: they count as admitted at `now_ns`.
    pub(crate) fn date_recovered(&self, now_ns: u64) {
        let order = Ordering::Relaxed;
        let _ = self.open_since.compare_exchange(1, now_ns + 1, order, order);
    }

    /// Begins the next open epoch, which is empty. Returns when the first change of the one before
    /// was admitted, plus one; 0: it has none.
    pub(crate) fn epoch_closed(&self) -> u64 {
        let since = self.open_since.swap(0, Ordering::Relaxed);
        self.written_through.store(false, Ordering::SeqCst);
        self.has_ranges.store(false, Ordering::SeqCst);
        since
    }

    /// Publishes the number of closed epochs that are not durable, and when their first change was
    /// admitted, plus one; 0: they have none. In a section of the epochs, when an epoch was closed
    /// or became durable.
    pub(crate) fn publish_closed(&self, closed: u32, since: u64) {
        self.closed.store(closed, Ordering::SeqCst);
        self.closing_since.store(since, Ordering::Relaxed);
    }

    /// Begins an empty epoch after a discard of all dirty data.
    pub(crate) fn begin_empty_epoch(&self) {
        let since = u64::from(planted(Bug::DiscardKeepsVersions));
        self.open_since.store(since, Ordering::Relaxed);
        self.written_through.store(false, Ordering::SeqCst);
    }

    /// Requests writeback for a change that waits for room, whatever the level.
    pub(crate) fn request_room(&self) {
        self.urgent.store(true, Ordering::SeqCst);
    }

    /// Returns whether writeback was requested since the last call.
    pub(crate) fn take_request(&self) -> bool {
        self.urgent.swap(false, Ordering::SeqCst)
    }

    /// Notes that a change has found no room, or has found some again.
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Lets the workers write blocks of the open epoch while it has more than `floor`, or stops
    /// them.
    pub(crate) fn set_early(&self, on: bool, floor: u32) {
        self.early_floor.store(floor, Ordering::Relaxed);
        self.early.store(on, Ordering::SeqCst);
        self.was_early.fetch_or(on, Ordering::SeqCst);
    }
}

/// For the laboratory.
#[cfg(feature = "laboratory")]
impl Gauges {
    /// Checks the invariants that hold between two sections where one thread runs all lanes.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn check(&self) {
        let count = |count: &AtomicU32| u64::from(count.load(Ordering::SeqCst));
        let (open, closed) = (count(&self.open), self.closed());
        let early = count(&self.under_way) + count(&self.settling);
        assert!(open + early <= count(&self.dirty), "open and early blocks are dirty: {self:?}");
        assert!(self.remaining() >= 0, "nothing is written twice: {self:?}");
        let is_closing = self.remaining() > 0 || self.closing_since.load(Ordering::Relaxed) != 0;
        assert!(closed > 0 || !is_closing, "only a closed epoch is written back: {self:?}");
        assert!(open == 0 || closed > 0 || self.open_since() != 0, "it has an age: {self:?}");
        assert!(count(&self.held_before_flush) <= count(&self.held), "a copy is held: {self:?}");
        assert!(self.claims.are_none(), "nothing is being decided: {self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dirty blocks, those of the open epoch, under way and settling, and the number left to write.
    fn counts(gauges: &Gauges) -> (u32, u32, u32, u32, i64) {
        let settling = gauges.settling.load(Ordering::SeqCst);
        (gauges.dirty(), gauges.open(), gauges.under_way(), settling, gauges.remaining())
    }

    #[test]
    fn each_step_of_a_block_changes_all_numbers_that_count_it() {
        let gauges = Gauges::new(1);
        assert_eq!(gauges.change_absorbed(4), (1, true));
        assert_eq!(gauges.change_absorbed(5), (2, false));
        (0..6).for_each(|_| gauges.block_dirtied(Stage::Open));
        assert_eq!((counts(&gauges), gauges.age(9)), ((6, 6, 0, 0, 0), 5));
        // Of three that are written early, one is written, one waits again, and one is overtaken.
        (0..3).for_each(|_| gauges.early_begun());
        assert_eq!(counts(&gauges), (6, 3, 3, 0, 0));
        (0..3).for_each(|_| gauges.early_ended());
        gauges.early_written();
        gauges.block_reopened();
        gauges.block_dropped(Stage::Ended);
        assert_eq!(counts(&gauges), (5, 4, 0, 1, 0));
        // The epoch is closed and begun with one of its blocks settled, one settling, and one under
        // way.
        gauges.early_settled();
        gauges.block_cleaned();
        (0..2).for_each(|_| gauges.early_begun());
        gauges.early_ended();
        gauges.early_written();
        gauges.publish_closed(1, gauges.epoch_closed());
        gauges.shard_closed(2);
        assert_eq!((counts(&gauges), gauges.open_since()), ((4, 0, 1, 1, 0), 0));
        gauges.epoch_begun(2, 1, 1);
        assert_eq!((counts(&gauges), gauges.age(9)), ((4, 0, 0, 0, 3), 5));
        gauges.closing_written(2);
        gauges.block_dropped(Stage::Closing);
        gauges.closing_waits(1);
        assert_eq!(counts(&gauges), (3, 0, 0, 0, 1));
        gauges.closing_written(1);
        gauges.block_dropped(Stage::Written);
        (0..2).for_each(|_| gauges.block_cleaned());
        gauges.publish_closed(0, 0);
        assert_eq!((counts(&gauges), gauges.age(9)), ((0, 0, 0, 0, 0), 0));
    }

    #[cfg(feature = "laboratory")]
    #[test]
    fn numbers_that_disagree_are_found() {
        fn is_found(steps: fn(&Gauges)) -> bool {
            let run = || {
                let gauges = Gauges::new(2);
                steps(&gauges);
                gauges.check();
            };
            std::panic::catch_unwind(run).is_err()
        }
        assert!(!is_found(|gauges| {
            gauges.change_absorbed(0);
            gauges.block_dirtied(Stage::Open);
        }));
        assert!(is_found(|gauges| gauges.block_dirtied(Stage::Open)), "without an age");
        assert!(is_found(|gauges| gauges.early_written()), "not dirty");
        assert!(is_found(|gauges| gauges.block_dropped(Stage::Open)), "dropped twice");
        assert!(is_found(|gauges| gauges.closing_written(1)), "written twice");
        assert!(is_found(|gauges| gauges.closing_waits(1)), "of no closed epoch");
        assert!(is_found(|gauges| gauges.publish_closed(0, 1)), "an age without an epoch");
        assert!(is_found(|gauges| core::mem::forget(gauges.claim(1))), "a claim is left");
    }
}
