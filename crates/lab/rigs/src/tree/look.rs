//! Calls the watch at intervals, by the clock.

use block::Error;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use suites::{Halt, Watch};

/// Interval between two calls of the watch.
const APART_NS: u64 = 20_000_000;

/// Returns CLOCK_MONOTONIC in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the halt for a system error during an action; `doing` completes "cannot ...".
pub(super) fn failed(doing: &'static str) -> impl Fn(io::Error) -> Halt {
    move |error| Halt::Failed(Error::from_errno(error.raw_os_error().unwrap_or(0), doing))
}

/// A watch with a minimum interval between its calls.
pub struct Look<'a> {
    watch: &'a mut dyn Watch,
    looked_ns: u64,
    is_interrupted: bool,
}

impl<'a> Look<'a> {
    /// Wraps this watch.
    pub fn new(watch: &'a mut dyn Watch) -> Look<'a> {
        Look { watch, looked_ns: 0, is_interrupted: false }
    }

    /// Reports progress: `done` of `all`.
    ///
    /// # Errors
    /// The watch interrupts.
    pub fn goes_on(&mut self, stage: &str, done: u64, all: u64) -> Result<(), Halt> {
        let now = now_ns();
        if !self.is_interrupted && now >= self.looked_ns + APART_NS {
            self.looked_ns = now;
            self.is_interrupted = !self.watch.look(stage, done as f64 / all.max(1) as f64);
        }
        if self.is_interrupted { Err(Halt::Interrupted) } else { Ok(()) }
    }

    /// Returns the watch, for code that calls it directly.
    pub(super) fn watch(&mut self) -> &mut dyn Watch {
        self.watch
    }
}

/// For tests: a watch that interrupts at its third call.
#[cfg(test)]
pub(super) struct Impatient(pub(super) u32);

#[cfg(test)]
impl Watch for Impatient {
    fn look(&mut self, _: &str, _: f64) -> bool {
        self.0 += 1;
        self.0 < 3
    }
}
