//! An export of another server as a block device of a lane.
//!
//! ```text
//!   run --ask--> State: requests by cookie, queue --sender--> wire
//!                  |                                            |
//!   answer <-------+------------------------------receiver------+
//! ```
//!
//! All requests that are queued in one round of the lane are sent together. A bounded number of
//! requests is in flight; others wait in the order of their arrival. When the connection breaks,
//! the requests in flight and all later ones fail; it is not reopened ([`super::Link`] does that).

use super::connected::Connected;
use super::remote_limits::limits;
use super::stretches::stretches;
use super::{Agreed, Event as Reply, Replies, UnderWay};
use crate::codec::*;
use block::Wire;
use block::{
    Block, Buf, Error, Extent, Kind, Limits, Memory, Part, Request, Result, SECTOR, Stretch,
};
use lane::{Event, Full, Lane, Ticket};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of bytes per send or receive.
const STAGE_BYTES: usize = 1 << 20;
/// Maximum number of requests in flight on a connection. Servers execute far fewer at a time.
pub const IN_FLIGHT_MAX: usize = 128;
/// Maximum length of requests other than reads and writes, as lengths have 32 bits.
pub(super) const RANGE_SECTORS: u32 = 1 << 21;
/// Bits of a cookie for the request's place in this client; those above them carry its tag.
pub(super) const TAG_SHIFT: u32 = 8;
const _: () = assert!(IN_FLIGHT_MAX <= 1 << TAG_SHIFT);

const LOST: Error = Error::new(Kind::Io, "reach the NBD server: the connection has ended");
pub(super) const NONSENSE: Error =
    Error::new(Kind::Io, "understand the NBD server: it breaks the protocol");

/// The extents of a block status, once they have arrived.
type Extents = Rc<RefCell<Vec<Descriptor>>>;

/// The payload of a request, or the destination of its answer.
enum Payload {
    None,
    From(Buf),
    Into(Buf),
    Extents(Extents),
}

/// Returns the place in this client of the request with this cookie.
fn place(cookie: u64) -> usize {
    (cookie & ((1 << TAG_SHIFT) - 1)) as usize
}

/// A request that was sent or queued.
struct PendingRequest {
    ticket: u64,
    payload: Payload,
}

/// The kind of a request, and the tag of its cookie.
#[derive(Clone, Copy)]
struct Order {
    command: u16,
    flags: u16,
    tag: u32,
}

/// A request in the send queue.
struct Queued {
    header: [u8; REQUEST_BYTES],
    is_headed: bool,
    from: Option<Buf>,
    /// Number of sectors of the payload that are staged.
    staged: u32,
}

struct State {
    /// The requests in flight, by their places.
    pending: Vec<Option<PendingRequest>>,
    /// Free places.
    free: Vec<usize>,
    /// Tickets of the requests that wait for a place, in the order of their arrival.
    waiting: VecDeque<u64>,
    under_way: UnderWay,
    replies: Replies,
    queue: VecDeque<Queued>,
    broken: Option<Error>,
    /// Whether the farewell follows the queued requests.
    is_leaving: bool,
}

impl State {
    fn new(agreed: &Agreed) -> State {
        let contexts = agreed.contexts.iter().map(|context| context.0).collect();
        State {
            pending: std::iter::repeat_with(|| None).take(IN_FLIGHT_MAX).collect(),
            free: (0..IN_FLIGHT_MAX).rev().collect(),
            waiting: VecDeque::with_capacity(IN_FLIGHT_MAX),
            under_way: UnderWay::with_capacity(IN_FLIGHT_MAX),
            replies: Replies::new(agreed.structured, contexts),
            queue: VecDeque::with_capacity(IN_FLIGHT_MAX),
            broken: None,
            is_leaving: false,
        }
    }

    /// Returns the destination of a read's data.
    fn destination(&self, cookie: u64) -> Result<&Buf> {
        match &self.pending[place(cookie)] {
            Some(PendingRequest { payload: Payload::Into(buf), .. }) => Ok(buf),
            _ => Err(NONSENSE),
        }
    }
}

struct Shared<W> {
    lane: Lane,
    wire: W,
    state: RefCell<State>,
    queued: Event,
    ended: Event,
    /// Dropped at the end of the connection.
    held: RefCell<Option<Connected>>,
}

/// An export of another server. Its tasks run on the lane until the connection ends or the lane is
/// abandoned.
pub struct Remote<W: Wire> {
    shared: Rc<Shared<W>>,
    limits: Limits,
    /// Whether the server reports block status.
    has_status: bool,
}

