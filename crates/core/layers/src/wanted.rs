//! Whether a client may still be waiting for a request that has waited inside a layer.

use block::{Result, Stack};

/// When a request came: how often the backing had stopped to answer by then. None: it did so just then.
#[derive(Clone, Copy)]
pub(crate) struct Since(Option<u64>);

impl Since {
    /// A request comes now, to a layer above this stack.
    pub(crate) fn now(below: &Stack) -> Since {
        let Some(stall) = below.stall() else { return Since(Some(0)) };
        Since(Some(stall.begun()).filter(|_| !stall.is_on()))
    }

    /// Fails unless the client may still be waiting. One that was told that the backing does not answer
    /// must not find its change done later (C8), over what it has sent since (C10).
    pub(crate) fn still_wanted(self, below: &Stack) -> Result {
        match below.stall() {
            Some(stall) if stall.is_on() || Some(stall.begun()) != self.0 => Err(stall.error()),
            _ => Ok(()),
        }
    }
}
