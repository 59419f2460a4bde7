//! The state that the receiver, the sender and the requests of one connection share.

use crate::action::Features;
use crate::codec::*;
use crate::connection_limit::ConnectionLimit;
use crate::options::Options;
use crate::outbox::{HEADER_BYTES_MAX, Header, Outbox};
use crate::rest::Rest;
use crate::status;
use block::Wire;
use block::{Buf, Error, Extent, Padding, Result, SECTOR, Stretch};
use export::{Buffer, Client};
use lane::Event;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// A request that was admitted and not answered yet.
pub(crate) struct Pending {
    pub(crate) cookie: u64,
    pub(crate) reply_kind: ReplyKind,
    pub(crate) buffer: Option<Buffer>,
}

/// The contents of a reply if the request succeeds.
#[derive(Clone, Copy)]
pub(crate) enum ReplyKind {
    /// The data of this extent without the padding. The request's buffer then holds all of it.
    Data(Extent, Padding),
    /// The status of this extent without the padding; `one`: of its beginning.
    Status { at: Extent, padding: Padding, one: bool },
    /// No data.
    Done,
    /// No data, for a request that stores something: it has other error numbers.
    Stored,
}

pub(crate) struct Connection<W> {
    pub(crate) wire: W,
    pub(crate) client: Client,
    pub(crate) features: Features,
    /// Time for which replies may still be sent to a client after the end, in milliseconds.
    pub(crate) drain_ms: Option<u64>,
    /// Time for which a client may continue to send after it was notified of the end, in
    /// milliseconds.
    pub(crate) linger_ms: Option<u64>,
    /// Time limit for the rest of a request, in milliseconds, while places are scarce.
    pub(crate) rest_ms: Option<u64>,
    pub(crate) places: Arc<ConnectionLimit>,
    pub(crate) outbox: RefCell<Outbox>,
    /// Whether a send is in progress.
    pub(crate) sending: Cell<bool>,
    /// Whether the client's last message was one request, while no other was in flight.
    pub(crate) is_lone: Cell<bool>,
    /// Whether the receiver waits for the client, and for nothing else.
    pub(crate) receiving: Cell<bool>,
    pub(crate) rest: Rest,
    /// Whether the receiver has ended and all requests are answered.
    pub(crate) closed: Cell<bool>,
    /// Whether the sender has ended.
    pub(crate) sender_gone: Cell<bool>,
    /// The error of the wire: replies are discarded from then on.
    pub(crate) broken: Cell<Option<Error>>,
    /// Triggered when the sender has something to do.
    pub(crate) work: Event,
    /// Triggered when replies were sent: the receiver may have room again.
    pub(crate) room: Event,
}

impl<W: Wire> Connection<W> {
    pub(crate) fn new(
        wire: W,
        client: Client,
        features: Features,
        options: &Options,
    ) -> Rc<Connection<W>> {
        Rc::new(Connection {
            wire,
            client,
            features,
            drain_ms: options.drain_ms,
            linger_ms: options.linger_ms,
            rest_ms: options.rest_ms,
            places: options.places.clone(),
            outbox: RefCell::new(Outbox::new(options.buffer_bytes, options.in_flight_max)),
            sending: Cell::new(false),
            is_lone: Cell::new(false),
            receiving: Cell::new(false),
            rest: Rest::default(),
            closed: Cell::new(false),
            sender_gone: Cell::new(false),
            broken: Cell::new(None),
            work: Event::new(),
            room: Event::new(),
        })
    }

    /// Length of the header of a read's reply.
    #[inline]
    pub(crate) fn read_header_bytes(&self) -> usize {
        if self.features.structured { DATA_CHUNK_BYTES } else { SIMPLE_REPLY_BYTES }
    }

