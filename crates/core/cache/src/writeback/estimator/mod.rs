//! Measurements of the backing from writeback: its rate, the best length of runs, and the best
//! number of runs in flight.
//!
//! All of this is measured continuously, and no measurement is kept forever. The counts are atomics
//! that several lanes change without a lock: an estimate may lack a sample, but is never torn.
//!
//! *Rate*: blocks written while at least one run was in flight, plus foreground requests served at
//! the same time, divided by that time. *Minimum times*: for runs of each size (classes by powers
//! of two), the minimum time of one run, which is the time of such a run without a queue. From time
//! to time a run is sent alone, to check that the minimum is still valid. *Window*: the number of
//! runs in flight. It grows while runs take about their minimum time, and shrinks when they take
//! twice that: then they queue inside the device, and so do readers (TCP Vegas: Brakmo, Peterson,
//! SIGCOMM 1994). While throttled writers wait for the device's rate, and nothing else for the
//! device, the number with which the device is fastest counts instead ([`depths`]).

use crate::dirty::limits::Pace;
use crate::stats::counters::Counters;
use depths::Depths;
use lane::atomic::{AtomicU32, AtomicU64, Ordering};

mod depths;

/// Size classes of runs: 1, 2 to 3, 4 to 7, ... blocks.
const CLASSES: usize = 12;
/// A window of one run: windows are counted in 256ths.
const ONE: u32 = 256;
/// The window before any measurement.
const WINDOW_FIRST: u32 = 4 * ONE;
/// Minimum number of blocks for a rate: fewer measure the latency.
const SAMPLE_BLOCKS: u64 = 256;
/// The number of runs that may be in flight beside reads just before writers are throttled. Writers
/// that wait make reads wait longer than these runs do.
const FULL: u32 = 4;
/// One run in this number has the maximum length: otherwise the estimator would not detect that
/// longer runs have become better.
const LONG_ONE_IN: u32 = 64;
/// Length of the first runs, in blocks; longer ones are tried step by step. Data in order would
/// have long runs only, and a writer that waits would wait for several of them.
const FIRST_BLOCKS: u32 = 16;
/// The used part of the room below the first throttled writer, in 1024ths, from which a writer may
/// soon wait for the runs that begin now.
const NEAR_THROTTLE: u32 = 512;
/// Minimum number of runs in flight while writers are throttled and nothing else waits: each hides
/// a part of the other's time.
const PRESSED_WINDOW: u32 = 2;
/// One run in this number is sent alone.
const ALONE_ONE_IN: u32 = 256;
/// Minimum number of runs in flight while a client waits for a flush.
const FLUSH_WINDOW: u32 = 4;
/// The time for which a read may have to wait behind runs, in nanoseconds: while nothing but a
/// flush or throttled writers waits for the device, as many runs are in flight as the device serves
/// in this time. The best window leaves a part of the device's rate unused for the sake of others.
const QUEUE_NS: u64 = 500_000;

/// Measurements of writeback (C13).
#[derive(Debug)]
pub(crate) struct Estimator {
    /// Blocks per second; 0: not measured yet.
    blocks_per_second: AtomicU64,
    /// The time of a flush of the backing, in nanoseconds.
    flush_ns: AtomicU64,
    /// The minimum time of a run of each class, in nanoseconds; 0: not measured yet.
    least_ns: [AtomicU64; CLASSES],
    /// The maximum number of runs in flight, in 256ths.
    window: AtomicU32,
    /// The number of runs in flight.
    in_flight: AtomicU32,
    /// Since when there are runs in flight, if any.
    busy_since_ns: AtomicU64,
    /// The time and the blocks of the current sample until now.
    sample_ns: AtomicU64,
    sample_blocks: AtomicU64,
    runs: AtomicU32,
    alone: AtomicU32,
    /// Among the runs since the last one that was sent alone, the minimum ratio of a run's time to
    /// its expected time, in 256ths.
    part: AtomicU32,
    /// The time of the last write-through; 0: never.
    written_through_ns: AtomicU64,
    /// The time of the last read; 0: never.
    read_ns: AtomicU64,
    /// The time that each run adds to a queue in the device, in nanoseconds; 0: not measured yet.
    run_share_ns: AtomicU64,
    depths: Depths,
}

