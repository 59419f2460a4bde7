//! Changes on their way past the cache.

use crate::backing::in_flight::RequestKind;
use crate::blocks::blocks_of;
use crate::planted::{Bug, planted};
use crate::request::flush::LOST;
use crate::request::{Handle, SLICE};
use crate::shard::shards::ShardEntry;
use crate::shard::{Change, Keeps, Source, WriteThroughEnd};
use block::{Error, Fua, Kind, Request, Result, WriteMode};
use lane::atomic::Ordering;

const TAKEN: Error =
    Error::new(Kind::Io, "write: a flush of the backing failed while it was under way");

fn request_of(change: &Change, fua: bool) -> Request {
    let at = change.at;
    match change.source {
        Source::Data(from) => Request::Write { at, from: from.clone(), fua },
        Source::Zeros { discard: true, .. } => Request::Discard { at },
        Source::Zeros { may_unmap, .. } => Request::Zero { at, fua, may_unmap },
    }
}

impl Handle {
    /// Sends a change straight to the backing; its blocks wait for it meanwhile. `cache_copy`: a copy of it
    /// is, where one may be kept.
    pub(crate) async fn write_through(
        &self,
        entry: &ShardEntry,
        change: &Change<'_>,
        cache_copy: bool,
    ) -> Result {
        if !change.fua {
            // From now on, not from its answer on: a flush that fails in between may have taken it.
            self.shared.backing.health.note_unkept();
        }
        let failures = self.shared.backing.health.flush_failures();
        let (blocks, begun) = (blocks_of(&change.at).1, self.lane.now());
        let others = self.shared.backing.in_flight.waiting(RequestKind::Change);
        let mut result = self.send(change).await;
        let now = self.lane.now();
        self.shared.writeback.estimator.foreground_wrote(now);
        if result.is_ok() && !change.fua && matches!(change.source, Source::Data(_)) {
            self.shared.bypass.passed_write_took(now - begun, blocks, others);
        }
        let small = blocks <= self.shared.settings.absorb_blocks_max();
        let keeps = match cache_copy && small {
            true => self.shared.bypass.keeps(self.shared.settings.write()),
            false => Keeps::No,
        };
        self.lane.turn().await;
        // Before the pass ends: a flush that comes after it must find this.
        self.shared.backing.health.note_written();
        self.shared.gauges.written_through.store(true, Ordering::SeqCst);
        if !change.fua || result.is_err() {
            self.shared.backing.health.note_unkept();
        }
        // It may have been taken along by a flush that failed after a good one had made its note here void.
        // After the note: either a flush that fails finds that, or this finds the flush.
        if !change.fua && !self.shared.backing.health.has_kept(failures) {
            result = result.and(Err(TAKEN));
        }
        let end = self.end_of(change, result.is_ok(), keeps, now - begun);
        let drained = self.end_write_through(entry, change, end, small).await;
        entry.changed.notify();
        if drained || entry.has_work.load(Ordering::SeqCst) {
            self.shared.epochs.changed.notify();
            self.wake_worker();
        }
        result
    }

    /// How a change ends that has been answered after `took_ns`.
    fn end_of(
        &self,
        change: &Change<'_>,
        good: bool,
        keeps: Keeps,
        took_ns: u64,
    ) -> WriteThroughEnd {
        let settings = &self.shared.settings;
        let may_hold = settings.write() != WriteMode::None;
        // A copy for a successor alone may take an eighth of the time that the backing took.
        let copy_ns = settings.fill_cost_ns * u64::from(blocks_of(&change.at).1);
        WriteThroughEnd {
            good,
            durable: change.fua || !self.below.limits().flush_needed,
            keeps,
            holds_max: if may_hold { settings.dirty_blocks_max() } else { 0 },
            copies: copy_ns * 8 <= took_ns,
        }
    }

    /// Ends a change in its shard; a large one slice by slice. Returns whether the closing epoch
    /// lost a block.
    async fn end_write_through(
        &self,
        entry: &ShardEntry,
        change: &Change<'_>,
        end: WriteThroughEnd,
        small: bool,
    ) -> bool {
        let (first, blocks) = blocks_of(&change.at);
        let (last, slice) = (first + u64::from(blocks), if small { blocks } else { SLICE });
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
            true => self.ask_below_uncounted(request).await?,
            false => self.ask_below(request).await?,
        }
        if !change.fua || native {
            return Ok(());
        }
        if planted(Bug::OverlapFlushes) {
            return self.ask_below(Request::Flush).await;
        }
        self.flush_below().await?;
        // A flush that began when the write was there, and failed before we asked for ours, may have
        // taken it along.
        match self.shared.backing.health.has_kept(failures) {
            true => Ok(()),
            false => Err(LOST),
        }
    }
}
