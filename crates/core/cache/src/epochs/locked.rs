//! The epochs of a volume under their lock, with their events.

use super::Epochs;
use lane::atomic::{AtomicU32, Ordering};
use lane::{Event, Lock};

/// The epochs, shared by all lanes.
pub(crate) struct LockedEpochs {
    epochs: Lock<Epochs>,
    /// Notified when a task that waits for an epoch may have another next step: a walk, a commit or
    /// a release has ended, the closing epoch is completely written, or the volume has failed.
    pub(crate) changed: Event,
    /// Notified when an epoch has been closed or become durable, or when early written blocks have
    /// become durable: there may be room. Separate from the shards' events: many tasks may wait for
    /// this one, and every run that ends notifies those.
    pub(crate) freed: Event,
    /// The number of clients that wait for a flush.
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

    /// Runs one section: see [`Lock::with`].
    pub(crate) fn with<R>(&self, decide: impl FnOnce(&mut Epochs) -> R) -> R {
        self.epochs.with(decide)
    }

    /// Runs a section that is not counted: see [`Lock::peek`].
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&mut Epochs) -> R) -> R {
        self.epochs.peek(look)
    }

    /// Counts a client that begins to wait for a flush; to be followed by
    /// [`LockedEpochs::flush_ends`].
    pub(crate) fn flush_begins(&self) {
        self.flush_waiters.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the wait of a client whose flush was answered.
    pub(crate) fn flush_ends(&self) {
        self.flush_waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a client waits for a flush.
    pub(crate) fn is_flush_awaited(&self) -> bool {
        self.flush_waiters.load(Ordering::SeqCst) > 0
    }
}
