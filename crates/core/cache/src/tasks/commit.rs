//! Writing out: the commit of an epoch. It closes the epoch, waits for the workers, flushes the
//! backing, and releases what is durable then; so, too, without closing it, for what was written
//! out early.

use crate::backing::retry::Pauses;
use crate::dirty::gauges::Gauges;
use crate::epochs::{Epochs, Start, Step};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::Shard;
use crate::shared::Shared;
use block::{Error, Result};
use lane::Cost;
use lane::atomic::Ordering;

impl Handle {
    /// Makes every closed epoch durable.
    pub(crate) async fn write_out_closed(&self) -> Result {
        self.lane.turn().await;
        let target = self.shared.epochs.with(|epochs| epochs.newest_closed());
        self.make_durable(target).await
    }

    /// Makes durable everything that was completed before this was called (C1).
    pub(crate) async fn flush(&self) -> Result {
        self.lane.charge(Cost::Flush, 1);
        self.shared.stats.count_flush();
        self.lane.turn().await;
        let target = self.shared.epochs.with(|epochs| match planted(Bug::JoinRunningFlush) {
            true => epochs.running_target(),
            false => epochs.target(),
        });
        self.make_durable(target).await
    }

    /// Leads write-outs, or waits for those that do, until this epoch is durable.
    pub(crate) async fn make_durable(&self, target: u64) -> Result {
        loop {
            self.lane.turn().await;
            let seen = self.shared.epochs.changed.seen();
            let step = self.shared.epochs.with(|epochs| {
                let step = epochs.step(target);
                if matches!(step, Step::Lead { start: Start::Close, .. }) {
                    self.shared.note_closing(epochs);
                }
                step
            });
            match step {
                Step::Done(result) => return result,
                Step::Wait => self.shared.epochs.changed.after(seen).await,
                Step::Lead { epoch, start } => write_out(self, epoch, start).await,
            }
        }
    }
}

/// Leads the write-out of an epoch: close, wait for the workers, flush, release.
async fn write_out(handle: &Handle, epoch: u64, start: Start) {
    let shared = &handle.shared;
    let begun = handle.lane.now();
    match start {
        Start::Close => close(handle, epoch, true).await,
        Start::Begin => begin(handle).await,
        Start::Resume => {}
    }
    if shared.backing.health.take_rewrite() {
        taint(handle).await;
    }
    if !flush_first(handle).await {
        return give_up(handle).await;
    }
    let mut pauses = Pauses::new();
    loop {
        handle.wake_workers();
        if !written(shared).await {
            return give_up(handle).await;
        }
        if flush_or_pause(handle, &mut pauses).await {
            shared.gauges.follow_pace(&shared.settings.now(), shared.writeback.estimator.pace());
            break;
        }
    }
    // Before anything newer may reach the backing: the release takes its time, and may be cut
    // short.
    if !planted(Bug::ForgetDurable) {
        shared.arena.note_durable(epoch);
    }
    handle.lane.turn().await;
    shared.epochs.with(|epochs| {
        epochs.durable(epoch);
        shared.show_closed(epochs);
    });
    shared.stats.count_epoch(handle.lane.now() - begun);
    shared.epochs.changed.notify();
    // The open epoch may be written out early again, beside the release.
    shared.writeback.kick.notify();
    slice_by_slice(handle, Shard::release).await;
    handle.lane.turn().await;
    shared.epochs.with(Epochs::released);
    shared.epochs.changed.notify();
    // The flusher does nothing about the open epoch while another one is being written out.
    shared.writeback.kick.notify();
    // Not before: a task that waits may have looked between two rooms' releases, and asks for no
    // write-out.
    shared.epochs.freed.notify();
}

/// Makes durable what was written out early, without closing its epoch: flush, release. False: not
/// now.
pub(crate) async fn settle(handle: &Handle) -> bool {
    let shared = &handle.shared;
    handle.lane.turn().await;
    if !shared.epochs.with(Epochs::begin_settling) {
        return false;
    }
    if shared.backing.health.take_rewrite() {
        taint(handle).await;
    }
    for entry in shared.shards.iter() {
        handle.lane.turn().await;
        entry.shard.with(|shard| shard.begin_settling());
    }
    match flush_until_well(handle).await {
        true => slice_by_slice(handle, Shard::settle_written).await,
        false => {
            for entry in shared.shards.iter() {
                handle.lane.turn().await;
                entry.shard.with(|shard| shard.cancel_settling());
            }
        }
    }
    handle.lane.turn().await;
    shared.epochs.with(Epochs::settled);
    shared.epochs.changed.notify();
    shared.epochs.freed.notify();
    true
}

