//! A priority above all ordinary threads.
#![allow(unsafe_code)]

use std::fs;
use std::marker::PhantomData;

/// The lowest real-time priority: below those of the kernel's own threads.
const PRIORITY: i32 = 1;
/// Time per period in which real-time threads may run; -1: always.
const LIMIT: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Real-time priority of the calling thread (`SCHED_FIFO`), until it is dropped on that thread.
///
/// Ordinary threads do not interrupt it, also if it spins. Source: sched(7).
#[derive(Debug)]
pub struct RealTime(PhantomData<*const ()>);

impl RealTime {
    /// Raises the priority of the calling thread. None: it may not be raised, it is not an ordinary
    /// one, or it would stop others: this thread may use one processor only, or the system does not
    /// limit the time of real-time threads. Threads and processes made later are ordinary.
    pub fn take() -> Option<RealTime> {
        let processors = rustix::thread::sched_getaffinity(None).ok()?.count();
        let is_limited = |text: String| text.trim().parse::<i64>().is_ok_and(|us| us >= 0);
        if processors < 2 || !fs::read_to_string(LIMIT).is_ok_and(is_limited) {
            return None;
        }
        // SAFETY: the call has no memory.
        let before = unsafe { libc::sched_getscheduler(0) };
        let is_raised = before == libc::SCHED_OTHER
            && set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY);
        is_raised.then_some(RealTime(PhantomData))
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // A thread may always lower its priority.
        set(libc::SCHED_OTHER, 0);
    }
}

/// Sets policy and priority of the calling thread. Returns whether that was permitted.
fn set(policy: i32, priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` is valid during the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_it_is_dropped() {
        // SAFETY: the call has no memory.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let Some(taken) = RealTime::take() else {
            println!("skipped: this user may not raise priorities, or has one processor");
            return;
        };
        assert_eq!(policy(), libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
        assert!(RealTime::take().is_none(), "it is not ordinary");
        let other = std::thread::spawn(policy);
        assert_eq!(other.join().expect("ended"), libc::SCHED_OTHER);
        drop(taken);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }
}
