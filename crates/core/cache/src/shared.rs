//! The part of a volume's cache that all lanes share, and the operations that concern several of
//! its parts.
//!
//! Each part is a struct in its own folder. This file puts them together. It also has the calls
//! from outside the crate, and the few steps that must notify several parts.

use crate::arena::Arena;
use crate::arena::superblock::Unrecoverable;
use crate::backing::Backing;
use crate::backing::health::IN_DOUBT;
use crate::bypass::balance::Pressure;
use crate::bypass::guard::GuardState;
use crate::bypass::{Bypass, Costs};
use crate::compressed::Compression;
use crate::dirty::gauges::Gauges;
use crate::dirty::limits::{self, DirtyLimits};
use crate::dirty::throttle::Throttle;
use crate::epochs::Epochs;
use crate::epochs::locked::LockedEpochs;
use crate::geometry::Geometry;
use crate::planted::{Bug, planted};
use crate::recovery::{self, CleanBlocks, ORDER_IN_DOUBT};
use crate::rescue::Rescue;
use crate::sampling::{CurveReport, HintsReport, MapWrites, PolicyReport, Sampling};
use crate::settings::{Live, Settings, limits_above};
use crate::shard::shards::{ShardEntry, Shards};
use crate::shard::{Checked, Shard};
use crate::stats::counters::Counters;
use crate::stats::latencies::Histograms;
use crate::stats::volume::VolumeStats;
use crate::streams::Streams;
use crate::warming::{Evidence, Warming};
use crate::writeback::Writeback;
use crate::writeback::tasks::{Tasks, tasks_a_lane};
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Compress, Limits, Memory, WriteMode};
use hotlist::{HotList, StartList};
use lane::Event;
use lane::atomic::{AtomicBool, AtomicU32, Ordering};
use policy::{CLASSES_MAX, ClassCounts};

/// The cache of one volume, shared by its lanes.
pub struct Shared {
    pub(crate) geometry: Geometry,
    pub(crate) limits: Limits,
    pub(crate) settings: Live,
    /// True while the settings are being changed.
    pub(crate) is_reconfiguring: AtomicBool,
    pub(crate) arena: Arena,
    pub(crate) shards: Shards,
    /// Statistics from a sample of the accesses.
    pub(crate) sampling: Arc<Sampling>,
    /// Streams of reads, and the blocks fetched ahead of them.
    pub(crate) streams: Arc<Streams>,
    /// The list of hot blocks, while it is read back.
    pub(crate) warming: Warming,
    /// Counts of dirty data.
    pub(crate) gauges: Gauges,
    /// The queue of writers that wait for writeback.
    pub(crate) throttle: Throttle,
    pub(crate) epochs: LockedEpochs,
    pub(crate) writeback: Writeback,
    pub(crate) tasks: Tasks,
    pub(crate) compression: Compression,
    pub(crate) backing: Backing,
    /// Whether the cache is bypassed, and the guard that decides it.
    pub(crate) bypass: Bypass,
    pub(crate) stats: VolumeStats,
    /// Clients that have sent a flush (C11).
    proven: AtomicU32,
}

