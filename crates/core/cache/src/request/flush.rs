//! Flushes: every request that needs one waits for the epoch, or for the backing's own flush.
//!
//! In `ordered` mode a client's flush only closes the open epoch, and the flusher writes back
//! closed epochs in their order. In `scratch` mode a flush does nothing.

use crate::dirty::limits;
use crate::epochs::Close;
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::request::Cache;
use crate::tasks::commit;
use alloc::sync::Arc;
use block::{Block, Durability, Error, Kind, Limits, Request, Result, Stack, Stall};
use lane::Cost;

/// A cache whose flushes make data durable in every mode.
struct Durable(Cache);

const NO_FLUSH: Error = Error::new(Kind::Invalid, "drain: this is for flushes");

impl Block for Durable {
    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    async fn run(&self, request: Request) -> Result {
        let handle = &self.0.0;
        match request {
            Request::Flush if handle.shared.backing.stall.is_on() => {
                Err(handle.shared.backing.stall.error())
            }
            Request::Flush => handle.flush().await,
            _ => Err(NO_FLUSH),
        }
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        self.0.stall()
    }
}

impl Cache {
    /// Makes everything durable, in every mode.
    ///
    /// # Errors
    /// The backing's error after `retry_time`, or that the backing does not answer. Dirty data
    /// stays dirty.
    pub async fn drain(&self) -> Result {
        let handle = &*self.0;
        // Like a client's flush: one that leads a commit may hang in the backing.
        Stack::new(&handle.lane, Durable(self.clone())).run_unless_stalled(Request::Flush).await?;
        // The flush is answered before the slots are released; after a drain they must be clean,
        // too.
        loop {
            handle.lane.turn().await;
            let seen = handle.shared.epochs.changed.seen();
            if !handle.shared.epochs.with(|epochs| epochs.is_releasing()) {
                return Ok(());
            }
            handle.shared.epochs.changed.after(seen).await;
        }
    }
}

/// For a process that another program is about to replace: the next program could not learn the
/// result of a flush in progress (C1).
impl Cache {
    /// Waits until no flush of the backing is in progress, and prevents new ones.
    pub async fn hold_flushes(&self) {
        let (lane, backing) = (&self.0.lane, &self.0.shared.backing);
        loop {
            lane.turn().await;
            let seen = backing.flush_gate_changed.seen();
            if backing.flush_gate.with(|flush_gate| flush_gate.hold()) {
                return;
            }
            backing.flush_gate_changed.after(seen).await;
        }
    }

    /// Allows flushes again, after [`Cache::hold_flushes`].
    pub async fn release_flushes(&self) {
        self.0.lane.turn().await;
        let backing = &self.0.shared.backing;
        backing.flush_gate.with(|flush_gate| flush_gate.release());
        backing.flush_gate_changed.notify();
    }
}

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
                    commit::close(self, epoch, false).await;
                    if !planted(Bug::LeaveClosed) {
                        self.shared.writeback.kick.notify();
                    }
                }
            }
        }
    }
}
