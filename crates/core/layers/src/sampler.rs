//! Times a small sample of cache hits, because the engine itself has no clock.

use alloc::boxed::Box;
use block::{Request, Result};
use core::cell::Cell;

/// One of this many reads is timed: reading the clock twice costs as much as a small hit.
const EVERY: u32 = 1024;

/// One lane's sample of the reads that a cache answers immediately.
pub struct Sampler {
    clock_ns: Box<dyn Fn() -> u64>,
    report_ns: Box<dyn Fn(u64)>,
    reads: Cell<u32>,
}

impl Sampler {
    /// Creates a sampler that reads `clock_ns` and passes the times of hits to `report_ns`.
    pub fn new(clock_ns: impl Fn() -> u64 + 'static, report_ns: impl Fn(u64) + 'static) -> Sampler {
        let (clock_ns, report_ns) = (Box::new(clock_ns), Box::new(report_ns));
        Sampler { clock_ns, report_ns, reads: Cell::new(0) }
    }

    /// Counts a request. Returns whether it is to be timed.
    #[inline]
    pub(crate) fn is_due(&self, request: &Request) -> bool {
        if !matches!(request, Request::Read { .. }) {
            return false;
        }
        let reads = self.reads.get().wrapping_add(1);
        self.reads.set(reads);
        reads.is_multiple_of(EVERY)
    }

    /// Times a read, and reports the time if it is a hit.
    #[cold]
    pub(crate) fn time(&self, read: impl FnOnce() -> Option<Result>) -> Option<Result> {
        let start_ns = (self.clock_ns)();
        let answer = read();
        if answer == Some(Ok(())) {
            (self.report_ns)((self.clock_ns)() - start_ns);
        }
        answer
    }
}
