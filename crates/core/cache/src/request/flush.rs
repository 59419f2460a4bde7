//! Draining, and holding flushes back: for the process that serves the volume, not for clients.

use crate::handle::Handle;
use crate::request::Cache;
use alloc::sync::Arc;
use block::{Block, Error, Kind, LINK_GRACE_NS, Limits, Request, Result, Stack, Stall};
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use lane::first;

/// A cache whose flushes make data durable in every mode.
struct Durable(Cache);

const NO_LINK: Error = Error::new(Kind::Io, "flush: the link to the backing is down");

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
    /// The backing's error after `retry_time`, or that the backing does not answer, or that its
    /// link is down, also if clients wait for the link. Dirty data stays dirty.
    pub async fn drain(&self) -> Result {
        let handle = &*self.0;
        self.flush_unless_link_is_down().await?;
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

impl Cache {
    /// Makes everything durable, unless the link is down for `retry_time`. Then the flush continues
    /// in the background.
    async fn flush_unless_link_is_down(&self) -> Result {
        let stack = Stack::new(&self.0.lane, Durable(self.clone()));
        // Like a client's flush: one that leads a commit may hang in the backing.
        let mut flush = stack.run_unless_stalled(Request::Flush);
        let mut given_up = pin!(self.0.link_down_for_retry_time());
        let result = poll_fn(|context| match Pin::new(&mut flush).poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => given_up.as_mut().poll(context).map(|()| None),
        });
        match result.await {
            Some(result) => result,
            None if flush.leave_behind() => Err(NO_LINK),
            None => flush.await,
        }
    }
}

impl Handle {
    /// Waits until the link has been down for `retry_time` from now on.
    async fn link_down_for_retry_time(&self) {
        let Some(link) = self.below.link() else { return core::future::pending().await };
        let begun_ns = self.lane.now();
        loop {
            let seen = link.changed().seen();
            let retry_time_ns = self.shared.settings.retry_time_ns();
            let until_ns = link.lost_ns().map_or(u64::MAX, |lost_ns| {
                lost_ns.max(begun_ns).saturating_add(retry_time_ns.max(LINK_GRACE_NS))
            });
            if self.lane.now() >= until_ns {
                return;
            }
            first(link.changed().after(seen), self.lane.sleep_until(until_ns)).await;
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
