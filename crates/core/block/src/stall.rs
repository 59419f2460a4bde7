//! A backing that does not answer any more.
//!
//! Its requests cannot be called back: what was sent may still take effect, and nothing newer of the
//! same blocks may go before it. So nothing is cancelled. What waits at the top of the stack is
//! told, and what was begun stays behind as a task of its own until the backing answers after all.

use crate::error::{Error, Kind, Result};
use lane::atomic::{AtomicBool, AtomicU64, Ordering};
use lane::{Event, Lane, Pooled, TASKS_MAX};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What clients are told.
const STALLED: Error = Error::new(Kind::Io, "wait any longer: the backing does not answer");

/// Whether a backing has stopped to answer, as its watchdog says.
#[derive(Default, Debug)]
pub struct Stall {
    on: AtomicBool,
    begun: AtomicU64,
    changed: Event,
}

impl Stall {
    /// Says that the backing does not answer, or that it does again. To make waiting requests look,
    /// each lane's [`Stall::relay`] must run.
    pub fn set(&self, on: bool) {
        if self.on.swap(on, Ordering::SeqCst) != on {
            self.begun.fetch_add(u64::from(on), Ordering::SeqCst);
            self.changed.notify();
        }
    }

    /// Whether the backing does not answer.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// How often the backing has stopped to answer. A request that finds another number than when it
    /// came may have been answered with an error meanwhile.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// The error that a request ends with meanwhile.
    pub fn error(&self) -> Error {
        STALLED
    }

    /// Makes every task of a lane look up whenever it has changed. Runs until `ended` says so, which
    /// is asked at each change ([`Stall::nudge`] is one).
    pub async fn relay(&self, lane: &Lane, ended: impl Fn() -> bool) {
        let mut seen = self.changed.seen();
        while !ended() {
            self.changed.after(seen).await;
            seen = self.changed.seen();
            lane.wake_all();
        }
    }

    /// Wakes the relays without a change.
    pub fn nudge(&self) {
        self.changed.notify();
    }
}

/// A question to a stack that waits for the backing no longer than that answers at all.
pub struct Unless<T = ()> {
    lane: Lane,
    stall: Option<Arc<Stall>>,
    running: Option<Pooled<Result<T>>>,
}

impl<T> Unless<T> {
    pub(crate) fn new(lane: &Lane, stall: Option<Arc<Stall>>, running: Pooled<Result<T>>) -> Self {
        Unless { lane: lane.clone(), stall, running: Some(running) }
    }

    /// Returns the error with which it would end now, if the backing does not answer.
    pub fn stalled(&self) -> Option<Error> {
        self.stall.as_ref().filter(|stall| stall.is_on()).map(|stall| stall.error())
    }
}

impl<T: 'static> Future for Unless<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let running = self.running.as_mut().expect("polled again after its end");
        if let Poll::Ready(result) = Pin::new(running).poll(context) {
            self.running = None;
            return Poll::Ready(result);
        }
        if !self.stall.as_ref().is_some_and(|stall| stall.is_on()) {
            return Poll::Pending;
        }
        // No room for it on its own: then the client waits.
        if self.lane.tasks() >= TASKS_MAX {
            return Poll::Pending;
        }
        let running = self.running.take().expect("it has not ended");
        let left_behind = async move {
            // The client has been told that there is no result.
            let _ = running.await;
        };
        self.lane.spawn(left_behind).expect("a task slot was free");
        Poll::Ready(Err(STALLED))
    }
}
