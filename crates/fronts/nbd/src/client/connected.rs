//! The number of connections that have not ended.

use lane::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The number of a link's connections on all lanes.
#[derive(Debug, Default)]
pub(super) struct Connections(Arc<AtomicUsize>);

impl Connections {
    /// Counts a connection, until the result is dropped.
    pub(super) fn count(&self) -> Connected {
        self.0.fetch_add(1, Ordering::SeqCst);
        Connected(self.0.clone())
    }

    /// Whether there is one.
    pub(super) fn are_there(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// A connection that has not ended.
pub(super) struct Connected(Arc<AtomicUsize>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