    /// Returns the header of the reply to a read.
    #[inline]
    pub(crate) fn read_header(
        &self,
        cookie: u64,
        at: Extent,
        padding: Padding,
        result: Result,
    ) -> Header {
        let error = result.err().map(|error| error_of(error.kind, false));
        match error {
            _ if !self.features.structured => simple(cookie, error.unwrap_or(0)),
            Some(error) => Header::new(&error_chunk(cookie, error)),
            None => {
                let offset = at.first * SECTOR + u64::from(padding.head);
                let bytes = bytes_of(at) - padding.bytes();
                Header::new(&data_chunk(cookie, offset, bytes as u32))
            }
        }
    }

    /// Returns the header of an error reply, by the command.
    pub(crate) fn refusal(&self, header: &RequestHeader, error: u32) -> Header {
        let chunks = matches!(header.command, NBD_CMD_READ | NBD_CMD_BLOCK_STATUS);
        if self.features.structured && chunks {
            return Header::new(&error_chunk(header.cookie, error));
        }
        simple(header.cookie, error)
    }

    /// Returns the header of the reply to a valid request, without data.
    pub(crate) fn bare(&self, cookie: u64, reply_kind: ReplyKind, result: Result) -> Header {
        let stored = matches!(reply_kind, ReplyKind::Stored);
        let error = result.err().map_or(0, |error| error_of(error.kind, stored));
        match reply_kind {
            ReplyKind::Data(..) | ReplyKind::Status { .. } if self.features.structured => {
                Header::new(&error_chunk(cookie, error))
            }
            _ => simple(cookie, error),
        }
    }

