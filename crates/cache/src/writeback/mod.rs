//! Writing dirty blocks out: workers carry runs, commits make epochs durable, the flusher begins them in time.

pub(crate) mod commit;
pub(crate) mod estimator;
pub(crate) mod flusher;
pub(crate) mod tasks;
pub(crate) mod worker;

use crate::dirty::gauges::Gauges;
use crate::shard::Admit;
use crate::writeback::estimator::Estimator;
use lane::Event;
use lane::atomic::Ordering;

/// What the lanes share of the write-out.
pub(crate) struct Writeback {
    /// The workers may find work.
    pub(crate) work: Event,
    /// The flusher should look at the levels.
    pub(crate) kick: Event,
    pub(crate) estimator: Estimator,
}

impl Writeback {
    pub(crate) fn new() -> Writeback {
        Writeback { work: Event::new(), kick: Event::new(), estimator: Estimator::default() }
    }

    /// Wakes the flusher if enough has gathered.
    pub(crate) fn start_if(&self, gauges: &Gauges, admit: Admit) {
        // While the workers write out early, it is the one to say that the flusher should look. It may also have
        // found nothing that it may write, and be at rest: zeros are pending there since.
        let first = || !gauges.early.load(Ordering::SeqCst) || self.estimator.in_flight() == 0;
        if matches!(admit, Admit::Absorbed { start: true, .. }) && first() {
            self.kick.notify();
        }
    }
}
