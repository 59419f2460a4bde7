//! Writeback: the commit of an epoch. It closes the epoch, waits for the workers, flushes the
//! backing, and then releases the durable blocks. Settling does the same, without closing an epoch,
//! for blocks that were written back early.
//!
//! A client's flush waits for the commit of its epoch. In `ordered` mode it only closes the open
//! epoch, and the flusher writes back closed epochs in their order. In `scratch` mode it does
//! nothing.

use crate::backing::retry::Pauses;
use crate::dirty::gauges::Gauges;
use crate::dirty::limits;
use crate::epochs::{Close, Epochs, Start, Step};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::Shard;
use crate::shared::Shared;
use block::{Durability, Error, Result};
use lane::Cost;
use lane::atomic::Ordering;

impl Handle {
    /// Serves a client's flush. While the backing hangs, it is refused immediately, so that
    /// abandoned tasks do not pile up.
    pub(crate) async fn flush_for_client(&self) -> Result {
        if self.shared.backing.stall.is_on() {
            return Err(self.shared.backing.stall.error());
        }
        let cleared = self.shared.backing.health.times_cleared();
        self.shared.epochs.flush_begins();
        let result = match self.shared.settings.durability() {
            Durability::Flush => self.flush().await,
            Durability::Ordered => self.close_epoch().await,
            Durability::Scratch => self.ignore().await,
        };
        self.shared.epochs.flush_ends();
        result.and(self.shared.backing.health.unless_cleared(cleared))
    }

    /// A flush that does nothing. Fails if the volume has failed (C8).
    async fn ignore(&self) -> Result {
        self.shared.stats.count_flush();
        self.lane.turn().await;
        self.shared.epochs.with(|epochs| epochs.failure())
    }

    /// Orders all changes completed before this call before all changes sent after it: closes the
    /// open epoch, if it is not empty.
    async fn close_epoch(&self) -> Result {
        self.lane.charge(Cost::Flush, 1);
        self.shared.stats.count_flush();
        let mut target = None;
        loop {
            self.lane.turn().await;
            let seen = self.shared.epochs.changed.seen();
            let flush_ns = self.shared.writeback.estimator.pace().flush_ns;
            let step = self.shared.epochs.with(|epochs| {
                let target = *target.get_or_insert(epochs.target());
                let most = limits::chain_max(self.shared.settings.dirty_age_ns(), flush_ns);
                let step = epochs.close_step(target, self.shared.gauges.is_open_empty(), most);
                if matches!(step, Close::Lead { .. }) {
                    self.shared.note_closing(epochs);
                }
                step
            });
            match step {
                // Settings may have changed during this flush: the order of an epoch closed now
                // would not be kept.
                Close::Done(Ok(())) if !self.shared.settings.wants_order() => {
                    return self.make_durable(target.expect("asked for above")).await;
                }
                Close::Done(result) => return result,
                Close::Wait => self.shared.epochs.changed.after(seen).await,
                Close::Lead { epoch } => {
                    close(self, epoch, false).await;
                    if !planted(Bug::LeaveClosed) {
                        self.shared.writeback.kick.notify();
                    }
                }
            }
        }
    }

    /// Makes every closed epoch durable.
    pub(crate) async fn commit_closed(&self) -> Result {
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

    /// Leads commits, or waits for those that do, until this epoch is durable.
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
                Step::Lead { epoch, start } => lead_commit(self, epoch, start).await,
            }
        }
    }
}

/// Leads the commit of an epoch: close, wait for the workers, flush, release.
async fn lead_commit(handle: &Handle, epoch: u64, start: Start) {
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
    // Before anything newer can reach the backing: the release takes time and may be interrupted.
    if !planted(Bug::ForgetDurable) {
        shared.arena.note_durable(epoch);
    }
    handle.lane.turn().await;
    shared.epochs.with(|epochs| {
        epochs.note_durable(epoch);
        shared.publish_closed(epochs);
    });
    shared.stats.count_epoch(handle.lane.now() - begun);
    shared.epochs.changed.notify();
    // Early writeback of the open epoch may begin again, in parallel with the release.
    shared.writeback.kick.notify();
    slice_by_slice(handle, Shard::release).await;
    handle.lane.turn().await;
    shared.epochs.with(Epochs::end_release);
    shared.epochs.changed.notify();
    // The flusher leaves the open epoch alone while another one is being written back.
    shared.writeback.kick.notify();
    // Not earlier: a waiting task may have looked between two releases of room, and it does not
    // request a commit.
    shared.epochs.freed.notify();
}

/// Makes blocks durable that were written back early, without closing their epoch: flush, release.
/// Returns false if that is not possible now.
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
    shared.epochs.with(Epochs::end_settling);
    shared.epochs.changed.notify();
    shared.epochs.freed.notify();
    true
}

/// Flushes the backing until a flush succeeds. Returns false if the volume has failed.
async fn flush_until_well(handle: &Handle) -> bool {
    let mut pauses = Pauses::new();
    while !handle.shared.backing.health.has_failed() {
        if flush_or_pause(handle, &mut pauses).await {
            return true;
        }
    }
    false
}

/// Flushes the backing. After a failure, pauses, longer each time. Returns whether the flush
/// succeeded.
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

/// Abandons the commit, because the volume has failed.
async fn give_up(handle: &Handle) {
    handle.lane.turn().await;
    handle.shared.epochs.with(Epochs::abandon);
    handle.shared.epochs.changed.notify();
}

/// After a recovery, flushes the backing before any block of an epoch is written to it. Returns
/// false if the volume has failed.
async fn flush_first(handle: &Handle) -> bool {
    let health = &handle.shared.backing.health;
    if health.is_flush_first() {
        let is_well = planted(Bug::SkipFirstFlush) || flush_until_well(handle).await;
        health.set_flush_first(!is_well);
    }
    !health.is_flush_first()
}

/// Closes the open epoch shard by shard. Each shard has its own epoch number: with one counter for
/// all, a late write could join an epoch that is already flushed. `begins`: the closed epoch is
/// also the next one to be written back.
async fn close(handle: &Handle, epoch: u64, begins: bool) {
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
    shared.epochs.with(Epochs::end_walk);
    shared.epochs.changed.notify();
    // The open epoch is empty: there is room in it.
    shared.epochs.freed.notify();
}

/// Begins the writeback of the oldest closed epoch, shard by shard.
async fn begin(handle: &Handle) {
    for entry in handle.shared.shards.iter() {
        handle.lane.turn().await;
        entry.shard.with(|shard| shard.begin(&handle.shared.gauges));
    }
}

/// Waits until the closing epoch is on the backing. Returns false if the volume has failed.
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

/// Handles a failed flush of the backing: nothing written since the last successful flush can be
/// trusted to be there (C8). Blocks that are still held are written again; if a change is not held,
/// the volume fails.
async fn flush_failed(handle: &Handle, error: Error) {
    // First: if the volume fails, the blocks that wait again afterwards must not be sent.
    handle.flush_failed(error).await;
    taint(handle).await;
}

/// Makes all blocks written since the last successful flush wait again.
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

/// Releases durable blocks in every shard, a few in each section. `slice` returns whether there are
/// more.
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
