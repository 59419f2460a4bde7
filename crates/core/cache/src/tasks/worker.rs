//! Writeback: the workers that write runs of blocks to the backing. `commit.rs` decides what is
//! due.

use crate::backing::health::TAINTED;
use crate::backing::in_flight::RequestKind;
use crate::backing::retry::Pauses;
use crate::dirty::gauges::Gauges;
use crate::geometry::Geometry;
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::{Load, Next, Run, Shard, ZeroRun};
use crate::writeback::Writeback;
use crate::writeback::estimator::Foreground;
use block::{Request, Result};
use core::future::Future;
use core::pin::Pin;
use core::task::Poll;
use lane::Cost;
use lane::atomic::Ordering;

impl Handle {
    /// Returns the other users of the backing.
    fn foreground(&self, now_ns: u64) -> Foreground {
        let shared = &self.shared;
        let level = self.level();
        Foreground {
            reads: shared.backing.in_flight.waiting(RequestKind::Read),
            recent_reads: shared.writeback.estimator.has_just_read(now_ns)
                || shared.backing.in_flight.waiting(RequestKind::Readahead) > 0,
            changes: self.writing_through() > 0
                || self.is_flushing()
                || shared.writeback.estimator.has_just_written_through(now_ns),
            // The dirty data must not become too old either.
            flush: shared.epochs.is_flush_awaited()
                || shared.gauges.age(now_ns) > shared.settings.dirty_age_ns() / 4 * 3,
            filled: level.filled(),
            pressed: level.is_filling(),
            throttled: level.is_pressed(),
            writers: shared.throttle.runs_for_writers(),
            writer_blocks: shared.throttle.last_blocks(),
        }
    }

    /// Wakes a worker for a writer that is about to wait, for which one more run may be in
    /// progress.
    pub(crate) fn wake_worker_for_writer(&self) {
        let Writeback { work, estimator, .. } = &self.shared.writeback;
        // Noted even if the window has no room, and before that check: a busy worker looks for
        // notes after it has left the window, before it sleeps. So either the worker sees the note,
        // or this check sees the room.
        work.note();
        if estimator.in_flight() < estimator.window(self.foreground(self.lane.now())) {
            work.notify_one();
        }
    }

    /// Wakes one worker, if there is work for it and the window has room. That worker wakes the
    /// next one.
    pub(crate) fn wake_worker(&self) {
        if self.shared.shards.have_work() {
            self.wake_worker_for_writer();
        }
    }

    /// Makes the workers look for work in all shards.
    pub(crate) fn wake_workers(&self) {
        self.shared.shards.note_work();
        self.shared.writeback.work.notify_one();
    }
}

/// The order in which a worker takes runs from the shards: from each, about as many blocks as a
/// region has, then from the next one. Few workers are active at a time. If each emptied one shard
/// before it began the next, the last shards in this order would become full while others are
/// empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tour {
    /// The shard from which the worker takes its next run.
    shard: usize,
    /// Blocks that it has taken there in a row.
    blocks: u32,
}

impl Tour {
    /// Returns the tour after a run of this number of blocks from a shard.
    fn after(self, shard: usize, blocks: u32, geometry: &Geometry) -> Tour {
        let before = if shard == self.shard { self.blocks } else { 0 };
        match before + blocks {
            all if all < geometry.region_blocks => Tour { shard, blocks: all },
            _ => Tour { shard: (shard + 1) % geometry.shards as usize, blocks: 0 },
        }
    }
}

/// A worker: takes runs from the shards, one at a time, while the window has room.
pub(super) async fn run(handle: &Handle, member: usize) {
    let shared = &handle.shared;
    let mut load = Load::new(&shared.arena, shared.geometry.run_blocks);
    let mut pauses = Pauses::new();
    let mut tour = Tour { shard: member % shared.shards.len(), blocks: 0 };
    loop {
        let seen = shared.writeback.work.seen();
        if shared.tasks.are_stopping() {
            return shared.throttle.work_ends();
        }
        let now = handle.lane.now();
        if shared.backing.health.has_failed() {
            shared.throttle.work_ends();
        } else if let foreground = handle.foreground(now)
            && shared.writeback.estimator.may_begin(now, foreground)
        {
            match write_one(handle, &mut tour, &mut load, foreground).await {
                None => {}
                Some(Ok(())) => {
                    pauses = Pauses::new();
                    continue;
                }
                Some(Err(error)) => {
                    // After an error no writer waits for this worker.
                    shared.throttle.work_ends();
                    handle.backing_failed(error, shared.settings.retry_time_ns()).await;
                    pauses.pause(&handle.lane).await;
                    continue;
                }
            }
        } else {
            // The requests in progress may all be zeros, for which no writer waits.
            shared.throttle.end_work_if_only_zeros(shared.writeback.estimator.in_flight());
        }
        shared.writeback.work.after(seen).await;
    }
}

