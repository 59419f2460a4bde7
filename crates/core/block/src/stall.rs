//! A backing that has stopped answering.
//!
//! Its requests cannot be cancelled: a request that was sent may still take effect, and no newer
//! request for the same blocks may overtake it. So nothing is cancelled. Waiters at the top of the
//! stack get an error, and each request that was started continues as a separate task until the
//! backing answers again.

use crate::error::{Error, Kind};
use lane::atomic::{AtomicBool, AtomicU64, Ordering};
use lane::{Event, Lane};

/// The error that clients get.
const STALLED: Error = Error::new(Kind::Io, "wait any longer: the backing does not answer");

/// Whether a backing has stopped answering, as its watchdog reports.
#[derive(Default, Debug)]
pub struct Stall {
    on: AtomicBool,
    begun: AtomicU64,
    changed: Event,
}

impl Stall {
    /// Records whether the backing has stopped answering. Waiting requests notice it only if the
    /// [`Stall::relay`] of their lane runs.
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

    /// Number of times that the backing has stopped answering. If this number has changed since a
    /// request arrived, that request may have been answered with an error.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// The error with which a request ends during a stall.
    pub fn error(&self) -> Error {
        STALLED
    }

    /// Wakes all tasks of a lane at each change of the state. Runs until `ended` returns true,
    /// which is checked at each change ([`Stall::nudge`] counts as one).
    pub async fn relay(&self, lane: &Lane, ended: impl Fn() -> bool) {
        let mut seen = self.changed.seen();
        while !ended() {
            self.changed.after(seen).await;
            seen = self.changed.seen();
            lane.wake_all();
        }
    }

    /// Wakes the relays without a change of the state.
    pub fn nudge(&self) {
        self.changed.notify();
    }
}