impl Shared {
    /// Makes the cache of a volume over an arena in `memory`, and takes over the dirty blocks that
    /// the arena holds from an earlier process (C7). An arena of zeros is a fresh one. A volume
    /// that had failed starts failed (C8).
    ///
    /// `identity` identifies the backing, whatever its current name: memory that holds the cache of
    /// another backing is refused.
    ///
    /// Before this call, the caller must have fenced the old owner (C15): none of its writes to the
    /// backing may still be in progress.
    ///
    /// # Errors
    /// The memory holds other data, an arena of another geometry or backing, or of a backing that
    /// was larger.
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
        Shared::take_over(below, geometry, settings, identity, memory, CleanBlocks::Drop)
    }

    /// Makes the cache of a volume as [`Shared::new`] does, and takes over clean blocks as well if
    /// `clean` says so (C9).
    ///
    /// # Errors
    /// Those of [`Shared::new`].
    ///
    /// # Panics
    /// As [`Shared::new`].
    pub fn take_over(
        below: &Limits,
        geometry: Geometry,
        settings: Settings,
        identity: u64,
        memory: Arc<Memory>,
        clean: CleanBlocks,
    ) -> Result<Arc<Shared>, Unrecoverable> {
        let arena = Arena::from_memory(memory, &geometry, below.grain);
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
            clean,
        };
        let epochs = LockedEpochs::new(recovery::recover(&mut parts, identity)?);
        let shared = Shared {
            geometry,
            limits: limits_above(below),
            settings,
            is_reconfiguring: AtomicBool::new(false),
            arena,
            shards,
            sampling,
            streams,
            warming: Warming::new(
                below.sectors / u64::from(crate::BLOCK_SECTORS),
                geometry.run_blocks,
                geometry.region_blocks,
            ),
            gauges,
            throttle: Throttle::default(),
            epochs,
            writeback,
            tasks: Tasks::new(),
            compression: Compression::new(geometry.slots),
            backing,
            bypass: Bypass::default(),
            stats,
            proven: AtomicU32::new(0),
        };
        shared.epochs.peek(|epochs| shared.publish_closed(epochs));
        Ok(Arc::new(shared))
    }

    /// Records the time that the takeover of this memory took, which the caller has measured.
    pub fn set_takeover_ns(&self, ns: u64) {
        self.stats.set_takeover_ns(ns);
    }

    /// Returns the number of the shard that a block belongs to.
    #[inline]
    pub fn shard_of(&self, block: u64) -> usize {
        self.shards.number_of(block)
    }

    /// The sizes with which this cache was made.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The settings in force.
    pub fn settings(&self) -> Settings {
        self.settings.now()
    }

    /// How writes are handled.
    pub fn write_mode(&self) -> WriteMode {
        self.settings.write()
    }

    /// Changes how writes are handled from now on (C12). Dirty data stays dirty until it is written
    /// back.
    pub fn set_write_mode(&self, write: WriteMode) {
        self.settings.set_write(write);
    }

    /// The maximum number of tasks that [`crate::Cache::attach`] starts on a lane.
    pub fn tasks_a_lane(&self) -> usize {
        tasks_a_lane(self.settings.workers, self.settings.readers)
    }

    /// Registers a client of the volume at `now_ns`, for C1 and C11.
    pub fn client(self: &Arc<Self>, now_ns: u64) -> Client {
        let is_in_doubt = self.backing.health.doubts_client(now_ns);
        Client {
            shared: self.clone(),
            proven: AtomicBool::new(false),
            in_doubt: AtomicBool::new(is_in_doubt),
        }
    }

    /// Whether an earlier process was killed during a flush of the backing that covered changes
    /// without a held copy. If so, the first flush of every client fails.
    pub fn is_in_doubt(&self) -> bool {
        self.arena.is_in_doubt()
    }

    /// Puts this volume in doubt: an earlier memory of this backing was in doubt, and was released
    /// before the doubt ended.
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

    /// Whether all changes get errors, because the link to the backing is down (C8).
    pub fn refuses_changes(&self) -> bool {
        self.backing.refuses_changes()
    }

    /// The number of times the failed state was cleared. If two checks of a failed volume return
    /// the same number, the volume was failed all the time between them, and nothing was written to
    /// it.
    pub fn times_cleared(&self) -> u64 {
        self.backing.health.times_cleared()
    }

    /// Lets the guard judge the time since the last call; to be called about every 50 ms, with the
    /// CPU pressure of that time. Returns true if the bypass begins, ends or changes. Walks the
    /// shards and allocates nothing.
    pub fn guard(&self, now_ns: u64, pressure: Pressure) -> bool {
        let costs = Costs {
            pressure,
            backing_write_ns: self.writeback.estimator.block_ns().unwrap_or(0),
            copy_ns: self.settings.fill_cost_ns,
            expected_hits: self.expected_hits(),
        };
        self.sampling.tick(now_ns);
        let counted = self.counters(now_ns);
        if self.warming.is_reading() {
            let copy_ns = if counted.keep_ns > 0 { counted.keep_ns } else { costs.copy_ns };
            let evidence = Evidence { pressure, copy_ns, slots: self.geometry.slots };
            self.warming.judge(&counted, &evidence, now_ns);
            // The end of a bypass of reads is no event of its own.
            self.streams.work.notify_one();
        }
        let compress = self.settings.compress();
        self.compression.note_setting(compress, now_ns);
        if compress != Compress::Off {
            let (reads, pressure) =
                self.bypass.times_of_reads(&counted, self.settings.fill_cost_ns, pressure);
            self.compression.judge(&counted, &reads, pressure, now_ns);
        }
        self.bypass.judge(&counted, costs, now_ns)
    }

    /// Begins to read the blocks back that were hot in an earlier life, beside clients' requests
    /// and below them in priority. The blocks must be those of this volume; blocks beyond its end
    /// are left out. Has no effect while another list is being read.
    pub fn warm(&self, list: HotList, now_ns: u64) {
        let filled = self.shards.iter().map(|entry| entry.counters.blocks_filled.get());
        self.warming.begin(list, filled.sum(), now_ns);
        self.streams.work.notify_one();
    }

    /// Begins to note the blocks that clients read for the first time, in order. Call it before the
    /// first read, and [`Shared::end_start_up`] some minutes after it.
    pub fn begin_start_up(&self) {
        self.warming.begin_start_up(self.geometry.slots);
    }

    /// Fetches the blocks of a start-up list ahead of clients, as far as these repeat a start that
    /// it names, before those of a list of hot blocks and below clients' requests. Has no effect
    /// unless first reads are noted.
    pub fn follow_start_up(&self, list: StartList) {
        self.warming.follow_start_up(list, self.geometry.slots);
        self.streams.work.notify_one();
    }

    /// The time of the first noted read, if there was one, and the event of that.
    pub fn start_up_began(&self) -> (Option<u64>, &Event) {
        self.warming.start_up_began()
    }

    /// Ends noting and following. Returns the noted blocks; None: that was over.
    pub fn end_start_up(&self) -> Option<Vec<u64>> {
        self.warming.end_start_up()
    }

    /// Lets reading a list go on if the reason for which it had to wait is over. Clients' requests
    /// and the guard do so as well; to be called now and then while there may be neither.
    pub fn nudge_warming(&self) {
        self.streams.work.notify_one();
    }

    /// Ends reading the lists. Blocks that were read stay cached.
    pub fn stop_warming(&self, now_ns: u64) {
        self.warming.forget(now_ns);
    }

    /// Whether blocks of the list of hot blocks are left to read, and slots are free for them: then
    /// the list has more than the cache.
    pub fn is_warming(&self) -> bool {
        let has_room = |entry: &ShardEntry| entry.shard.peek(|shard| shard.has_room());
        self.warming.is_ranking_read() && self.shards.iter().any(has_room)
    }

    /// Switches the guard on or off from `now_ns` on. While it is off, the cache is not bypassed.
    pub fn set_guard(&self, on: bool, now_ns: u64) {
        self.bypass.set_guard(on, now_ns);
    }

    /// The state of the guard.
    pub fn guard_state(&self, now_ns: u64) -> GuardState {
        self.bypass.state(now_ns)
    }

    /// The expected number of hits of an admitted block before its eviction. None: too early to
    /// estimate.
    pub fn expected_hits(&self) -> Option<f64> {
        self.sampling.expected_hits()
    }

    /// Forces or ends the bypass of reads, writes or both (with both, also of reads that are
    /// certain to be needed), until the next decision of the guard. For the laboratory, which does
    /// so at the worst moments.
    pub fn force_bypass(&self, reads: bool, writes: bool, now_ns: u64) {
        self.bypass.force(reads, writes, now_ns);
    }

    /// Forces the share of the clean blocks that the policy's window has, if the policy has a
    /// window, in 1024ths, until the arbiter's next decision. For the laboratory, whose histories
    /// are too short for the arbiter to decide anything.
    pub fn force_window_share(&self, share: u32) {
        if self.sampling.window_share().is_some() {
            self.sampling.set_window_share(share);
        }
    }

    /// Fixes the share of the compressed tier: the arbiter chooses no more. For comparisons with
    /// simulations, and for measurements.
    pub fn force_tier_share(&self, share: policy::TierShare) {
        self.sampling.force_tier_share(share);
    }

    /// The share of the compressed tier.
    pub fn tier_share(&self) -> policy::TierShare {
        self.sampling.tier_share()
    }

    /// The number of dirty blocks.
    pub fn dirty_blocks(&self) -> u32 {
        self.gauges.dirty()
    }

    /// The limits on the number of dirty blocks.
    pub(crate) fn dirty_limits(&self) -> DirtyLimits {
        self.gauges.limits(self.settings.dirty_blocks_max())
    }

    /// The number of epochs that are closed, or being closed, and not durable.
    pub fn closed_epochs(&self) -> u32 {
        self.gauges.closed()
    }

    /// Returns the dirty data of this volume, which its backing lacks. Only for a volume that has
    /// failed (C8), or whose lanes are idle: nothing may be written while the rescue is used.
    ///
    /// # Errors
    /// Its memory has been damaged.
    pub fn rescue(&self) -> Result<Rescue, Unrecoverable> {
        Rescue::from_served_memory(self.arena.memory().clone())
    }

    /// The counters, with the current values of gauges at `now_ns`, and with the time saved until
    /// now.
    pub fn counters(&self, now_ns: u64) -> Counters {
        for entry in self.shards.iter() {
            entry.shard.peek(|shard| shard.settle(&self.gauges));
        }
        self.observe(now_ns)
    }

    /// The counters, with the current values of gauges at `now_ns`. Takes no lock that a request
    /// waits for. The time saved is as of the guard's last decision, which is 50 ms old at most
    /// while there are clients.
    pub fn observe(&self, now_ns: u64) -> Counters {
        let mut all = Counters::default();
        self.shards.iter().for_each(|entry| all += &entry.counters.snapshot());
        self.stats.count(&mut all);
        self.throttle.count(&mut all);
        self.writeback.estimator.count(&mut all);
        self.backing.health.count(&mut all);
        self.gauges.count(&mut all, now_ns);
        self.bypass.count(&mut all, now_ns);
        self.warming.count(&mut all, now_ns);
        self.compression.count(&mut all, self.settings.compress(), now_ns);
        all.dirty_blocks_max = u64::from(self.settings.dirty_blocks_max());
        all.flush_predicted_ns = self.flush_predicted_ns();
        all
    }

    /// The predicted time to make everything durable.
    fn flush_predicted_ns(&self) -> u64 {
        let (debt, epochs) = (self.gauges.debt(), self.gauges.epochs_to_flush());
        let run_ns = self.writeback.estimator.least_of((debt / epochs).max(1)).unwrap_or(0);
        limits::flush_predicted_ns(debt, epochs, run_ns, self.writeback.estimator.pace())
    }

    /// The state of the policy.
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
        let window_share = self.sampling.window_share().map(policy::window_share);
        PolicyReport { kind, queues, window_share }
    }

    /// Returns the report on the hints about the volume's files. None: no hints are set.
    pub fn hints(&self, now_ns: u64) -> Option<HintsReport> {
        let mut counts = [ClassCounts::default(); CLASSES_MAX];
        for entry in self.shards.iter() {
            entry.shard.peek(|shard| {
                for (sum, one) in counts.iter_mut().zip(shard.class_counts().into_iter().flatten())
                {
                    sum.add(one);
                }
            });
        }
        let time_saved_ns = self.counters(now_ns).time_saved_ns;
        self.sampling.report_hints(&counts, time_saved_ns, now_ns)
    }

    /// Writes to the backing by which the map of files has probably changed: of metadata and of
    /// directories, by the present hints. Without hints none are noted.
    pub fn map_writes(&self) -> &MapWrites {
        self.sampling.map_writes()
    }

    /// The estimated recent misses of caches of other sizes. None: nothing was accessed yet.
    pub fn curve(&self, now_ns: u64) -> Option<CurveReport> {
        self.sampling.report(now_ns)
    }

    /// The measured latencies.
    pub fn histograms(&self) -> Histograms {
        self.stats.latencies.snapshot()
    }

    /// Records the latency of a read that was answered from memory. The engine does not time hits,
    /// because two clock reads cost about as much as a small hit. The layer that serves the volume
    /// and has a clock times a sample of them (one in a thousand is enough) and records it here.
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

    /// Checks that the gauges of dirty data agree, as they must between any two sections. For the
    /// laboratory, which does so after each section: it checks about a dozen numbers. One thread
    /// must run all lanes.
    ///
    /// # Panics
    /// If they do not.
    #[cfg(feature = "laboratory")]
    pub fn check_gauges(&self) {
        self.gauges.check();
    }
}

