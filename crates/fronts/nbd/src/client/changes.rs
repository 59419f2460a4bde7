//! The changes of an export: one lane sends those of all lanes.
//!
//! ```text
//!   change --> Fence: may it be sent? --> the connection of changes -- answer --> Fence
//!                ^                          | it has ended
//!                +-- the same request again-+
//!   flush  --> the anchor, a connection of its own
//! ```
//!
//! The anchor is made before the connection of changes, and ends with it when it ends. Why this
//! makes a flush true, and which changes are held: [`crate::fence`].

use super::Remote;
use super::ferry::Ferry;
use super::line::Line;
use super::remote::RANGE_SECTORS;
use super::shared::{Dial, LinkShared};
use super::waits::{Waiting, WaitsFor};
use super::writing::Writing;
use crate::codec::NBD_ESHUTDOWN;
use crate::fence::{Begin, Fence, FlushMark, Lost, Sent};
use block::{Block, Error, Extent, Kind, Request, Result, SECTOR};
use lane::{Lane, first};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Requests wait for a connection as long as it takes; the watchdog of a cache above ends the wait
/// of its clients.
const NEVER_NS: u64 = u64::MAX;

const LOST: Error = Error::new(
    Kind::Io,
    "flush the NBD export: its connection has ended, and its server may have lost changes",
);

/// The ways to the server that a lane needs to write.
pub struct WriteDials<D> {
    /// To a connection for changes alone.
    pub changes: D,
    /// To one for flushes alone.
    pub anchor: D,
}

/// The lane that carries the changes of an export.
pub(super) struct Changes<D: Dial> {
    lane: Lane,
    line: Line<D>,
    anchor: Line<D>,
    /// The anchor after which the connection of changes was made, or is being made.
    session: RefCell<Weak<Remote<D::Wire>>>,
    shared: Arc<LinkShared>,
    writing: Arc<Writing>,
    ferry: Arc<Ferry>,
    piece_sectors: u32,
    /// Whether answered changes are durable at once: the server has no flush.
    is_always_durable: bool,
}

impl<D: Dial> Changes<D> {
    pub(super) fn start(
        lane: &Lane,
        dials: WriteDials<D>,
        shared: &Arc<LinkShared>,
        writing: &Arc<Writing>,
        ferry: Arc<Ferry>,
    ) -> Rc<Changes<D>> {
        let line = |dial| Line::new(lane, dial, shared, writing.agreed().clone(), true);
        let limits = super::remote_limits::limits(writing.agreed());
        let changes = Rc::new(Changes {
            lane: lane.clone(),
            line: line(dials.changes),
            anchor: line(dials.anchor),
            session: RefCell::default(),
            shared: shared.clone(),
            writing: writing.clone(),
            ferry: ferry.clone(),
            piece_sectors: limits.io_max_bytes / SECTOR as u32,
            is_always_durable: !limits.flush_needed,
        });
        // Another lane has carried changes before, with an anchor of its own.
        let now_ns = lane.now();
        writing.peek(|fence| {
            if fence.sent() > 0 || fence.has_unflushed() {
                fence.session_ends(now_ns);
            }
        });
        let weak = Rc::downgrade(&changes);
        let serve = move |request| {
            let changes = weak.upgrade();
            async move {
                match changes {
                    Some(changes) => changes.run(request).await,
                    None => Err(LOST),
                }
            }
        };
        // Without room for the task, the requests of other lanes wait until the lane has ended.
        let _ = lane.spawn(ferry.serve(lane.clone(), serve));
        changes
    }

    /// Serves a change or a flush.
    pub(super) async fn run(&self, request: Request) -> Result {
        let at = match &request {
            Request::Flush if self.is_always_durable => return Ok(()),
            Request::Flush => return self.flush().await,
            Request::Write { at, .. } | Request::Zero { at, .. } | Request::Discard { at } => *at,
            Request::Read { .. } | Request::Advise { .. } => return Ok(()),
        };
        let most = match &request {
            Request::Write { .. } => self.piece_sectors,
            _ => RANGE_SECTORS,
        };
        let mut done = 0;
        while done < at.count {
            let count = (at.count - done).min(most);
            let part = Extent::new(at.first + u64::from(done), count);
            self.change(part, piece(&request, part, done)).await?;
            done += count;
        }
        Ok(())
    }

    /// Sends a change until it is answered.
    async fn change(&self, at: Extent, request: Request) -> Result {
        let is_durable = self.is_always_durable || is_fua(&request);
        self.lane.turn().await;
        let number = self.writing.fence(Fence::request);
        let waiting = self.writing.wait(number, self.lane.now());
        loop {
            let (remote, copy) = self.begin(at, is_durable, number, &waiting).await?;
            waiting.set(WaitsFor::Answer);
            let result = remote.run_tagged(request.clone(), copy.slot() as u32).await;
            self.lane.turn().await;
            match result {
                Err(error) if remote.ended() == Some(error) => self.changes_ended(&remote),
                result => {
                    self.writing.fence(|fence| fence.answered(copy));
                    self.writing.answered().notify();
                    match result {
                        // The next server at this address may execute it.
                        Err(error) if error.errno == NBD_ESHUTDOWN as i32 => {
                            self.lane.turn().await;
                            self.changes_ended(&remote);
                        }
                        result => return result,
                    }
                }
            }
        }
    }