/// A request counts as recent within this number of service times of the backing.
const JUST: u64 = 8;
/// A read counts as recent for at least this time, in nanoseconds: readers that come more often do
/// not wait for a full queue each time.
const READ_RECENT_NS: u64 = 4 * QUEUE_NS;
/// A run should be sent alone ...
const WANTED: u32 = 1;
/// ... or is in flight alone.
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
            written_through_ns: AtomicU64::new(0),
            read_ns: AtomicU64::new(0),
            run_share_ns: AtomicU64::new(0),
            depths: Depths::default(),
        }
    }
}

/// The beginning of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// Its time, in nanoseconds.
    pub(crate) ns: u64,
    /// The number of runs in flight, with this one; 0: it is not known.
    pub(crate) depth: u32,
}

/// The other users of the backing at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Foreground {
    /// The number of reads in flight.
    pub(crate) reads: u32,
    /// A read was in flight a short time ago, or a readahead is.
    pub(crate) recent_reads: bool,
    /// Write-throughs or flushes are in flight.
    pub(crate) changes: bool,
    /// A client waits until everything is written back.
    pub(crate) flush: bool,
    /// The used part of the room between early writeback's floor and the first throttled writer,
    /// in 1024ths.
    pub(crate) filled: u32,
    /// The buffer is so full that writers are throttled.
    pub(crate) pressed: bool,
    /// Writers are throttled: for that reason, or because an epoch is being written back, whose
    /// room becomes free only at the end.
    pub(crate) throttled: bool,
    /// The number of writers that wait for writeback.
    pub(crate) writers: u32,
    /// The blocks of the last change that was throttled.
    pub(crate) writer_blocks: u32,
}

