//! The time for which a call that waits in the kernel sleeps.

use host::now_ns;
use rustix::time::{ClockId, clock_gettime};

/// A measurement of one call. The call may also execute reads, and then uses the processor: that is
/// no sleep.
pub(crate) struct SleepMeter {
    begun_ns: u64,
    begun_processor_ns: u64,
}

impl SleepMeter {
    pub(crate) fn start() -> SleepMeter {
        SleepMeter { begun_ns: now_ns(), begun_processor_ns: processor_ns() }
    }

    /// Returns the time since the start without the processor time of this thread, in nanoseconds.
    /// A wait for a processor within the call counts as a sleep, too.
    pub(crate) fn slept_ns(&self) -> u64 {
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
    use std::time::Duration;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of sleeps")]
    fn a_sleep_counts_and_work_does_not() {
        let (sleep, begun_ns) = (SleepMeter::start(), processor_ns());
        std::thread::sleep(Duration::from_millis(20));
        let slept_ns = sleep.slept_ns();
        // The call itself takes some microseconds of the processor.
        assert!(slept_ns + (processor_ns() - begun_ns) >= 20_000_000);
        let (work, begun_ns) = (SleepMeter::start(), processor_ns());
        while processor_ns() - begun_ns < 20_000_000 {}
        let slept_ns = work.slept_ns();
        assert!(slept_ns <= now_ns() - work.begun_ns - 20_000_000);
    }
}
