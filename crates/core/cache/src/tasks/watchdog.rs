//! The watchdog, one task per volume: reports when the backing does not answer, and when it answers
//! again.
//!
//! It is a separate task because every other task may be waiting for the missing answer. Nothing is
//! cancelled (see `block::Stall`): a hanging request keeps its pins and its notes, so that nothing
//! newer of the same blocks reaches the backing before it (C10, C15). Time for which a layer below
//! holds a request back on purpose does not count (`block::Block::held_ns`).

use crate::backing::in_flight::{Ages, TICKS};
use crate::handle::Handle;
use block::{Error, Kind};
use lane::first;

const HANGS: Error = Error::new(Kind::Io, "write or flush: the backing did not answer in time");

/// Watches the backing until the volume stops.
pub(crate) async fn watch(handle: &Handle) {
    let shared = &handle.shared;
    let mut ages = Ages::default();
    loop {
        let seen = shared.tasks.ended.seen();
        if shared.tasks.are_stopping() {
            return;
        }
        let held_ns = handle.below.held_ns();
        let time_ns = shared.settings.stall_time_ns().saturating_add(held_ns);
        let tick_ns = (time_ns / u64::from(TICKS)).max(1);
        let deadline = handle.lane.now().saturating_add(tick_ns);
        first(shared.tasks.ended.after(seen), handle.lane.sleep_until(deadline)).await;
        shared.backing.health.settle_doubt(handle.lane.now());
        let overdue = shared.backing.in_flight.tick(&mut ages);
        if overdue.changes && !shared.backing.health.has_failed() {
            handle.lane.turn().await;
            shared.epochs.with(|epochs| shared.backing.health.fail(epochs, HANGS));
            shared.wake_all();
        }
        shared.backing.set_stalled(overdue.changes || overdue.reads);
    }
}
