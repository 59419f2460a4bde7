//! The half of a volume's cache that all lanes share.

use crate::arena::Arena;
use crate::arena::superblock::Condition;
use crate::backing::flush_gate::FlushGate;
use crate::backing::in_flight::InFlight;
use crate::bypass::guard::{Pressure, Standing};
use crate::bypass::{Bypass, Costs};
use crate::dirty::gauges::Gauges;
use crate::dirty::throttle::Throttle;
use crate::epochs::{self, CHAIN_MAX, Epochs};
use crate::planted::{Bug, planted};
use crate::settings::{Geometry, Live, Settings, limits_above};
use crate::shard::{Keeps, Nearer, Reason, Shard};
use crate::stats::counters::Counters;
use crate::stats::latencies::{Histograms, Latencies};
use crate::writeback::estimator::{DRAIN_ASSUMED, Estimator, Foreground};
use alloc::boxed::Box;
use alloc::sync::Arc;
use block::{Limits, Memory, Stall, WriteMode};
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use lane::{Event, Lock};

/// A shard with what is waited for beside it.
pub(crate) struct ShardEntry {
    pub(crate) shard: Lock<Shard>,
    pub(crate) nearer: Nearer,
    /// Something that a request may wait for has changed: a fetch, a pass, a run has ended, slots
    /// were released.
    pub(crate) changed: Event,
    /// Whether the workers may find work here.
    pub(crate) has_work: AtomicBool,
}

/// The cache of one volume, shared by its lanes.
pub struct Shared {
    pub(crate) geometry: Geometry,
    region_shift: u32,
    pub(crate) settings: Live,
    /// They are being changed.
    pub(crate) setting: AtomicBool,
    /// Whether the cache steps aside, and who decides that.
    pub(crate) bypass: Bypass,
    pub(crate) limits: Limits,
    pub(crate) arena: Arena,
    pub(crate) shards: Box<[ShardEntry]>,
    pub(crate) gauges: Gauges,
    pub(crate) epochs: Lock<Epochs>,
    /// An epoch has become durable, everything of the closing one is written, or the volume has
    /// failed.
    pub(crate) epochs_changed: Event,
    /// An epoch has been closed or become durable, or what was written early has: there may be room. Apart
    /// from the rooms' own events: many may wait for this, and every run that ends rings those.
    pub(crate) freed: Event,
    /// The workers may find work.
    pub(crate) work: Event,
    /// The flusher should look at the levels.
    pub(crate) kick: Event,
    pub(crate) estimator: Estimator,
    pub(crate) throttle: Throttle,
    /// Clients that wait for a flush.
    pub(crate) flush_waiters: AtomicU32,
    /// Lanes that have joined: each has a workers.
    pub(crate) lanes: AtomicU32,
    pub(crate) flusher_started: AtomicBool,
    pub(crate) stopping: AtomicBool,
    /// What the watchdog and the lanes' relays wait beside: the volume stops.
    pub(crate) ended: Event,
    /// Requests that the backing has not answered.
    pub(crate) in_flight: InFlight,
    /// Whether some of them hang.
    pub(crate) stall: Arc<Stall>,
    /// How often that has begun or ended: odd from before anybody is told until after the last one is.
    pub(crate) stalls: AtomicU64,
    /// The operator has cleared an error after a flush had failed that no commit had acted on: what
    /// was written must be written again.
    pub(crate) rewrite: AtomicBool,
    /// Mirrors `order.failed`, for the hot paths.
    pub(crate) failed: AtomicBool,
    /// Something went past the cache since the backing's last good flush: if the next one fails,
    /// it cannot be written again from here.
    pub(crate) unkept: AtomicBool,
    /// A flush of the backing has failed, and the engine has not yet acted on it.
    pub(crate) tainted: AtomicBool,
    pub(crate) flush_gate: Lock<FlushGate>,
    /// A flush of the backing has ended.
    pub(crate) flush_gate_changed: Event,
    /// Flushes of the backing that have failed.
    pub(crate) flush_failures: AtomicU64,
    /// The arena is from an earlier life. What that sent past the cache may lie in the backing's own
    /// cache, and belongs before all that is written out now: flush that first (C2, C7).
    pub(crate) flush_first: AtomicBool,
    /// Something may have been written since the last good flush.
    pub(crate) unflushed: AtomicBool,
    proven: AtomicU32,
    pub(crate) flushes: AtomicU64,
    pub(crate) flushes_backing: AtomicU64,
    pub(crate) epochs_durable: AtomicU64,
    pub(crate) errors: [AtomicU64; 3],
    /// Write-outs that had to begin at once.
    pub(crate) writes_urgent: AtomicU64,
    /// Boxed: ten kilobytes that would be copied with the rest whenever a cache is made.
    pub(crate) latencies: Box<Latencies>,
    /// How often the failed state was ended.
    pub(crate) cleared: AtomicU64,
    pub(crate) recovered: AtomicU64,
    pub(crate) rejected: AtomicU64,
}

