//! Whether a client may still be waiting for a request that has waited inside a layer.

use block::{Result, Stack};

/// The number of stalls of the backing when a request arrived. None: it was stalled at that time.
#[derive(Clone, Copy)]
pub(crate) struct Since(Option<u64>);

impl Since {
    /// Records the arrival of a request at a layer above this stack.
    pub(crate) fn now(below: &Stack) -> Since {
        let Some(stall) = below.stall() else { return Since(Some(0)) };
        Since(Some(stall.begun()).filter(|_| !stall.is_on()))
    }

    /// Fails unless the client may still be waiting. When a client got an error because the backing
    /// does not answer, its change must not take effect later (C8), over changes that it has sent
    /// since (C10).
    pub(crate) fn still_wanted(self, below: &Stack) -> Result {
        match below.stall() {
            Some(stall) if stall.is_on() || Some(stall.begun()) != self.0 => Err(stall.error()),
            _ => Ok(()),
        }
    }
}