/// Steps that must notify several parts.
impl Shared {
    /// Notes that the open epoch is about to be closed. To be called in the section that decides
    /// it.
    pub(crate) fn note_closing(&self, epochs: &mut Epochs) {
        epochs.note_closing(self.gauges.epoch_closed());
        self.publish_closed(epochs);
    }

    /// Publishes the number of closed epochs, and since when they are closed, for readers that do
    /// not lock the epochs. Ends the order of closed epochs before write-throughs, if no setting
    /// requires it any more and no epoch is closed. To be called in a section of the epochs: no
    /// epoch can be closed during it. (A flush that closes an epoch because it has not
    /// seen the change of settings yet detects that when the closing is done: see
    /// `tasks/commit.rs`.)
    pub(crate) fn publish_closed(&self, epochs: &Epochs) {
        let closed = epochs.closed();
        self.gauges.publish_closed(closed, epochs.closed_since());
        let waits = closed > 0 && !planted(Bug::SwitchWithoutDrain);
        if self.gauges.is_ordered() && !self.settings.wants_order() && !waits {
            self.gauges.end_order(&self.arena);
            // A flush waits for the debt again.
            self.gauges.set_allowance(&self.settings.now(), self.writeback.estimator.pace());
        }
    }

    /// C8: the operator says that the backing works again. Dirty data is tried again, from now on
    /// for `retry_time`. Write-throughs that were not flushed may be lost. Does nothing while a
    /// discard of dirty data is in progress: the discard clears the error itself.
    pub fn clear_error(&self) {
        if self.arena.has_lost_flush() {
            let has_unheld = self.arena.has_unheld();
            self.shards.iter().for_each(|entry| self.drop_held(entry, has_unheld));
        }
        if self.epochs.peek(|epochs| self.backing.health.clear(epochs)) {
            self.gauges.request_room();
            self.wake_all();
        }
    }

