//! Settings and statistics of a ring's polling.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether an idle lane polls for work before it sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// Sleep immediately.
    #[default]
    Off,
    /// Poll for up to 50 us while that shortens the answers to a client that waits for each of
    /// them, and processors are available.
    Adaptive,
    /// Poll until nothing has arrived for this time.
    Fixed(Duration),
}

/// Time that a ring has spent polling, readable by any thread. A lane's processor time includes it,
/// but no work was done in it.
#[derive(Debug, Default)]
pub struct Polled {
    spent_ns: AtomicU64,
    vain_ns: AtomicU64,
}

impl Polled {
    /// Returns the nanoseconds of polling.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }

    /// Returns the nanoseconds of polling without a result, after which the lane slept.
    pub fn vain_ns(&self) -> u64 {
        self.vain_ns.load(Ordering::Relaxed)
    }

    /// Adds polling time. Only the ring's own thread may call this.
    pub(crate) fn spend(&self, ns: u64) {
        self.spent_ns.store(self.spent_ns() + ns, Ordering::Relaxed);
    }

    /// Marks polling time as spent without a result.
    pub(crate) fn waste(&self, ns: u64) {
        self.vain_ns.store(self.vain_ns() + ns, Ordering::Relaxed);
    }
}
