//! A switch in a stack where a recorder is switched on and off while it serves.

use super::RecorderShared;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::Lock;

/// The half of such a switch that all lanes share. It begins empty.
#[derive(Default)]
pub struct RecorderSwitch {
    /// Counts the switches, so that a lane notices one by a load.
    switches: AtomicU64,
    recorder: Lock<Option<Arc<RecorderShared>>>,
}

impl RecorderSwitch {
    /// Records requests that arrive from now on, in switch of a recorder that was on before.
    pub fn switch_on(&self, recorder: Arc<RecorderShared>) {
        self.switch(Some(recorder));
    }

    /// Records no more. Requests under way are still recorded when they are answered.
    pub fn switch_off(&self) {
        self.switch(None);
    }

    fn switch(&self, recorder: Option<Arc<RecorderShared>>) {
        // Not a step of a task: an operator's, beside what lanes do.
        self.recorder.peek(|current| *current = recorder);
        self.switches.fetch_add(1, Ordering::Release);
    }
}

/// One lane's handle on a switch for a recorder. Empty, it costs a load for each request.
#[derive(Default)]
pub(crate) struct LaneRecorder {
    /// The switches that this lane has noticed.
    noticed: Cell<u64>,
    /// The recorder that is on.
    recorder: RefCell<Option<Arc<RecorderShared>>>,
}

impl LaneRecorder {
    /// Returns the recorder that is on; `switch` is always the same.
    #[inline]
    pub(crate) fn current(&self, switch: &RecorderSwitch) -> Option<Arc<RecorderShared>> {
        if switch.switches.load(Ordering::Acquire) != self.noticed.get() {
            self.notice(switch);
        }
        self.recorder.borrow().clone()
    }

    #[cold]
    fn notice(&self, switch: &RecorderSwitch) {
        // Before the look: a switch after it is noticed by the next request.
        self.noticed.set(switch.switches.load(Ordering::Acquire));
        *self.recorder.borrow_mut() = switch.recorder.peek(|recorder| recorder.clone());
    }
}