    /// Admits a request with a buffer of `bytes` bytes (0: none) as soon as there is room. Each
    /// admitted request ends in [`Connection::finish`] or [`Client::withdraw`].
    ///
    /// # Errors
    /// The backing has stalled, and the requests that wait for it have reached the limit.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<Option<Buffer>> {
        self.client.admit(bytes, async || self.send_ready().await).await
    }

    /// Answers an admitted request. The reply is sent with the next send. A request that was not
    /// served because the server stops gets no answer: the client sends it to the next server.
    pub(crate) fn finish(&self, pending: Pending, result: Result) {
        let Pending { cookie, reply_kind, buffer } = pending;
        if self.client.is_for_next(result) {
            return self.client.withdraw(buffer);
        }
        match (reply_kind, result) {
            (ReplyKind::Data(at, padding), Ok(())) => {
                let header = self.read_header(cookie, at, padding, result);
                let bytes = padding.head as usize..bytes_of(at) - padding.tail as usize;
                self.reply(&header, buffer, bytes);
            }
            _ => self.reply(&self.bare(cookie, reply_kind, result), buffer, 0..0),
        }
    }

    /// Answers an admitted request for block status.
    pub(crate) fn finish_status(&self, pending: Pending, result: Result<Vec<Stretch>>) {
        let (ReplyKind::Status { at, padding, one }, Ok(stretches)) = (pending.reply_kind, &result)
        else {
            return self.finish(pending, result.map(|_| ()));
        };
        let list = status::describe(stretches, at, padding, one, self.client.limits());
        let buffer = pending.buffer.expect("a status was let in with a buffer");
        for (index, descriptor) in list.iter().enumerate() {
            buffer.memory().write(index * DESCRIPTOR_BYTES, &descriptor.encode());
        }
        let chunk = status_chunk(pending.cookie, status::ALLOCATION_ID, list.len() as u32);
        self.reply(&Header::new(&chunk), Some(buffer), 0..list.len() * DESCRIPTOR_BYTES);
    }

    /// Queues the reply to an admitted request, with these bytes of its buffer.
    fn reply(&self, header: &Header, mut buffer: Option<Buffer>, bytes: Range<usize>) {
        let sent = if bytes.is_empty() { None } else { buffer.take() };
        self.client.give_back(buffer);
        let mut outbox = self.outbox.borrow_mut();
        outbox.put(header, sent.map(|buffer| (buffer, bytes)));
        outbox.count();
    }

    /// Queues a reply that consists of its header only, as soon as there is room for it.
    pub(crate) async fn answer(&self, header: Header) {
        if !self.outbox.borrow().has_room(HEADER_BYTES_MAX) {
            self.outbox_room(HEADER_BYTES_MAX).await;
        }
        self.outbox.borrow_mut().put(&header, None);
    }

    /// Waits until a reply of this length may be queued.
    pub(crate) async fn outbox_room(&self, bytes: usize) {
        loop {
            let seen = self.room.seen();
            if self.outbox.borrow().has_room(bytes) {
                return;
            }
            self.send_ready().await;
            if self.outbox.borrow().has_room(bytes) {
                return;
            }
            self.room.after(seen).await;
        }
    }

    /// Whether the client sent one request alone, and has been answered. Valid while the receiver
    /// waits for the client.
    pub(crate) fn is_lockstep(&self) -> bool {
        self.is_lone.get() && self.client.in_flight() == 0
    }

    /// Sends all ready replies, including those that become ready while it sends. Returns
    /// immediately if a send is in progress, which then sends them.
    #[inline]
    pub(crate) async fn send_ready(&self) {
        if self.sending.get() {
            return;
        }
        self.sending.set(true);
        loop {
            let side = self.outbox.borrow_mut().turn_over();
            let Some(mut side) = side else { break };
            if self.broken.get().is_none()
                && let Err(error) = self.wire.send(&side.parts).await
            {
                self.broken.set(Some(error));
                self.wire.shutdown();
            }
            // Only after the send: requests of a client that does not read stay in flight.
            self.client.answered(side.counted, &mut side.buffers);
            if self.is_lockstep() {
                self.client.lane().set_lockstep(true);
            }
            self.outbox.borrow_mut().put_back(side);
        }
        self.sending.set(false);
    }

    /// Waits for the client while nothing else is waited for. The caller pins `receive`: passed by
    /// value, it would be moved into each future on the way, which reserves room for it each time.
    pub(crate) async fn wait_for<T>(&self, receive: Pin<&mut impl Future<Output = T>>) -> T {
        self.receiving.set(true);
        let received = self.send_beside(receive).await;
        self.receiving.set(false);
        received
    }

    /// Sends ready replies in parallel with a receive, so that one system call submits both and the
    /// next request need not wait until the send has completed. Ends when both have ended.
    async fn send_beside<T>(&self, mut receive: Pin<&mut impl Future<Output = T>>) -> T {
        let mut send = pin!(self.send_ready());
        let (mut sent, mut received) = (false, None);
        std::future::poll_fn(|context| {
            if !sent && send.as_mut().poll(context).is_ready() {
                sent = true;
                // Otherwise a task that waits for the last replies to be sent would not be woken.
                if self.client.stop().is_asked() {
                    self.room.notify();
                }
            }
            if received.is_none()
                && let Poll::Ready(value) = receive.as_mut().poll(context)
            {
                received = Some(value);
            }
            match received.take_if(|_| sent) {
                Some(value) => Poll::Ready(value),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Whether all admitted requests that have arrived are answered, and the answers are sent.
    pub(crate) fn is_idle(&self) -> bool {
        let unanswered = self.client.in_flight() - usize::from(self.rest.is_admitted.get());
        unanswered == 0 && !self.sending.get() && self.outbox.borrow().is_empty()
    }
}

fn simple(cookie: u64, error: u32) -> Header {
    Header::new(&SimpleReply { error, cookie }.encode())
}

/// Length in bytes of an extent that has a buffer.
pub(crate) fn bytes_of(at: Extent) -> usize {
    at.count as usize * SECTOR as usize
}

/// Returns the window on a buffer that a request uses.
pub(crate) fn window(buffer: &Option<Buffer>, at: Extent) -> Buf {
    let buffer = buffer.as_ref().expect("a transfer was let in with a buffer");
    buffer.sectors(at.count)
}
