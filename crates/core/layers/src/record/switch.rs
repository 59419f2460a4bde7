//! A place in a stack where a recorder is switched on and off while it serves.

use super::{Recorder, RecorderShared};
use alloc::rc::Rc;
use alloc::sync::Arc;
use block::{Layer, Padding, Request, Result, Stack};
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::Lock;

/// The half of such a place that all lanes share. It begins empty.
#[derive(Default)]
pub struct RecorderSwitch {
    /// Counts the switches, so that a lane notices one by a load.
    switches: AtomicU64,
    recorder: Lock<Option<Arc<RecorderShared>>>,
}

impl RecorderSwitch {
    /// An empty place.
    pub fn new() -> Arc<RecorderSwitch> {
        Arc::default()
    }

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
        self.recorder.peek(|switch| *switch = recorder);
        self.switches.fetch_add(1, Ordering::Release);
    }
}

/// One lane's handle on a place for a recorder. Empty, it costs a load for each request.
pub struct Recordable {
    switch: Arc<RecorderSwitch>,
    /// The switches that this lane has noticed.
    noticed: Cell<u64>,
    /// The recorder that is on, as this lane uses it.
    recorder: RefCell<Option<Rc<Recorder>>>,
    below: Stack,
}

impl Recordable {
    /// The place as one lane sees it, in front of `below`.
    pub fn attach(switch: &Arc<RecorderSwitch>, below: Stack) -> Recordable {
        let (switch, noticed) = (switch.clone(), Cell::new(0));
        Recordable { switch, noticed, recorder: RefCell::default(), below }
    }

    /// The recorder that is on.
    #[inline]
    fn recorder(&self) -> Option<Rc<Recorder>> {
        if self.switch.switches.load(Ordering::Acquire) != self.noticed.get() {
            self.notice();
        }
        self.recorder.borrow().clone()
    }

    #[cold]
    fn notice(&self) {
        // Before the look: a switch after it is noticed by the next request.
        self.noticed.set(self.switch.switches.load(Ordering::Acquire));
        let shared = self.switch.recorder.peek(|switch| switch.clone());
        let recorder = |shared| Rc::new(Recorder::attach(&shared, self.below.clone()));
        *self.recorder.borrow_mut() = shared.map(recorder);
    }
}

impl Layer for Recordable {
    fn lower(&self) -> &Stack {
        &self.below
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        match self.recorder() {
            None => self.below.try_now(request),
            Some(recorder) => Layer::try_now(&*recorder, request),
        }
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        match self.recorder() {
            None => self.below.serve(request, padding).await,
            Some(recorder) => Layer::serve(&*recorder, request, padding).await,
        }
    }
}
