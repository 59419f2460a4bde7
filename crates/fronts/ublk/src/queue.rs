//! One queue of a device, on its lane.

use crate::codec::{DESCRIPTOR_BYTES, Descriptor, RequestKind, errno_of};
use block::{Buf, Error, Extent, Kind, Padding, Request, Result, SECTOR};
use export::{Bounds, Budget, Buffer, Client, Export, Stop};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Requests per queue at a time.
pub const TAGS: u16 = 128;
/// Maximum size of a read or write, in bytes. Each tag has a buffer of this size.
pub const IO_BYTES_MAX: u32 = 128 << 10;

/// Whether no more requests come: the device or its server stops (ENODEV, ECANCELED).
fn is_over(result: i64) -> bool {
    result < 0
}

/// A queue's connection to the driver.
pub trait Fetch {
    /// Waits for the first request of this tag, whose data is then in the buffer. Returns 0 or a
    /// negative errno.
    fn fetch(&self, tag: u16, buffer: &Buf) -> impl Future<Output = i64>;

    /// Answers the request of this tag, and waits for the next one. The data of a read is taken
    /// from the buffer immediately.
    fn answer(&self, tag: u16, result: i32, buffer: &Buf) -> impl Future<Output = i64>;

    /// Answers the request of this tag without waiting for another.
    fn answer_last(&self, tag: u16, result: i32, buffer: &Buf);

    /// The driver's descriptor of this tag's request.
    fn descriptor(&self, tag: u16) -> [u8; DESCRIPTOR_BYTES];
}

/// Settings of a queue.
pub struct QueuePlan<'a> {
    /// The volume, on the lane of the queue.
    pub export: &'a Export,
    /// Maximum size of a read or write of the device, in bytes.
    pub io_bytes_max: u32,
    /// Requests at a time.
    pub tags: u16,
    /// Limits on the requests in flight of all fronts together.
    pub budget: &'a Arc<Budget>,
    /// Ends the front.
    pub stop: &'a Arc<Stop>,
}

/// A queue, and the client that serves its requests.
pub struct Queue<F> {
    driver: F,
    client: Client,
    stop: Arc<Stop>,
    io_bytes_max: u32,
}

/// The request is left to the next server.
struct LeftToNextServer;

impl<F: Fetch> Queue<F> {
    /// Creates a queue of this driver, which is not served yet.
    pub fn new(driver: F, plan: &QueuePlan<'_>) -> Rc<Queue<F>> {
        let QueuePlan { export, io_bytes_max, tags, budget, stop } = *plan;
        let bounds = Bounds {
            in_flight_max: usize::from(tags),
            // The tags' buffers are the only ones.
            in_flight_bytes_max: usize::MAX,
            budget: budget.clone(),
        };
        let client = Client::new(export, export.limits(io_bytes_max), stop, bounds);
        Rc::new(Queue { driver, client, stop: stop.clone(), io_bytes_max })
    }

    /// The connection to the driver.
    pub fn driver(&self) -> &F {
        &self.driver
    }

    /// Waits until the end of the queue is requested.
    pub async fn stopping(&self) {
        lane::first(self.stop.wait(), self.client.stop().wait()).await;
    }

    fn is_stopping(&self) -> bool {
        self.stop.is_asked() || self.client.stop().is_asked()
    }

    /// Serves one tag until no more requests come.
    pub async fn serve(self: Rc<Self>, tag: u16) {
        let mut buffer = Buffer::preallocated(self.io_bytes_max as usize);
        let mut fetched = self.driver.fetch(tag, &self.window(&buffer)).await;
        while !is_over(fetched) && !self.is_stopping() {
            let Ok(result) = self.carry_out(tag, &buffer).await else { return };
            if !buffer.is_free() {
                buffer = another(&buffer, self.io_bytes_max as usize);
            }
            if self.is_stopping() {
                return self.driver.answer_last(tag, result, &self.window(&buffer));
            }
            fetched = self.driver.answer(tag, result, &self.window(&buffer)).await;
        }
    }

    fn window(&self, buffer: &Buffer) -> Buf {
        buffer.sectors(self.io_bytes_max / SECTOR as u32)
    }

    /// Serves the request of a tag. Returns the result for the driver.
    async fn carry_out(
        &self,
        tag: u16,
        buffer: &Buffer,
    ) -> std::result::Result<i32, LeftToNextServer> {
        let bytes = self.driver.descriptor(tag);
        let Some(descriptor) = Descriptor::parse(&bytes) else {
            return Ok(-errno_of(Kind::Unsupported, false));
        };
        let done = match self.request_of(&descriptor, buffer) {
            Ok(request) => self.run(request, descriptor.fua).await,
            Err(error) => Err(error),
        };
        if self.client.is_for_next(done) {
            return Err(LeftToNextServer);
        }
        let is_change = !matches!(descriptor.kind, RequestKind::Read | RequestKind::Flush);
        Ok(match done {
            Ok(()) => descriptor.sectors.saturating_mul(SECTOR as u32).min(i32::MAX as u32) as i32,
            Err(error) => -errno_of(error.kind, is_change),
        })
    }

    fn request_of(&self, descriptor: &Descriptor, buffer: &Buffer) -> Result<Request> {
        let at = Extent::new(descriptor.first, descriptor.sectors);
        let data = || {
            let is_inside = at.count <= self.io_bytes_max / SECTOR as u32;
            let too_large = Error::new(Kind::Invalid, "take a request of this size");
            is_inside.then(|| buffer.sectors(at.count)).ok_or(too_large)
        };
        Ok(match descriptor.kind {
            RequestKind::Read => Request::Read { at, into: data()? },
            RequestKind::Write => Request::Write { at, from: data()?, fua: descriptor.fua },
            RequestKind::Flush => Request::Flush,
            RequestKind::Discard => Request::Discard { at },
            RequestKind::Zero { may_unmap } => Request::Zero { at, fua: descriptor.fua, may_unmap },
        })
    }

    async fn run(&self, request: Request, fua: bool) -> Result {
        self.client.limits().check(&request)?;
        let operation = self.client.operation(request, Padding::NONE, fua);
        self.client.note(&operation).await;
        if let Some(request) = operation.plain() {
            self.client.turn().await;
            if let Some(result) = self.client.ask(request) {
                return result;
            }
        }
        // The tag's buffer is used.
        self.client.admit(0, async || {}).await?;
        let result = self.client.run(operation).await;
        self.client.withdraw(None);
        result
    }
}

/// Returns a new buffer with the same contents, to replace one that a layer still references: that
/// layer must not see the next request's data. Only a request whose backing has stalled leaves such
/// a reference.
fn another(buffer: &Buffer, bytes: usize) -> Buffer {
    let fresh = Buffer::preallocated(bytes);
    buffer.memory().copy(0, fresh.memory(), 0, bytes);
    fresh
}
