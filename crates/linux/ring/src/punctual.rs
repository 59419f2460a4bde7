//! Meets deadlines to the microsecond: the kernel wakes the thread a little earlier, and the loop
//! reads the clock until the deadline.

use std::cell::Cell;
use std::io;

/// Time before a deadline at which a ring wakes up.
#[derive(Default)]
pub(crate) struct Punctual {
    spin_ns: Cell<u64>,
}

/// The state of a ring until its next deadline.
pub(crate) enum Until {
    /// Sleep until then; None: until something arrives.
    Sleep(Option<u64>),
    /// Check the clock, without sleeping.
    Poll(u64),
}

impl Punctual {
    pub(crate) fn set(&self, spin_ns: u64) -> io::Result<()> {
        // By default the kernel may wake a thread 50 us late, to wake several threads together.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
        self.spin_ns.set(spin_ns);
        Ok(())
    }

    pub(crate) fn until(&self, deadline_ns: Option<u64>, now_ns: impl Fn() -> u64) -> Until {
        match (self.spin_ns.get(), deadline_ns) {
            (0, _) | (_, None) => Until::Sleep(deadline_ns),
            (spin_ns, Some(deadline)) if deadline <= now_ns().saturating_add(spin_ns) => {
                Until::Poll(deadline)
            }
            (spin_ns, Some(deadline)) => Until::Sleep(Some(deadline - spin_ns)),
        }
    }
}
