//! An export of another server as a block device of a lane.
//!
//! ```text
//!   run --ask--> State: requests by cookie, queue --sender--> wire
//!                  |                                            |
//!   answer <-------+------------------------------receiver------+
//! ```
//!
//! All requests that are queued in one round of the lane are sent together. When the connection
//! breaks, the requests in flight and all later ones fail; it is not reopened.

use super::{Agreed, Event as Reply, Replies, UnderWay};
use crate::codec::*;
use block::Wire;
use block::{
    Block, Buf, Discard, Error, Extent, Fua, Kind, Limits, Memory, Part, Request, Result, SECTOR,
};
use lane::{Event, Lane, Ticket};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of bytes per send or receive.
const STAGE_BYTES: usize = 1 << 20;
/// Maximum transfer if the server sends no limit: every server accepts this.
const TRANSFER_BYTES: u32 = 32 << 20;
/// Maximum length of requests other than reads and writes, as lengths have 32 bits.
const RANGE_SECTORS: u32 = 1 << 21;

const LOST: Error = Error::new(Kind::Io, "reach the NBD server: the connection has ended");
const NONSENSE: Error = Error::new(Kind::Io, "understand the NBD server: it breaks the protocol");

/// A request that was sent or queued, and the destination of its answer.
struct PendingRequest {
    ticket: u64,
    into: Option<Buf>,
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
    pending: Vec<Option<PendingRequest>>,
    free: Vec<usize>,
    under_way: UnderWay,
    replies: Replies,
    queue: VecDeque<Queued>,
    broken: Option<Error>,
}

struct Shared<W> {
    lane: Lane,
    wire: W,
    state: RefCell<State>,
    queued: Event,
}

/// An export of another server. Its tasks run on the lane until the connection ends or the lane is
/// abandoned.
pub struct Remote<W: Wire> {
    shared: Rc<Shared<W>>,
    limits: Limits,
}

fn limits(agreed: &Agreed) -> Limits {
    let sizes = agreed.sizes;
    let logical = sizes.map_or(1, |sizes| sizes.min).max(SECTOR as u32);
    let io_max = sizes.map_or(TRANSFER_BYTES, |sizes| sizes.max).min(TRANSFER_BYTES);
    let zeroes = agreed.can(NBD_FLAG_SEND_WRITE_ZEROES);
    let plain = Limits::plain(agreed.export.bytes / SECTOR, SECTOR as u32);
    Limits {
        sectors: plain.sectors / u64::from(logical / SECTOR as u32)
            * u64::from(logical / SECTOR as u32),
        block_logical_bytes: logical,
        block_physical_bytes: plain.block_physical_bytes.max(logical),
        io_best_bytes: sizes.map_or(plain.io_best_bytes, |sizes| sizes.preferred.max(logical)),
        io_max_bytes: io_max.max(logical),
        flush_needed: agreed.can(NBD_FLAG_SEND_FLUSH),
        fua: if agreed.can(NBD_FLAG_SEND_FUA) { Fua::Native } else { Fua::None },
        // The protocol does not define reads after a trim; write-zeroes may free space too.
        discard: if zeroes { Discard::Zeroes } else { Discard::Ignored },
        zero_fast: zeroes,
        rotational: agreed.can(NBD_FLAG_ROTATIONAL),
        read_only: agreed.can(NBD_FLAG_READ_ONLY),
        ..plain
    }
}

impl<W: Wire> Remote<W> {
    /// Returns the export at the other end of a wire in transmission, for use on this lane.
    ///
    /// # Panics
    /// If the lane has fewer than two free task slots.
    pub fn from_wire(lane: &Lane, wire: W, agreed: &Agreed) -> Remote<W> {
        let contexts = agreed.contexts.iter().map(|context| context.0).collect();
        let state = State {
            pending: Vec::new(),
            free: Vec::new(),
            under_way: UnderWay::default(),
            replies: Replies::new(agreed.structured, contexts),
            queue: VecDeque::new(),
            broken: None,
        };
        let state = RefCell::new(state);
        let shared = Rc::new(Shared { lane: lane.clone(), wire, state, queued: Event::new() });
        lane.spawn(send(shared.clone())).expect("the lane has room for a sender");
        lane.spawn(receive(shared.clone())).expect("the lane has room for a receiver");
        Remote { shared, limits: limits(agreed) }
    }

    async fn ask(&self, command: u16, flags: u16, at: Extent, buf: Option<Buf>) -> Result {
        let ticket = self.shared.queue(command, flags, at, buf)?;
        match ticket.await {
            0 => Ok(()),
            1.. => Err(self.shared.state.borrow().broken.unwrap_or(LOST)),
            errno => Err(Error::from_errno(-errno as i32, doing(command))),
        }
    }

