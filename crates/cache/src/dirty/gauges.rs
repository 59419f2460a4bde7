//! What is dirty, in numbers that are read without a lock.

use crate::planted::{Bug, planted};
use crate::settings::Settings;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// What all shards share: counts and measurements that are read inside sections.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// The next admission number.
    pub(crate) sequence: AtomicU64,
    /// Dirty blocks of all epochs.
    pub(crate) dirty: AtomicU32,
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
}

impl Gauges {
    /// Whether what is closed goes before what passes.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::SeqCst)
    }

    /// Blocks up to which the buffer may fill, whatever becomes of them (C6).
    pub(crate) fn dirty_limit(&self, settings: &Settings) -> u32 {
        match planted(Bug::IgnoreDirtyLimit) {
            true => u32::MAX / 4,
            false => settings.dirty_blocks_max,
        }
    }

    /// Blocks that may wait to be written out (C13).
    pub(crate) fn debt_limit(&self, settings: &Settings) -> u32 {
        let hard = self.dirty_limit(settings);
        match planted(Bug::IgnoreDirtyLimit) || planted(Bug::IgnoreDebt) {
            true => hard,
            false => hard.min(self.allowance.load(Ordering::Relaxed)),
        }
    }

    /// Blocks that the open epoch may hold: nearly half of what may be dirty, so that it can fill while the
    /// closing one is written out. (An eighth of it may be on the backing already, and not durable.)
    pub(crate) fn open_limit(&self, settings: &Settings) -> u32 {
        let most = self.dirty_limit(settings);
        (most / 16 * 7 + (most % 16 * 7).div_ceil(16)).min(self.debt_limit(settings))
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

    /// Whether the open epoch holds so much that it should be written out: three quarters of its
    /// limit.
    pub(crate) fn has_much_to_write(&self, settings: &Settings) -> bool {
        let open = u64::from(self.open.load(Ordering::Relaxed));
        open > 0 && open * 4 >= u64::from(self.open_limit(settings)) * 3
    }

    /// Whether so many blocks were written out early that the backing should be flushed for them: an eighth
    /// of what the open epoch may hold.
    pub(crate) fn has_much_to_settle(&self, settings: &Settings) -> bool {
        let settling = self.settling.load(Ordering::SeqCst);
        settling > 0
            && settling >= self.open_limit(settings) / 8
            && self.closed.load(Ordering::SeqCst) == 0
    }
}
