//! Limits on the requests that all clients of a server have in flight together.

use lane::Event;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buffers are whole pages, so that one word can count their pages and the requests.
const PAGE_BYTES: usize = 4096;

/// Requests, and the bytes of their payloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Number of requests.
    pub requests: usize,
    /// Bytes of their buffers.
    pub bytes: usize,
}

impl Load {
    fn pack(self) -> u64 {
        debug_assert!(self.bytes.is_multiple_of(PAGE_BYTES), "buffers are whole pages");
        ((self.bytes / PAGE_BYTES) as u64) << 32 | self.requests as u64
    }

    fn unpack(packed: u64) -> Load {
        let bytes = (packed >> 32) as usize * PAGE_BYTES;
        Load { requests: (packed & u64::from(u32::MAX)) as usize, bytes }
    }

    /// Whether one more request of `bytes` bytes stays within `most`.
    fn has_room(self, bytes: usize, most: Load) -> bool {
        self.requests < most.requests && (bytes == 0 || self.bytes + bytes <= most.bytes)
    }
}

/// Limits that the clients of a server share, on all of its lanes. A client without a request in
/// flight is always allowed one, so that no client starves.
#[derive(Debug)]
pub struct Budget {
    most: Load,
    admitted: AtomicU64,
    running: AtomicU64,
    freed: Event,
}

impl Default for Budget {
    /// 256 MiB in 2048 requests.
    fn default() -> Budget {
        Budget::new(256 << 20, 2048)
    }
}

impl Budget {
    /// Allows `bytes_max` bytes of payloads in `requests_max` requests (at least one).
    pub fn new(bytes_max: usize, requests_max: usize) -> Budget {
        Budget {
            most: Load { requests: requests_max.max(1), bytes: bytes_max },
            admitted: AtomicU64::new(0),
            running: AtomicU64::new(0),
            freed: Event::new(),
        }
    }

    /// The requests that were admitted and not answered yet. May exceed the limits by one request
    /// per client.
    pub fn used(&self) -> Load {
        Load::unpack(self.admitted.load(Ordering::SeqCst))
    }

    /// The requests that the stacks are serving, if their backing has a watchdog. Includes requests
    /// that were answered with an error because the backing has stalled, and that continue in the
    /// background.
    pub fn running(&self) -> Load {
        Load::unpack(self.running.load(Ordering::SeqCst))
    }

    /// Admits a request if it fits, or if `in_any_case` is set. Returns whether it was admitted.
    pub(crate) fn take(&self, bytes: usize, in_any_case: bool) -> bool {
        let one = Load { requests: 1, bytes }.pack();
        let add = |packed: u64| {
            let room = in_any_case || Load::unpack(packed).has_room(bytes, self.most);
            room.then_some(packed + one)
        };
        self.admitted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok()
    }

    /// Releases requests and bytes, and wakes the waiting clients.
    pub(crate) fn give(&self, requests: usize, bytes: usize) {
        let load = Load { requests, bytes };
        if load != Load::default() {
            self.admitted.fetch_sub(load.pack(), Ordering::SeqCst);
            self.freed.notify();
        }
    }

    /// The event of a release.
    pub(crate) fn freed(&self) -> &Event {
        &self.freed
    }

    pub(crate) fn begin(&self, load: Load) {
        self.running.fetch_add(load.pack(), Ordering::SeqCst);
    }

    pub(crate) fn end(&self, load: Load) {
        self.running.fetch_sub(load.pack(), Ordering::SeqCst);
    }

    /// Whether a request of `bytes` bytes, together with those that the stacks are serving, would
    /// exceed the limits. False if no request runs.
    pub(crate) fn is_overrun(&self, bytes: usize) -> bool {
        let running = self.running();
        running.requests > 0 && !running.has_room(bytes, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = Budget::new(3 * PAGE_BYTES, 3);
        assert!(budget.take(2 * PAGE_BYTES, false));
        assert!(!budget.take(2 * PAGE_BYTES, false), "too many bytes");
        assert!(budget.take(PAGE_BYTES, false) && budget.take(0, false));
        assert!(!budget.take(0, false), "too many requests");
        assert!(budget.take(2 * PAGE_BYTES, true));
        assert_eq!(budget.used(), Load { requests: 4, bytes: 5 * PAGE_BYTES });
        let seen = budget.freed().seen();
        budget.give(4, 5 * PAGE_BYTES);
        assert_eq!(budget.used(), Load::default());
        assert_ne!(budget.freed().seen(), seen);
    }

    #[test]
    fn one_request_alone_overruns_nothing() {
        let budget = Budget::new(PAGE_BYTES, 2);
        assert!(!budget.is_overrun(2 * PAGE_BYTES));
        let load = Load { requests: 1, bytes: PAGE_BYTES };
        budget.begin(load);
        assert!(budget.is_overrun(PAGE_BYTES) && !budget.is_overrun(0));
        budget.begin(Load { requests: 1, bytes: 0 });
        assert!(budget.is_overrun(0));
        budget.end(load);
        assert_eq!(budget.running(), Load { requests: 1, bytes: 0 });
    }
}