impl Shared {
    /// The shared half of a volume's cache over an arena of this geometry, as if that held nothing.
    pub(crate) fn empty(
        below: &Limits,
        geometry: Geometry,
        settings: &Settings,
        memory: Arc<Memory>,
    ) -> Shared {
        assert!(geometry.region_blocks.is_power_of_two() && geometry.slice_blocks > 0);
        let arena = Arena::over(memory, &geometry, below.grain);
        let gauges = Gauges {
            sequence: AtomicU64::new(1),
            dirty: AtomicU32::new(0),
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
        };
        let shared = Shared {
            shards: (0..geometry.shards)
                .map(|number| Shard::new(arena.clone(), number, &geometry))
                .map(|shard| ShardEntry {
                    nearer: shard.hints(),
                    shard: Lock::new(shard),
                    changed: Event::new(),
                    has_work: AtomicBool::new(false),
                })
                .collect(),
            limits: limits_above(below),
            region_shift: geometry.region_blocks.trailing_zeros(),
            geometry,
            settings: Live::new(settings),
            setting: AtomicBool::new(false),
            bypass: Bypass::default(),
            arena,
            gauges,
            epochs: Lock::new(Epochs::new(epochs::FIRST, 0, 0)),
            epochs_changed: Event::new(),
            freed: Event::new(),
            work: Event::new(),
            kick: Event::new(),
            estimator: Estimator::default(),
            throttle: Throttle::default(),
            flush_waiters: AtomicU32::new(0),
            lanes: AtomicU32::new(0),
            flusher_started: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ended: Event::new(),
            in_flight: InFlight::default(),
            stall: Arc::default(),
            stalls: AtomicU64::new(0),
            rewrite: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            // An earlier life may have sent something past, and answered it.
            unkept: AtomicBool::new(!planted(Bug::ForgiveFirstFlush)),
            tainted: AtomicBool::new(false),
            flush_failures: AtomicU64::new(0),
            flush_first: AtomicBool::new(false),
            flush_gate: Lock::default(),
            flush_gate_changed: Event::new(),
            // What wrote before us may not have flushed.
            unflushed: AtomicBool::new(true),
            proven: AtomicU32::new(0),
            flushes: AtomicU64::new(0),
            flushes_backing: AtomicU64::new(0),
            epochs_durable: AtomicU64::new(0),
            errors: Default::default(),
            writes_urgent: AtomicU64::new(0),
            latencies: Box::default(),
            cleared: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        };
        shared.change_allowance();
        shared
    }

    /// The number of the shard that a block belongs to.
    #[inline]
    pub fn shard_of(&self, block: u64) -> usize {
        let region = block >> self.region_shift;
        let mixed = region.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((mixed * self.shards.len() as u64) >> 32) as usize
    }

    /// The room of a block.
    #[inline]
    pub(crate) fn entry(&self, block: u64) -> &ShardEntry {
        &self.shards[self.shard_of(block)]
    }

    /// Sectors from `sector` on that one decision may cover: up to the region's border.
    #[inline]
    pub(crate) fn stretch(&self, sector: u64) -> u64 {
        let region = u64::from(crate::BLOCK_SECTORS) << self.region_shift;
        region - (sector & (region - 1))
    }

