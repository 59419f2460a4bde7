//! What write-outs show of the backing: how fast it takes blocks, which runs it likes, and how many
//! of them at a time.
//!
//! Everything here is measured while it is used, and nothing is believed for ever. The counts are
//! atomics that several lanes change without a lock: an estimate may be a sample short, never torn.
//!
//! *Rate*: blocks written while at least one run was under way, and what others were served beside
//! it, over that time. *Least times*: of runs of each size (classes by powers of two), the least
//! time that one took: how long such a run takes when nothing stands before it. Now and then a run
//! is sent alone, to see whether that is still so. *Window*: how many runs are under way at a time.
//! It grows while runs take about as long as they must, and shrinks when they take twice that: then
//! they stand in line inside the device, and so do readers (TCP Vegas: Brakmo, Peterson, SIGCOMM
//! 1994).

use crate::dirty::limits::Pace;
use crate::stats::counters::Counters;
use lane::atomic::{AtomicU32, AtomicU64, Ordering};

/// Size classes of runs: 1, 2 to 3, 4 to 7, ... blocks.
const CLASSES: usize = 12;
/// A window of one run: windows are counted in 256ths.
const ONE: u32 = 256;
/// The window before anything was measured.
const WINDOW_FIRST: u32 = 4 * ONE;
/// A rate is told from so many blocks at least: fewer measure latency.
const SAMPLE_BLOCKS: u64 = 256;
/// One run in so many is as long as it can be: else it would never learn that longer ones have
/// become better.
const LONG_ONE_IN: u32 = 64;
/// One run in so many is sent alone.
const ALONE_ONE_IN: u32 = 256;

/// What is measured of write-outs (C13).
#[derive(Debug)]
pub(crate) struct Estimator {
    /// Blocks a second; 0: not measured yet.
    blocks_per_second: AtomicU64,
    /// A flush of the backing, in nanoseconds.
    flush_ns: AtomicU64,
    /// Of each class of runs the least time that one took, in nanoseconds; 0: not measured yet.
    least_ns: [AtomicU64; CLASSES],
    /// How many runs may be under way, in 256ths.
    window: AtomicU32,
    /// How many are.
    in_flight: AtomicU32,
    /// Since when, where some are.
    busy_since_ns: AtomicU64,
    /// What the sample that is being gathered holds so far.
    sample_ns: AtomicU64,
    sample_blocks: AtomicU64,
    runs: AtomicU32,
    alone: AtomicU32,
    /// Of the runs since the last one that was sent alone, the least part of its expected time that
    /// one took, in 256ths.
    part: AtomicU32,
    /// When a change last went past the cache; 0: never.
    passed_ns: AtomicU64,
}

/// A write-through counts as recent within so many service times of the backing.
const JUST: u64 = 8;
/// A run is to be sent alone ...
const WANTED: u32 = 1;
/// ... or is under way.
const ALONE: u32 = 2;

impl Default for Estimator {
    fn default() -> Estimator {
        Estimator {
            blocks_per_second: AtomicU64::new(0),
            flush_ns: AtomicU64::new(0),
            least_ns: Default::default(),
            window: AtomicU32::new(WINDOW_FIRST),
            in_flight: AtomicU32::new(0),
            busy_since_ns: AtomicU64::new(0),
            sample_ns: AtomicU64::new(0),
            sample_blocks: AtomicU64::new(0),
            runs: AtomicU32::new(0),
            alone: AtomicU32::new(0),
            part: AtomicU32::new(u32::MAX),
            passed_ns: AtomicU64::new(0),
        }
    }
}

/// What else wants the backing at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Foreground {
    /// So many reads are under way.
    pub(crate) reads: u32,
    /// Changes that went past the cache, or flushes, are under way.
    pub(crate) changes: bool,
    /// A client waits until everything is written out.
    pub(crate) flush: bool,
    /// The buffer is so full that writers are slowed down.
    pub(crate) pressed: bool,
    /// So many writers wait for blocks to be written out.
    pub(crate) writers: u32,
}

