//! The state of writeback that the lanes share: events, measurements, and the list of tasks. The
//! tasks themselves are in `tasks/`.

pub(crate) mod estimator;
pub(crate) mod tasks;

use crate::writeback::estimator::Estimator;
use lane::Event;
use lane::atomic::{AtomicBool, Ordering};
use lane::planted::Race;

/// The state of writeback that the lanes share.
pub(crate) struct Writeback {
    /// Notified when the workers may find work.
    pub(crate) work: Event,
    /// Notified when the flusher should check the levels.
    pub(crate) kick: Event,
    pub(crate) estimator: Estimator,
    /// A change arrived during early writeback: the last of the workers notifies the flusher.
    left_to_workers: AtomicBool,
}

impl Writeback {
    pub(crate) fn new() -> Writeback {
        Writeback {
            work: Event::new(),
            kick: Event::new(),
            estimator: Estimator::default(),
            left_to_workers: AtomicBool::new(false),
        }
    }

    /// Leaves it to the workers to notify the flusher. Returns false if they are idle: they may
    /// have found nothing that they may write, because zeros are pending since. Either this check
    /// sees that, or the last worker sees the flag.
    pub(crate) fn leave_to_workers(&self) -> bool {
        self.left_to_workers.store(true, Ordering::SeqCst);
        self.estimator.in_flight() > 0
    }

    /// Returns true, once, if a worker that has found no work must notify the flusher.
    pub(crate) fn take_left_to_workers(&self) -> bool {
        self.estimator.in_flight() == 0
            && self.left_to_workers.swap(false, Ordering::SeqCst)
            && !lane::planted::planted(Race::SleepUnasked)
    }
}