/// Finds and writes one piece of work, for which the window has room. Returns None if there is no
/// work.
async fn write_one(
    handle: &Handle,
    tour: &mut Tour,
    load: &mut Load,
    foreground: Foreground,
) -> Option<Result> {
    let shared = &handle.shared;
    let shards = shared.shards.len();
    for step in 0..shards {
        let number = (tour.shard + step) % shards;
        let entry = &shared.shards[number];
        if !entry.has_work.load(Ordering::SeqCst) {
            continue;
        }
        handle.lane.turn().await;
        let most = shared.writeback.estimator.run_blocks(shared.geometry.run_blocks, foreground);
        let ready_most = shared.writeback.estimator.ready_blocks(most, foreground);
        let next = entry.shard.with(|shard| {
            // Checked here, not only before the turn: a failed flush may have lost data that must
            // precede this.
            if shared.backing.health.must_not_send() {
                return Next::Nothing;
            }
            let next = shard.next_run(&shared.gauges, load, most, ready_most);
            entry.look_for_work(shard, &shared.gauges);
            next
        });
        match next {
            Next::Nothing => {}
            Next::Blocks => {
                *tour = tour.after(number, load.blocks.blocks(), &shared.geometry);
                shared.throttle.work_begins();
                shared
                    .writeback
                    .estimator
                    .blocks_begin(handle.lane.now(), shared.throttle.zeros_under_way());
                handle.wake_worker();
                return Some(write_blocks(handle, number, &load.blocks).await);
            }
            Next::Zeros => {
                shared.throttle.zeros_begin();
                shared.throttle.end_work_if_only_zeros(shared.writeback.estimator.in_flight());
                handle.wake_worker();
                gather_zeros(handle, number, &mut load.zeros).await;
                let result = write_zeros(handle, &load.zeros).await;
                shared.throttle.zeros_end();
                shared.writeback.estimator.end_zeros(handle.lane.now());
                return Some(result);
            }
        }
    }
    shared.writeback.estimator.cancel(handle.lane.now());
    shared.throttle.end_work_if_only_zeros(shared.writeback.estimator.in_flight());
    // Discards and write-throughs may have emptied the open epoch; no run reports that.
    let is_emptied = shared.gauges.is_early() && !shared.gauges.is_above_floor();
    if is_emptied || shared.writeback.take_left_to_workers() {
        shared.writeback.kick.notify();
    }
    None
}

async fn write_blocks(handle: &Handle, entry: usize, run: &Run) -> Result {
    let shared = &handle.shared;
    handle.lane.charge(Cost::Writeback, run.blocks());
    let failures = shared.backing.health.flush_failures();
    let (mut result, mut parts) = (Ok(()), 0);
    let zeros = shared.throttle.zeros_under_way();
    let begun = shared.writeback.estimator.begun(handle.lane.now(), zeros);
    for (at, from) in run.parts() {
        let start = handle.lane.now();
        let request = Request::Write { at, from, fua: false };
        result = match planted(Bug::AbandonStalled) {
            true => send_impatiently(handle, request).await,
            false => handle.send_below(request).await,
        };
        shared.stats.latencies.run_ns.record(handle.lane.now() - start);
        parts += 1;
        if result.is_err() {
            break;
        }
    }
    if planted(Bug::SwallowError) {
        result = Ok(());
    }
    let good = result.is_ok();
    done(handle, entry, |shard, gauges| {
        shard.run_done(gauges, run, good && shared.backing.health.has_kept(failures));
    })
    .await;
    shared.throttle.grant(run.blocks(), shared.dirty_limits().last_part());
    let now = handle.lane.now();
    if !good || parts > 1 {
        shared.writeback.estimator.cancel(now);
    } else {
        let most = shared.settings.workers * shared.tasks.lanes();
        if shared.writeback.estimator.end(now, begun, run.blocks(), most, handle.foreground(now)) {
            shared.gauges.follow_pace(&shared.settings.now(), shared.writeback.estimator.pace());
            // There may now be enough room to leave the open epoch alone.
            shared.writeback.kick.notify();
        }
    }
    result
}

