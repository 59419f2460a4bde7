//! The half of a volume's cache that all lanes share: its parts, and what concerns several of them.
//!
//! Each part is a struct with methods of its own, in its own room. Here they are put together. What
//! stands here beside that is what a caller from outside asks, and the few steps in which several
//! parts must be told.

use crate::arena::Arena;
use crate::arena::superblock::Unrecoverable;
use crate::backing::Backing;
use crate::backing::health::IN_DOUBT;
use crate::bypass::balance::Pressure;
use crate::bypass::guard::Standing;
use crate::bypass::{Bypass, Costs};
use crate::dirty::gauges::Gauges;
use crate::dirty::limits::{self, DirtyLimits};
use crate::dirty::throttle::Throttle;
use crate::epochs::Epochs;
use crate::epochs::locked::LockedEpochs;
use crate::geometry::Geometry;
use crate::planted::{Bug, planted};
use crate::recovery::{self, ORDER_IN_DOUBT};
use crate::rescue::Rescue;
use crate::sampling::{CurveReport, PolicyReport, Sampling};
use crate::settings::{Live, Settings, limits_above};
use crate::shard::Checked;
use crate::shard::shards::{ShardEntry, Shards};
use crate::stats::counters::Counters;
use crate::stats::latencies::Histograms;
use crate::stats::volume::VolumeStats;
use crate::streams::Streams;
use crate::writeback::Writeback;
use crate::writeback::tasks::{Tasks, tasks_a_lane};
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Limits, Memory, WriteMode};
use lane::atomic::{AtomicBool, AtomicU32, Ordering};

/// The cache of one volume, shared by its lanes.
pub struct Shared {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) settings: Live,
    /// They are being changed.
    pub(crate) setting: AtomicBool,
    pub(crate) arena: Arena,
    pub(crate) shards: Shards,
    /// What a sample of the accesses tells.
    sampling: Arc<Sampling>,
    /// Streams of reads, and what is fetched ahead of them.
    pub(crate) streams: Arc<Streams>,
    /// What is dirty, in numbers.
    pub(crate) gauges: Gauges,
    /// The line of the writers that wait for blocks to be written out.
    pub(crate) throttle: Throttle,
    pub(crate) epochs: LockedEpochs,
    pub(crate) writeback: Writeback,
    pub(crate) tasks: Tasks,
    pub(crate) backing: Backing,
    /// Whether the cache steps aside, and what decides that.
    pub(crate) bypass: Bypass,
    pub(crate) stats: VolumeStats,
    /// Clients that have sent a flush (C11).
    proven: AtomicU32,
}

impl Shared {
    /// Makes the cache of a volume over an arena in `memory`, and takes over whatever dirty blocks
    /// the arena holds from an earlier life (C7). An arena of zeros is a fresh one. A volume that
    /// had failed starts failed (C8).
    ///
    /// `identity` names the backing, whatever it is called today: memory that holds the cache of
    /// another one is refused.
    ///
    /// Before this, the caller must have fenced the old owner (C15): none of its writes to the
    /// backing may still be under way.
    ///
    /// # Errors
    /// The memory holds something else, an arena of another geometry or backing, or of a backing
    /// that was larger.
    ///
    /// # Panics
    /// If the memory is smaller than [`Arena::bytes`].
    pub fn new(
        below: &Limits,
        geometry: Geometry,
        settings: Settings,
        identity: u64,
        memory: Arc<Memory>,
    ) -> Result<Arc<Shared>, Unrecoverable> {
        let arena = Arena::over(memory, &geometry, below.grain);
        let (writeback, gauges) = (Writeback::new(), Gauges::new(geometry.shards));
        gauges.set_allowance(&settings, writeback.estimator.pace());
        let sampling = Arc::new(Sampling::new(settings.policy, geometry.slots));
        let streams = Arc::new(Streams::new(below.sectors, &geometry, settings.stream_blocks_max));
        let mut shards = Shards::new(settings.policy, &sampling, &streams, &arena, &geometry);
        let settings = Live::new(&settings);
        let backing = Backing::new(arena.clone());
        let stats = VolumeStats::default();
        let mut parts = recovery::Parts {
            geometry,
            sectors: below.sectors,
            settings: &settings,
            arena: &arena,
            shards: &mut shards,
            gauges: &gauges,
            health: &backing.health,
            stats: &stats,
        };
        let epochs = LockedEpochs::new(recovery::recover(&mut parts, identity)?);
        let shared = Shared {
            geometry,
            limits: limits_above(below),
            settings,
            setting: AtomicBool::new(false),
            arena,
            shards,
            sampling,
            streams,
            gauges,
            throttle: Throttle::default(),
            epochs,
            writeback,
            tasks: Tasks::new(),
            backing,
            bypass: Bypass::default(),
            stats,
            proven: AtomicU32::new(0),
        };
        shared.epochs.peek(|epochs| shared.show_closed(epochs));
        Ok(Arc::new(shared))
    }

