//! The state that the receiver, the sender and the requests of one connection share.

use crate::action::Features;
use crate::codec::*;
use crate::connection_limit::ConnectionLimit;
use crate::options::Options;
use crate::outbox::{Header, Outbox, ReplyKind, bytes_of};
use crate::rest::Rest;
use crate::status;
use block::Wire;
use block::{Buf, Extent, Result, Stretch};
use export::{Buffer, Client};
use lane::Event;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A request that was admitted and not answered yet.
pub(crate) struct Pending {
    pub(crate) cookie: u64,
    pub(crate) reply_kind: ReplyKind,
    pub(crate) buffer: Option<Buffer>,
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
    pub(crate) outbox: Outbox,
    pub(crate) rest: Rest,
    /// Whether the last reply is sent: the sender ends the sending direction.
    pub(crate) is_finishing: Cell<bool>,
    /// Whether the receiver has ended and all requests are answered.
    pub(crate) closed: Cell<bool>,
    /// Whether the sender has ended.
    pub(crate) sender_gone: Cell<bool>,
    /// Triggered when the sender has something to do.
    pub(crate) work: Event,
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
            outbox: Outbox::new(options.buffer_bytes, options.in_flight_max),
            rest: Rest::default(),
            is_finishing: Cell::new(false),
            closed: Cell::new(false),
            sender_gone: Cell::new(false),
            work: Event::new(),
        })
    }

    /// Returns the header of an error reply, by the command.
    pub(crate) fn refusal(&self, header: &RequestHeader, error: u32) -> Header {
        let chunks = matches!(header.command, NBD_CMD_READ | NBD_CMD_BLOCK_STATUS);
        if self.features.structured && chunks {
            return Header::new(&error_chunk(header.cookie, error));
        }
        Header::simple(header.cookie, error)
    }

    /// Admits a request with a buffer of `bytes` bytes (0: none) as soon as there is room. Each
    /// admitted request ends in [`Connection::finish`] or [`Client::withdraw`].
    ///
    /// # Errors
    /// The backing has stalled, and the requests that wait for it have reached the limit.
    pub(crate) async fn admit(&self, bytes: usize) -> Result<Option<Buffer>> {
        let Connection { wire, client, outbox, .. } = self;
        client.admit(bytes, async || outbox.send_ready(wire, client).await).await
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
                let header = Header::of_read(self.features, cookie, (at, padding), result);
                let bytes = padding.head as usize..bytes_of(at) - padding.tail as usize;
                self.reply(&header, buffer, bytes);
            }
            _ => {
                let header = Header::without_data(self.features, cookie, reply_kind, result);
                self.reply(&header, buffer, 0..0);
            }
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
        let mut replies = self.outbox.replies.borrow_mut();
        replies.put(header, sent.map(|buffer| (buffer, bytes)));
        replies.count();
    }

    /// Whether all admitted requests that have arrived are answered, and the answers are sent.
    pub(crate) fn is_idle(&self) -> bool {
        let unanswered = self.client.in_flight() - usize::from(self.rest.is_admitted.get());
        unanswered == 0 && self.outbox.is_idle()
    }
}

/// Returns the window on a buffer that a request uses.
pub(crate) fn window(buffer: &Option<Buffer>, at: Extent) -> Buf {
    let buffer = buffer.as_ref().expect("a transfer was let in with a buffer");
    buffer.sectors(at.count)
}
