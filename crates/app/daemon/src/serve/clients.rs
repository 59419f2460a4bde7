//! The clients of a volume, on all lanes.

use lane::Event;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of a volume's clients, on all lanes.
#[derive(Default)]
pub(crate) struct Clients {
    count: AtomicU64,
    /// Signalled when a client has connected or disconnected.
    pub(crate) changed: Event,
}

impl Clients {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.changed.notify();
    }

    pub(super) fn remove(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.changed.notify();
    }
}
