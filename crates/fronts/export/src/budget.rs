//! What all clients of a server may have under way together.

use lane::Event;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buffers are whole pages, which lets one word count them together with the requests.
const PAGE_BYTES: usize = 4096;

/// Requests, and the bytes of their payloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// How many requests.
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

    /// Whether one more request with so many bytes stays inside `most`.
    fn has_room(self, bytes: usize, most: Load) -> bool {
        self.requests < most.requests && (bytes == 0 || self.bytes + bytes <= most.bytes)
    }
}

/// Limits that the clients of a server share, on all of its lanes. A client that has nothing under way
/// is always let in with one request, so that none starves.
#[derive(Debug)]
pub struct Budget {
    most: Load,
    let_in: AtomicU64,
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
    /// At most so many bytes of payloads, in so many requests (at least one).
    pub fn new(bytes_max: usize, requests_max: usize) -> Budget {
        Budget {
            most: Load { requests: requests_max.max(1), bytes: bytes_max },
            let_in: AtomicU64::new(0),
            running: AtomicU64::new(0),
            freed: Event::new(),
        }
    }

    /// What has been let in and not been answered. May exceed the limits by one request of each
    /// client.
    pub fn used(&self) -> Load {
        Load::unpack(self.let_in.load(Ordering::SeqCst))
    }

    /// What the stacks are busy with, where their backing is watched: also requests that have
    /// been answered with an error because that has stalled, and that go on behind.
    pub fn running(&self) -> Load {
        Load::unpack(self.running.load(Ordering::SeqCst))
    }

    /// Lets a request in if there is room for it, or in any case.
    pub(crate) fn take(&self, bytes: usize, in_any_case: bool) -> bool {
        let one = Load { requests: 1, bytes }.pack();
        let add = |packed: u64| {
            let room = in_any_case || Load::unpack(packed).has_room(bytes, self.most);
            room.then_some(packed + one)
        };
        self.let_in.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).is_ok()
    }

    /// Gives back requests and bytes, and wakes what waits for them.
    pub(crate) fn give(&self, requests: usize, bytes: usize) {
        let load = Load { requests, bytes };
        if load != Load::default() {
            self.let_in.fetch_sub(load.pack(), Ordering::SeqCst);
            self.freed.notify();
        }
    }

    /// Happens whenever something is given back.
    pub(crate) fn freed(&self) -> &Event {
        &self.freed
    }

    pub(crate) fn begin(&self, load: Load) {
        self.running.fetch_add(load.pack(), Ordering::SeqCst);
    }

    pub(crate) fn end(&self, load: Load) {
        self.running.fetch_sub(load.pack(), Ordering::SeqCst);
    }

    /// Whether the stacks are busy with so much that a request of so many bytes is too much. One
    /// alone never is.
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
