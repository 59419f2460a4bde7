//! The receiving task of a connection in transmission: receives requests, answers immediately if
//! possible, and starts tasks for the others.

use crate::action::{Action, refusal_error, understand};
use crate::codec::*;
use crate::connection::{Connection, Pending, window};
use crate::end::End;
use crate::inbox::Inbox;
use crate::outbox::{Header, RUN_MAX, ReplyKind, Slot, bytes_of};
use crate::status;
use block::Wire;
use block::{Advice, Buf, Extent, Padding, Request, Result};
use export::{Deadline, Operation};
use lane::first;
use std::pin::pin;
use std::rc::Rc;

struct Mark {
    cookie: u64,
    at: Extent,
    slot: Slot,
}

/// Result of a step of the receiver. Err: how the connection ends.
pub(crate) type Step = std::result::Result<(), End>;

pub(crate) struct Receiver<W> {
    pub(crate) connection: Rc<Connection<W>>,
    pub(crate) inbox: Inbox,
    /// Consecutive reads, with room reserved for their replies.
    run: Vec<Request>,
    marks: Vec<Mark>,
    missed: Vec<(u64, Extent)>,
    /// Requests taken since the receiver last waited for the client.
    taken: u32,
    /// Whether no request was in flight when they arrived.
    came_alone: bool,
    /// Larger reads get their own buffer.
    inline_bytes_max: usize,
}

impl<W: Wire> Receiver<W> {
    pub(crate) fn new(
        connection: Rc<Connection<W>>,
        inbox: Inbox,
        inline_bytes_max: usize,
    ) -> Receiver<W> {
        Receiver {
            connection,
            inbox,
            run: Vec::with_capacity(RUN_MAX),
            marks: Vec::with_capacity(RUN_MAX),
            missed: Vec::with_capacity(RUN_MAX),
            taken: 0,
            came_alone: true,
            inline_bytes_max,
        }
    }

    /// Serves the client until either side ends the connection, then waits for the requests in
    /// flight.
    pub(crate) async fn run(mut self) -> End {
        let end = loop {
            if let Err(end) = self.serve_received().await {
                break end;
            }
            if let Err(end) = self.receive().await {
                break end;
            }
        };
        if end == End::Stopped {
            self.drain().await;
        }
        self.leave(matches!(end, End::Disconnected | End::Closed)).await;
        end
    }

    /// Discards incoming data until the client closes its side, or the sender shuts down the wire.
    /// Closing a TCP connection earlier would destroy replies that are still on their way.
    async fn drain(&mut self) {
        loop {
            self.inbox.consume(self.inbox.available());
            let connection = self.connection.clone();
            let Connection { wire, client, outbox, .. } = &*connection;
            let receive = pin!(self.inbox.receive(wire));
            let received = outbox.wait_for(receive, wire, client).await;
            if !received.is_ok_and(|count| count > 0) {
                return;
            }
        }
    }

    /// Sends ready replies, and waits for the client's next request.
    pub(crate) async fn receive(&mut self) -> Step {
        let connection = self.connection.clone();
        if self.inbox.available() > 0 && !connection.rest.is_awaited() {
            connection.rest.await_from(connection.client.lane().now());
        }
        let Connection { wire, client, outbox, .. } = &*connection;
        outbox.is_lone.set(std::mem::take(&mut self.taken) == 1 && self.came_alone);
        let receive = async {
            // The ready replies have been sent by now.
            client.lane().set_lockstep(outbox.is_lockstep(client));
            self.inbox.receive(wire).await
        };
        let received = outbox.wait_for(pin!(receive), wire, client).await;
        outbox.is_lone.set(false);
        self.came_alone = client.in_flight() == 0;
        self.arrived(received)
    }

    /// Waits for the rest of a request of which a part has arrived. Sends ready replies.
    pub(crate) async fn receive_rest(&mut self) -> Step {
        let connection = self.connection.clone();
        let Connection { wire, client, outbox, .. } = &*connection;
        let received = outbox.wait_for(pin!(self.inbox.receive(wire)), wire, client).await;
        self.arrived(received)
    }

