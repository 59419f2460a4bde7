//! How long something may take. The holder and its clients are no part of the engine: they wait by
//! the system's clock.

use rustix::event::Timespec;
use std::time::{Duration, Instant};

/// A moment by which something has to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now.
    pub(crate) fn after(time: Duration) -> Deadline {
        #[allow(clippy::disallowed_methods, reason = "a process of its own, with no lane")]
        Deadline(Instant::now() + time)
    }

    /// What is left; zero if it has passed.
    pub(crate) fn left(self) -> Duration {
        #[allow(clippy::disallowed_methods, reason = "a process of its own, with no lane")]
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.left().is_zero()
    }

    /// What is left as poll takes it. Never zero before the deadline, so that a loop cannot spin.
    pub(crate) fn timeout(self) -> Timespec {
        let left = self.left();
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    }

    /// Waits a little before another attempt; false if there is no time for one.
    pub(crate) fn pause(self) -> bool {
        let time = self.left().min(Duration::from_millis(5));
        #[allow(clippy::disallowed_methods, reason = "start and stop only, on no lane")]
        std::thread::sleep(time);
        !self.has_passed()
    }
}
