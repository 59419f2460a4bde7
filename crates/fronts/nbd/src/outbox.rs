//! Replies: their headers, the room in which they wait, and how they are sent.

use crate::action::Features;
use crate::codec::*;
use crate::windows::{PLACE_BYTES, Windows};
use block::{Buf, Error, Extent, Memory, Padding, Part, Result, SECTOR, Wire};
use export::{Buffer, Client};
use lane::Event;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// Maximum number of parts of one send (`IOV_MAX`).
const PARTS_MAX: usize = 1024;
/// Reads that are looked up together: enough for the prefetch to hide memory latency, and few
/// enough that the prefetched lines are still in the processor's caches.
pub(crate) const RUN_MAX: usize = 16;
/// Maximum length of a reply's header, rounded up to a multiple of `PLACE_BYTES`.
pub(crate) const HEADER_BYTES_MAX: usize = DATA_CHUNK_BYTES;
const _: () = assert!(HEADER_BYTES_MAX >= ERROR_CHUNK_BYTES);

/// The bytes before a reply's payload, or the whole reply if it has none.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    bytes: [u8; HEADER_BYTES_MAX],
    length: usize,
}

impl Header {
    #[inline]
    pub(crate) fn new(from: &[u8]) -> Header {
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[..from.len()].copy_from_slice(from);
        Header { bytes, length: from.len() }
    }

    /// Returns a simple reply; `error`: 0 for success.
    pub(crate) fn simple(cookie: u64, error: u32) -> Header {
        Header::new(&SimpleReply { error, cookie }.encode())
    }

    /// Length of the header of a read's reply.
    #[inline]
    pub(crate) fn bytes_of_read(features: Features) -> usize {
        if features.structured { DATA_CHUNK_BYTES } else { SIMPLE_REPLY_BYTES }
    }

    /// Returns the header of the reply to a read of this extent without the padding.
    #[inline]
    pub(crate) fn of_read(
        features: Features,
        cookie: u64,
        (at, padding): (Extent, Padding),
        result: Result,
    ) -> Header {
        let error = result.err().map(|error| error_of(error.kind, false));
        match error {
            _ if !features.structured => Header::simple(cookie, error.unwrap_or(0)),
            Some(error) => Header::new(&error_chunk(cookie, error)),
            None => {
                let offset = at.first * SECTOR + u64::from(padding.head);
                let bytes = bytes_of(at) - padding.bytes();
                Header::new(&data_chunk(cookie, offset, bytes as u32))
            }
        }
    }