    /// The sizes this cache was made with.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The settings in force.
    pub fn settings(&self) -> Settings {
        self.settings.now()
    }

    /// What happens to writes.
    pub fn write_mode(&self) -> WriteMode {
        self.settings.write()
    }

    /// Changes what happens to writes from now on (C12). What is dirty stays so until it is written
    /// out.
    pub fn set_write_mode(&self, write: WriteMode) {
        self.settings.set_write(write);
    }

    /// Why a write that begins with this block may not be absorbed at the moment, if so (C11, C12).
    #[inline]
    pub(crate) fn barred(&self, block: u64) -> Option<Reason> {
        let is_proven = || self.proven.load(Ordering::Relaxed) > 0 || planted(Bug::TrustAtOnce);
        match self.settings.write() {
            WriteMode::Back if !is_proven() => Some(Reason::Unproven),
            WriteMode::Back | WriteMode::BackNow => {
                self.bypass.write_through(&self.gauges, block).then_some(Reason::Bypass)
            }
            WriteMode::Through | WriteMode::None => Some(Reason::Mode),
        }
    }

    /// Whether blocks of a request that begins with this one may be kept.
    #[inline]
    pub(crate) fn keeps(&self, block: u64) -> Keeps {
        match self.settings.write() {
            WriteMode::None => Keeps::No,
            _ if self.bypass.leaves_out(block) => Keeps::Bypass,
            _ => Keeps::Yes,
        }
    }

    /// A client of the volume, for C11.
    pub fn client(self: &Arc<Self>) -> Client {
        Client { shared: self.clone(), proven: AtomicBool::new(false) }
    }

    /// Whether the volume has failed (C8).
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// How often the failed state was ended. Between two looks at a failed volume that find the same
    /// number it has been failed all the time, so that nothing was written to it.
    pub fn times_cleared(&self) -> u64 {
        self.cleared.load(Ordering::SeqCst)
    }

    /// Lets the guard judge what has happened since this was called last: about every 50 ms, with how
    /// processors were to be had meanwhile. True: the cache steps aside, or comes back, or does so with
    /// more or less than before. It walks the shards, and allocates nothing.
    pub fn guard(&self, now_ns: u64, pressure: Pressure) -> bool {
        let costs = Costs {
            pressure,
            backing_write_ns: self.estimator.least_of(1).unwrap_or(0),
            fill_ns: self.settings.fill_cost_ns,
        };
        self.bypass.judge(&self.counters(now_ns), costs, now_ns)
    }

    /// Whether the guard decides anything from `now_ns` on. Off: the cache does not step aside.
    pub fn set_guard(&self, on: bool, now_ns: u64) {
        self.bypass.set_guard(on, now_ns);
    }

    /// How the guard stands.
    pub fn guard_standing(&self, now_ns: u64) -> Standing {
        self.bypass.standing(now_ns)
    }

    /// Steps aside with reads, writes or both, or comes back, until the guard decides anew: for the
    /// laboratory, which does so at the worst of moments.
    pub fn force_bypass(&self, reads: bool, writes: bool, now_ns: u64) {
        self.bypass.force(reads, writes, now_ns);
    }

    /// Dirty blocks.
    pub fn dirty_blocks(&self) -> u32 {
        self.gauges.dirty.load(Ordering::SeqCst)
    }

    /// Epochs that are closed, or are being closed, and not durable.
    pub fn closed_epochs(&self) -> u32 {
        self.gauges.closed.load(Ordering::SeqCst)
    }

    /// C8: the operator says that the backing is well again; what is dirty will be tried again, from
    /// now on for `retry_time`. What went past the cache and was not flushed may be lost. Does nothing
    /// while a discard is under way: that clears the error itself.
    pub fn clear_error(&self) {
        let cleared = self.epochs.peek(|epochs| {
            let cleared = epochs.clear_error();
            if cleared {
                // a commit that is still there acts on it by itself.
                if !epochs.is_led() && self.tainted.swap(false, Ordering::SeqCst) {
                    self.rewrite.store(true, Ordering::SeqCst);
                }
                self.note_well();
            }
            cleared
        });
        if cleared {
            self.gauges.urgent.store(true, Ordering::SeqCst);
            self.wake_all();
        }
    }

