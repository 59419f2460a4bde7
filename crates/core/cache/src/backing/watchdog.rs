//! The watchdog, one task a volume: says when the backing does not answer, and when it does again.
//!
//! It is a task of its own because every other one may be waiting for the very answer that does not
//! come. Nothing is cancelled (see `block::Stall`): what hangs keeps its pins and its notes, so that
//! nothing newer of the same blocks reaches the backing before it (C10, C15).

use crate::backing::in_flight::{Ages, RequestKind, TICKS};
use crate::request::Handle;
use block::{Error, Kind, Request, Result};
use lane::atomic::Ordering;
use lane::first;

const HANGS: Error = Error::new(Kind::Io, "write or flush: the backing did not answer in time");

impl Handle {
    /// Sends a change or a flush to the backing and waits for its answer, watched by the watchdog.
    /// An error is counted.
    pub(crate) async fn ask_below(&self, request: Request) -> Result {
        let errors = self.shared.backing.health.errors_of(&request);
        let result = self.ask_below_uncounted(request).await;
        if result.is_err() {
            errors.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// [`Handle::ask_below`], but an error is not counted.
    pub(crate) async fn ask_below_uncounted(&self, request: Request) -> Result {
        let sent = self.shared.backing.in_flight.sent(RequestKind::Change);
        let result = self.below.run(request).await;
        self.shared.backing.in_flight.answered(sent);
        result
    }
}

/// Watches until the volume stops.
pub(crate) async fn watch(handle: &Handle) {
    let shared = &handle.shared;
    let mut ages = Ages::default();
    loop {
        let seen = shared.tasks.ended.seen();
        if shared.tasks.are_stopping() {
            return;
        }
        let tick_ns = (shared.settings.stall_time_ns() / u64::from(TICKS)).max(1);
        let deadline = handle.lane.now() + tick_ns;
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