    /// Returns the header of the reply to a valid request, without data.
    pub(crate) fn without_data(
        features: Features,
        cookie: u64,
        reply_kind: ReplyKind,
        result: Result,
    ) -> Header {
        let stored = matches!(reply_kind, ReplyKind::Stored);
        let error = result.err().map_or(0, |error| error_of(error.kind, stored));
        match reply_kind {
            ReplyKind::Data(..) | ReplyKind::Status { .. } if features.structured => {
                Header::new(&error_chunk(cookie, error))
            }
            _ => Header::simple(cookie, error),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
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

/// Length in bytes of an extent that has a buffer.
pub(crate) fn bytes_of(at: Extent) -> usize {
    at.count as usize * SECTOR as usize
}

/// Replies that are sent together.
struct Side {
    memory: Arc<Memory>,
    windows: Windows,
    used: usize,
    /// Parts to send, in order.
    parts: Vec<Part>,
    /// Buffers of payloads that are sent without a copy.
    buffers: Vec<Buffer>,
    /// Number of replies whose requests count as in flight.
    counted: usize,
}

impl Side {
    fn new(bytes: usize) -> Box<Side> {
        let memory = Arc::new(Memory::heap(bytes));
        Box::new(Side {
            windows: Windows::new(memory.clone()),
            memory,
            used: 0,
            parts: Vec::with_capacity(64),
            buffers: Vec::with_capacity(64),
            counted: 0,
        })
    }

    /// Adds bytes of the side's own memory; merges adjacent parts.
    #[inline]
    fn add(&mut self, offset: usize, length: usize) {
        if let Some(last) = self.parts.last_mut()
            && Arc::ptr_eq(&last.memory, &self.memory)
            && last.offset + last.length == offset
        {
            last.length += length;
            return;
        }
        self.parts.push(Part { memory: self.memory.clone(), offset, length });
    }
}

/// Room for a header and its payload, in a run of reads.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    header: usize,
    payload: usize,
    payload_bytes: usize,
}

/// Replies on two sides: one is filled while the other is sent.
pub(crate) struct Replies {
    filling: Box<Side>,
    spare: Option<Box<Side>>,
    /// A run of reads has reserved room here: this side must not be sent yet.
    held: bool,
    /// End of the last used room of the run, and end of the last reserved room.
    run: (usize, usize),
    inline_bytes: usize,
    inline_parts: usize,
}

impl Replies {
    /// Creates sides that have `bytes` bytes for replies of the receiver. The replies of
    /// up to `counted_max` requests in flight always have room in addition.
    fn new(bytes: usize, counted_max: usize) -> Replies {
        let all = bytes + counted_max * HEADER_BYTES_MAX;
        Replies {
            filling: Side::new(all),
            spare: Some(Side::new(all)),
            held: false,
            run: (0, 0),
            inline_bytes: bytes,
            inline_parts: PARTS_MAX - 2 * counted_max,
        }
    }

    /// Whether the receiver may put a reply of this length here now, header included.
    #[inline]
    fn has_room(&self, bytes: usize) -> bool {
        let side = &*self.filling;
        side.used + bytes <= self.inline_bytes && side.parts.len() < self.inline_parts
    }

    fn is_empty(&self) -> bool {
        self.filling.parts.is_empty()
    }

    /// Reserves room for the header and the payload of a read that may be answered immediately.
    /// This side is not sent until [`Replies::release`]. None: no room.
    #[inline]
    pub(crate) fn reserve(&mut self, header_bytes: usize, sectors: u32) -> Option<(Slot, Buf)> {
        let payload_bytes = sectors as usize * SECTOR as usize;
        // A run adds at most one part per read, and none of them is counted yet.
        let parts = self.filling.parts.len() + RUN_MAX;
        if !self.has_room(header_bytes + payload_bytes) || parts > self.inline_parts {
            return None;
        }
        let slot = Slot {
            header: self.filling.used,
            payload: self.filling.used + header_bytes,
            payload_bytes,
        };
        let buf = self.filling.windows.at(slot.payload, sectors)?;
        if !self.held {
            self.held = true;
            self.run.0 = slot.header;
        }
        self.filling.used = slot.payload + payload_bytes;
        self.run.1 = self.filling.used;
        Some((slot, buf))
    }

    /// Completes the reply of the read in this room. `data`: whether its data follows the header.
    #[inline]
    pub(crate) fn fill(&mut self, slot: Slot, header: &Header, data: bool) {
        let side = &mut *self.filling;
        side.memory.write(slot.header, header.bytes());
        side.add(slot.header, header.length);
        self.run.0 = slot.payload;
        if data {
            debug_assert_eq!(slot.header + header.length, slot.payload);
            side.add(slot.payload, slot.payload_bytes);
            self.run.0 = slot.payload + slot.payload_bytes;
        }
    }

    /// Ends the run of reads: the side may be sent, and unused room at its end is released.
    pub(crate) fn release(&mut self) {
        if self.held && self.filling.used == self.run.1 {
            self.filling.used = self.run.0;
        }
        self.held = false;
    }

    /// Adds a reply: its header, and these bytes of a buffer as its payload.
    pub(crate) fn put(&mut self, header: &Header, payload: Option<(Buffer, Range<usize>)>) {
        let side = &mut *self.filling;
        side.memory.write(side.used, header.bytes());
        side.add(side.used, header.length);
        side.used += header.length.next_multiple_of(PLACE_BYTES);
        if let Some((buffer, bytes)) = payload {
            let (offset, length) = (bytes.start, bytes.len());
            side.parts.push(Part { memory: buffer.memory().clone(), offset, length });
            side.buffers.push(buffer);
        }
    }

    /// Counts a reply whose request stays in flight until the reply is sent.
    pub(crate) fn count(&mut self) {
        self.filling.counted += 1;
    }

    /// Returns the ready replies to be sent. None: there are none, or they must not be sent yet.
    #[inline]
    fn turn_over(&mut self) -> Option<Box<Side>> {
        if self.held || self.is_empty() {
            return None;
        }
        let fresh = self.spare.take()?;
        Some(std::mem::replace(&mut self.filling, fresh))
    }

    /// Takes back a side whose replies were sent and whose buffers were taken out.
    fn put_back(&mut self, mut side: Box<Side>) {
        side.parts.clear();
        side.used = 0;
        side.counted = 0;
        self.spare = Some(side);
    }
}

/// The outbox of a connection. Its sends get the wire and the client of that connection.
pub(crate) struct Outbox {
    pub(crate) replies: RefCell<Replies>,
    /// Whether a send is in progress.
    sending: Cell<bool>,
    /// Whether the client's last message was one request, while no other was in flight.
    pub(crate) is_lone: Cell<bool>,
    /// Whether the receiver waits for the client, and for nothing else.
    pub(crate) receiving: Cell<bool>,
    /// The error of the wire: replies are discarded from then on.
    pub(crate) broken: Cell<Option<Error>>,
    /// Triggered when replies were sent: the receiver may have room again.
    pub(crate) room: Event,
}

impl Outbox {
    /// Creates an outbox; see [`Replies::new`].
    pub(crate) fn new(bytes: usize, counted_max: usize) -> Outbox {
        Outbox {
            replies: RefCell::new(Replies::new(bytes, counted_max)),
            sending: Cell::new(false),
            is_lone: Cell::new(false),
            receiving: Cell::new(false),
            broken: Cell::new(None),
            room: Event::new(),
        }
    }

    /// Whether no reply waits, and none is being sent.
    pub(crate) fn is_idle(&self) -> bool {
        !self.sending.get() && self.replies.borrow().is_empty()
    }

    /// Queues a reply that consists of its header only, as soon as there is room for it.
    pub(crate) async fn answer(&self, header: Header, wire: &impl Wire, client: &Client) {
        if !self.replies.borrow().has_room(HEADER_BYTES_MAX) {
            self.wait_for_room(HEADER_BYTES_MAX, wire, client).await;
        }
        self.replies.borrow_mut().put(&header, None);
    }

    /// Waits until a reply of this length may be queued.
    pub(crate) async fn wait_for_room(&self, bytes: usize, wire: &impl Wire, client: &Client) {
        loop {
            let seen = self.room.seen();
            if self.replies.borrow().has_room(bytes) {
                return;
            }
            self.send_ready(wire, client).await;
            if self.replies.borrow().has_room(bytes) {
                return;
            }
            self.room.after(seen).await;
        }
    }

    /// Whether the client sent one request alone, and has been answered. Valid while the receiver
    /// waits for the client.
    pub(crate) fn is_lockstep(&self, client: &Client) -> bool {
        self.is_lone.get() && client.in_flight() == 0
    }

    /// Sends all ready replies, including those that become ready while it sends. Returns
    /// immediately if a send is in progress, which then sends them.
    #[inline]
    pub(crate) async fn send_ready(&self, wire: &impl Wire, client: &Client) {
        if self.sending.get() {
            return;
        }
        self.sending.set(true);
        loop {
            let side = self.replies.borrow_mut().turn_over();
            let Some(mut side) = side else { break };
            if self.broken.get().is_none()
                && let Err(error) = wire.send(&side.parts).await
            {
                self.broken.set(Some(error));
                wire.shutdown();
            }
            // Only after the send: requests of a client that does not read stay in flight.
            client.answered(side.counted, &mut side.buffers);
            if self.is_lockstep(client) {
                client.lane().set_lockstep(true);
            }
            self.replies.borrow_mut().put_back(side);
        }
        self.sending.set(false);
    }

    /// Waits for the client while nothing else is waited for. The caller pins `receive`: passed by
    /// value, it would be moved into each future on the way, which reserves room for it each time.
    pub(crate) async fn wait_for<T>(
        &self,
        receive: Pin<&mut impl Future<Output = T>>,
        wire: &impl Wire,
        client: &Client,
    ) -> T {
        self.receiving.set(true);
        let received = self.send_beside(receive, wire, client).await;
        self.receiving.set(false);
        received
    }

    /// Sends ready replies in parallel with a receive, so that one system call submits both and the
    /// next request need not wait until the send has completed. Ends when both have ended.
    async fn send_beside<T>(
        &self,
        mut receive: Pin<&mut impl Future<Output = T>>,
        wire: &impl Wire,
        client: &Client,
    ) -> T {
        let mut send = pin!(self.send_ready(wire, client));
        let (mut sent, mut received) = (false, None);
        std::future::poll_fn(|context| {
            if !sent && send.as_mut().poll(context).is_ready() {
                sent = true;
                // Otherwise a task that waits for the last replies to be sent would not be woken.
                if client.stop().is_asked() {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(side: &Side) -> Vec<u8> {
        let mut all = Vec::new();
        for part in &side.parts {
            let mut bytes = vec![0; part.length];
            part.memory.read(part.offset, &mut bytes);
            all.extend(bytes);
        }
        all
    }

    #[test]
    fn a_run_of_hits_is_one_part_and_a_miss_leaves_no_trace() {
        let mut outbox = Replies::new(64 << 10, 4);
        let header = Header::new(&[9; SIMPLE_REPLY_BYTES]);
        let mut slots = Vec::new();
        for byte in 1..=3 {
            let (slot, buf) = outbox.reserve(SIMPLE_REPLY_BYTES, 1).expect("room");
            buf.write(&[byte; 512]);
            slots.push(slot);
        }
        outbox.fill(slots[0], &header, true);
        outbox.fill(slots[1], &header, true);
        assert!(outbox.turn_over().is_none(), "the run is not over");
        outbox.release();
        assert_eq!(outbox.filling.used, 2 * 528, "the third place is given back");
        let side = outbox.turn_over().expect("replies");
        assert_eq!(side.parts.len(), 1);
        let bytes = sent(&side);
        assert_eq!((bytes.len(), bytes[15], bytes[16], bytes[1055]), (1056, 9, 1, 2));
        outbox.put(&header, None);
        assert!(outbox.turn_over().is_none(), "the other side is on its way");
        outbox.put_back(side);
        assert_eq!(sent(&outbox.turn_over().expect("a reply")), [9; 16]);
    }

    #[test]
    fn replies_in_flight_find_room_in_a_full_outbox() {
        let mut outbox = Replies::new(4096, 4);
        let header = Header::new(&[1; HEADER_BYTES_MAX]);
        while outbox.has_room(HEADER_BYTES_MAX) {
            outbox.put(&header, None);
        }
        for _ in 0..4 {
            outbox.put(&header, None);
        }
        assert!(outbox.reserve(SIMPLE_REPLY_BYTES, 1).is_none());
    }
}