impl<W: Wire> Remote<W> {
    /// Returns the export at the other end of a wire in transmission, for use on this lane.
    ///
    /// # Panics
    /// If the lane has fewer than two free task slots.
    pub fn from_wire(lane: &Lane, wire: W, agreed: &Agreed) -> Remote<W> {
        Remote::try_from_wire(lane, wire, agreed).expect("the lane has room for two tasks")
    }

    /// Same as [`Remote::from_wire`].
    ///
    /// # Errors
    /// The lane has fewer than two free task slots; the wire is closed.
    pub fn try_from_wire(
        lane: &Lane,
        wire: W,
        agreed: &Agreed,
    ) -> std::result::Result<Remote<W>, Full> {
        let state = RefCell::new(State::new(agreed));
        let (queued, ended) = (Event::new(), Event::new());
        let shared = Rc::new(Shared {
            lane: lane.clone(),
            wire,
            state,
            queued,
            ended,
            held: RefCell::default(),
        });
        lane.spawn(send(shared.clone()))?;
        if let Err(full) = lane.spawn(receive(shared.clone())) {
            shared.fail(LOST);
            return Err(full);
        }
        let allocation = agreed.contexts.iter().find(|context| context.1 == ALLOCATION_CONTEXT);
        let has_status = allocation.is_some();
        Ok(Remote { shared, limits: limits(agreed), has_status })
    }

    /// Keeps this until the connection ends.
    pub(super) fn hold_until_end(&self, connected: Connected) {
        if self.ended().is_none() {
            *self.shared.held.borrow_mut() = Some(connected);
        }
    }

    /// Returns the reason why the connection has ended. None: it has not.
    pub fn ended(&self) -> Option<Error> {
        self.shared.state.borrow().broken
    }

    /// Waits until the connection has ended.
    pub(super) async fn after_end(&self) {
        loop {
            let seen = self.shared.ended.seen();
            if self.ended().is_some() {
                return;
            }
            self.shared.ended.after(seen).await;
        }
    }

    /// Sends the farewell behind the requests that are queued, and ends the connection. Requests in
    /// flight fail.
    pub fn leave(&self) {
        self.shared.state.borrow_mut().is_leaving = true;
        self.shared.queued.notify();
    }

    /// Ends the connection immediately. Requests in flight fail.
    pub fn abort(&self) {
        self.shared.fail(LOST);
    }

    /// Serves a request as [`Block::run`] does. The cookies of its messages carry a tag, by which
    /// another process can attribute the answers.
    pub async fn run_tagged(&self, request: Request, tag: u32) -> Result {
        let order = |command, flags| Order { command, flags, tag };
        match request {
            Request::Read { at, into } => {
                self.ask(order(NBD_CMD_READ, 0), at, Payload::Into(into)).await
            }
            Request::Write { at, from, fua } => {
                self.ask(order(NBD_CMD_WRITE, flag_of(fua)), at, Payload::From(from)).await
            }
            Request::Flush if !self.limits.flush_needed => Ok(()),
            Request::Flush => {
                self.ask(order(NBD_CMD_FLUSH, 0), Extent::new(0, 0), Payload::None).await
            }
            Request::Discard { at } if self.limits.zero_fast => {
                self.zero(at, order(NBD_CMD_WRITE_ZEROES, 0)).await
            }
            Request::Discard { .. } | Request::Advise { .. } => Ok(()),
            Request::Zero { at, fua, may_unmap } if self.limits.zero_fast => {
                let hole = if may_unmap { 0 } else { NBD_CMD_FLAG_NO_HOLE };
                self.zero(at, order(NBD_CMD_WRITE_ZEROES, hole | flag_of(fua))).await
            }
            Request::Zero { at, fua, .. } => {
                self.write_zeros(at, order(NBD_CMD_WRITE, flag_of(fua))).await
            }
        }
    }

    async fn ask(&self, order: Order, at: Extent, payload: Payload) -> Result {
        let place = self.shared.place().await?;
        let ticket = self.shared.queue(place, order, at, payload)?;
        match ticket.await {
            0 => Ok(()),
            1.. => Err(self.shared.state.borrow().broken.unwrap_or(LOST)),
            errno => Err(refused(order.command, -errno as i32)),
        }
    }

    /// Zeroes a range of any length, in pieces that the protocol can express.
    async fn zero(&self, at: Extent, order: Order) -> Result {
        let mut done = 0;
        while done < at.count {
            let count = (at.count - done).min(RANGE_SECTORS);
            let part = Extent::new(at.first + u64::from(done), count);
            self.ask(order, part, Payload::None).await?;
            done += count;
        }
        Ok(())
    }