    /// Zeroes a range of any length, in pieces that the protocol can express.
    async fn zero(&self, at: Extent, flags: u16) -> Result {
        let mut done = 0;
        while done < at.count {
            let count = (at.count - done).min(RANGE_SECTORS);
            let part = Extent::new(at.first + u64::from(done), count);
            self.ask(NBD_CMD_WRITE_ZEROES, flags, part, None).await?;
            done += count;
        }
        Ok(())
    }

    /// Writes zeros, for a server without the command.
    async fn write_zeros(&self, at: Extent, flags: u16) -> Result {
        let room = (self.limits.io_max_bytes.min(STAGE_BYTES as u32) / SECTOR as u32).max(1);
        let zeros = Buf::new(room.min(at.count), SECTOR as u32);
        let mut done = 0;
        while done < at.count {
            let count = (at.count - done).min(zeros.sectors());
            let part = Extent::new(at.first + u64::from(done), count);
            self.ask(NBD_CMD_WRITE, flags, part, Some(zeros.part(0, count))).await?;
            done += count;
        }
        Ok(())
    }
}

fn doing(command: u16) -> &'static str {
    match command {
        NBD_CMD_READ => "read from the NBD server",
        NBD_CMD_WRITE => "write to the NBD server",
        NBD_CMD_FLUSH => "flush the NBD server's export",
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
        match request {
            Request::Read { at, into } => self.ask(NBD_CMD_READ, 0, at, Some(into)).await,
            Request::Write { at, from, fua } => {
                self.ask(NBD_CMD_WRITE, flag_of(fua), at, Some(from)).await
            }
            Request::Flush if !self.limits.flush_needed => Ok(()),
            Request::Flush => self.ask(NBD_CMD_FLUSH, 0, Extent::new(0, 0), None).await,
            Request::Discard { at } if self.limits.zero_fast => self.zero(at, 0).await,
            Request::Discard { .. } | Request::Advise { .. } => Ok(()),
            Request::Zero { at, fua, may_unmap } if self.limits.zero_fast => {
                let hole = if may_unmap { 0 } else { NBD_CMD_FLAG_NO_HOLE };
                self.zero(at, hole | flag_of(fua)).await
            }
            Request::Zero { at, fua, .. } => self.write_zeros(at, flag_of(fua)).await,
        }
    }
}

impl<W: Wire> Shared<W> {
    fn queue(&self, command: u16, flags: u16, at: Extent, buf: Option<Buf>) -> Result<Ticket> {
        let mut state = self.state.borrow_mut();
        if let Some(error) = state.broken {
            return Err(error);
        }
        let ticket = self.lane.ticket(None);
        let (into, from) = if command == NBD_CMD_READ { (buf, None) } else { (None, buf) };
        let asked = Some(PendingRequest { ticket: ticket.number(), into });
        let place = state.free.pop().unwrap_or(state.pending.len());
        if place == state.pending.len() {
            state.pending.push(asked);
        } else {
            state.pending[place] = asked;
        }
        let (offset, length) = (at.first * SECTOR, at.count * SECTOR as u32);
        let header = RequestHeader { flags, command, cookie: place as u64, offset, length };
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
        drop(state);
        self.wire.shutdown();
        self.queued.notify();
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
        Some(used)
    }

    /// Parses received bytes and ends the answered requests.
    fn take(&self, stage: &Buf, bytes: &[u8]) -> Result {
        let mut state = self.state.borrow_mut();
        let State { pending, free, under_way, replies, .. } = &mut *state;
        let mut input = bytes;
        loop {
            let event = replies.take(&mut input, under_way).map_err(|_| NONSENSE)?;
            let into = |cookie: u64| pending[cookie as usize].as_ref()?.into.as_ref();
            match event {
                None => return Ok(()),
                Some(Reply::Data { cookie, at, bytes: data }) => {
                    let from = bytes.len() - input.len() - data.len();
                    let into = into(cookie).ok_or(NONSENSE)?;
                    into.copy_bytes_from(at as usize, stage, from, data.len());
                }
                Some(Reply::Zeros { cookie, at, length }) => {
                    into(cookie).ok_or(NONSENSE)?.zero_bytes(at as usize, length as usize);
                }
                Some(Reply::Status { .. }) => return Err(NONSENSE),
                Some(Reply::Done { cookie, error }) => {
                    let place = cookie as usize;
                    let done = pending[place].take().ok_or(NONSENSE)?;
                    free.push(place);
                    self.lane.complete(done.ticket, -i64::from(error));
                }
            }
        }
    }
}

async fn send<W: Wire>(shared: Rc<Shared<W>>) {
    let stage = Arc::new(Memory::heap(STAGE_BYTES));
    loop {
        let seen = shared.queued.seen();
        let Some(length) = shared.fill(&stage) else { return };
        if length == 0 {
            shared.queued.after(seen).await;
            // Requests that other tasks queue in this round are sent together with this one.
            shared.lane.rest().await;
            continue;
        }
        let part = Part { memory: stage.clone(), offset: 0, length };
        if shared.wire.send(&[part]).await.is_err() {
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
