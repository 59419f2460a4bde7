//! The watchdog, one task per volume: reports when the backing does not answer, and when it answers
//! again.
//!
//! It is a separate task because every other task may be waiting for the missing answer. Nothing is
//! cancelled (see `block::Stall`): a hanging request keeps its pins and its notes, so that nothing
//! newer of the same blocks reaches the backing before it (C10, C15). Time for which a layer below
//! holds a request back on purpose does not count (`block::Block::held_ns`): a tick takes longer
//! then. Such times end without an event, and the next hang must be noticed as early as ever, so
//! they are read several times in each tick.
//!
//! While the link of the backing is lost, no time counts unless the policy is `fail`, and each
//! request has its whole time once the link is up again. With `serve-clean`, a link that is down
//! counts as a backing that hangs, but the volume does not fail.
//!
//! A tick that is noticed late by the length of a tick does not count: the process was stopped, and
//! the end of a link may be noticed only after it. Of two such ticks in a row, one counts, so that
//! a hang is noticed on the busiest machine.

use crate::backing::in_flight::{Ages, Overdue, TICKS};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use block::{Error, Kind, LINK_GRACE_NS, LinkDown};
use lane::first;

const HANGS: Error = Error::new(Kind::Io, "write or flush: the backing did not answer in time");

/// Returns the length of a tick, where a request may take this time.
fn tick_ns(time_ns: u64) -> u64 {
    (time_ns / u64::from(TICKS)).max(1)
}

/// Returns the end of a tick that has begun at this time, by the present settings and waits.
fn end_of_tick(handle: &Handle, begun: u64) -> u64 {
    let time_ns = handle.shared.settings.stall_time_ns();
    if planted(Bug::StallLostLink) {
        return begun.saturating_add(tick_ns(time_ns));
    }
    begun.saturating_add(tick_ns(time_ns.saturating_add(handle.below.held_ns())))
}

/// Returns whether the link is lost and the policy is not to fail.
fn is_waiting_for_link(handle: &Handle) -> bool {
    let link = handle.below.link().filter(|_| !planted(Bug::StallLostLink));
    link.is_some_and(|link| link.policy() != LinkDown::Fail && link.lost_ns().is_some())
}

/// Returns the number of times that the link was up again, unless the policy is to fail. If the
/// number has changed, the link was lost in between.
fn returns(handle: &Handle) -> u64 {
    let link = handle.below.link().filter(|link| link.policy() != LinkDown::Fail);
    match planted(Bug::StallLostLink) || planted(Bug::CountAcrossReturn) {
        true => 0,
        false => link.map_or(0, |link| link.returns()),
    }
}

/// Returns when requests begin to be refused because the link is lost.
fn refuses_from_ns(handle: &Handle) -> u64 {
    let link = handle.below.link().filter(|link| link.policy() == LinkDown::ServeClean);
    let lost_ns = link.and_then(|link| link.lost_ns());
    lost_ns.map_or(u64::MAX, |lost_ns| lost_ns.saturating_add(LINK_GRACE_NS))
}

/// Waits until the link has changed since `seen`; for ever if there is none.
async fn link_changes(handle: &Handle, seen: Option<u64>) {
    match handle.below.link().zip(seen) {
        Some((link, seen)) => link.changed().after(seen).await,
        None => core::future::pending().await,
    }
}

/// Watches the backing until the volume stops.
pub(crate) async fn watch(handle: &Handle) {
    let shared = &handle.shared;
    let lane = &handle.lane;
    let (mut ages, mut begun, mut overdue) = (Ages::default(), lane.now(), Overdue::default());
    let (mut returned, mut was_late) = (returns(handle), false);
    loop {
        let seen = shared.tasks.ended.seen();
        let link_seen = handle.below.link().map(|link| link.changed().seen());
        if shared.tasks.are_stopping() {
            return;
        }
        let before = core::mem::replace(&mut returned, returns(handle));
        if is_waiting_for_link(handle) || returned != before {
            (ages, begun, overdue) = (Ages::default(), lane.now(), Overdue::default());
        }
        let refuses = handle.below.link().is_some_and(|link| link.refuses(lane.now()));
        shared.backing.set_refusing(refuses, overdue.changes || overdue.reads);
        let step_ns = tick_ns(shared.settings.stall_time_ns());
        let mut deadline = lane.now().saturating_add(step_ns).min(end_of_tick(handle, begun));
        if !refuses {
            deadline = deadline.min(refuses_from_ns(handle));
        }
        let ended = first(shared.tasks.ended.after(seen), link_changes(handle, link_seen));
        first(ended, lane.sleep_until(deadline)).await;
        shared.backing.health.settle_doubt(lane.now());
        let is_interrupted = is_waiting_for_link(handle) || returns(handle) != returned;
        if is_interrupted || lane.now() < end_of_tick(handle, begun) {
            continue;
        }
        begun = lane.now();
        let is_late = begun.saturating_sub(deadline) >= step_ns;
        was_late = !was_late && is_late && !planted(Bug::CountAcrossReturn);
        if was_late {
            continue;
        }
        overdue = shared.backing.in_flight.tick(&mut ages);
        if overdue.changes && !shared.backing.health.has_failed() {
            lane.turn().await;
            shared.epochs.with(|epochs| shared.backing.health.fail(epochs, HANGS));
            shared.wake_all();
        }
    }
}