    /// The number of the shard that a block belongs to.
    #[inline]
    pub fn shard_of(&self, block: u64) -> usize {
        self.shards.number_of(block)
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

    /// The most tasks that [`crate::Cache::attach`] starts on a lane.
    pub fn tasks_a_lane(&self) -> usize {
        tasks_a_lane(self.settings.workers, self.settings.readers)
    }

    /// A client of the volume that comes at `now_ns`, for C1 and C11.
    pub fn client(self: &Arc<Self>, now_ns: u64) -> Client {
        let is_in_doubt = self.backing.health.doubts_client(now_ns);
        Client {
            shared: self.clone(),
            proven: AtomicBool::new(false),
            in_doubt: AtomicBool::new(is_in_doubt),
        }
    }

    /// Whether an earlier process was killed while a flush of the backing was under way that
    /// covered changes of which no copy is held: the first flush of every client fails.
    pub fn is_in_doubt(&self) -> bool {
        self.arena.is_in_doubt()
    }

    /// The same is so of this volume because it was of another memory, which was settled before.
    pub fn begin_doubt(&self) {
        self.arena.note_doubt(true);
        if self.settings.wants_order() {
            self.epochs.with(|epochs| self.backing.health.fail_in_doubt(epochs, ORDER_IN_DOUBT));
        }
    }

    /// Whether a client has sent a flush, so that writes may be absorbed (C11).
    #[inline]
    pub(crate) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Relaxed) > 0 || planted(Bug::TrustAtOnce)
    }

    /// Whether the volume has failed (C8).
    pub fn has_failed(&self) -> bool {
        self.backing.health.has_failed()
    }

    /// How often the failed state was ended. Between two looks at a failed volume that find the
    /// same number it has been failed all the time, so that nothing was written to it.
    pub fn times_cleared(&self) -> u64 {
        self.backing.health.times_cleared()
    }

    /// Lets the guard judge what has happened since this was called last: about every 50 ms, with
    /// how processors were to be had meanwhile. True: the cache steps aside, or comes back, or does
    /// so with more or less than before. It walks the shards, and allocates nothing.
    pub fn guard(&self, now_ns: u64, pressure: Pressure) -> bool {
        let costs = Costs {
            pressure,
            backing_write_ns: self.writeback.estimator.block_ns().unwrap_or(0),
            copy_ns: self.settings.fill_cost_ns,
            expected_hits: self.expected_hits(),
        };
        self.sampling.tick(now_ns);
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

    /// The hits to be expected of a miss that is kept, before it is given up. None: too early to
    /// say.
    pub fn expected_hits(&self) -> Option<f64> {
        self.sampling.expected_hits()
    }

    /// Steps aside with reads, writes or both (then also with what is sure to be read), or comes
    /// back, until the guard decides anew: for the laboratory, which does so at the worst of
    /// moments.
    pub fn force_bypass(&self, reads: bool, writes: bool, now_ns: u64) {
        self.bypass.force(reads, writes, now_ns);
    }

    /// The policy's window, if it has one, is to have this share of the clean blocks, in 1024ths,
    /// until the arbiter decides anew: for the laboratory, whose histories are too short for it to
    /// decide anything.
    pub fn force_window_share(&self, share: u32) {
        if self.sampling.window_share().is_some() {
            self.sampling.set_window_share(share);
        }
    }

    /// Dirty blocks.
    pub fn dirty_blocks(&self) -> u32 {
        self.gauges.dirty()
    }

    /// How many blocks may be dirty.
    pub(crate) fn dirty_limits(&self) -> DirtyLimits {
        self.gauges.limits(self.settings.dirty_blocks_max())
    }

    /// Epochs that are closed, or are being closed, and not durable.
    pub fn closed_epochs(&self) -> u32 {
        self.gauges.closed()
    }

    /// The dirty data of this volume, which its backing does not have. Only for a volume that has
    /// failed (C8), or whose lanes are at rest: nothing may be written while the rescue is used.
    ///
    /// # Errors
    /// Its memory has been damaged.
    pub fn rescue(&self) -> Result<Rescue, Unrecoverable> {
        Rescue::over_served(self.arena.memory().clone())
    }

    /// What was counted so far, and how things stand at `now_ns`.
    pub fn counters(&self, now_ns: u64) -> Counters {
        let mut all = Counters::default();
        for entry in self.shards.iter() {
            let (counters, held) = entry.shard.peek(|shard| {
                shard.settle(&self.gauges);
                (shard.counters, shard.held())
            });
            all += &counters;
            all.blocks_held += u64::from(held);
        }
        self.stats.count(&mut all);
        self.throttle.count(&mut all);
        self.writeback.estimator.count(&mut all);
        self.backing.health.count(&mut all);
        self.gauges.count(&mut all, now_ns);
        self.bypass.count(&mut all, now_ns);
        all.dirty_blocks_max = u64::from(self.settings.dirty_blocks_max());
        all.flush_predicted_ns = self.flush_predicted_ns();
        all
    }

    /// How long it would take to make everything durable.
    fn flush_predicted_ns(&self) -> u64 {
        let (debt, epochs) = (self.gauges.debt(), self.gauges.epochs_to_flush());
        let run_ns = self.writeback.estimator.least_of((debt / epochs).max(1)).unwrap_or(0);
        limits::flush_predicted_ns(debt, epochs, run_ns, self.writeback.estimator.pace())
    }

    /// How the policy stands.
    pub fn policy(&self) -> PolicyReport {
        let kind = self.settings.policy;
        let mut queues: Vec<(&str, u64)> = kind.queues().iter().map(|name| (*name, 0)).collect();
        for entry in self.shards.iter() {
            entry.shard.peek(|shard| {
                for (queue, blocks) in queues.iter_mut().zip(shard.queues()) {
                    queue.1 += u64::from(blocks);
                }
            });
        }
        PolicyReport { kind, queues, window_share: self.sampling.window_share() }
    }

    /// What caches of other sizes would have missed lately. None: nothing was accessed yet.
    pub fn curve(&self, now_ns: u64) -> Option<CurveReport> {
        self.sampling.report(now_ns)
    }

    /// The latencies measured so far.
    pub fn histograms(&self) -> Histograms {
        self.stats.latencies.snapshot()
    }

    /// A read that was answered from memory took so long. The engine has no clock that could tell:
    /// the layer that serves it and has one times a hit now and then (one in a thousand tells
    /// enough, and the two looks at the clock cost as much as a small hit) and says it here.
    pub fn hit_sampled(&self, ns: u64) {
        self.stats.latencies.hit_ns.record(ns);
        self.gauges.hit_sampled(ns);
    }

    /// Checks every invariant of the engine's data. For the laboratory: it walks everything.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let mut all = Checked::default();
        for entry in self.shards.iter() {
            let one = entry.shard.peek(|shard| shard.check(&self.gauges));
            all.dirty += one.dirty;
            all.open += one.open;
            all.under_way += one.under_way;
            all.unread += one.unread;
        }
        let counted = Checked {
            dirty: self.gauges.dirty(),
            open: self.gauges.open(),
            under_way: self.gauges.under_way(),
            unread: self.streams.unread(),
        };
        assert_eq!(all, counted, "what the shards have, and what the volume counts");
    }

    /// Checks that the numbers of what is dirty agree, as they must between any two sections. For
    /// the laboratory, which does so after each: it looks at a dozen numbers. One thread must run
    /// all lanes.
    ///
    /// # Panics
    /// If they do not.
    #[cfg(feature = "laboratory")]
    pub fn check_gauges(&self) {
        self.gauges.check();
    }
}