    /// Drops the held copies of a shard, slice by slice, so that reads show the backing as it is.
    /// `has_unheld`: changes without a held copy may be lost, too. Their copies look like those of
    /// other clean blocks, so all clean blocks are dropped.
    pub(crate) fn drop_held(&self, entry: &ShardEntry, has_unheld: bool) {
        let (slots, most) = (self.geometry.slots_per_shard(), self.geometry.slice_blocks);
        if has_unheld {
            entry.shard.peek(Shard::begin_drop);
        }
        for first in (0..slots).step_by(most as usize) {
            let slice = first..(first + most).min(slots);
            entry.shard.peek(|shard| shard.drop_held(&self.gauges, slice, has_unheld));
        }
        if has_unheld {
            entry.shard.peek(Shard::end_drop);
        }
    }

    /// Wakes every task that must see that the volume has failed, or serves again.
    pub(crate) fn wake_all(&self) {
        self.epochs.changed.notify();
        self.writeback.work.notify();
        self.writeback.kick.notify();
        self.throttle.work_ends();
        self.compression.work.notify();
        // Writers that wait for room must see that there will be none.
        self.shards.notify();
        self.epochs.freed.notify();
    }

    /// Ends the workers, the flusher and the watchdog once they are idle. Drain first.
    pub fn stop(&self) {
        self.tasks.begin_stop();
        self.writeback.work.notify();
        self.writeback.kick.notify();
        self.streams.work.notify();
        self.compression.work.notify();
        self.epochs.changed.notify();
        self.tasks.ended.notify();
        self.backing.stall.nudge();
    }
}

/// A client of a volume: until a client has flushed, `back` writes through (C11). Dropping it
/// unregisters the client.
pub struct Client {
    shared: Arc<Shared>,
    proven: AtomicBool,
    /// True if its first flush must fail.
    in_doubt: AtomicBool,
}

impl Client {
    /// Notes that this client has sent a flush (or a FUA write), and so handles a write buffer
    /// correctly.
    pub fn flushed(&self) {
        if !self.proven.swap(true, Ordering::Relaxed) {
            self.shared.proven.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the error with which a flush of this client must be answered, whatever the backing's
    /// answer.
    ///
    /// # Errors
    /// Once, if an earlier process may have lost changes that it had acknowledged (C1).
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
