//! Deadlines. The holder and its clients are not part of the engine, so they use the system's
//! clock.

use rustix::event::Timespec;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Returns the moment this long from now.
    pub(crate) fn after(time: Duration) -> Deadline {
        #[allow(clippy::disallowed_methods, reason = "a separate process, without a lane")]
        Deadline(Instant::now() + time)
    }

    /// Returns the remaining time; zero if it has passed.
    pub(crate) fn remaining(self) -> Duration {
        #[allow(clippy::disallowed_methods, reason = "a separate process, without a lane")]
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }

    /// Returns the remaining time for poll. Never zero before the deadline, so that a loop cannot
    /// spin.
    pub(crate) fn timeout(self) -> Timespec {
        let left = self.remaining();
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    }

    /// Waits a little before another attempt. False if no time is left for one.
    pub(crate) fn pause(self) -> bool {
        let time = self.remaining().min(Duration::from_millis(5));
        #[allow(clippy::disallowed_methods, reason = "start and stop only, on no lane")]
        std::thread::sleep(time);
        !self.has_passed()
    }
}

/// Returns seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Runs work that a file system may delay on a separate thread, and waits at most this long for it.
pub(crate) fn run_within(time: Duration, work: impl FnOnce() + Send + 'static) {
    let (done, waits) = channel();
    let work = move || {
        work();
        let _ = done.send(());
    };
    // If no thread can be started, the work is not done, and its values are dropped here.
    let _ = std::thread::Builder::new().name("od-waits".into()).spawn(work);
    let _ = waits.recv_timeout(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_within_the_time_limit_is_waited_for() {
        let (send, receive) = channel::<()>();
        run_within(Duration::from_millis(10), move || receive.recv().unwrap_or_default());
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let doing = done.clone();
        run_within(Duration::from_secs(60), move || {
            doing.store(true, std::sync::atomic::Ordering::SeqCst)
        });
        assert!(done.load(std::sync::atomic::Ordering::SeqCst));
        drop(send);
    }
}
