//! The rest of a request that has begun to come: a client that does not send it holds a place.

use std::cell::Cell;

/// What is known of a request that has come in part.
#[derive(Default)]
pub(crate) struct Rest {
    /// Since when more of it is awaited, on the lane's clock.
    pub(crate) since_ns: Cell<Option<u64>>,
    /// It was let in, and its payload is awaited.
    pub(crate) is_let_in: Cell<bool>,
    /// It was awaited for too long.
    pub(crate) is_late: Cell<bool>,
}

impl Rest {
    pub(crate) fn is_awaited(&self) -> bool {
        self.since_ns.get().is_some()
    }

    /// More of it is awaited, from now on.
    pub(crate) fn await_from(&self, now_ns: u64) {
        self.since_ns.set(Some(now_ns));
    }

    /// What was awaited has come.
    pub(crate) fn has_come(&self) {
        self.since_ns.set(None);
    }
}