    /// Evaluates the result of a wait for the client. Once the server stops, received data is not
    /// used.
    pub(crate) fn arrived(&self, received: Result<usize>) -> Step {
        match received {
            Err(error) => Err(End::Failed(error)),
            Ok(_) if self.connection.client.stop().is_asked() => Err(End::Stopped),
            Ok(0) if self.connection.rest.is_late.get() => Err(End::TimedOut),
            Ok(0) => Err(self.connection.outbox.broken.get().map_or(End::Closed, End::Failed)),
            Ok(_) => Ok(()),
        }
    }

    /// Serves all requests that have arrived completely, and at most one incomplete request. Serves
    /// none once the server stops.
    async fn serve_received(&mut self) -> Step {
        while let Some(bytes) = self.inbox.peek() {
            if self.connection.client.stop().is_asked() {
                self.serve_run().await;
                return Err(End::Stopped);
            }
            let Some(header) = RequestHeader::parse(&bytes) else {
                self.serve_run().await;
                return Err(End::Malformed("a request without its magic number"));
            };
            self.inbox.consume(REQUEST_BYTES);
            self.taken += 1;
            let connection = &self.connection;
            connection.rest.has_come();
            let action = understand(&header, connection.client.limits(), connection.features);
            if let Action::Read { at } = action {
                self.read(header.cookie, at).await;
            } else {
                // Most requests have no reads before them, and this check is cheaper than an empty
                // await.
                if !self.run.is_empty() {
                    self.serve_run().await;
                }
                self.serve(&header, action).await?;
            }
        }
        if !self.run.is_empty() {
            self.serve_run().await;
        }
        Ok(())
    }

    async fn serve(&mut self, header: &RequestHeader, action: Action) -> Step {
        let (request, fua) = match action {
            Action::Disconnect => return Err(End::Disconnected),
            Action::Refuse { kind, payload_bytes } => {
                let error = refusal_error(kind, header.command);
                let reply = self.connection.refusal(header, error);
                return self.refuse(reply, payload_bytes as usize).await;
            }
            Action::Read { at } => {
                self.large_read(header.cookie, at).await;
                return Ok(());
            }
            Action::Cache { at } => {
                self.advise(header.cookie, at).await;
                return Ok(());
            }
            Action::Status { at, padding, one } => {
                self.status(header.cookie, at, padding, one).await;
                return Ok(());
            }
            Action::Part { at, padding } => return self.serve_part(header, at, padding).await,
            Action::Write { at, fua } => return self.write(header.cookie, at, fua).await,
            Action::Flush => (Request::Flush, false),
            Action::Trim { at, fua } => (Request::Discard { at }, fua),
            Action::Zero { at, fua, may_unmap } => (Request::Zero { at, fua, may_unmap }, fua),
        };
        let client = &self.connection.client;
        let operation = client.operation(request, Padding::NONE, fua);
        client.note(&operation).await;
        self.change(header.cookie, operation).await;
        Ok(())
    }

    /// Adds a read to the run, or serves it alone if it is large.
    #[inline]
    async fn read(&mut self, cookie: u64, at: Extent) {
        let header_bytes = Header::bytes_of_read(self.connection.features);
        if bytes_of(at) > self.inline_bytes_max {
            self.serve_run().await;
            return self.large_read(cookie, at).await;
        }
        if self.run.len() == RUN_MAX {
            self.serve_run().await;
        }
        if self.reserve(cookie, at, header_bytes) {
            return;
        }
        self.serve_run().await;
        let bytes = header_bytes + bytes_of(at);
        let Connection { wire, client, outbox, .. } = &*self.connection;
        outbox.wait_for_room(bytes, wire, client).await;
        if !self.reserve(cookie, at, header_bytes) {
            self.large_read(cookie, at).await;
        }
    }

