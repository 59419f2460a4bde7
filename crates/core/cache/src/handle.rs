//! A volume's cache as one lane sees it: what its requests and its tasks have in common.

use crate::backing::flush_gate::Pass;
use crate::backing::in_flight::RequestKind;
use crate::dirty::level::Level;
use crate::planted::{Bug, planted};
use crate::shared::Shared;
use alloc::sync::Arc;
use block::{Error, Kind, Request, Result, Stack};
use core::cell::Cell;
use lane::atomic::Ordering;
use lane::{Event, Lane};

pub(crate) const LOST: Error =
    Error::new(Kind::Io, "flush: another request's flush of the backing failed");

/// A volume's cache as one lane sees it.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lane: Lane,
    pub(crate) below: Stack,
    /// Whether the backing has answered the last read at once that it was asked to.
    pub(crate) at_once: Cell<bool>,
    pub(crate) advisers: Advisers,
}

/// The advice that a lane follows.
#[derive(Default)]
pub(crate) struct Advisers {
    pub(crate) followed: Cell<u32>,
    /// One has been followed to its end.
    pub(crate) ended: Event,
}

impl Handle {
    /// A handle over this lane's way to the backing.
    pub(crate) fn new(shared: &Arc<Shared>, lane: &Lane, below: Stack) -> Handle {
        assert_eq!(shared.limits.sectors, below.limits().sectors, "another volume's cache");
        let (shared, lane) = (shared.clone(), lane.clone());
        let advisers = Advisers::default();
        Handle { shared, lane, below, at_once: Cell::new(true), advisers }
    }

    /// How full the buffer is.
    pub(crate) fn level(&self) -> Level {
        Level::of(&self.shared.gauges, self.shared.settings.dirty_blocks_max(), 0)
    }

    /// Changes that are on their way past the cache.
    pub(crate) fn writing_through(&self) -> u32 {
        let changes = self.shared.backing.in_flight.waiting(RequestKind::Change);
        changes.saturating_sub(self.shared.writeback.estimator.in_flight())
    }
}

/// What is sent to the backing.
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

    /// Makes durable what the backing has: by a flush that begins after this was called.
    pub(crate) async fn flush_below(&self) -> Result {
        self.lane.turn().await;
        let target = self.shared.backing.flush_gate.with(|flush_gate| flush_gate.target());
        let mut error = LOST;
        loop {
            self.lane.turn().await;
            let seen = self.shared.backing.flush_gate_changed.seen();
            match self.shared.backing.flush_gate.with(|flush_gate| flush_gate.step(target)) {
                Pass::Over(good) => return if good { Ok(()) } else { Err(error) },
                Pass::Wait => self.shared.backing.flush_gate_changed.after(seen).await,
                Pass::Lead => {
                    let result = self.send_flush().await;
                    error = result.err().unwrap_or(error);
                    self.lane.turn().await;
                    self.shared
                        .backing
                        .flush_gate
                        .with(|flush_gate| flush_gate.report(result.is_ok()));
                    self.shared.backing.flush_gate_changed.notify();
                }
            }
        }
    }

    /// Sends a flush to the backing. The arena notes that before, and the result after: killed in
    /// between, a successor knows that it does not know it.
    async fn send_flush(&self) -> Result {
        let shared = &self.shared;
        shared.stats.count_flush_of_backing();
        if !planted(Bug::ForgetSentFlush) {
            shared.arena.note_flush_sent();
        }
        shared.gauges.note_flush_sent();
        let result = self.ask_below(Request::Flush).await;
        match result {
            Ok(()) => shared.gauges.note_flush_succeeded(),
            Err(_) => shared.backing.health.flush_failed(),
        }
        shared.arena.note_flush_answered(result.is_ok());
        result
    }

    /// The backing has failed at this: try again for so long, then the volume fails (C8).
    pub(crate) async fn backing_failed(&self, error: Error, retry_time_ns: u64) {
        let shared = &self.shared;
        self.lane.turn().await;
        let now = self.lane.now();
        let goes_on = shared.epochs.with(|epochs| {
            let goes_on = epochs.backing_failed(now, retry_time_ns);
            if !goes_on {
                shared.backing.health.fail(epochs, error);
            }
            goes_on
        });
        if !goes_on {
            shared.wake_all();
        }
    }
}