/// Flushes the backing, as often as it takes. False: the volume has failed.
async fn flush_until_well(handle: &Handle) -> bool {
    let mut pauses = Pauses::new();
    while !handle.shared.backing.health.has_failed() {
        if flush_or_pause(handle, &mut pauses).await {
            return true;
        }
    }
    false
}

/// Flushes the backing, or pauses, each time for longer, if it has failed.
async fn flush_or_pause(handle: &Handle, pauses: &mut Pauses) -> bool {
    match flush_backing(handle).await {
        Ok(()) => true,
        Err(error) => {
            flush_failed(handle, error).await;
            pauses.pause(&handle.lane).await;
            false
        }
    }
}

/// The commit gives up: the volume has failed.
async fn give_up(handle: &Handle) {
    handle.lane.turn().await;
    handle.shared.epochs.with(Epochs::abandon);
    handle.shared.epochs.changed.notify();
}

/// After a recovery, flushes the backing before anything of an epoch reaches it. False: the volume
/// has failed.
async fn flush_first(handle: &Handle) -> bool {
    let health = &handle.shared.backing.health;
    if health.is_flush_first() {
        let is_well = planted(Bug::SkipFirstFlush) || flush_until_well(handle).await;
        health.set_flush_first(!is_well);
    }
    !health.is_flush_first()
}

/// Walks the shards: one counter for all would let a late write join an epoch already flushed.
/// `begins`: it is also the one to be written out next.
pub(crate) async fn close(handle: &Handle, epoch: u64, begins: bool) {
    let shared = &handle.shared;
    shared.arena.note_epoch(epoch + 1);
    for entry in shared.shards.iter() {
        handle.lane.turn().await;
        entry.shard.with(|shard| {
            shard.close(&shared.gauges);
            if begins {
                shard.begin(&shared.gauges);
            }
        });
    }
    handle.lane.turn().await;
    shared.epochs.with(Epochs::walked);
    shared.epochs.changed.notify();
    // The open epoch is empty: there is room in it.
    shared.epochs.freed.notify();
}

/// Walks the shards: the oldest closed epoch is the one to be written out.
async fn begin(handle: &Handle) {
    for entry in handle.shared.shards.iter() {
        handle.lane.turn().await;
        entry.shard.with(|shard| shard.begin(&handle.shared.gauges));
    }
}

/// Waits until everything of the closing epoch is on the backing. False: the volume has failed.
async fn written(shared: &Shared) -> bool {
    loop {
        let seen = shared.epochs.changed.seen();
        if shared.backing.health.has_failed() {
            return false;
        }
        if shared.gauges.remaining() == 0 {
            return true;
        }
        shared.epochs.changed.after(seen).await;
    }
}

async fn flush_backing(handle: &Handle) -> Result {
    let shared = &handle.shared;
    let skips = planted(Bug::SkipEpochFlush) && shared.gauges.closed() > 1;
    if planted(Bug::AckBeforeFlush) || skips {
        return Ok(());
    }
    match shared.backing.health.begin_flush(handle.below.limits().flush_needed) {
        None => Ok(()),
        Some(begun) => {
            let begun_ns = handle.lane.now();
            let result = handle.flush_below().await;
            let result = shared.backing.health.end_flush(begun, result);
            if result.is_ok() {
                shared.writeback.estimator.flushed(handle.lane.now() - begun_ns);
            }
            result
        }
    }
}

/// The backing's flush failed: nothing written since the last good one can be trusted to be there
/// (C8). What is still held is written again; if something is not, that is the end.
async fn flush_failed(handle: &Handle, error: Error) {
    let shared = &handle.shared;
    let retry_time_ns = shared.backing.health.flush_retry_time_ns(shared.settings.retry_time_ns());
    // First: what waits again then must not be sent if that is the end.
    handle.backing_failed(error, retry_time_ns).await;
    taint(handle).await;
}

/// Everything written since the last good flush waits again.
async fn taint(handle: &Handle) {
    let shared = &handle.shared;
    for entry in shared.shards.iter() {
        loop {
            handle.lane.turn().await;
            if !entry.shard.with(|shard| shard.taint(&shared.gauges, shared.geometry.slice_blocks))
            {
                break;
            }
        }
        entry.has_work.store(true, Ordering::SeqCst);
    }
}

/// Releases what is durable in every shard, a few blocks in a section: `slice` says whether there
/// are more.
async fn slice_by_slice(handle: &Handle, slice: fn(&mut Shard, &Gauges, u32) -> bool) {
    let shared = &handle.shared;
    for entry in shared.shards.iter() {
        loop {
            handle.lane.turn().await;
            if !entry.shard.with(|shard| slice(shard, &shared.gauges, shared.geometry.slice_blocks))
            {
                break;
            }
            handle.lane.rest().await;
        }
        entry.changed.notify();
    }
}
