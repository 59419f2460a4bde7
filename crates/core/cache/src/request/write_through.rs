//! Write-throughs: changes that are sent to the backing before they are answered.

use crate::backing::flush_gate::LOST;
use crate::backing::in_flight::RequestKind;
use crate::blocks::{SLICE, blocks_of};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::shards::ShardEntry;
use crate::shard::{Change, Source};
use crate::shard::{WriteThroughBegun, WriteThroughCopies, WriteThroughEnd};
use block::{Error, Fua, Kind, Request, Result, WriteMode};
use lane::atomic::Ordering;

pub(super) const TAKEN: Error =
    Error::new(Kind::Io, "write: a flush of the backing failed while the write was in flight");

fn request_of(change: &Change, fua: bool) -> Request {
    let at = change.at;
    match change.source {
        Source::Data(from) => Request::Write { at, from: from.clone(), fua },
        // A discard has no FUA. One that must be durable is sent as zeroes that free the space.
        Source::Zeros { discard: true, .. } if !fua => Request::Discard { at },
        Source::Zeros { may_unmap, .. } => Request::Zero { at, fua, may_unmap },
    }
}

impl Handle {
    /// Sends a change directly to the backing; other changes of its blocks wait for it.
    /// `keeps_new`: it may also be cached where nothing is cached yet.
    pub(crate) async fn write_through(
        &self,
        entry: &ShardEntry,
        change: &Change<'_>,
        keeps_new: bool,
    ) -> Result {
        let is_of_client = change.fua;
        let change = &Change { fua: is_of_client || self.lasts_only_by_fua(), ..*change };
        if !change.fua {
            // Noted now, not only when it is answered: a flush that fails in between may have lost
            // it.
            self.shared.backing.health.note_unkept();
        }
        let failures = self.shared.backing.health.flush_failures();
        let begun = self.begin_copies(entry, change, keeps_new).await;
        // The backing may perform it, and a flush may lose it, before it is answered.
        let is_unheld = !begun.is_held && !planted(Bug::ForgetUnansweredWrite);
        if is_unheld {
            self.shared.arena.note_unheld_begins();
        }
        let mut result = self.send_timed(change, is_of_client).await;
        self.lane.turn().await;
        // Before the write-through ends: a later flush must see this note.
        self.shared.backing.health.note_written();
        self.shared.gauges.change_written_through();
        if !change.fua || result.is_err() {
            self.shared.backing.health.note_unkept();
        }
        // The change may have been lost by a flush that failed after a successful flush had cleared
        // the note made above. Checked after the second note: either the failing flush sees the
        // note, or this check sees the failure.
        if !change.fua && !self.shared.backing.health.has_kept(failures) {
            result = result.and(Err(TAKEN));
        }
        let durable = self.is_durable(change);
        let end = WriteThroughEnd { good: result.is_ok(), durable, is_sampled: begun.is_sampled };
        let drained = self.end_write_through(entry, change, end).await;
        if is_unheld {
            self.shared.arena.note_unheld_ends();
        }
        entry.changed.notify();
        if drained || entry.has_work.load(Ordering::SeqCst) {
            self.shared.epochs.changed.notify();
            self.wake_worker();
        }
        result
    }

    /// Whether write-throughs must be durable when they are answered: the end of a connection may
    /// lose others, of which memory holds no copy that could be written again. In `ordered` mode an
    /// FUA write would have to make everything before it durable.
    fn lasts_only_by_fua(&self) -> bool {
        let limits = self.below.limits();
        limits.loses_with_connection
            && limits.fua == Fua::Native
            && !self.shared.gauges.is_ordered()
    }

    /// Whether a change is durable when it is answered.
    fn is_durable(&self, change: &Change<'_>) -> bool {
        change.fua || !self.below.limits().flush_needed
    }

    /// Sends a change, and records the latency of the backing. `is_fua`: its client asked for FUA.
    async fn send_timed(&self, change: &Change<'_>, is_fua: bool) -> Result {
        let begun = self.lane.now();
        let others = self.shared.backing.in_flight.waiting(RequestKind::Change);
        let result = self.send(change).await;
        let usual = &Change { fua: is_fua, ..*change };
        self.record_write_through(usual, self.lane.now() - begun, others, result.is_ok());
        result
    }

