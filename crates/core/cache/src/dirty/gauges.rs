//! What is dirty, in numbers that are read without a lock.

use crate::arena::Arena;
use crate::dirty::claims::Claims;
use crate::dirty::limits::{self, DirtyLimits, Pace};
use crate::planted::{Bug, planted};
use crate::settings::Settings;
use crate::stats::counters::Counters;
use lane::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use lane::planted::Race;

/// What all shards share: counts and measurements that are read inside sections.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// The next admission number.
    pub(crate) sequence: AtomicU64,
    /// Dirty blocks of all epochs.
    pub(crate) dirty: AtomicU32,
    /// What changes may take that are being decided.
    pub(crate) claims: Claims,
    /// Dirty blocks of the open epoch.
    pub(crate) open: AtomicU32,
    /// Blocks and zeroed ranges of the epoch that is being written out that are not written yet.
    pub(crate) remaining: AtomicI64,
    /// When the open epoch's first change was admitted, plus one; 0: it has none.
    pub(crate) open_since: AtomicU64,
    /// The same of the oldest closed epoch that is not durable.
    pub(crate) closing_since: AtomicU64,
    /// Epochs that are closed, or are being closed, and not durable.
    pub(crate) closed: AtomicU32,
    /// What is closed has been promised to be durable before anything that is sent now: changes that
    /// pass wait for it, and the flusher writes it out (`ordered`, and until the last epoch closed in that
    /// mode is durable).
    pub(crate) ordered: AtomicBool,
    /// A change has passed the cache since the open epoch began (`ordered`: it belongs to that epoch).
    pub(crate) written_through: AtomicBool,
    /// C13: blocks that may wait to be written out, at the measured drain rate.
    pub(crate) allowance: AtomicU32,
    /// Measured latency of the backing's reads in nanoseconds; `u64::MAX`: not measured yet.
    pub(crate) backing_read_ns: AtomicU64,
    /// What a hit takes, as sampled, in nanoseconds; 0: not sampled yet.
    pub(crate) hit_ns: AtomicU64,
    /// A change waits for room: write out, whatever the level.
    pub(crate) urgent: AtomicBool,
    /// The buffer was full, and has not found room since.
    pub(crate) full: AtomicBool,
    /// The workers may write out blocks of the open epoch ...
    pub(crate) early: AtomicBool,
    /// ... while it has more than so many.
    pub(crate) early_floor: AtomicU32,
    /// Blocks that are being written out early, while their epoch is not begun.
    pub(crate) under_way: AtomicU32,
    /// Blocks that were written out early and are not known to be durable, while their epoch is not begun.
    pub(crate) settling: AtomicU32,
    /// The open epoch may hold ranges of zeros.
    pub(crate) has_ranges: AtomicBool,
    /// Copies of changes that went past the cache, and for which no flush has succeeded yet.
    held: AtomicU32,
    /// Those of them that the flush under way may cover.
    held_before_flush: AtomicU32,
}