/// Steps in which several parts must be told.
impl Shared {
    /// The open epoch is about to be closed. To be noted in the section that decides it.
    pub(crate) fn note_closing(&self, epochs: &mut Epochs) {
        epochs.closes(self.gauges.epoch_closed());
        self.show_closed(epochs);
    }

    /// Shows how many epochs are closed, and since when, to those that do not ask the epochs. Ends
    /// the order of what is closed before what passes, if no setting wants it any more and nothing
    /// is closed that was promised it. In a section of the epochs: nothing can be closed meanwhile.
    /// (A flush that closes something because it had not heard of the change yet finds out when
    /// that is done: see `request/flush.rs`.)
    pub(crate) fn show_closed(&self, epochs: &Epochs) {
        let closed = epochs.closed();
        self.gauges.show_closed(closed, epochs.closed_since());
        let waits = closed > 0 && !planted(Bug::SwitchWithoutDrain);
        if self.gauges.is_ordered() && !self.settings.wants_order() && !waits {
            self.gauges.end_order(&self.arena);
            // A flush waits for the debt again.
            self.gauges.set_allowance(&self.settings.now(), self.writeback.estimator.pace());
        }
    }

    /// C8: the operator says that the backing is well again; what is dirty will be tried again,
    /// from now on for `retry_time`. What went past the cache and was not flushed may be lost. Does
    /// nothing while a discard is under way: that clears the error itself.
    pub fn clear_error(&self) {
        if self.arena.has_lost_flush() {
            self.shards.iter().for_each(|entry| self.drop_held(entry));
        }
        if self.epochs.peek(|epochs| self.backing.health.clear(epochs)) {
            self.gauges.request_room();
            self.wake_all();
        }
    }