/// Adds to a run of zeros the zeros of the other shards in the same rows (see
/// `shard/zero_writeback.rs`).
async fn gather_zeros(handle: &Handle, begun: usize, run: &mut ZeroRun) {
    let others = handle.shared.shards.iter().enumerate().filter(|(number, _)| *number != begun);
    for (_, entry) in others.filter(|(_, entry)| entry.has_work.load(Ordering::SeqCst)) {
        handle.lane.turn().await;
        entry.shard.with(|shard| {
            shard.add_zeros(run);
            entry.look_for_work(shard, &handle.shared.gauges);
        });
    }
    run.join();
}

async fn write_zeros(handle: &Handle, run: &ZeroRun) -> Result {
    let shared = &handle.shared;
    handle.lane.charge(Cost::Writeback, 1);
    let failures = shared.backing.health.flush_failures();
    let (mut result, mut all_sent) = (Ok(()), true);
    for part in run.parts() {
        // The turns above took time, and the volume may have failed since.
        all_sent = !shared.backing.health.must_not_send();
        if !all_sent {
            break;
        }
        let request = Request::Zero { at: part.at, fua: false, may_unmap: part.may_unmap };
        result = handle.send_below(request).await;
        if result.is_err() {
            break;
        }
    }
    let good = result.is_ok() && all_sent;
    for number in 0..shared.shards.len() {
        if run.has_some_of(shared.geometry.ranges_of(number as u32)) {
            done(handle, number, |shard, gauges| {
                shard.zeros_done(gauges, run, good && shared.backing.health.has_kept(failures));
            })
            .await;
        }
    }
    result
}

/// Ends a piece of work, and wakes the tasks that wait for it. (Writeback that waited for this
/// piece is done by the same worker, or by the one that it wakes.)
async fn done(handle: &Handle, number: usize, note: impl FnOnce(&mut Shard, &Gauges)) {
    let shared = &handle.shared;
    let entry = &shared.shards[number];
    handle.lane.turn().await;
    shared.backing.health.note_written();
    let more = entry.shard.with(|shard| {
        note(shard, &shared.gauges);
        entry.look_for_work(shard, &shared.gauges)
    });
    entry.changed.notify();
    if more {
        handle.wake_worker();
    }
    if shared.gauges.remaining() == 0 {
        shared.epochs.changed.notify();
        if !more || shared.gauges.has_much_to_settle(shared.dirty_limits()) {
            shared.writeback.kick.notify();
        }
    }
}

/// Planted bug: once the volume has failed, a hanging request counts as answered.
async fn send_impatiently(handle: &Handle, request: Request) -> Result {
    let mut running = handle.below.run(request);
    let sent = handle.shared.backing.in_flight.note_sent(RequestKind::Change);
    let mut failed = core::pin::pin!(async {
        loop {
            let seen = handle.shared.epochs.freed.seen();
            if handle.shared.backing.health.has_failed() {
                return;
            }
            handle.shared.epochs.freed.after(seen).await;
        }
    });
    let result = core::future::poll_fn(|context| match Pin::new(&mut running).poll(context) {
        Poll::Pending => failed.as_mut().poll(context).map(|()| None),
        running => running.map(Some),
    })
    .await;
    handle.shared.backing.in_flight.note_answered(sent);
    if result.is_none() {
        let left_behind = async move { _ = running.await };
        handle.lane.spawn(left_behind).expect("a lane has room for a few more tasks");
    }
    result.unwrap_or(Err(TAINTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_leaves_a_shard_after_a_region_s_blocks() {
        let geometry = Geometry { shards: 4, region_blocks: 64, ..Geometry::SMALLEST };
        let start = Tour { shard: 2, blocks: 0 };
        let part = start.after(2, 63, &geometry);
        assert_eq!(part, Tour { shard: 2, blocks: 63 });
        assert_eq!(part.after(2, 1, &geometry), Tour { shard: 3, blocks: 0 });
        // Shard 2 had no work: the worker has gone on already.
        assert_eq!(part.after(3, 1, &geometry), Tour { shard: 3, blocks: 1 });
        assert_eq!(part.after(3, 64, &geometry), Tour { shard: 0, blocks: 0 });
    }
}
