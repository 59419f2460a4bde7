//! The rest of an incomplete request: a client that does not send it occupies a place.

use std::cell::Cell;

/// State of an incomplete request.
#[derive(Default)]
pub(crate) struct Rest {
    /// Time since which more of it is awaited, on the lane's clock.
    pub(crate) since_ns: Cell<Option<u64>>,
    /// Whether it was admitted, and its payload is awaited.
    pub(crate) is_admitted: Cell<bool>,
    /// Whether it was awaited for too long.
    pub(crate) is_late: Cell<bool>,
}

impl Rest {
    pub(crate) fn is_awaited(&self) -> bool {
        self.since_ns.get().is_some()
    }

    /// Starts the time limit: more of the request is awaited.
    pub(crate) fn await_from(&self, now_ns: u64) {
        self.since_ns.set(Some(now_ns));
    }

    /// Ends the time limit: the awaited data has arrived.
    pub(crate) fn has_come(&self) {
        self.since_ns.set(None);
    }
}