    /// The volume serves again. To be noted in the section that decides it.
    pub(crate) fn note_well(&self) {
        self.cleared.fetch_add(1, Ordering::SeqCst);
        self.arena.note_flushes_mended(self.arena.flushes_failed());
        self.arena.note_condition(Condition::Well);
        self.failed.store(false, Ordering::SeqCst);
    }

    /// Ends the workers, the flusher and the watchdog once they are at rest. Drain first.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.work.notify();
        self.kick.notify();
        self.epochs_changed.notify();
        self.ended.notify();
        self.stall.nudge();
    }

    /// C13: how much may be dirty, from what was measured since this was told before.
    pub(crate) fn set_allowance(&self) {
        let allowance = self.allowance();
        // What is dirty already when the backing becomes slower can only be written out. Meanwhile it may
        // not grow, but writers are slowed down rather than turned away: the limit follows it down. (They keep
        // the debt in the middle of the last eighth: a limit further from it than that would never move.)
        let before = self.gauges.allowance.load(Ordering::Relaxed);
        let debt = self.gauges.debt();
        let slides = before.min(self.settings.dirty_blocks_max()).min(debt + debt / 20);
        self.gauges.allowance.store(allowance.max(slides), Ordering::Relaxed);
    }

    /// The same from settings that were changed: what they allow holds at once (C12).
    pub(crate) fn change_allowance(&self) {
        self.gauges.allowance.store(self.allowance(), Ordering::Relaxed);
    }

    /// The blocks that can be written out within `flush_target`, as far as is known.
    fn allowance(&self) -> u32 {
        let hard = self.settings.dirty_blocks_max();
        // `ordered`: no flush waits for it, but it may not become too old.
        let target_ns = match self.gauges.is_ordered() {
            true => self.settings.dirty_age_ns(),
            false => self.settings.flush_target_ns(),
        };
        if target_ns == 0 {
            return hard;
        }
        let flush_ns = self.estimator.flush_ns.load(Ordering::Relaxed);
        let time_ns = target_ns.saturating_sub(flush_ns);
        // When a client's flush comes, another one may be under way.
        let time_ns = time_ns - flush_ns.min(time_ns / 2);
        let blocks = u128::from(self.drain_rate()) * u128::from(time_ns) / 1_000_000_000;
        // Even a backing that is too slow for any debt gets two blocks: else nothing would ever be
        // measured again.
        (blocks.min(u128::from(hard)) as u32).max(2)
    }

    /// `ordered`: how many epochs may be closed. Each takes a flush of the backing, and all of them together
    /// no longer than dirty data may become old (C6).
    pub(crate) fn chain_max(&self) -> usize {
        match self.estimator.flush_ns.load(Ordering::Relaxed) {
            0 => CHAIN_MAX,
            flush_ns => {
                usize::try_from(self.settings.dirty_age_ns() / flush_ns).unwrap_or(CHAIN_MAX)
            }
        }
    }

    fn drain_rate(&self) -> u64 {
        match self.estimator.blocks_per_second.load(Ordering::Relaxed) {
            0 => DRAIN_ASSUMED,
            rate => rate,
        }
    }

    /// How long it would take to make everything durable. In `ordered` mode each epoch is written out for itself,
    /// and the backing is flushed after each: many small ones take much longer than their blocks in one run.
    fn flush_predicted_ns(&self) -> u64 {
        let debt = self.gauges.debt();
        let epochs = match self.gauges.is_ordered() {
            true => self.closed_epochs() + u32::from(self.gauges.open.load(Ordering::Relaxed) > 0),
            false => 1,
        };
        let epochs = epochs.max(1);
        let together_ns = u64::from(debt) * 1_000_000_000 / self.drain_rate().max(1);
        let run_ns = self.estimator.least_of((debt / epochs).max(1)).unwrap_or(0);
        let apart_ns = if epochs > 1 { run_ns.saturating_mul(epochs.into()) } else { 0 };
        let flushes_ns =
            self.estimator.flush_ns.load(Ordering::Relaxed).saturating_mul(epochs.into());
        together_ns.max(apart_ns).saturating_add(flushes_ns)
    }

    /// What was counted so far, and how things stand at `now_ns`.
    pub fn counters(&self, now_ns: u64) -> Counters {
        let mut all = Counters::default();
        for entry in &self.shards {
            let (counters, held) = entry.shard.peek(|shard| {
                shard.settle(&self.gauges);
                (shard.counters, shard.held())
            });
            all += &counters;
            all.blocks_held += u64::from(held);
        }
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        all.flushes = load(&self.flushes);
        all.flushes_backing = load(&self.flushes_backing);
        all.epochs = load(&self.epochs_durable);
        all.writes_urgent = load(&self.writes_urgent);
        all.hit_ns = load(&self.gauges.hit_ns);
        all.changes_slowed = load(&self.throttle.slowed);
        all.slowed_ns = load(&self.throttle.slowed_ns);
        all.drain_window = u64::from(self.estimator.window(Foreground::default()));
        [all.errors_read, all.errors_write, all.errors_flush] =
            [load(&self.errors[0]), load(&self.errors[1]), load(&self.errors[2])];
        all.blocks_recovered = load(&self.recovered);
        all.headers_rejected = load(&self.rejected);
        all.blocks_dirty = u64::from(self.dirty_blocks());
        all.dirty_blocks_max = u64::from(self.settings.dirty_blocks_max());
        all.allowance_blocks = u64::from(self.gauges.allowance.load(Ordering::Relaxed));
        all.dirty_age_ns = self.gauges.age(now_ns);
        all.epochs_closed = u64::from(self.closed_epochs());
        all.backing_read_ns = match load(&self.gauges.backing_read_ns) {
            u64::MAX => 0,
            measured => measured,
        };
        all.drain_blocks_per_second = load(&self.estimator.blocks_per_second);
        all.flush_predicted_ns = self.flush_predicted_ns();
        self.bypass.count(&mut all, now_ns);
        all.failed = u64::from(self.has_failed());
        all
    }

    /// The latencies measured so far.
    pub fn histograms(&self) -> Histograms {
        self.latencies.snapshot()
    }

    /// A read that was answered from memory took so long. The engine has no clock that could tell:
    /// the layer that serves it and has one times a hit now and then (one in a thousand tells enough, and
    /// the two looks at the clock cost as much as a small hit) and says it here.
    pub fn hit_sampled(&self, ns: u64) {
        self.latencies.hit_ns.record(ns);
        let gauge = &self.gauges.hit_ns;
        let before = gauge.load(Ordering::Relaxed);
        let now = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        gauge.store(now, Ordering::Relaxed);
    }

    /// Checks every invariant of the engine's data. For the laboratory: it walks everything.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let mut sums = (0, 0, 0);
        for entry in &self.shards {
            let found = entry.shard.peek(|shard| shard.check(&self.gauges));
            sums = (sums.0 + found.0, sums.1 + found.1, sums.2 + found.2);
        }
        assert_eq!(sums.0, self.gauges.dirty.load(Ordering::SeqCst), "dirty blocks");
        assert_eq!(sums.1, self.gauges.open.load(Ordering::SeqCst), "open blocks");
        assert_eq!(sums.2, self.gauges.under_way.load(Ordering::SeqCst), "blocks under way");
        assert!(self.gauges.remaining.load(Ordering::SeqCst) >= 0);
    }
}

/// A client of a volume: until one has flushed, `back` writes through (C11). Dropping it says that
/// the client has gone.
pub struct Client {
    shared: Arc<Shared>,
    proven: AtomicBool,
}

impl Client {
    /// This client has sent a flush (or a FUA write): it knows what a write buffer is.
    pub fn flushed(&self) {
        if !self.proven.swap(true, Ordering::Relaxed) {
            self.shared.proven.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if *self.proven.get_mut() {
            self.shared.proven.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
