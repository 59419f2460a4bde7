//! What the receiver, the sender and the requests of one connection share.

use crate::action::Features;
use crate::codec::*;
use crate::options::Options;
use crate::outbox::{HEADER_BYTES_MAX, Header, Outbox};
use crate::places::Places;
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

/// A request that has been let in and not been answered.
pub(crate) struct Pending {
    pub(crate) cookie: u64,
    pub(crate) wanted: Wanted,
    pub(crate) buffer: Option<Buffer>,
}

/// What a reply is to carry if all goes well.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    /// The data of this extent without the padding. The request's buffer then holds all of it.
    Data(Extent, Padding),
    /// What is known about this extent without the padding; `one`: about its beginning.
    Status { at: Extent, padding: Padding, one: bool },
    /// That it is done.
    Done,
    /// That something is stored. Tells the error numbers apart.
    Stored,
}

pub(crate) struct Connection<W> {
    pub(crate) wire: W,
    pub(crate) client: Client,
    pub(crate) features: Features,
    /// For how long replies may still be taken by a client after the end has come.
    pub(crate) drain_ms: Option<u64>,
    /// For how long a client may go on to send once it was told of the end.
    pub(crate) linger_ms: Option<u64>,
    /// For how long the rest of a request is awaited, where that is limited.
    pub(crate) rest_ms: Option<u64>,
    pub(crate) places: Arc<Places>,
    pub(crate) outbox: RefCell<Outbox>,
    /// A send is under way.
    pub(crate) sending: Cell<bool>,
    /// The receiver waits for the client, and for nothing else.
    pub(crate) receiving: Cell<bool>,
    pub(crate) rest: Rest,
    /// The receiver has left and everything is answered.
    pub(crate) closed: Cell<bool>,
    /// The sender has left.
    pub(crate) sender_gone: Cell<bool>,
    /// The wire has failed: replies are thrown away from now on.
    pub(crate) broken: Cell<Option<Error>>,
    /// There is something for the sender.
    pub(crate) work: Event,
    /// Replies have gone out: there may be room for the receiver.
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
            receiving: Cell::new(false),
            rest: Rest::default(),
            closed: Cell::new(false),
            sender_gone: Cell::new(false),
            broken: Cell::new(None),
            work: Event::new(),
            room: Event::new(),
        })
    }

    /// How long the header of a read's reply is.
    #[inline]
    pub(crate) fn read_header_bytes(&self) -> usize {
        if self.features.structured { DATA_CHUNK_BYTES } else { SIMPLE_REPLY_BYTES }
    }

    /// The header of the reply to a read.
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

    /// The header of the error reply to anything, by its command.
    pub(crate) fn refusal(&self, header: &RequestHeader, error: u32) -> Header {
        let chunks = matches!(header.command, NBD_CMD_READ | NBD_CMD_BLOCK_STATUS);
        if self.features.structured && chunks {
            return Header::new(&error_chunk(header.cookie, error));
        }
        simple(header.cookie, error)
    }

    /// The header of the reply to a request that was understood, and carries nothing.
    pub(crate) fn bare(&self, cookie: u64, wanted: Wanted, result: Result) -> Header {
        let stored = matches!(wanted, Wanted::Stored);
        let error = result.err().map_or(0, |error| error_of(error.kind, stored));
        match wanted {
            Wanted::Data(..) | Wanted::Status { .. } if self.features.structured => {
                Header::new(&error_chunk(cookie, error))
            }
            _ => simple(cookie, error),
        }
    }

    /// Lets a request in, with a buffer of so many bytes (0: none), as soon as there is room. What is let
    /// in is answered by [`Connection::finish`], or leaves by [`Client::withdraw`].
    ///
    /// # Errors
    /// The backing has stalled, and as much as may wait for it does so already.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<Option<Buffer>> {
        self.client.admit(bytes, async || self.send_ready().await).await
    }

    /// Answers a request that was let in. The reply goes out with the next send. What is not done
    /// because the server stops is not answered: the client asks the next server.
    pub(crate) fn finish(&self, pending: Pending, result: Result) {
        let Pending { cookie, wanted, buffer } = pending;
        if self.client.is_for_next(result) {
            return self.client.withdraw(buffer);
        }
        match (wanted, result) {
            (Wanted::Data(at, padding), Ok(())) => {
                let header = self.read_header(cookie, at, padding, result);
                let bytes = padding.head as usize..bytes_of(at) - padding.tail as usize;
                self.reply(&header, buffer, bytes);
            }
            _ => self.reply(&self.bare(cookie, wanted, result), buffer, 0..0),
        }
    }

    /// Answers a request for block status that was let in.
    pub(crate) fn finish_status(&self, pending: Pending, result: Result<Vec<Stretch>>) {
        let (Wanted::Status { at, padding, one }, Ok(stretches)) = (pending.wanted, &result) else {
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

    /// The reply to a request that was let in, with these bytes of its buffer.
    fn reply(&self, header: &Header, mut buffer: Option<Buffer>, bytes: Range<usize>) {
        let sent = if bytes.is_empty() { None } else { buffer.take() };
        self.client.give_back(buffer);
        let mut outbox = self.outbox.borrow_mut();
        outbox.put(header, sent.map(|buffer| (buffer, bytes)));
        outbox.count();
    }

    /// Puts a reply that consists of its header, as soon as there is room for it.
    pub(crate) async fn answer(&self, header: Header) {
        if !self.outbox.borrow().has_room(HEADER_BYTES_MAX) {
            self.outbox_room(HEADER_BYTES_MAX).await;
        }
        self.outbox.borrow_mut().put(&header, None);
    }

    /// Waits until a reply of this length may be put.
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

    /// Sends whatever is ready, and what becomes ready meanwhile. If a send is under way already, it goes
    /// with the next one.
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
            // Only now: a client that does not read keeps its own requests in flight.
            self.client.answered(side.counted, &mut side.buffers);
            self.outbox.borrow_mut().put_back(side);
        }
        self.sending.set(false);
    }

    /// Waits for the client, while nothing else is waited for. `receive` is pinned by the caller: by value
    /// it would be moved, with room for it, into each future that it passes.
    pub(crate) async fn wait_for<T>(&self, receive: Pin<&mut impl Future<Output = T>>) -> T {
        self.receiving.set(true);
        let received = self.send_beside(receive).await;
        self.receiving.set(false);
        received
    }

    /// Sends what is ready beside a receive, so that both are handed to the system together, and the
    /// next request does not wait for us to hear that the reply has gone. Ends when both have ended.
    async fn send_beside<T>(&self, mut receive: Pin<&mut impl Future<Output = T>>) -> T {
        let mut send = pin!(self.send_ready());
        let (mut sent, mut received) = (false, None);
        std::future::poll_fn(|context| {
            if !sent && send.as_mut().poll(context).is_ready() {
                sent = true;
                // What waits for the last replies to go out would not hear of it otherwise.
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

    /// Everything that was let in and has come is answered, and the answers are sent.
    pub(crate) fn is_idle(&self) -> bool {
        let unanswered = self.client.in_flight() - usize::from(self.rest.is_let_in.get());
        unanswered == 0 && !self.sending.get() && self.outbox.borrow().is_empty()
    }
}

fn simple(cookie: u64, error: u32) -> Header {
    Header::new(&SimpleReply { error, cookie }.encode())
}

/// The bytes of an extent that has a buffer.
pub(crate) fn bytes_of(at: Extent) -> usize {
    at.count as usize * SECTOR as usize
}

/// The window that a request uses of its buffer.
pub(crate) fn window(buffer: &Option<Buffer>, at: Extent) -> Buf {
    let buffer = buffer.as_ref().expect("a transfer was let in with a buffer");
    buffer.sectors(at.count)
}
