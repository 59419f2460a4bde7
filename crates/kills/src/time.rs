//! The clock and the pauses of a program that waits for other processes.

use std::time::{Duration, Instant};

/// The clock.
#[allow(clippy::disallowed_methods, reason = "no lane here: other processes are timed")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[allow(clippy::disallowed_methods, reason = "no lane here: other processes are waited for")]
pub(crate) fn rest(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until something is so; false: the time is over, and it is not.
pub(crate) fn wait_until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > patience {
            return false;
        }
        rest(Duration::from_millis(2));
    }
}
