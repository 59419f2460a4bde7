//! The fixed tasks of a volume: on each lane its workers, the readahead tasks, a compressor and a
//! relay; on one lane also the flusher and the watchdog.

use lane::Event;
use lane::atomic::{AtomicBool, AtomicU32, Ordering};

/// Additional tasks of a lane: the compressor and the relay, and on one lane the flusher and the
/// watchdog.
const BESIDE: u32 = 4;

/// Returns the maximum number of tasks of a lane with this number of workers and readers.
pub(crate) fn tasks_a_lane(workers: u32, readers: u32) -> usize {
    (workers + readers + BESIDE) as usize
}

/// The tasks of a volume, and whether they must end.
pub(crate) struct Tasks {
    /// Lanes that have joined: each has its workers.
    lanes: AtomicU32,
    flusher_started: AtomicBool,
    stopping: AtomicBool,
    /// Wakes the watchdog and the lanes' relays when the volume stops.
    pub(crate) ended: Event,
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks {
            lanes: AtomicU32::new(0),
            flusher_started: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            ended: Event::new(),
        }
    }

    /// Adds a lane. Returns true if it is the first, which also has the flusher and the watchdog.
    pub(crate) fn join(&self) -> bool {
        self.lanes.fetch_add(1, Ordering::SeqCst);
        !self.flusher_started.swap(true, Ordering::SeqCst)
    }

    /// Returns the number of lanes that have joined.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes.load(Ordering::SeqCst)
    }

    /// Makes every task end at its next check.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn are_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}