fn class_of(blocks: u32) -> usize {
    (blocks.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// Whether `last_ns` is a time less than `ns` ago; 0: never.
fn is_within(ns: u64, last_ns: &AtomicU64, now_ns: u64) -> bool {
    let last_ns = last_ns.load(Ordering::Relaxed);
    last_ns > 0 && now_ns.saturating_sub(last_ns) < ns
}

/// Moves a gauge towards a sample: a quarter of the way each time.
fn ease(gauge: &AtomicU64, sample: u64) {
    let before = gauge.load(Ordering::Relaxed);
    let now = if before == 0 { sample } else { before - before / 4 + sample / 4 };
    gauge.store(now, Ordering::Relaxed);
}

impl Estimator {
    /// Whether a run may begin. If so, it counts as begun, and must be ended with
    /// [`Estimator::end`] or [`Estimator::cancel`].
    pub(crate) fn may_begin(&self, now_ns: u64, foreground: Foreground) -> bool {
        let wanted = !foreground.flush && self.alone.load(Ordering::SeqCst) != 0;
        // No writer should wait for a run that is sent alone. (If the window is one anyway, because
        // others are served, the run counts as alone: it cannot be more so.)
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

    /// Returns the maximum number of runs in flight: the best number for the device, reduced while
    /// others wait for the device, but at least the number of waiting writers, because their writes
    /// would otherwise be in the device themselves. While these are all that waits for the device,
    /// it is the number with which the device is fastest. Beside reads the number rises with the
    /// level of the buffer, so that it settles below the level at which writers are throttled.
    pub(crate) fn window(&self, foreground: Foreground) -> u32 {
        let best_window = self.best_window();
        let rising = (FULL * foreground.filled / 1024).max(1);
        let window = match foreground {
            Foreground { flush: true, reads: 0, changes: false, .. } => {
                best_window.max(self.queue_window()).max(FLUSH_WINDOW)
            }
            Foreground { flush: true, .. } => best_window.max(FLUSH_WINDOW),
            Foreground { changes: true, .. } => 1,
            Foreground { reads: 1.., pressed: false, .. } => (best_window / 2).max(rising),
            Foreground { reads: 1.., .. } => {
                best_window.saturating_sub(foreground.reads).max(rising)
            }
            Foreground { pressed: true, recent_reads: false, .. } => {
                best_window.max(self.writers_window())
            }
            Foreground { pressed: true, .. } => best_window.max(PRESSED_WINDOW),
            _ => best_window,
        };
        window.max(foreground.writers)
    }

    /// Returns the number of runs in flight while throttled writers wait for the device's rate, and
    /// nothing else waits for the device.
    fn writers_window(&self) -> u32 {
        self.depths.fastest(self.queue_window()).max(PRESSED_WINDOW)
    }

    /// Returns the number of runs that the device serves in [`QUEUE_NS`]; 0: not measured.
    fn queue_window(&self) -> u32 {
        let runs = QUEUE_NS.checked_div(self.run_share_ns.load(Ordering::Relaxed));
        runs.and_then(|runs| u32::try_from(runs).ok()).unwrap_or(0)
    }

    /// Returns the best number of runs in flight for the device.
    fn best_window(&self) -> u32 {
        (self.window.load(Ordering::Relaxed) / ONE).max(1)
    }

    /// Records a write-through: others will follow.
    pub(crate) fn foreground_wrote(&self, now_ns: u64) {
        self.written_through_ns.store(now_ns.max(1), Ordering::Relaxed);
        self.foreground_served();
    }

    /// Records a read that the backing has served.
    #[inline]
    pub(crate) fn foreground_read(&self, now_ns: u64) {
        self.read_ns.store(now_ns.max(1), Ordering::Relaxed);
        self.foreground_served();
    }

    /// Records a served foreground request. During runs it counts as one of their blocks: otherwise
    /// the rate would only show the capacity that foreground requests leave.
    #[inline]
    fn foreground_served(&self) {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            self.sample_blocks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the last write-through was recent: within a few service times of the backing.
    pub(crate) fn has_just_written_through(&self, now_ns: u64) -> bool {
        is_within(self.recent_ns(), &self.written_through_ns, now_ns)
    }

    /// Whether the last read was recent.
    pub(crate) fn has_just_read(&self, now_ns: u64) -> bool {
        is_within(self.recent_ns().max(READ_RECENT_NS), &self.read_ns, now_ns)
    }

    fn recent_ns(&self) -> u64 {
        self.least(0).unwrap_or(0).saturating_mul(JUST)
    }

    /// Returns the number of runs in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Begins a run of blocks that [`Estimator::may_begin`] has admitted, beside `zeros` ranges of
    /// zeros. If only zeros are in flight, the rate is measured from now on: the time of zeros is
    /// no measure of blocks.
    pub(crate) fn blocks_begin(&self, now_ns: u64, zeros: u32) {
        if self.in_flight() <= zeros + 1 {
            self.busy_since_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Ends a range of zeros that was begun.
    pub(crate) fn end_zeros(&self, now_ns: u64) {
        self.alone.store(0, Ordering::SeqCst);
        self.busy_since_ns.store(now_ns, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Cancels a run that was begun and has found no work.
    pub(crate) fn cancel(&self, now_ns: u64) {
        self.alone.store(0, Ordering::SeqCst);
        self.leave(now_ns);
    }

    /// Returns the beginning of a run that [`Estimator::may_begin`] has admitted, beside `zeros`
    /// ranges of zeros, whose time is no measure of blocks.
    pub(crate) fn begun(&self, now_ns: u64, zeros: u32) -> Begun {
        Begun { ns: now_ns, depth: if zeros > 0 { 0 } else { self.in_flight() } }
    }

    /// Ends a run of `blocks` blocks. `most`: the maximum window. Returns true if the rate was
    /// updated.
    pub(crate) fn end(
        &self,
        now_ns: u64,
        begun: Begun,
        blocks: u32,
        most: u32,
        foreground: Foreground,
    ) -> bool {
        // While others are served, the cause of a queue is unknown.
        let most = if foreground.reads > 0 || foreground.changes { 0 } else { most };
        let ns = now_ns.saturating_sub(begun.ns).max(1);
        ease(&self.run_share_ns, (ns / u64::from(self.in_flight().max(1))).max(1));
        // Before the minimum times learn from this run: the first of its length would be its own
        // measure.
        if let Some(least_ns) = self.least_of(blocks)
            && most > 0
            && !foreground.recent_reads
        {
            self.depths.record(begun, ns, least_ns.min(ns));
        }
        self.learn(ns, blocks, most);
        self.sample_blocks.fetch_add(u64::from(blocks), Ordering::Relaxed);
        self.leave(now_ns);
        self.sample()
    }

    /// Removes a run in flight; the time until now counts as busy.
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

    /// Records the time of a flush of the backing.
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
            // While others are served (`most` is 0), runs are expected to be somewhat slower.
            self.raise_minimum_times(if most == 0 { 512 } else { 256 });
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

    /// Raises the minimum times if no recent run reached them, not even one that was sent alone:
    /// the backing has become slower.
    fn raise_minimum_times(&self, usual: u32) {
        let part = self.part.swap(u32::MAX, Ordering::Relaxed);
        if part <= usual || part == u32::MAX {
            return;
        }
        for least in &self.least_ns {
            let ns = u128::from(least.load(Ordering::Relaxed)) * u128::from(part) / 256;
            least.store(u64::try_from(ns).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Returns the minimum time of the measured runs of a class.
    fn measured(&self, class: usize) -> Option<u64> {
        match self.least_ns.get(class)?.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(ns),
        }
    }

    /// Returns the minimum time of the measured runs of a class and of longer ones: runs of this
    /// class that took longer were measured in a queue only, or long ago.
    fn least(&self, class: usize) -> Option<u64> {
        (class..CLASSES).filter_map(|class| self.measured(class)).min()
    }

    /// Returns the time of a run of this number of blocks without a queue, as far as is known.
    pub(crate) fn least_of(&self, blocks: u32) -> Option<u64> {
        let class = class_of(blocks);
        let of = |class: usize| self.measured(class).and_then(|_| self.least(class));
        let (at, beyond) = (1u64 << class, u64::from(blocks) - (1 << class).min(u64::from(blocks)));
        // The time of a class without recent runs may have been raised repeatedly.
        let more = |low: u64, by: u64| low.saturating_add(by.saturating_mul(beyond) / at);
        let ns = match (of(class), of(class + 1)) {
            (Some(low), Some(high)) => more(low, high.saturating_sub(low)),
            (Some(low), None) => more(low, low),
            // The next smaller known class, as if merging saved nothing.
            (None, _) => (0..class).rev().find_map(|smaller| {
                of(smaller).map(|ns| ns.saturating_mul(u64::from(blocks)) >> smaller)
            })?,
        };
        Some(self.least(class + 1).map_or(ns, |longer_ns| ns.min(longer_ns)))
    }

    /// Returns the backing's time for a block, as far as is known: for a run of one block or, if
    /// none was sent, a block's share of the shortest run that was.
    pub(crate) fn block_ns(&self) -> Option<u64> {
        let share = |class: usize| self.measured(class).map(|ns| (ns >> class).max(1));
        (0..CLASSES).find_map(share)
    }

    /// Returns the length in blocks of the shortest run that the backing handles nearly as
    /// efficiently as any: longer runs only make others wait longer. If readers would wait, and
    /// there is room, or if writers wait for the runs, the run may be less efficient; but for
    /// writers it is at least as long as their own changes, which the device would serve without
    /// the cache. Beside write-throughs for which no run is in progress, it may be even less
    /// efficient: each of them waits for it. If nothing but a flush waits, it may hardly be less
    /// efficient.
    pub(crate) fn run_blocks(&self, most: u32, foreground: Foreground) -> u32 {
        let is_near_throttle =
            foreground.pressed || foreground.throttled || foreground.filled >= NEAR_THROTTLE;
        let is_for_flush = foreground.flush && foreground.reads == 0 && !foreground.changes;
        let gently = match foreground.reads {
            0 => foreground.changes || is_near_throttle && !foreground.flush,
            _ => foreground.changes || !foreground.pressed,
        };
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        if number % LONG_ONE_IN == LONG_ONE_IN - 1 && !gently {
            return most;
        }
        let blocks = match (gently, is_for_flush) {
            (true, _) if foreground.changes => self.efficient_blocks(1),
            (true, _) => self.efficient_blocks(2),
            (false, false) => self.efficient_blocks(10),
            // Of short runs, the time without a queue is not known exactly enough.
            (false, true) => self.efficient_blocks(32).max(FIRST_BLOCKS),
        };
        let is_for_writers = foreground.writers > 0 || !foreground.changes;
        let least = match foreground.reads {
            0 if is_for_writers => foreground.writer_blocks,
            _ => 0,
        };
        most.min(least.max(blocks))
    }

    /// Returns the maximum length in blocks of a ready run, where others may have `most`; 0 if
    /// clients wait for the device. A request that begins later waits for the runs in flight: they
    /// are as short as for a writer that waits.
    pub(crate) fn ready_blocks(&self, most: u32, foreground: Foreground) -> u32 {
        match foreground.reads > 0 || foreground.changes {
            true => 0,
            false => most.min(self.efficient_blocks(2).max(foreground.writer_blocks)),
        }
    }

    /// Returns the length of the shortest run whose time per block exceeds that of the most
    /// efficient one by at most one part in `part`.
    fn efficient_blocks(&self, part: u64) -> u32 {
        let mut least = [None; CLASSES];
        let mut longer_ns = None;
        for class in (0..CLASSES).rev() {
            longer_ns = self.measured(class).into_iter().chain(longer_ns).min();
            least[class] = longer_ns;
        }
        // Nanoseconds per block.
        let each = |class: usize| least[class].map(|ns: u64| ns.saturating_mul(1 << 10) >> class);
        let Some(best) = (0..CLASSES).filter_map(each).min() else { return FIRST_BLOCKS };
        let worst = best.saturating_add(best / part);
        let good = |class: &usize| each(*class).is_some_and(|ns| ns <= worst);
        let class = (0..CLASSES).find(good).unwrap_or(0);
        match class {
            // On an idle device a shorter run shows its own time.
            1.. if self.in_flight() <= 1 && self.measured(class - 1).is_none() => 1 << (class - 1),
            // The largest known class may be the best only because no larger one has been tried.
            _ if (class + 1..CLASSES).all(|larger| self.measured(larger).is_none()) => {
                FIRST_BLOCKS.max(2 << class)
            }
            _ => 1 << class,
        }
    }

    /// Returns the time in which the backing writes this number of blocks at its measured rate, if
    /// it is measured.
    pub(crate) fn usual_ns(&self, blocks: u32) -> Option<u64> {
        let per_second = self.blocks_per_second.load(Ordering::Relaxed);
        (u64::from(blocks) * 1_000_000_000).checked_div(per_second)
    }

    /// Returns the backing's time for a change of this number of blocks, as far as is known. Where
    /// only longer runs are known, it is a share of the shortest one.
    pub(crate) fn change_ns(&self, blocks: u32) -> Option<u64> {
        let share_ns = || self.block_ns().map(|ns| ns.saturating_mul(blocks.into()));
        self.least_of(blocks).or_else(share_ns)
    }

    /// Adds the measurements.
    pub(crate) fn count(&self, all: &mut Counters) {
        all.drain_window = u64::from(self.window(Foreground::default()));
        all.drain_blocks_per_second = self.blocks_per_second.load(Ordering::Relaxed);
    }

    /// Returns the speed of the backing for writeback, as far as is known.
    pub(crate) fn pace(&self) -> Pace {
        let measured = |gauge: &AtomicU64| gauge.load(Ordering::Relaxed);
        Pace::new(measured(&self.blocks_per_second), measured(&self.flush_ns))
    }
}

#[cfg(test)]
mod tests;
