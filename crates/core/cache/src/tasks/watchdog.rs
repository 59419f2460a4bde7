//! The watchdog, one task per volume: reports when the backing does not answer, and when it answers
//! again.
//!
//! It is a separate task because every other task may be waiting for the missing answer. Nothing is
//! cancelled (see `block::Stall`): a hanging request keeps its pins and its notes, so that nothing
//! newer of the same blocks reaches the backing before it (C10, C15). Time for which a layer below
//! holds a request back on purpose does not count (`block::Block::held_ns`): a tick takes longer
//! then. Such times end without an event, and the next hang must be noticed as early as ever, so
//! they are read several times in each tick.

use crate::backing::in_flight::{Ages, TICKS};
use crate::handle::Handle;
use block::{Error, Kind};
use lane::first;

const HANGS: Error = Error::new(Kind::Io, "write or flush: the backing did not answer in time");

/// Returns the length of a tick, where a request may take this time.
fn tick_ns(time_ns: u64) -> u64 {
    (time_ns / u64::from(TICKS)).max(1)
}

/// Returns the end of a tick that has begun at this time, by the present settings and waits.
fn end_of_tick(handle: &Handle, begun: u64) -> u64 {
    let time_ns = handle.shared.settings.stall_time_ns();
    begun.saturating_add(tick_ns(time_ns.saturating_add(handle.below.held_ns())))
}

/// Watches the backing until the volume stops.
pub(crate) async fn watch(handle: &Handle) {
    let shared = &handle.shared;
    let lane = &handle.lane;
    let (mut ages, mut begun) = (Ages::default(), lane.now());
    loop {
        let seen = shared.tasks.ended.seen();
        if shared.tasks.are_stopping() {
            return;
        }
        let step_ns = tick_ns(shared.settings.stall_time_ns());
        let deadline = lane.now().saturating_add(step_ns).min(end_of_tick(handle, begun));
        first(shared.tasks.ended.after(seen), lane.sleep_until(deadline)).await;
        shared.backing.health.settle_doubt(lane.now());
        if lane.now() < end_of_tick(handle, begun) {
            continue;
        }
        begun = lane.now();
        let overdue = shared.backing.in_flight.tick(&mut ages);
        if overdue.changes && !shared.backing.health.has_failed() {
            lane.turn().await;
            shared.epochs.with(|epochs| shared.backing.health.fail(epochs, HANGS));
            shared.wake_all();
        }
        shared.backing.set_stalled(overdue.changes || overdue.reads);
    }
}
