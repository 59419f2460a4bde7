//! The epochs of a volume under their lock, and what is waited for beside them.

use super::Epochs;
use lane::atomic::{AtomicU32, Ordering};
use lane::{Event, Lock};

/// The epochs, as all lanes share them.
pub(crate) struct LockedEpochs {
    epochs: Lock<Epochs>,
    /// An epoch has become durable, everything of the closing one is written, or the volume has
    /// failed.
    pub(crate) changed: Event,
    /// An epoch has been closed or become durable, or what was written early has: there may be
    /// room. Apart from the shards' own events: many may wait for this, and every run that ends
    /// rings those.
    pub(crate) freed: Event,
    /// Clients that wait for a flush.
    flush_waiters: AtomicU32,
}

impl LockedEpochs {
    pub(crate) fn new(epochs: Epochs) -> LockedEpochs {
        LockedEpochs {
            epochs: Lock::new(epochs),
            changed: Event::new(),
            freed: Event::new(),
            flush_waiters: AtomicU32::new(0),
        }
    }

    /// One section: see [`Lock::with`].
    pub(crate) fn with<R>(&self, decide: impl FnOnce(&mut Epochs) -> R) -> R {
        self.epochs.with(decide)
    }

    /// A section that is not counted: see [`Lock::peek`].
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&mut Epochs) -> R) -> R {
        self.epochs.peek(look)
    }

    /// A client begins to wait for a flush; to be followed by [`LockedEpochs::flush_ends`].
    pub(crate) fn flush_begins(&self) {
        self.flush_waiters.fetch_add(1, Ordering::SeqCst);
    }

    /// It has been answered.
    pub(crate) fn flush_ends(&self) {
        self.flush_waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a client waits for a flush.
    pub(crate) fn is_flush_awaited(&self) -> bool {
        self.flush_waiters.load(Ordering::SeqCst) > 0
    }
}
