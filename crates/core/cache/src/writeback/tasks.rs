//! The fixed tasks of a volume: on each lane its workers, what reads ahead, and a relay, on one of
//! them the flusher and the watchdog.

use lane::Event;
use lane::atomic::{AtomicBool, AtomicU32, Ordering};

/// Tasks of a lane beside those: the relay, and on one lane the flusher and the watchdog.
const BESIDE: u32 = 3;

/// The most tasks of a lane that has so many workers and readers.
pub(crate) fn tasks_a_lane(workers: u32, readers: u32) -> usize {
    (workers + readers + BESIDE) as usize
}

/// Which tasks there are, and whether they are to end.
pub(crate) struct Tasks {
    /// Lanes that have joined: each has its workers.
    lanes: AtomicU32,
    flusher_started: AtomicBool,
    stopping: AtomicBool,
    /// What the watchdog and the lanes' relays wait beside: the volume stops.
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

    /// A lane joins. True: it is the first, and has the flusher and the watchdog, too.
    pub(crate) fn join(&self) -> bool {
        self.lanes.fetch_add(1, Ordering::SeqCst);
        !self.flusher_started.swap(true, Ordering::SeqCst)
    }

    /// Lanes that have joined.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes.load(Ordering::SeqCst)
    }

    /// From now on every task ends when it looks up.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub(crate) fn are_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}