fn class_of(blocks: u32) -> usize {
    (blocks.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// Lets a gauge follow its samples: a quarter of the way each time.
fn ease(gauge: &AtomicU64, sample: u64) {
    let before = gauge.load(Ordering::Relaxed);
    let now = if before == 0 { sample } else { before - before / 4 + sample / 4 };
    gauge.store(now, Ordering::Relaxed);
}

impl Estimator {
    /// A run may begin, if this says so; it must then be reported by [`Estimator::end`] or
    /// [`Estimator::cancel`].
    pub(crate) fn may_begin(&self, now_ns: u64, foreground: Foreground) -> bool {
        let wanted = !foreground.flush && self.alone.load(Ordering::SeqCst) != 0;
        // Where others are served beside it, a run is as alone as it can be. It is not worth that a
        // writer waits for it.
        let alone = wanted && !foreground.pressed && foreground.writers == 0;
        let window = if alone { 1 } else { self.window(foreground) };
        let begun = self.in_flight.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |runs| {
            (runs < window).then_some(runs + 1)
        });
        let (from, to) = match begun {
            Ok(0) if wanted && window == 1 => (WANTED, ALONE),
            Ok(0) | Err(_) => (WANTED, WANTED),
            Ok(_) => (ALONE, WANTED),
        };
        let _ = self.alone.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        if begun == Ok(0) {
            self.busy_since_ns.store(now_ns, Ordering::Relaxed);
        }
        begun.is_ok()
    }

    /// How many runs may be under way: what the device likes, less where others wait for it; as
    /// many as writers wait for them, for those would else be in the device themselves.
    pub(crate) fn window(&self, foreground: Foreground) -> u32 {
        let liked = self.liked();
        let window = match foreground {
            Foreground { flush: true, .. } => liked.max(4),
            Foreground { changes: true, .. } => 1,
            Foreground { reads: 1.., pressed: false, .. } => (liked / 2).max(1),
            Foreground { reads: 1.., .. } => liked.saturating_sub(foreground.reads).max(1),
            _ => liked,
        };
        window.max(foreground.writers)
    }

    /// How many runs under way the device likes.
    fn liked(&self) -> u32 {
        (self.window.load(Ordering::Relaxed) / ONE).max(1)
    }

    /// A change has gone past the cache: others will follow.
    pub(crate) fn foreground_wrote(&self, now_ns: u64) {
        self.passed_ns.store(now_ns.max(1), Ordering::Relaxed);
        self.foreground_served();
    }

    /// A foreground request was served. Beside runs it counts as a block of theirs: what the
    /// backing can do is not told by what others leave of it.
    #[inline]
    pub(crate) fn foreground_served(&self) {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            self.sample_blocks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether that was just now: no longer ago than the backing takes for a few.
    pub(crate) fn has_just_written_through(&self, now_ns: u64) -> bool {
        let passed_ns = self.passed_ns.load(Ordering::Relaxed);
        let soon_ns = self.least_of(1).unwrap_or(0).saturating_mul(JUST);
        passed_ns > 0 && now_ns.saturating_sub(passed_ns) < soon_ns
    }

    /// Runs under way.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// A run of blocks begins that [`Estimator::may_begin`] has let in, beside so many ranges of
    /// zeros. Where those are all that is under way, the rate is measured from now on: how long
    /// they take tells nothing of blocks.
    pub(crate) fn blocks_begin(&self, now_ns: u64, zeros: u32) {
        if self.in_flight() <= zeros + 1 {
            self.busy_since_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// A range of zeros that was begun has ended.
    pub(crate) fn end_zeros(&self, now_ns: u64) {
        self.alone.store(0, Ordering::SeqCst);
        self.busy_since_ns.store(now_ns, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// A run that was begun has found nothing to do.
    pub(crate) fn cancel(&self, now_ns: u64) {
        self.alone.store(0, Ordering::SeqCst);
        self.leave(now_ns);
    }

    /// A run has ended: it took so long, from then until now, for so many blocks. `most`: what the
    /// window may grow to. True: the rate was measured anew.
    pub(crate) fn end(
        &self,
        now_ns: u64,
        start_ns: u64,
        blocks: u32,
        most: u32,
        foreground: Foreground,
    ) -> bool {
        // Beside others, it is not known whose queue it is.
        let most = if foreground.reads > 0 || foreground.changes { 0 } else { most };
        self.learn(now_ns.saturating_sub(start_ns).max(1), blocks, most);
        self.sample_blocks.fetch_add(u64::from(blocks), Ordering::Relaxed);
        self.leave(now_ns);
        self.sample()
    }

    /// One run less is under way; the time until now was a busy one.
    fn leave(&self, now_ns: u64) {
        let since = self.busy_since_ns.swap(now_ns, Ordering::Relaxed);
        self.sample_ns.fetch_add(now_ns.saturating_sub(since), Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    fn sample(&self) -> bool {
        let blocks = self.sample_blocks.load(Ordering::Relaxed);
        let ns = self.sample_ns.load(Ordering::Relaxed);
        if blocks < SAMPLE_BLOCKS || ns == 0 {
            return false;
        }
        self.sample_blocks.store(0, Ordering::Relaxed);
        self.sample_ns.store(0, Ordering::Relaxed);
        let rate = u128::from(blocks) * 1_000_000_000 / u128::from(ns);
        ease(&self.blocks_per_second, rate.clamp(1, 1 << 40) as u64);
        true
    }

    /// A flush of the backing took so long.
    pub(crate) fn flushed(&self, ns: u64) {
        ease(&self.flush_ns, ns);
    }

    fn learn(&self, ns: u64, blocks: u32, most: u32) {
        let expected = self.least_of(blocks).unwrap_or(ns);
        let part = (ns.saturating_mul(256) / expected.max(1)).min(u64::from(u32::MAX - 1)) as u32;
        self.part.fetch_min(part, Ordering::Relaxed);
        let least = &self.least_ns[class_of(blocks)];
        let before = least.load(Ordering::Relaxed);
        if before == 0 || ns < before {
            least.store(ns, Ordering::Relaxed);
        }
        if self.alone.swap(0, Ordering::SeqCst) == ALONE {
            // Beside others (`most` is 0) a little slower is what it must be.
            self.forget(if most == 0 { 512 } else { 256 });
        } else if self.runs.load(Ordering::Relaxed).is_multiple_of(ALONE_ONE_IN) {
            self.alone.store(WANTED, Ordering::SeqCst);
        }
        let window = self.window.load(Ordering::Relaxed);
        let step = (ONE * ONE / window).max(1);
        let full = self.in_flight() * ONE + ONE > window;
        let next = if ns > expected.saturating_mul(2) {
            window.saturating_sub(step).max(ONE)
        } else if full && ns < expected.saturating_add(expected / 4) {
            (window + step).min(most.saturating_mul(ONE)).max(window)
        } else {
            window
        };
        self.window.store(next, Ordering::Relaxed);
    }

    /// No run of late was as fast as runs were once, not even one that was sent alone: the backing
    /// has become slower.
    fn forget(&self, usual: u32) {
        let part = self.part.swap(u32::MAX, Ordering::Relaxed);
        if part <= usual || part == u32::MAX {
            return;
        }
        for least in &self.least_ns {
            let ns = u128::from(least.load(Ordering::Relaxed)) * u128::from(part) / 256;
            least.store(u64::try_from(ns).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// How long the backing takes for a run of so many blocks when nothing stands before it, as far
    /// as is known.
    pub(crate) fn least_of(&self, blocks: u32) -> Option<u64> {
        let class = class_of(blocks);
        let of = |class: usize| match self.least_ns.get(class).map(|ns| ns.load(Ordering::Relaxed))
        {
            None | Some(0) => None,
            some => some,
        };
        let (at, beyond) = (1u64 << class, u64::from(blocks) - (1 << class).min(u64::from(blocks)));
        // A class of which no run was sent for long may have been told to be slower again and
        // again.
        let more = |low: u64, by: u64| low.saturating_add(by.saturating_mul(beyond) / at);
        match (of(class), of(class + 1)) {
            (Some(low), Some(high)) => Some(more(low, high.saturating_sub(low))),
            (Some(low), None) => Some(more(low, low)),
            // The next smaller class that is known, as if nothing were saved by joining.
            (None, _) => (0..class).rev().find_map(|smaller| {
                of(smaller).map(|ns| ns.saturating_mul(u64::from(blocks)) >> smaller)
            }),
        }
    }

    /// How long the backing takes for a block, as far as is known: for one by itself or, as long as
    /// none was sent so, its share of the shortest run that was.
    pub(crate) fn block_ns(&self) -> Option<u64> {
        let share = |class: usize| match self.least_ns[class].load(Ordering::Relaxed) {
            0 => None,
            ns => Some((ns >> class).max(1)),
        };
        (0..CLASSES).find_map(share)
    }

    /// The shortest run, in blocks, that the backing takes nearly as efficiently as any: what is
    /// longer only makes others wait longer. Where readers would, and there is room, it may be less
    /// efficient.
    pub(crate) fn run_blocks(&self, most: u32, foreground: Foreground) -> u32 {
        let gently = foreground.reads > 0 && !foreground.pressed;
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        if number.is_multiple_of(LONG_ONE_IN) && !gently {
            return most;
        }
        // Nanoseconds a block, of each class that is known.
        let each = |class: usize| match self.least_ns[class].load(Ordering::Relaxed) {
            0 => None,
            ns => Some(ns.saturating_mul(1 << 10) >> class),
        };
        let Some(best) = (0..CLASSES).filter_map(each).min() else { return most };
        let worse = if gently { best / 2 } else { best / 10 };
        let good = |class: &usize| each(*class).is_some_and(|ns| ns <= best.saturating_add(worse));
        match (0..CLASSES).find(good) {
            // The largest that is known may be the best only because no larger one has been tried.
            Some(class) if (class + 1..CLASSES).any(|larger| each(larger).is_some()) => {
                most.min(1 << class)
            }
            _ => most,
        }
    }

    /// Adds what was measured.
    pub(crate) fn count(&self, all: &mut Counters) {
        all.drain_window = u64::from(self.window(Foreground::default()));
        all.drain_blocks_per_second = self.blocks_per_second.load(Ordering::Relaxed);
    }

    /// How fast the backing takes what is written out, as far as is known.
    pub(crate) fn pace(&self) -> Pace {
        let measured = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        Pace::new(measured(&self.blocks_per_second), measured(&self.flush_ns))
    }
}

#[cfg(test)]
mod tests;
