//! The layer `record`: notes each request with its time and its result.

mod place;
mod ring;

pub use place::{Recordable, RecorderPlace};

use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Layer, Padding, Request, Result, Stack};
use ring::Ring;
use trace::{Event, Operation};

/// The half of a recorder that all lanes share.
pub struct RecorderShared {
    ring: Ring,
    /// The number of the device in what is recorded.
    device: u32,
}

/// Where what was recorded is taken out. There is one for each recorder.
pub struct Recording(Arc<RecorderShared>);

impl RecorderShared {
    /// A recorder of the device with this number. It holds so many events (at least one) until they are taken out;
    /// what comes beyond that is dropped and counted.
    pub fn new(device: u32, events_max: usize) -> (Arc<RecorderShared>, Recording) {
        let shared = Arc::new(RecorderShared { ring: Ring::new(events_max), device });
        (shared.clone(), Recording(shared))
    }
}

impl Recording {
    /// Takes out what was recorded, in the order of the answers. Returns how many events were dropped since the last
    /// call.
    pub fn take(&mut self, into: &mut Vec<Event>) -> u64 {
        // There is one `Recording` for a ring, and this borrows it.
        let words = core::iter::from_fn(|| self.0.ring.pop());
        into.extend(words.filter_map(Event::from_words));
        self.0.ring.take_dropped()
    }
}

/// One lane's handle on a recorder. It changes nothing of what it passes on. Of a part of a block it notes the whole
/// block.
pub struct Recorder {
    shared: Arc<RecorderShared>,
    below: Stack,
}

impl Recorder {
    /// The recorder as one lane sees it, in front of `below`.
    pub fn attach(shared: &Arc<RecorderShared>, below: Stack) -> Recorder {
        Recorder { shared: shared.clone(), below }
    }

    /// A request that comes now.
    #[inline]
    fn seen(&self, request: &Request) -> Event {
        let operation = match *request {
            Request::Read { .. } => Operation::Read,
            Request::Write { fua, .. } => Operation::Write { fua },
            Request::Flush => Operation::Flush,
            Request::Discard { .. } => Operation::Discard,
            Request::Zero { fua, may_unmap, .. } => Operation::Zero { fua, may_unmap },
            Request::Advise { .. } => Operation::Advise,
        };
        let (first, sectors) = request.extent().map_or((0, 0), |at| (at.first, at.count));
        let (time_ns, device) = (self.below.lane().now(), self.shared.device);
        Event { time_ns, took_ns: None, operation, device, first, sectors, failed: None }
    }

    /// It is answered now. Neither waits nor allocates nor enters a section: this may stand in `try_now`, beside the
    /// section of what is below.
    #[inline]
    fn answered(&self, event: Event, result: Result) {
        let took_ns = Some(self.below.lane().now() - event.time_ns);
        let failed = result.err().map(|error| error.errno);
        self.shared.ring.push(Event { took_ns, failed, ..event }.to_words());
    }
}

impl Layer for Recorder {
    fn below(&self) -> &Stack {
        &self.below
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        let event = self.seen(request);
        let result = self.below.try_now(request)?;
        self.answered(event, result);
        Some(result)
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let event = self.seen(&request);
        let result = self.below.serve(request, padding).await;
        self.answered(event, result);
        result
    }
}
