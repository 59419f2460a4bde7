//! What ends waiting: the wish that a server stops, and deadlines.

use lane::{Event, Lane};
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks clients to end. Shared by all of them; may be asked from any thread.
#[derive(Default, Debug)]
pub struct Stop {
    asked: AtomicBool,
    event: Event,
}

impl Stop {
    /// Not asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks. No request is taken any more, nor refused: to a client the server has gone, and it asks
    /// the next one. Its front says what is still owed to it, then that this was all, and lets it go when
    /// it leaves, or when its time is over.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.event.notify();
    }

    /// Whether it was asked.
    ///
    /// A client that is counted and then looks here, and what asks and then looks at the count, are on different
    /// threads: one of them must see the other.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until the end was asked for.
    pub async fn wait(&self) {
        loop {
            let seen = self.event.seen();
            if self.asked.load(Ordering::SeqCst) {
                return;
            }
            self.event.after(seen).await;
        }
    }
}

/// A moment on a lane's clock, or never.
#[derive(Clone)]
pub struct Deadline {
    lane: Lane,
    at_ns: Option<u64>,
}

impl Deadline {
    /// So many milliseconds from now; None: never.
    pub fn new(lane: &Lane, after_ms: Option<u64>) -> Deadline {
        let after_ns = after_ms.map(|after| after.saturating_mul(1_000_000));
        Deadline {
            lane: lane.clone(),
            at_ns: after_ns.map(|after| lane.now().saturating_add(after)),
        }
    }

    /// Whether it has.
    pub fn has_come(&self) -> bool {
        self.at_ns.is_some_and(|at| self.lane.now() >= at)
    }

    /// Waits for it.
    pub async fn wait(&self) {
        match self.at_ns {
            Some(at) => self.lane.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}
