//! The state of writeback that the lanes share: events, measurements, and the list of tasks. The
//! tasks themselves are in `tasks/`.

pub(crate) mod estimator;
pub(crate) mod tasks;

use crate::dirty::gauges::Gauges;
use crate::shard::Admit;
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

    /// Wakes the flusher if enough blocks are dirty, or leaves that to the workers.
    pub(crate) fn start_if(&self, gauges: &Gauges, admit: Admit) {
        if !matches!(admit, Admit::Absorbed { start: true, .. }) {
            return;
        }
        // During early writeback, the workers notify the flusher. But they may be idle, because
        // zeros that are pending now forbid early writeback. Either this check sees that, or the
        // last worker sees the flag.
        if gauges.is_early() {
            self.left_to_workers.store(true, Ordering::SeqCst);
            if self.estimator.in_flight() > 0 {
                return;
            }
        }
        self.kick.notify();
    }

    /// Returns true, once, if a worker that has found no work must notify the flusher.
    pub(crate) fn take_left_to_workers(&self) -> bool {
        self.estimator.in_flight() == 0
            && self.left_to_workers.swap(false, Ordering::SeqCst)
            && !lane::planted::planted(Race::SleepUnasked)
    }
}
