//! Time outside the live loop: for set-up code, which may block its thread.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::time::Duration;

/// First and maximum pause between two tries.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Returns the time of CLOCK_MONOTONIC, in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Time limit for repeated tries.
pub struct Patience {
    end_ns: u64,
    pause: Cell<Duration>,
}

impl Patience {
    /// Starts the time limit now.
    pub fn new(patience_ms: u64) -> Patience {
        let end_ns = now_ns().saturating_add(patience_ms.saturating_mul(1_000_000));
        Patience { end_ns, pause: Cell::new(PAUSE_FIRST) }
    }

    /// Blocks the thread until the time limit is over.
    pub fn wait(&self) {
        while self.pause() {}
    }

    /// Blocks the thread for a short time. Returns false immediately if the time limit is over.
    #[allow(clippy::disallowed_methods, reason = "set-up, before a lane runs on this thread")]
    pub fn pause(&self) -> bool {
        let left = Duration::from_nanos(self.end_ns.saturating_sub(now_ns()));
        if left.is_zero() {
            return false;
        }
        let pause = self.pause.get();
        std::thread::sleep(pause.min(left));
        self.pause.set((pause * 2).min(PAUSE_MAX));
        true
    }
}