    /// Waits until a copy of a change may be sent, and enters it. Returns its connection.
    async fn begin(
        &self,
        at: Extent,
        is_durable: bool,
        request: u64,
        waiting: &Waiting<'_>,
    ) -> Result<(Rc<Remote<D::Wire>>, Sent)> {
        loop {
            waiting.set(WaitsFor::Connection);
            let anchor = self.anchor.connection(NEVER_NS).await?;
            self.begin_session(&anchor);
            let remote = self.line.connection(NEVER_NS).await?;
            let seen = self.writing.answered().seen();
            self.lane.turn().await;
            if anchor.ended().is_some() {
                self.anchor_ended(&anchor);
                continue;
            }
            // Another request has seen an end of one of them, or this one does.
            if !self.anchor.is_current(&anchor) || !self.line.is_current(&remote) {
                continue;
            }
            if remote.ended().is_some() {
                self.changes_ended(&remote);
                continue;
            }
            let now_ns = self.lane.now();
            match self.writing.fence(|fence| fence.begin(at, is_durable, request, now_ns)) {
                Begin::Sent(copy) => return Ok((remote, copy)),
                Begin::Full => {
                    waiting.set(WaitsFor::Room);
                    self.writing.answered().after(seen).await;
                }
                Begin::Held(until_ns) => {
                    waiting.set(WaitsFor::Hold);
                    let answer = self.writing.answered().after(seen);
                    first(self.lane.sleep_until(until_ns), answer).await;
                    self.shared.state().note_hold(self.lane.now());
                }
            }
        }
    }

    /// Begins a session, once for each anchor. A connection of changes that another request has
    /// made while there was no anchor may be one to an earlier server.
    fn begin_session(&self, anchor: &Rc<Remote<D::Wire>>) {
        let anchor = Rc::downgrade(anchor);
        let former = self.session.replace(anchor.clone());
        if !former.ptr_eq(&anchor) {
            self.line.drop_current();
        }
    }

    async fn flush(&self) -> Result {
        self.lane.turn().await;
        let number = self.writing.fence(Fence::request);
        let waiting = self.writing.wait(number, self.lane.now());
        loop {
            waiting.set(WaitsFor::Connection);
            // A loss is reported without a connection.
            self.lane.turn().await;
            let _ = self.flush_begins()?;
            let anchor = self.anchor.connection(NEVER_NS).await?;
            self.lane.turn().await;
            if !self.anchor.is_current(&anchor) {
                continue;
            }
            let mark = self.flush_begins()?;
            waiting.set(WaitsFor::Answer);
            let result = anchor.run(Request::Flush).await;
            self.lane.turn().await;
            match result {
                Err(error) if remote_has_ended(&anchor, error) => self.anchor_ended(&anchor),
                Err(error) if error.errno == NBD_ESHUTDOWN as i32 => self.anchor_ended(&anchor),
                result => {
                    let ended = self.writing.fence(|fence| fence.flush_ends(mark, result.is_ok()));
                    return ended.map_err(|Lost| LOST).and(result);
                }
            }
        }
    }

    fn flush_begins(&self) -> Result<FlushMark> {
        let now_ns = self.lane.now();
        self.writing.fence(|fence| fence.flush_begins(now_ns)).map_err(|Lost| LOST)
    }

    /// Handles the end of a connection of changes, once.
    fn changes_ended(&self, remote: &Rc<Remote<D::Wire>>) {
        if self.line.is_current(remote) {
            self.line.drop_current();
            let now_ns = self.lane.now();
            self.writing.fence(|fence| fence.changes_end(now_ns));
            // No more are sent: those that wait for an answer may be.
            self.writing.answered().notify();
        }
    }

    /// Handles the end of an anchor, once. The connection of changes ends with it.
    fn anchor_ended(&self, anchor: &Rc<Remote<D::Wire>>) {
        if self.anchor.is_current(anchor) {
            self.anchor.drop_current();
            self.line.drop_current();
            let now_ns = self.lane.now();
            self.writing.fence(|fence| fence.session_ends(now_ns));
            self.writing.answered().notify();
        }
    }

    /// Ends the service on this lane. Connections that the next process needs stay open until the
    /// lane ends.
    pub(super) fn end(&self) {
        self.ferry.close();
        let is_needed = self.writing.peek(|fence| fence.sent() > 0 || fence.has_unflushed());
        if !is_needed {
            self.line.leave();
            self.anchor.leave();
        }
        self.writing.disembark();
    }
}

fn remote_has_ended<W: block::Wire>(remote: &Remote<W>, error: Error) -> bool {
    remote.ended() == Some(error)
}

fn is_fua(request: &Request) -> bool {
    matches!(request, Request::Write { fua: true, .. } | Request::Zero { fua: true, .. })
}

/// Returns the piece of a change that begins `done` sectors after its start.
fn piece(request: &Request, at: Extent, done: u32) -> Request {
    match request {
        Request::Write { from, fua, .. } => {
            Request::Write { at, from: from.part(done, at.count), fua: *fua }
        }
        Request::Zero { fua, may_unmap, .. } => {
            Request::Zero { at, fua: *fua, may_unmap: *may_unmap }
        }
        _ => Request::Discard { at },
    }
}