    /// Drops the held copies of a shard, slice by slice, so that reads show the backing as it is.
    pub(crate) fn drop_held(&self, entry: &ShardEntry) {
        let (slots, most) = (self.geometry.slots_per_shard(), self.geometry.slice_blocks);
        for first in (0..slots).step_by(most as usize) {
            let slice = first..(first + most).min(slots);
            entry.shard.peek(|shard| shard.drop_held(&self.gauges, slice));
        }
    }

    /// Wakes every task that must hear that the volume has failed, or serves again.
    pub(crate) fn wake_all(&self) {
        self.epochs.changed.notify();
        self.writeback.work.notify();
        self.writeback.kick.notify();
        self.throttle.work_ends();
        // Writers that wait for room must hear that there will be none.
        self.shards.notify();
        self.epochs.freed.notify();
    }

    /// Ends the workers, the flusher and the watchdog once they are at rest. Drain first.
    pub fn stop(&self) {
        self.tasks.begin_stop();
        self.writeback.work.notify();
        self.writeback.kick.notify();
        self.streams.work.notify();
        self.epochs.changed.notify();
        self.tasks.ended.notify();
        self.backing.stall.nudge();
    }
}

/// A client of a volume: until one has flushed, `back` writes through (C11). Dropping it says that
/// the client has gone.
pub struct Client {
    shared: Arc<Shared>,
    proven: AtomicBool,
    /// Its first flush fails.
    in_doubt: AtomicBool,
}

impl Client {
    /// This client has sent a flush (or a FUA write): it knows what a write buffer is.
    pub fn flushed(&self) {
        if !self.proven.swap(true, Ordering::Relaxed) {
            self.shared.proven.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the error that a flush of this client must be answered with, whatever the backing's
    /// answer.
    ///
    /// # Errors
    /// Once, if an earlier process may have lost what it had answered (C1).
    pub fn take_doubt(&self) -> block::Result {
        if !self.in_doubt.load(Ordering::Relaxed) || !self.in_doubt.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.shared.backing.health.doubt_ends(true);
        Err(IN_DOUBT)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if *self.proven.get_mut() {
            self.shared.proven.fetch_sub(1, Ordering::Relaxed);
        }
        if *self.in_doubt.get_mut() {
            self.shared.backing.health.doubt_ends(false);
        }
    }
}
