//! The bell that wakes a parked ring: an eventfd whose read is always in flight.

use lane::Bell;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The bell of one ring.
pub(crate) struct EventBell {
    // Blocking on purpose: io_uring answers a read of a non-blocking file with EAGAIN immediately
    // instead of waiting for it.
    event: OwnedFd,
}

impl EventBell {
    pub(crate) fn new() -> io::Result<EventBell> {
        Ok(EventBell { event: eventfd(0, EventfdFlags::CLOEXEC)? })
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

impl Bell for EventBell {
    fn ring(&self) {
        // Cannot fail: the counter is far below its maximum, since a lane is rung at most once
        // between two of its waits.
        let written = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        debug_assert!(written.is_ok(), "an eventfd takes a write");
    }
}
