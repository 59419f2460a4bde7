//! A place in a stack where a recorder is switched on and off while it serves.

use super::RecorderShared;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::Lock;

/// The half of such a place that all lanes share. It begins empty.
#[derive(Default)]
pub struct RecorderPlace {
    /// Counts the switches, so that a lane notices one by a load.
    switches: AtomicU64,
    recorder: Lock<Option<Arc<RecorderShared>>>,
}

impl RecorderPlace {
    /// Records requests that arrive from now on, in place of a recorder that was on before.
    pub fn switch_on(&self, recorder: Arc<RecorderShared>) {
        self.switch(Some(recorder));
    }

    /// Records no more. Requests under way are still recorded when they are answered.
    pub fn switch_off(&self) {
        self.switch(None);
    }

    fn switch(&self, recorder: Option<Arc<RecorderShared>>) {
        // Not a step of a task: an operator's, beside what lanes do.
        self.recorder.peek(|place| *place = recorder);
        self.switches.fetch_add(1, Ordering::Release);
    }
}

/// One lane's handle on a place for a recorder. Empty, it costs a load for each request.
#[derive(Default)]
pub(crate) struct LaneRecorder {
    /// The switches that this lane has noticed.
    noticed: Cell<u64>,
    /// The recorder that is on.
    recorder: RefCell<Option<Arc<RecorderShared>>>,
}

impl LaneRecorder {
    /// Returns the recorder that is on in `place`, always the same place.
    #[inline]
    pub(crate) fn current(&self, place: &RecorderPlace) -> Option<Arc<RecorderShared>> {
        if place.switches.load(Ordering::Acquire) != self.noticed.get() {
            self.notice(place);
        }
        self.recorder.borrow().clone()
    }

    #[cold]
    fn notice(&self, place: &RecorderPlace) {
        // Before the look: a switch after it is noticed by the next request.
        self.noticed.set(place.switches.load(Ordering::Acquire));
        *self.recorder.borrow_mut() = place.recorder.peek(|recorder| recorder.clone());
    }
}
