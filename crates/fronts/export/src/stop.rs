//! Ends of waits: the stop of a server, and deadlines.

use lane::{Event, Lane};
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end, shared by all clients. Any thread may make it.
#[derive(Default, Debug)]
pub struct Stop {
    asked: AtomicBool,
    event: Event,
}

impl Stop {
    /// A stop that was not requested yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks the clients to end. From now on no request is accepted or refused: for the client the
    /// server has gone, and it sends its requests to the next server. The front sends the remaining
    /// answers and its goodbye, and drops the connection when the client leaves or its time is
    /// over.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.event.notify();
    }

    /// Whether the stop was requested.
    ///
    /// A client increments a count and then checks here; the stopping side requests the stop and
    /// then checks the count. They run on different threads, and at least one must see the other.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until the stop is requested.
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

/// A point in time on a lane's clock, or never.
#[derive(Clone)]
pub struct Deadline {
    lane: Lane,
    at_ns: Option<u64>,
}

impl Deadline {
    /// `after_ms` milliseconds from now; None: never.
    pub fn new(lane: &Lane, after_ms: Option<u64>) -> Deadline {
        let after_ns = after_ms.map(|after| after.saturating_mul(1_000_000));
        Deadline {
            lane: lane.clone(),
            at_ns: after_ns.map(|after| lane.now().saturating_add(after)),
        }
    }

    /// Whether the deadline has passed.
    pub fn has_come(&self) -> bool {
        self.at_ns.is_some_and(|at| self.lane.now() >= at)
    }

    /// Waits for the deadline.
    pub async fn wait(&self) {
        match self.at_ns {
            Some(at) => self.lane.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}
