//! The flusher, one task per volume: starts writeback early enough to keep within `dirty_age` and
//! `dirty_bytes` without a client's flush (C6); in `ordered` mode, it also writes back the epochs
//! that clients' flushes have closed.

use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shared::Shared;
use crate::tasks::commit;
use core::future::Future;
use core::pin::pin;
use core::task::Poll;
use lane::first;

/// Dates recovered data, whose age is unknown, as of now. Its writeback starts immediately. If it
/// counted as too old, writers would wait for all of it.
fn date_recovered(shared: &Shared, now_ns: u64) {
    shared.gauges.date_recovered(now_ns);
    shared.epochs.with(|epochs| {
        epochs.date_recovered(now_ns + 1);
        shared.publish_closed(epochs);
    });
}

/// The next action of the flusher.
enum Due {
    /// Write back everything.
    All,
    /// Write back closed epochs: clients' flushes do not (`ordered`).
    Closed,
    /// Make blocks durable that were written back early.
    Settle,
    /// Check again at this time, or when notified.
    At { ns: u64 },
    /// Wait until notified.
    Nothing,
}

/// Returns the action that is due at `now_ns`.
fn due(handle: &Handle, now_ns: u64) -> Due {
    let shared = &handle.shared;
    let gauges = &shared.gauges;
    if shared.backing.health.has_failed() {
        return Due::Nothing;
    }
    let since = gauges.open_since();
    if gauges.take_request() {
        shared.stats.count_urgent();
        return Due::All;
    }
    // Half of the age is for waiting, half for writing.
    let at_ns = (since.saturating_sub(1)).saturating_add(shared.settings.dirty_age_ns() / 2);
    if since > 0 && at_ns <= now_ns {
        return Due::All;
    }
    let later = if since > 0 { Due::At { ns: at_ns } } else { Due::Nothing };
    if gauges.closed() > 0 {
        // In `flush` mode a commit is in progress, and notifies when it is done.
        return if gauges.is_ordered() { Due::Closed } else { later };
    }
    let limits = shared.dirty_limits();
    let full = gauges.has_much_to_write(limits);
    let may = !shared.backing.health.is_flush_first()
        && (!gauges.has_ranges() || planted(Bug::EarlyUnderRange));
    if full && !may {
        return Due::All;
    }
    switch_early(handle, full, may, limits.early_floor());
    match gauges.has_much_to_settle(limits) || has_rest_to_settle(shared) {
        true => Due::Settle,
        false => later,
    }
}

/// Switches early writeback of the open epoch on when it is three quarters full, and off when it is
/// half full. (Blocks that are rewritten before it begins are written back only once.)
fn switch_early(handle: &Handle, full: bool, may: bool, floor: u32) {
    let gauges = &handle.shared.gauges;
    let some = gauges.open() > floor;
    let on = may && (full || some && gauges.is_early());
    gauges.set_early(on, floor);
    if on {
        handle.wake_workers();
    }
}

/// Whether the workers are idle and have left blocks that are written but not durable.
fn has_rest_to_settle(shared: &Shared) -> bool {
    !shared.gauges.is_early()
        && shared.writeback.estimator.in_flight() == 0
        && shared.gauges.has_rest_to_settle()
}

/// Flushes a backing that may lose changes with a connection. Until its first flush has succeeded,
/// a loss counts as one of changes that an earlier process has written through, and the volume
/// fails (C8): now this time is short.
async fn flush_at_start(handle: &Handle) {
    if handle.below.limits().loses_with_connection && !handle.shared.gauges.is_ordered() {
        // If it does not succeed, the volume has failed, or another task flushes.
        let _ = commit::settle(handle).await;
    }
}

/// Runs the flusher until the volume stops.
pub(crate) async fn run(handle: &Handle) {
    let shared = &handle.shared;
    if shared.gauges.is_ordered() {
        handle.lane.turn().await;
        date_recovered(shared, handle.lane.now());
    }
    flush_at_start(handle).await;
    let mut armed_ns = None;
    loop {
        let seen = shared.writeback.kick.seen();
        if shared.tasks.are_stopping() {
            return;
        }
        // Errors have been counted and returned to the waiting clients; the flusher ignores them.
        match due(handle, handle.lane.now()) {
            Due::All => _ = handle.flush().await,
            Due::Closed => _ = handle.commit_closed().await,
            Due::Settle => {
                match commit::settle(handle).await {
                    true => shared.gauges.note_settled(),
                    // The operation that prevents it notifies at its end.
                    false => shared.writeback.kick.after(seen).await,
                }
            }
            Due::At { ns } => {
                let kicked = shared.writeback.kick.after(seen);
                match armed_ns.replace(ns) == Some(ns) {
                    // The lane still has the timer of the last wait: a new one for each
                    // notification would fill its heap.
                    true => kicked_or_at(handle, kicked, ns).await,
                    false => first(kicked, handle.lane.sleep_until(ns)).await,
                }
            }
            Due::Nothing => shared.writeback.kick.after(seen).await,
        }
    }
}

/// Waits for a notification, or until `ns`, for which the lane has a timer that wakes this task.
async fn kicked_or_at(handle: &Handle, kicked: impl Future<Output = ()>, ns: u64) {
    let mut kicked = pin!(kicked);
    core::future::poll_fn(|context| {
        match handle.lane.now() >= ns || kicked.as_mut().poll(context).is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}