    /// Records a write-through that the backing has answered after this time, beside `others` other
    /// changes. `good`: it succeeded.
    pub(super) fn record_write_through(&self, change: &Change, ns: u64, others: u32, good: bool) {
        self.shared.writeback.estimator.foreground_wrote(self.lane.now());
        if good && !change.fua && matches!(change.source, Source::Data(_)) {
            let blocks = blocks_of(&change.at).1;
            self.shared.bypass.write_through_took(ns, blocks, others);
            self.shared.backing.write_times.took(blocks, ns);
        }
    }

    /// The number of blocks of a change that are handled in one section.
    fn slice_of(&self, change: &Change<'_>) -> u32 {
        let blocks = blocks_of(&change.at).1;
        let is_small = blocks <= self.shared.settings.absorb_blocks_max();
        if is_small { blocks } else { SLICE }
    }

    /// Decides which copies of a change are made.
    pub(super) fn copies_of(&self, change: &Change<'_>, keeps_new: bool) -> WriteThroughCopies {
        let (settings, blocks) = (&self.shared.settings, blocks_of(&change.at).1);
        let write = settings.write();
        let is_small = blocks <= settings.absorb_blocks_max();
        let may_hold = write != WriteMode::None;
        // A copy that only serves a successor may take an eighth of the backing's time.
        let copy_ns = settings.fill_cost_ns * u64::from(blocks);
        WriteThroughCopies {
            durable: self.is_durable(change),
            rules: self.shared.bypass.rules(write),
            keeps_old: is_small,
            keeps_new: is_small && keeps_new,
            holds_max: if may_hold { settings.dirty_blocks_max() } else { 0 },
            holds_unkept: copy_ns * 8 <= self.shared.backing.write_times.expected_ns(blocks),
        }
    }

    /// Makes the copies of a change that is about to be sent; of a large one slice by slice.
    async fn begin_copies(
        &self,
        entry: &ShardEntry,
        change: &Change<'_>,
        keeps_new: bool,
    ) -> WriteThroughBegun {
        let (first, blocks) = blocks_of(&change.at);
        let copies = self.copies_of(change, keeps_new);
        let mut all = WriteThroughBegun { is_held: true, is_sampled: false };
        let mut from = first;
        let last = first + u64::from(blocks);
        while from < last {
            self.lane.turn().await;
            let to = (from + u64::from(self.slice_of(change))).min(last);
            let begun = entry
                .shard
                .with(|shard| shard.begin_copies(&self.shared.gauges, change, from..to, copies));
            all.is_held &= begun.is_held;
            all.is_sampled |= begun.is_sampled;
            from = to;
        }
        all
    }

    /// Ends a change in its shard; a large one slice by slice. Returns whether the closing epoch
    /// lost a block.
    async fn end_write_through(
        &self,
        entry: &ShardEntry,
        change: &Change<'_>,
        end: WriteThroughEnd,
    ) -> bool {
        let (first, blocks) = blocks_of(&change.at);
        let (last, slice) = (first + u64::from(blocks), self.slice_of(change));
        let (mut from, mut drained) = (first, false);
        loop {
            let to = (from + u64::from(slice)).min(last);
            drained |= entry
                .shard
                .with(|shard| shard.write_through_done(&self.shared.gauges, change, from..to, end));
            if to == last {
                return drained;
            }
            from = to;
            self.lane.turn().await;
        }
    }

    async fn send(&self, change: &Change<'_>) -> Result {
        let native = self.below.limits().fua == Fua::Native;
        let failures = self.shared.backing.health.flush_failures();
        let request = request_of(change, change.fua && native);
        match planted(Bug::UncountedPass) {
            true => self.send_below_uncounted(request).await?,
            false => self.send_below(request).await?,
        }
        if !change.fua || native {
            return Ok(());
        }
        if planted(Bug::OverlapFlushes) {
            return self.send_below(Request::Flush).await;
        }
        self.flush_below().await?;
        // A flush that began after the write, and failed before ours was requested, may have lost
        // it.
        match self.shared.backing.health.has_kept(failures) {
            true => Ok(()),
            false => Err(LOST),
        }
    }
}
