//! Times a small sample of cache hits, because the engine itself has no clock.

use block::{Layer, Request, Result, Stack};
use cache::Shared;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::sync::Arc;

/// Number of reads of which one is timed: reading the clock twice costs as much as a small hit.
const EVERY: u32 = 1024;

/// The top of a cached stack, as a lane sees it.
pub(crate) struct Sampled {
    shared: Arc<Shared>,
    below: Stack,
    reads: Cell<u32>,
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Sampled {
    pub(crate) fn new(shared: &Arc<Shared>, below: Stack) -> Sampled {
        Sampled { shared: shared.clone(), below, reads: Cell::new(0) }
    }

    /// Answers a read and times it. Separate from [`Layer::try_now`], so that other reads pay for
    /// only one branch.
    #[cold]
    fn try_timed(&self, request: &Request) -> Option<Result> {
        let start = now_ns();
        let answer = self.below.try_now(request);
        if answer == Some(Ok(())) {
            self.shared.hit_sampled(now_ns() - start);
        }
        answer
    }
}

impl Layer for Sampled {
    fn lower(&self) -> &Stack {
        &self.below
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        if !matches!(request, Request::Read { .. }) {
            return self.below.try_now(request);
        }
        let reads = self.reads.get().wrapping_add(1);
        self.reads.set(reads);
        if reads.is_multiple_of(EVERY) {
            self.try_timed(request)
        } else {
            self.below.try_now(request)
        }
    }
}