    /// Writes zeros, for a server without the command.
    async fn write_zeros(&self, at: Extent, order: Order) -> Result {
        let room = (self.limits.io_max_bytes.min(STAGE_BYTES as u32) / SECTOR as u32).max(1);
        let zeros = Buf::new(room.min(at.count), SECTOR as u32);
        let mut done = 0;
        while done < at.count {
            let count = (at.count - done).min(zeros.sectors());
            let part = Extent::new(at.first + u64::from(done), count);
            let from = Payload::From(zeros.part(0, count));
            self.ask(order, part, from).await?;
            done += count;
        }
        Ok(())
    }
}

/// Returns the error of a request that the server has refused.
fn refused(command: u16, errno: i32) -> Error {
    let error = Error::from_errno(errno, doing(command));
    match command {
        // No other kind is valid for a read.
        NBD_CMD_READ => Error { kind: Kind::Io, ..error },
        _ => error,
    }
}

fn doing(command: u16) -> &'static str {
    match command {
        NBD_CMD_READ => "read from the NBD server",
        NBD_CMD_WRITE => "write to the NBD server",
        NBD_CMD_FLUSH => "flush the NBD server's export",
        NBD_CMD_BLOCK_STATUS => "get the block status of the NBD server's export",
        _ => "zero a part of the NBD server's export",
    }
}

fn flag_of(fua: bool) -> u16 {
    if fua { NBD_CMD_FLAG_FUA } else { 0 }
}

impl<W: Wire> Block for Remote<W> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        self.run_tagged(request, 0).await
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        if !self.has_status {
            return Ok(vec![Stretch::data(at.count)]);
        }
        let extents = Extents::default();
        let part = Extent::new(at.first, at.count.min(RANGE_SECTORS));
        let payload = Payload::Extents(extents.clone());
        let order = Order { command: NBD_CMD_BLOCK_STATUS, flags: 0, tag: 0 };
        match self.ask(order, part, payload).await {
            Ok(()) => Ok(stretches(&extents.take(), part.count)),
            // The next server may answer.
            Err(error) if error.errno == NBD_ESHUTDOWN as i32 => Err(error),
            Err(error) if self.ended() == Some(error) => Err(error),
            // The server cannot say: a client that reads data loses nothing but time.
            Err(_) => Ok(vec![Stretch::data(part.count)]),
        }
    }
}

impl<W: Wire> Shared<W> {
    /// Returns a free place, once there is one.
    async fn place(&self) -> Result<usize> {
        let ticket = {
            let mut state = self.state.borrow_mut();
            if let Some(error) = state.broken {
                return Err(error);
            }
            if let Some(place) = state.free.pop() {
                return Ok(place);
            }
            let ticket = self.lane.ticket(None);
            state.waiting.push_back(ticket.number());
            ticket
        };
        let place = ticket.await;
        let ended = || self.state.borrow().broken.unwrap_or(LOST);
        usize::try_from(place).map_err(|_| ended())
    }

    fn queue(&self, place: usize, order: Order, at: Extent, payload: Payload) -> Result<Ticket> {
        let Order { command, flags, tag } = order;
        let mut state = self.state.borrow_mut();
        if let Some(error) = state.broken {
            return Err(error);
        }
        let ticket = self.lane.ticket(None);
        let (payload, from) = match payload {
            Payload::From(buf) => (Payload::None, Some(buf)),
            payload => (payload, None),
        };
        state.pending[place] = Some(PendingRequest { ticket: ticket.number(), payload });
        let (offset, length) = (at.first * SECTOR, at.count * SECTOR as u32);
        let cookie = u64::from(tag) << TAG_SHIFT | place as u64;
        let header = RequestHeader { flags, command, cookie, offset, length };
        state.under_way.note(&header);
        let header = header.encode();
        state.queue.push_back(Queued { header, is_headed: false, from, staged: 0 });
        drop(state);
        self.queued.notify();
        Ok(ticket)
    }

    /// Fails all requests: no more replies can come.
    fn fail(&self, error: Error) {
        let mut state = self.state.borrow_mut();
        state.broken.get_or_insert(error);
        state.queue.clear();
        for asked in state.pending.iter_mut().filter_map(Option::take) {
            self.lane.complete(asked.ticket, 1);
        }
        for waiting in state.waiting.drain(..) {
            self.lane.complete(waiting, -1);
        }
        drop(state);
        self.held.take();
        self.wire.shutdown();
        self.queued.notify();
        self.ended.notify();
    }

