//! The state of an export that is written, which all lanes share.

use super::Agreed;
use super::ferry::Ferry;
use super::remote_limits::limits;
use super::waits::{WaitReport, Waiting, Waits};
use crate::fence::{Fence, SETTLE_NS};
use lane::{Event, Lock};
use std::fmt;
use std::sync::Arc;

/// The fence of an export, and the lane that carries its changes.
pub struct Writing {
    fence: Lock<Fence>,
    /// The result of handshakes for the connection of changes and the anchor.
    agreed: Agreed,
    /// Notified after each answer to a change.
    answered: Event,
    waits: Waits,
    /// The seats of the lane that carries changes.
    carrier: Lock<Option<Arc<Ferry>>>,
}

impl fmt::Debug for Writing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Writing").field("agreed", &self.agreed).finish_non_exhaustive()
    }
}

impl Writing {
    /// Creates the state of an export, whose server agrees to this without structured replies.
    pub fn new(mut fence: Fence, agreed: Agreed) -> Arc<Writing> {
        if !limits(&agreed).flush_needed {
            fence.needs_no_flush();
        }
        Arc::new(Writing {
            fence: Lock::new(fence),
            agreed,
            answered: Event::new(),
            waits: Waits::default(),
            carrier: Lock::new(None),
        })
    }

    /// Runs a decision on the fence.
    pub fn fence<R>(&self, decide: impl FnOnce(&mut Fence) -> R) -> R {
        self.fence.with(decide)
    }

    /// Runs a short look at the fence, or a change of it outside a lane's tasks.
    pub fn peek<R>(&self, look: impl FnOnce(&mut Fence) -> R) -> R {
        self.fence.peek(look)
    }

    /// Returns the seats of the lane that carries changes. Err: there is none yet, so that the
    /// caller's lane is to carry them, with these seats.
    pub(super) fn board(&self) -> std::result::Result<Arc<Ferry>, Arc<Ferry>> {
        self.carrier.with(|carrier| match carrier {
            Some(ferry) => Ok(ferry.clone()),
            None => Err(carrier.insert(Ferry::new()).clone()),
        })
    }

    /// Frees the place of the lane that carries changes.
    pub(super) fn disembark(&self) {
        self.carrier.peek(|carrier| *carrier = None);
    }

    /// Returns the result of handshakes for the connection of changes and the anchor.
    pub(super) fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Returns the event of an answer to a change.
    pub(super) fn answered(&self) -> &Event {
        &self.answered
    }

    /// Notes a change or a flush that is not answered, until the result is dropped. `number`: a
    /// number of [`Fence::request`].
    pub(super) fn wait(&self, number: u64, now_ns: u64) -> Waiting<'_> {
        self.waits.begin(number, now_ns)
    }

    /// Describes the changes and flushes that are not answered.
    pub fn waits(&self) -> WaitReport {
        self.waits.report()
    }

    /// Returns the longest time for which a present change is held.
    pub(super) fn held_ns(&self) -> u64 {
        match self.waits().held {
            0 => 0,
            _ => SETTLE_NS,
        }
    }
}