impl Gauges {
    /// Of a volume that holds nothing, in so many shards.
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
            has_ranges: AtomicBool::new(false),
            held: AtomicU32::new(0),
            held_before_flush: AtomicU32::new(0),
        }
    }

    /// Takes room for another held copy, if fewer than `most` blocks are held or dirty.
    pub(crate) fn hold(&self, most: u32) -> bool {
        let room = most.saturating_sub(self.dirty.load(Ordering::Relaxed));
        let more = |held| (held < room).then(|| held + 1);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts a held copy whose change was answered only after a flush that covers no such change.
    pub(crate) fn hold_on(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// A flush of the backing is about to be sent.
    pub(crate) fn note_flush_sent(&self) {
        self.held_before_flush.store(self.held.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// It has succeeded.
    pub(crate) fn note_flush_succeeded(&self) {
        let durable = self.held_before_flush.swap(0, Ordering::Relaxed);
        self.held.fetch_sub(durable, Ordering::Relaxed);
    }

    /// One more block of the open epoch is dirty.
    pub(crate) fn add_open(&self) {
        match lane::planted::planted(Race::StoreSum) {
            true => self.dirty.store(self.dirty.load(Ordering::Relaxed) + 1, Ordering::Relaxed),
            false => _ = self.dirty.fetch_add(1, Ordering::Relaxed),
        }
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds how things stand at `now_ns`.
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

    /// From now on what is closed goes before what passes. It is noted first, for a successor.
    pub(crate) fn begin_order(&self, arena: &Arena) {
        arena.note_ordered(true);
        self.ordered.store(true, Ordering::SeqCst);
    }

    /// Ends that.
    pub(crate) fn end_order(&self, arena: &Arena) {
        self.ordered.store(false, Ordering::SeqCst);
        arena.note_ordered(false);
    }

    /// Whether nothing has been changed since the open epoch began.
    pub(crate) fn is_open_empty(&self) -> bool {
        let write_through_done =
            self.written_through.load(Ordering::SeqCst) && !planted(Bug::ForgetPasses);
        self.open_since.load(Ordering::SeqCst) == 0 && !write_through_done
    }

    /// The open epoch is about to be closed: the next one has nothing in it. Returns since when this one has, plus
    /// one; 0: it has nothing.
    pub(crate) fn close(&self) -> u64 {
        let since = self.open_since.swap(0, Ordering::Relaxed);
        self.written_through.store(false, Ordering::SeqCst);
        self.has_ranges.store(false, Ordering::SeqCst);
        since
    }

    /// So many epochs are closed and not durable, the oldest since then, plus one; 0: they hold nothing.
    pub(crate) fn show_closed(&self, closed: u32, since: u64) {
        self.closed.store(closed, Ordering::SeqCst);
        self.closing_since.store(since, Ordering::Relaxed);
    }

    /// What was dirty has been given up.
    pub(crate) fn begin_anew(&self) {
        let since = u64::from(planted(Bug::DiscardKeepsVersions));
        self.open_since.store(since, Ordering::Relaxed);
        self.written_through.store(false, Ordering::SeqCst);
    }

    /// Whether what is closed goes before what passes.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::SeqCst)
    }

    /// How many blocks may be dirty.
    #[inline]
    pub(crate) fn limits(&self, dirty_blocks_max: u32) -> DirtyLimits {
        DirtyLimits::new(dirty_blocks_max, self.allowance.load(Ordering::Relaxed))
    }

    /// C13: how much may wait to be written out from now on, at the pace that was measured since this was told
    /// before.
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

    /// The same from settings that were changed: what they allow holds at once (C12).
    pub(crate) fn set_allowance(&self, settings: &Settings, pace: Pace) {
        self.allowance.store(self.allowed(settings, pace), Ordering::Relaxed);
    }

    fn allowed(&self, settings: &Settings, pace: Pace) -> u32 {
        // `ordered`: no flush waits for it, but it may not become too old.
        let target_ns = match self.is_ordered() {
            true => settings.dirty_age_ns,
            false => settings.flush_target_ns,
        };
        limits::allowance(settings.dirty_blocks_max, target_ns, pace)
    }

    /// In how many epochs the debt would be made durable, each for itself.
    pub(crate) fn epochs_to_flush(&self) -> u32 {
        let open = || u32::from(self.open.load(Ordering::Relaxed) > 0);
        match self.is_ordered() {
            true => (self.closed.load(Ordering::SeqCst) + open()).max(1),
            false => 1,
        }
    }

    /// Blocks that a flush would have to write out. What is written, and only waits for the backing's own
    /// flush, is none of them; of a chain of epochs that is not counted apart.
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

    /// What a read that is answered from memory saves at the moment; 0: not measured yet.
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

    /// Whether the open epoch holds more than what is to be left in it.
    pub(crate) fn is_above_floor(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.early_floor.load(Ordering::Relaxed)
    }

    /// Whether the open epoch holds so much that it should be written out.
    #[inline]
    pub(crate) fn has_much_to_write(&self, limits: DirtyLimits) -> bool {
        limits.has_much_to_write(self.open.load(Ordering::Relaxed))
    }

    /// Whether so many blocks were written out early that the backing should be flushed for them.
    pub(crate) fn has_much_to_settle(&self, limits: DirtyLimits) -> bool {
        limits.has_much_to_settle(self.settling.load(Ordering::SeqCst))
            && self.closed.load(Ordering::SeqCst) == 0
    }
}
