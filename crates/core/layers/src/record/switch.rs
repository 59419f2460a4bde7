//! A switch in a stack where a recorder is switched on and off while it serves.

use super::RecorderShared;
use alloc::sync::Arc;
use block::{Request, Result};
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::{Lane, Lock};
use trace::Event;

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

    /// Whether a recorder is on.
    pub fn is_on(&self) -> bool {
        self.recorder.peek(|current| current.is_some())
    }

    fn switch(&self, recorder: Option<Arc<RecorderShared>>) {
        // Not a step of a task: an operator's, beside what lanes do.
        self.recorder.peek(|current| *current = recorder);
        self.switches.fetch_add(1, Ordering::Release);
    }
}

/// One lane's handle on a switch for a recorder. Empty, it costs a load for each request.
pub(crate) struct LaneRecorder {
    switch: Arc<RecorderSwitch>,
    /// The switches that this lane has noticed.
    noticed: Cell<u64>,
    /// Whether a recorder is on.
    is_on: Cell<bool>,
    /// The recorder that is on.
    recorder: RefCell<Option<Arc<RecorderShared>>>,
}

/// A request that is being recorded, until its answer.
pub(crate) struct Begun {
    event: Event,
    recorder: Arc<RecorderShared>,
}

impl LaneRecorder {
    pub(crate) fn new(switch: &Arc<RecorderSwitch>) -> LaneRecorder {
        LaneRecorder {
            switch: switch.clone(),
            noticed: Cell::new(0),
            is_on: Cell::new(false),
            recorder: RefCell::new(None),
        }
    }

    /// Whether a recorder is on, as of now.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        if self.switch.switches.load(Ordering::Acquire) != self.noticed.get() {
            self.notice();
        }
        self.is_on.get()
    }

    #[cold]
    fn notice(&self) {
        // Before the look: a switch after it is noticed by the next request.
        self.noticed.set(self.switch.switches.load(Ordering::Acquire));
        let recorder = self.switch.recorder.peek(|recorder| recorder.clone());
        self.is_on.set(recorder.is_some());
        *self.recorder.borrow_mut() = recorder;
    }

    /// Records a request that may be answered immediately. Its arrival and its answer have the
    /// same time: the clock of a lane does not advance within a step.
    pub(crate) fn record_now(
        &self,
        request: &Request,
        lane: &Lane,
        answer: impl FnOnce() -> Option<Result>,
    ) -> Option<Result> {
        let result = answer()?;
        if let Some(recorder) = &*self.recorder.borrow() {
            recorder.end(recorder.begin(request, lane), result, lane);
        }
        Some(result)
    }

    /// Begins to record a request that arrives now. None: no recorder is on.
    pub(crate) fn begin(&self, request: &Request, lane: &Lane) -> Option<Begun> {
        if !self.is_on() {
            return None;
        }
        let recorder = self.recorder.borrow().clone()?;
        Some(Begun { event: recorder.begin(request, lane), recorder })
    }
}

impl Begun {
    /// Records that the request is answered now.
    pub(crate) fn end(self, result: Result, lane: &Lane) {
        self.recorder.end(self.event, result, lane);
    }
}
