//! The clock and the pauses of a program that waits for other processes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How many times slower than most this machine is. It applies to all threads of the process.
static SLOWER: AtomicU32 = AtomicU32::new(1);

/// Sets how many times slower than most this machine is.
pub(crate) fn be_slower(times: u32) {
    SLOWER.store(times, Ordering::Relaxed);
}

/// Returns the time that a step takes here, from its time on most machines.
pub(crate) fn here(time: Duration) -> Duration {
    time * SLOWER.load(Ordering::Relaxed)
}

/// Returns the time.
#[allow(clippy::disallowed_methods, reason = "no lane here: other processes are timed")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[allow(clippy::disallowed_methods, reason = "no lane here: other processes are waited for")]
pub(crate) fn rest(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until the condition holds; false: it does not hold after the time limit, scaled by
/// [`here`].
pub(crate) fn wait_until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let (start, patience) = (now(), here(patience));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_takes_longer_on_a_slower_machine() {
        let second = Duration::from_secs(1);
        assert_eq!(here(second), second);
        be_slower(10);
        assert_eq!(here(second), 10 * second);
        be_slower(1);
    }
}
