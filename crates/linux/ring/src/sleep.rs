//! The time for which a call that waits in the kernel sleeps.

use host::{now_ns, voluntary_switches};
use rustix::time::{ClockId, clock_gettime};

/// A measurement of one call. The call may also execute reads, and then uses the processor; and
/// another thread may take the processor from it. Neither is a sleep.
pub(crate) struct SleepMeter {
    begun_ns: u64,
    begun_processor_ns: u64,
    begun_switches: u64,
}

impl SleepMeter {
    pub(crate) fn start() -> SleepMeter {
        SleepMeter {
            begun_switches: voluntary_switches(),
            begun_ns: now_ns(),
            begun_processor_ns: processor_ns(),
        }
    }

    /// Returns the time since the start without the processor time of this thread, in nanoseconds;
    /// 0 if the thread never gave up its processor for an event. The wait for a processor after the
    /// event counts: without the sleep, there were none.
    pub(crate) fn slept_ns(&self) -> u64 {
        if voluntary_switches() == self.begun_switches {
            return 0;
        }
        let processor_ns = processor_ns() - self.begun_processor_ns;
        (now_ns() - self.begun_ns).saturating_sub(processor_ns)
    }
}

/// Processor time of this thread. A system call: about 100 ns.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of sleeps")]
    fn a_sleep_counts() {
        let (sleep, begun_ns) = (SleepMeter::start(), processor_ns());
        std::thread::sleep(Duration::from_millis(20));
        let slept_ns = sleep.slept_ns();
        // The call itself takes some microseconds of the processor.
        assert!(slept_ns + (processor_ns() - begun_ns) >= 20_000_000);
    }

    /// A second thread on the same processor takes half of the time.
    #[test]
    fn neither_work_nor_a_wait_for_a_processor_counts() {
        let (processor, busy) = (sched_getcpu(), AtomicBool::new(true));
        let stay = || {
            let mut processors = CpuSet::new();
            processors.set(processor);
            sched_setaffinity(None, &processors).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stay();
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(|| {
                stay();
                let (work, begun_ns) = (SleepMeter::start(), now_ns());
                while now_ns() - begun_ns < 50_000_000 {}
                let slept_ns = work.slept_ns();
                busy.store(false, Ordering::Relaxed);
                assert_eq!(slept_ns, 0);
            });
        });
    }
}
