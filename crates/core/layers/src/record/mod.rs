//! The layer `record`: records each request with its time and its result.

mod ring;
mod switch;

pub(crate) use switch::LaneRecorder;
pub use switch::RecorderSwitch;

use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Kind, Layer, Padding, Request, Result, Stack};
use lane::Lane;
use ring::Ring;
use trace::{Event, Operation};

/// The part of a recorder that all lanes share.
pub struct RecorderShared {
    ring: Ring,
    /// Number of the device in the events.
    device: u32,
}

/// The reader's end of a recorder. Each recorder has one.
pub struct Recording(Arc<RecorderShared>);

impl RecorderShared {
    /// Creates a recorder of the device with this number. It holds up to `events_max` events (at
    /// least one) until they are taken; further events are dropped and counted.
    pub fn new(device: u32, events_max: usize) -> (Arc<RecorderShared>, Recording) {
        let shared = Arc::new(RecorderShared { ring: Ring::new(events_max), device });
        (shared.clone(), Recording(shared))
    }

    /// Creates the event of a request that arrives now.
    #[inline]
    pub(crate) fn begin(&self, request: &Request, lane: &Lane) -> Event {
        let operation = match *request {
            Request::Read { .. } => Operation::Read,
            Request::Write { fua, .. } => Operation::Write { fua },
            Request::Flush => Operation::Flush,
            Request::Discard { .. } => Operation::Discard,
            Request::Zero { fua, may_unmap, .. } => Operation::Zero { fua, may_unmap },
            Request::Advise { .. } => Operation::Advise,
        };
        let (first, sectors) = request.extent().map_or((0, 0), |at| (at.first, at.count));
        let (time_ns, device) = (lane.now(), self.device);
        Event { time_ns, took_ns: None, operation, device, first, sectors, failed: None }
    }

    /// Records that the request is answered now. Neither waits nor allocates nor enters a section:
    /// it may run in `try_now`, next to the section of the device below.
    ///
    /// A request that was withdrawn because its server stops is not recorded: it has no answer, and
    /// its client sends it to the next server.
    #[inline]
    pub(crate) fn end(&self, event: Event, result: Result, lane: &Lane) {
        if result.is_err_and(|error| error.kind == Kind::Stopping) {
            return;
        }
        let took_ns = Some(lane.now() - event.time_ns);
        let failed = result.err().map(|error| error.errno);
        self.ring.push(Event { took_ns, failed, ..event }.to_words());
    }
}

impl Recording {
    /// Moves the recorded events to `into`, in the order of the answers. Returns the number of
    /// events dropped since the last call.
    pub fn take(&mut self, into: &mut Vec<Event>) -> u64 {
        self.take_up_to(usize::MAX, into)
    }

    /// Moves at most this number of recorded events to `into`, the oldest first. Returns the number
    /// of events dropped since the last call.
    pub fn take_up_to(&mut self, events_max: usize, into: &mut Vec<Event>) -> u64 {
        // A ring has only one `Recording`, which this call borrows mutably.
        let words = core::iter::from_fn(|| self.0.ring.pop()).take(events_max);
        into.extend(words.filter_map(Event::from_words));
        self.0.ring.take_dropped()
    }
}

/// One lane's handle on a recorder, or on a switch for one. It forwards requests unchanged. For a
/// part of a block it records the whole block.
pub struct Recorder {
    recorder: LaneRecorder,
    below: Stack,
}

impl Recorder {
    /// Creates one lane's handle on a recorder that is always on, in front of `below`.
    pub fn attach(shared: &Arc<RecorderShared>, below: Stack) -> Recorder {
        let switch = Arc::new(RecorderSwitch::default());
        switch.switch_on(shared.clone());
        Recorder::attach_switch(&switch, below)
    }

    /// Creates one lane's handle on a switch, in front of `below`.
    pub fn attach_switch(switch: &Arc<RecorderSwitch>, below: Stack) -> Recorder {
        Recorder { recorder: LaneRecorder::new(switch), below }
    }
}

impl Layer for Recorder {
    fn lower(&self) -> &Stack {
        &self.below
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        let answer = || self.below.try_now(request);
        match self.recorder.is_on() {
            true => self.recorder.record_now(request, self.below.lane(), answer),
            false => answer(),
        }
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let begun = self.recorder.begin(&request, self.below.lane());
        let result = self.below.serve(request, padding).await;
        if let Some(begun) = begun {
            begun.end(result, self.below.lane());
        }
        result
    }
}
