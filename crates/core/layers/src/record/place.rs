//! A position in a stack where a recorder is switched on and off while the stack serves.

use super::{Recorder, RecorderShared};
use alloc::rc::Rc;
use alloc::sync::Arc;
use block::{Layer, Padding, Request, Result, Stack};
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::Lock;

/// The part of such a position that all lanes share. At first no recorder is on.
#[derive(Default)]
pub struct RecorderSwitch {
    /// Counts the switches, so that a lane notices one by a load.
    switches: AtomicU64,
    recorder: Lock<Option<Arc<RecorderShared>>>,
}

impl RecorderSwitch {
    /// A position without a recorder.
    pub fn new() -> Arc<RecorderSwitch> {
        Arc::default()
    }

    /// Records requests that arrive from now on. Switches off a recorder that was on before.
    pub fn switch_on(&self, recorder: Arc<RecorderShared>) {
        self.switch(Some(recorder));
    }

    /// Stops recording. Requests in flight are still recorded when they are answered.
    pub fn switch_off(&self) {
        self.switch(None);
    }

    fn switch(&self, recorder: Option<Arc<RecorderShared>>) {
        // An operator's thread does this, not a task of a lane: no step of a task is counted.
        self.recorder.peek(|place| *place = recorder);
        self.switches.fetch_add(1, Ordering::Release);
    }
}

/// One lane's handle on such a position. Without a recorder it costs a load for each request.
pub struct Recordable {
    place: Arc<RecorderSwitch>,
    /// The switches that this lane has noticed.
    noticed: Cell<u64>,
    /// The recorder that is on, as this lane uses it.
    recorder: RefCell<Option<Rc<Recorder>>>,
    below: Stack,
}

impl Recordable {
    /// Creates one lane's handle, in front of `below`.
    pub fn attach(place: &Arc<RecorderSwitch>, below: Stack) -> Recordable {
        let (place, noticed) = (place.clone(), Cell::new(0));
        Recordable { place, noticed, recorder: RefCell::default(), below }
    }

    /// The recorder that is on.
    #[inline]
    fn recorder(&self) -> Option<Rc<Recorder>> {
        if self.place.switches.load(Ordering::Acquire) != self.noticed.get() {
            self.notice();
        }
        self.recorder.borrow().clone()
    }

    #[cold]
    fn notice(&self) {
        // Before the recorder is read: the next request notices a later switch.
        self.noticed.set(self.place.switches.load(Ordering::Acquire));
        let shared = self.place.recorder.peek(|place| place.clone());
        let recorder = |shared| Rc::new(Recorder::attach(&shared, self.below.clone()));
        *self.recorder.borrow_mut() = shared.map(recorder);
    }
}

impl Layer for Recordable {
    fn below(&self) -> &Stack {
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