    #[inline]
    fn reserve(&mut self, cookie: u64, at: Extent, header_bytes: usize) -> bool {
        let mut replies = self.connection.outbox.replies.borrow_mut();
        let Some((slot, into)) = replies.reserve(header_bytes, at.count) else {
            return false;
        };
        self.run.push(Request::Read { at, into });
        self.marks.push(Mark { cookie, at, slot });
        true
    }

    /// Serves the run. Hits are answered from the room that their data was copied to; misses become
    /// tasks.
    async fn serve_run(&mut self) {
        if self.run.is_empty() {
            return;
        }
        let connection = self.connection.clone();
        if self.run.len() > 1 {
            connection.client.turn().await;
            connection.client.prefetch(&self.run);
        }
        for (request, mark) in self.run.iter().zip(&self.marks) {
            connection.client.turn().await;
            let Some(result) = connection.client.ask(request) else {
                self.missed.push((mark.cookie, mark.at));
                continue;
            };
            let header =
                Header::of_read(connection.features, mark.cookie, (mark.at, Padding::NONE), result);
            let mut replies = connection.outbox.replies.borrow_mut();
            replies.fill(mark.slot, &header, result.is_ok());
        }
        self.run.clear();
        self.marks.clear();
        connection.outbox.replies.borrow_mut().release();
        for index in 0..self.missed.len() {
            let (cookie, at) = self.missed[index];
            let reply_kind = ReplyKind::Data(at, Padding::NONE);
            let Some(pending) = self.admit(cookie, reply_kind, bytes_of(at)).await else {
                continue;
            };
            let operation = self.reading(&pending, at);
            self.start(pending, operation).await;
        }
        self.missed.clear();
    }

    async fn large_read(&mut self, cookie: u64, at: Extent) {
        let reply_kind = ReplyKind::Data(at, Padding::NONE);
        let Some(pending) = self.admit(cookie, reply_kind, bytes_of(at)).await else { return };
        let operation = self.reading(&pending, at);
        self.ask_or_start(pending, operation).await;
    }

    /// Returns the operation that reads whole blocks into the buffer of its request.
    fn reading(&self, pending: &Pending, at: Extent) -> Operation {
        let into = window(&pending.buffer, at);
        self.connection.client.operation(Request::Read { at, into }, Padding::NONE, false)
    }

    /// Handles advice on blocks that the client will read soon. It needs no buffer; advice of a
    /// client that has gone is dropped.
    pub(crate) async fn advise(&mut self, cookie: u64, at: Extent) {
        let Some(pending) = self.admit(cookie, ReplyKind::Done, 0).await else { return };
        if self.connection.outbox.broken.get().is_some() {
            return self.connection.client.withdraw(pending.buffer);
        }
        let advise = Request::Advise { at, advice: Advice::WillNeed };
        let operation = self.connection.client.operation(advise, Padding::NONE, false);
        self.ask_or_start(pending, operation).await;
    }

    /// Requests block status. Its descriptors are admitted like a payload.
    async fn status(&mut self, cookie: u64, at: Extent, padding: Padding, one: bool) {
        let bytes = status::reply_bytes_max(at, one);
        let reply_kind = ReplyKind::Status { at, padding, one };
        let Some(pending) = self.admit(cookie, reply_kind, bytes).await else { return };
        let connection = self.connection.clone();
        let asking = async move {
            let result = connection.client.status(at).await;
            connection.finish_status(pending, result);
            connection.work.notify();
        };
        self.connection.client.launch(asking).await;
    }

    /// Serves a write of whole blocks, from the receive buffer if its payload has arrived and the
    /// engine answers immediately.
    async fn write(&mut self, cookie: u64, at: Extent, fua: bool) -> Step {
        let connection = self.connection.clone();
        let Connection { wire, client, features, outbox, .. } = &*connection;
        let write =
            |from: Buf| client.operation(Request::Write { at, from, fua }, Padding::NONE, fua);
        let mut is_asked = false;
        if let Some(operation) = self.inbox.window(at.count).map(write)
            && let Some(request) = operation.plain()
        {
            client.note(&operation).await;
            client.turn().await;
            if let Some(result) = client.ask(request) {
                self.inbox.consume(bytes_of(at));
                let reply = Header::without_data(*features, cookie, ReplyKind::Stored, result);
                outbox.answer(reply, wire, client).await;
                return Ok(());
            }
            is_asked = true;
        }
        let bytes = bytes_of(at);
        let Some(pending) = self.take_in(cookie, bytes, 0..bytes).await? else { return Ok(()) };
        let operation = write(window(&pending.buffer, at));
        if is_asked {
            self.start(pending, operation).await;
        } else {
            client.note(&operation).await;
            self.ask_or_start(pending, operation).await;
        }
        Ok(())
    }

