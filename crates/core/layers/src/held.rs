//! The longest wait of the requests that a layer holds back.

use core::sync::atomic::{AtomicU64, Ordering};

/// Bits of the number of requests.
const COUNT_BITS: u32 = 20;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const WAIT_US_MAX: u64 = u64::MAX >> COUNT_BITS;

/// The longest wait since no request was under way, and the number of requests under way: one word,
/// so that both change together.
#[derive(Default)]
pub(crate) struct Held(AtomicU64);

impl Held {
    /// Counts a request that waits for this time first.
    pub(crate) fn begin(&self, wait_ns: u64) {
        let wait = wait_ns.div_ceil(1000).min(WAIT_US_MAX) << COUNT_BITS;
        let begun = |word: u64| Some(wait.max(word & !COUNT) | ((word & COUNT) + 1));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begun);
    }

    /// Counts the end of a request.
    pub(crate) fn end(&self) {
        let ended = |word: u64| Some(if word & COUNT == 1 { 0 } else { word - 1 });
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, ended);
    }

    /// Returns the longest wait, in nanoseconds, rounded up to microseconds.
    pub(crate) fn longest_ns(&self) -> u64 {
        (self.0.load(Ordering::Relaxed) >> COUNT_BITS) * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_kept_until_no_request_is_under_way() {
        let held = Held::default();
        held.begin(0);
        assert_eq!(held.longest_ns(), 0);
        held.begin(5_500);
        held.begin(2_000);
        held.end();
        held.end();
        assert_eq!(held.longest_ns(), 6_000);
        held.begin(7_000);
        held.end();
        assert_eq!(held.longest_ns(), 7_000);
        held.end();
        assert_eq!(held.longest_ns(), 0);
        held.begin(u64::MAX);
        assert_eq!(held.longest_ns(), WAIT_US_MAX * 1000);
        held.end();
        assert_eq!(held.longest_ns(), 0);
    }
}
