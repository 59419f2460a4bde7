//! What the lanes share of writeback: events, measurements, and which tasks there are. The tasks
//! themselves are in `tasks/`.

pub(crate) mod estimator;
pub(crate) mod tasks;

use crate::dirty::gauges::Gauges;
use crate::shard::Admit;
use crate::writeback::estimator::Estimator;
use lane::Event;
use lane::atomic::{AtomicBool, Ordering};
use lane::planted::Race;

/// What the lanes share of the write-out.
pub(crate) struct Writeback {
    /// The workers may find work.
    pub(crate) work: Event,
    /// The flusher should look at the levels.
    pub(crate) kick: Event,
    pub(crate) estimator: Estimator,
    /// Something came while workers wrote out early: the last of them tells the flusher to look.
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

    /// Wakes the flusher if enough has gathered, or leaves that to the workers.
    pub(crate) fn start_if(&self, gauges: &Gauges, admit: Admit) {
        if !matches!(admit, Admit::Absorbed { start: true, .. }) {
            return;
        }
        // While the workers write out early, they are the ones to say that the flusher should look.
        // They may also have found nothing that they may write, and be at rest: zeros are pending
        // there since. Either we see that, or the last of them sees what it was left.
        if gauges.is_early() {
            self.left_to_workers.store(true, Ordering::SeqCst);
            if self.estimator.in_flight() > 0 {
                return;
            }
        }
        self.kick.notify();
    }

    /// A worker has found nothing, and rests. Whether it must tell the flusher to look.
    pub(crate) fn is_left_to_workers(&self) -> bool {
        self.estimator.in_flight() == 0
            && self.left_to_workers.swap(false, Ordering::SeqCst)
            && !lane::planted::planted(Race::SleepUnasked)
    }
}