    /// Copies as many queued bytes to the stage as fit. Returns their number. None: the connection
    /// has ended.
    fn fill(&self, stage: &Memory) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        if state.broken.is_some() {
            return None;
        }
        let mut used = 0;
        while let Some(next) = state.queue.front_mut() {
            if !next.is_headed {
                if STAGE_BYTES - used < REQUEST_BYTES {
                    break;
                }
                stage.write(used, &next.header);
                (used, next.is_headed) = (used + REQUEST_BYTES, true);
            }
            if let Some(from) = &next.from {
                let room = ((STAGE_BYTES - used) / SECTOR as usize) as u32;
                let count = room.min(from.sectors() - next.staged);
                from.copy_part_to(next.staged, count, stage, used);
                used += count as usize * SECTOR as usize;
                next.staged += count;
                if next.staged < from.sectors() {
                    break;
                }
            }
            state.queue.pop_front();
        }
        if used == 0 && state.is_leaving {
            stage.write(0, &FAREWELL.encode());
            used = REQUEST_BYTES;
        }
        Some(used)
    }

    /// Whether the farewell is the next message.
    fn is_last(&self) -> bool {
        let state = self.state.borrow();
        state.is_leaving && state.queue.is_empty()
    }

    /// Ends an answered request, and gives its cookie to the next one.
    fn end(&self, state: &mut State, cookie: u64, error: u32) -> Result {
        let place = place(cookie);
        let done = state.pending[place].take().ok_or(NONSENSE)?;
        match state.waiting.pop_front() {
            Some(next) => self.lane.complete(next, place as i64),
            None => state.free.push(place),
        }
        self.lane.complete(done.ticket, -i64::from(error));
        Ok(())
    }

    /// Parses received bytes and ends the answered requests.
    fn take(&self, stage: &Buf, bytes: &[u8]) -> Result {
        let mut state = self.state.borrow_mut();
        let mut input = bytes;
        loop {
            let State { replies, under_way, .. } = &mut *state;
            match replies.take(&mut input, under_way).map_err(|_| NONSENSE)? {
                None => return Ok(()),
                Some(Reply::Data { cookie, at, bytes: data }) => {
                    let from = bytes.len() - input.len() - data.len();
                    state.destination(cookie)?.copy_bytes_from(
                        at as usize,
                        stage,
                        from,
                        data.len(),
                    );
                }
                Some(Reply::Zeros { cookie, at, length }) => {
                    state.destination(cookie)?.zero_bytes(at as usize, length as usize);
                }
                Some(Reply::Status { cookie, extents: found, .. }) => {
                    match &state.pending[place(cookie)] {
                        Some(PendingRequest { payload: Payload::Extents(extents), .. }) => {
                            *extents.borrow_mut() = found;
                        }
                        _ => return Err(NONSENSE),
                    }
                }
                Some(Reply::Done { cookie, error }) => self.end(&mut state, cookie, error)?,
            }
        }
    }
}

/// Announces the end of the connection. It is not answered.
const FAREWELL: RequestHeader =
    RequestHeader { flags: 0, command: NBD_CMD_DISC, cookie: 0, offset: 0, length: 0 };

async fn send<W: Wire>(shared: Rc<Shared<W>>) {
    let stage = Arc::new(Memory::heap(STAGE_BYTES));
    loop {
        let seen = shared.queued.seen();
        let is_last = shared.is_last();
        let Some(length) = shared.fill(&stage) else { return };
        if length == 0 {
            shared.queued.after(seen).await;
            // Requests that other tasks queue in this round are sent together with this one.
            shared.lane.rest().await;
            continue;
        }
        let part = Part { memory: stage.clone(), offset: 0, length };
        let sent = shared.wire.send(&[part]).await;
        if sent.is_ok() && is_last {
            shared.wire.finish().await;
        }
        if sent.is_err() || is_last {
            return shared.fail(LOST);
        }
    }
}

async fn receive<W: Wire>(shared: Rc<Shared<W>>) {
    let memory = Arc::new(Memory::heap(STAGE_BYTES));
    let sectors = (STAGE_BYTES as u64 / SECTOR) as u32;
    let stage = Buf::from_memory(memory.clone(), 0, sectors, SECTOR as u32);
    let mut bytes = vec![0; STAGE_BYTES];
    loop {
        let received = shared.wire.receive(&memory, 0, STAGE_BYTES).await;
        let taken = match received {
            Ok(0) => Err(LOST),
            Ok(count) => {
                memory.read(0, &mut bytes[..count]);
                shared.take(&stage, &bytes[..count])
            }
            Err(_) => Err(LOST),
        };
        if let Err(error) = taken {
            return shared.fail(error);
        }
    }
}
