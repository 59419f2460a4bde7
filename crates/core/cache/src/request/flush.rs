//! Draining, and holding flushes back: for the process that serves the volume, not for clients.

use crate::request::Cache;
use alloc::sync::Arc;
use block::{Block, Error, Kind, Limits, Request, Result, Stack, Stall};

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
        self.0.shared.backing.flushes.hold(&self.0.lane).await;
    }

    /// Allows flushes again, after [`Cache::hold_flushes`].
    pub async fn release_flushes(&self) {
        self.0.shared.backing.flushes.release(&self.0.lane).await;
    }
}