    /// Serves a change without payload, or a flush.
    async fn change(&mut self, cookie: u64, operation: Operation) {
        let reply_kind = if operation.is_change() { ReplyKind::Stored } else { ReplyKind::Done };
        let Some(pending) = self.admit(cookie, reply_kind, 0).await else { return };
        self.ask_or_start(pending, operation).await;
    }

    /// Admits a request. None: it was refused and has been answered, or the client has gone.
    pub(crate) async fn admit(
        &mut self,
        cookie: u64,
        reply_kind: ReplyKind,
        bytes: usize,
    ) -> Option<Pending> {
        let connection = self.connection.clone();
        match connection.admit(bytes).await {
            // A read of a client that has gone would waste the backing's time.
            Ok(buffer) if bytes > 0 && connection.outbox.broken.get().is_some() => {
                connection.client.withdraw(buffer);
                None
            }
            Ok(buffer) => Some(Pending { cookie, reply_kind, buffer }),
            Err(error) => {
                let Connection { wire, client, features, outbox, .. } = &*connection;
                let reply = Header::without_data(*features, cookie, reply_kind, Err(error));
                outbox.answer(reply, wire, client).await;
                None
            }
        }
    }

    /// Answers the operation immediately if possible, else starts a task for it.
    pub(crate) async fn ask_or_start(&mut self, pending: Pending, operation: Operation) {
        let (client, mut answer) = (&self.connection.client, None);
        if let Some(request) = operation.plain() {
            client.turn().await;
            answer = client.ask(request);
        }
        match answer {
            Some(result) => {
                // The window is dropped first, so that the buffer can be reused.
                drop(operation);
                self.connection.finish(pending, result);
            }
            None => self.start(pending, operation).await,
        }
    }

    /// Starts a task for an operation.
    pub(crate) async fn start(&mut self, pending: Pending, operation: Operation) {
        let connection = self.connection.clone();
        let mut running = connection.client.run(operation);
        let task = async move {
            // By reference: moving it into the await would allocate room for it twice.
            let result = (&mut running).await;
            connection.finish(pending, result);
            connection.work.notify();
        };
        self.connection.client.launch(task).await;
    }

    /// Waits until all admitted requests are answered, then ends the sender. Waits for the engine
    /// without a limit, unless the backing has stalled; waits for a client that does not receive
    /// its replies only for a limited time. `is_orderly`: the end is announced to the client.
    async fn leave(&mut self, is_orderly: bool) {
        let connection = &self.connection;
        let deadline = Deadline::new(connection.client.lane(), connection.drain_ms);
        connection.work.notify();
        self.wait_until(&deadline, || connection.is_idle()).await;
        connection.is_finishing.set(connection.is_finishing.get() || is_orderly);
        connection.closed.set(true);
        connection.work.notify();
        self.wait_until(&deadline, || connection.sender_gone.get()).await;
    }

    /// Waits for progress of the sender. At the deadline the wire is shut down, after which the
    /// sender waits for no client.
    async fn wait_until(&self, deadline: &Deadline, is_over: impl Fn() -> bool) {
        let connection = &self.connection;
        let mut is_patient = true;
        loop {
            let seen = connection.outbox.room.seen();
            if is_over() {
                return;
            }
            let room = connection.outbox.room.after(seen);
            if !is_patient {
                room.await;
            } else if deadline.has_come() {
                connection.wire.shutdown();
                is_patient = false;
            } else {
                first(room, deadline.wait()).await;
            }
        }
    }
}
