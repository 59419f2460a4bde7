//! What a ring is told about polling, and what it tells of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether a lane with nothing to do looks for work before it sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// It sleeps at once.
    #[default]
    Off,
    /// It looks for up to 50 us, while a client that waits for each answer is answered sooner by that, and
    /// processors are to be had.
    Adaptive,
    /// It looks until there was nothing for so long.
    Fixed(Duration),
}

/// What a ring has spent in polling; any thread may look. Of a lane's processor time it is what was no work.
#[derive(Debug, Default)]
pub struct Polled {
    spent_ns: AtomicU64,
    vain_ns: AtomicU64,
}

impl Polled {
    /// Nanoseconds of polling, by the clock.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds of that after which there was nothing, so that the lane slept.
    pub fn vain_ns(&self) -> u64 {
        self.vain_ns.load(Ordering::Relaxed)
    }

    /// Only the ring's own thread adds.
    pub(crate) fn spend(&self, ns: u64) {
        self.spent_ns.store(self.spent_ns() + ns, Ordering::Relaxed);
    }

    /// What was spent last has found nothing.
    pub(crate) fn waste(&self, ns: u64) {
        self.vain_ns.store(self.vain_ns() + ns, Ordering::Relaxed);
    }
}
