//! The clients of a history: tasks that carry out their plan.

use crate::book::Book;
use crate::oracle::Range;
use crate::pending::{Kind, Pending};
use crate::plan::{Act, Change, Step};
use crate::stamp::{self, GRAIN, Operation};
use crate::subject::{Connection, Observing, Process, run_for};
use block::{Advice, Buf, Extent, Fua, Memory, Padding, Request, Result, Stack};
use cache::Changes;
use lane::{Event, Lane};
use layers::{ArrivalOrder, InOrder};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// Memory for the buffers of a history: each operation gets its own, none is used twice.
pub(crate) struct Scratch {
    memory: Arc<Memory>,
    used: Cell<usize>,
    grain: u32,
}

impl Scratch {
    /// Allocates memory for `operations` operations of at most `sectors` sectors.
    pub(crate) fn new(operations: u32, sectors: u32, grain: u32) -> Scratch {
        let bytes = (operations * sectors) as usize * GRAIN;
        Scratch { memory: Arc::new(Memory::heap(bytes)), used: Cell::new(0), grain }
    }

    /// Returns a buffer of this many of the stack's sectors.
    fn take(&self, sectors: u32) -> Buf {
        let offset = self.used.get();
        self.used.set(offset + (sectors * self.grain) as usize);
        Buf::from_memory(self.memory.clone(), offset, sectors, self.grain)
    }
}

/// A flush that a client is about to send.
struct Flushing {
    /// Whether it is the first one of its connection.
    is_first: bool,
    /// The answer that it gets instead of success.
    doubt: Result,
}

/// A request that was sent: answered immediately, or in progress.
enum Asked {
    Answered(Result),
    Running(InOrder),
}

/// An operation that was sent and not judged yet.
struct Sent {
    pending: Pending,
    buffer: Buf,
    at: Extent,
    padding: Padding,
}

/// One client.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) lane: Lane,
    pub(crate) stack: Stack,
    pub(crate) process: Rc<dyn Process>,
    pub(crate) book: Rc<RefCell<Book>>,
    pub(crate) scratch: Rc<Scratch>,
    /// One read in this many is an observer's. 0: none.
    pub(crate) observed_one_in: u32,
    /// Its changes in progress.
    pub(crate) order: ArrivalOrder,
    /// Whether the process still serves its clients.
    pub(crate) alive: Rc<Cell<bool>>,
}

impl Client {
    /// Carries out the plan, to the end.
    pub(crate) async fn run(self, plan: Vec<Step>) {
        let mut connection: Option<Box<dyn Connection>> = None;
        let mut proven = false;
        for step in plan {
            self.lane.sleep_until(self.lane.now() + step.pause_ns).await;
            self.wait_for_turn().await;
            match step.act {
                Act::Reconnect => {
                    drop(connection.take());
                    self.book.borrow_mut().record_disconnect(std::mem::take(&mut proven));
                }
                Act::SetMode(mode) => {
                    self.process.set_mode(mode);
                    self.book.borrow_mut().record_mode(mode);
                }
                Act::Set(changes) => self.set(&changes).await,
                Act::Aside { reads, writes } => {
                    self.process.force_bypass(&self.lane, reads, writes)
                }
                Act::WindowShare(share) => self.process.force_window_share(share),
                Act::Warm(seed) => {
                    if let Some(warming) = self.process.warm(&self.lane, seed) {
                        warming.await;
                    }
                }
                Act::Hints(seed) => {
                    if let Some(hinting) = self.process.set_hints(&self.lane, seed) {
                        hinting.await;
                    }
                }
                Act::Advise { first, count } => self.advise((first, count)).await,
                Act::ClearError if self.process.has_failed() => {
                    self.process.clear_error();
                    self.book.borrow_mut().record_error_clearing();
                }
                Act::DiscardDirty if self.process.has_failed() => self.discard_dirty().await,
                Act::ClearError | Act::DiscardDirty => {}
                Act::Again(_) | Act::Operate { .. } | Act::Pair(..) => {
                    if connection.is_none() {
                        connection = Some(self.process.connect());
                        self.lane.turn().await;
                    }
                    let mut flush = None;
                    if step.act.kind() == Some(Kind::Flush) {
                        let is_first = !std::mem::replace(&mut proven, true);
                        self.book.borrow_mut().proves(!is_first);
                        let connection = connection.as_ref().expect("just connected");
                        connection.record_flush();
                        self.lane.turn().await;
                        flush = Some(Flushing { is_first, doubt: connection.take_doubt() });
                    }
                    match step.act {
                        Act::Pair(one, two) => self.operate_both(one, two).await,
                        act => self.operate(act, flush).await,
                    }
                }
            }
        }
        self.lane.turn().await;
        drop(connection);
        let mut book = self.book.borrow_mut();
        book.record_disconnect(proven);
        book.clients -= 1;
    }

    /// Waits for a turn; for ever, if the process no longer serves its clients.
    async fn wait_for_turn(&self) {
        self.lane.turn().await;
        poll_fn(|_| if self.alive.get() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Sends advice. Its answer promises nothing and is not judged; later reads by others are.
    async fn advise(&self, range: Range) {
        let (at, _) = self.blocks_around(range);
        let request = Request::Advise { at, advice: Advice::WillNeed };
        if self.stack.try_now(&request).is_none() {
            self.lane.turn().await;
            let mut running = self.stack.run_unless_stalled(request);
            let _ = poll_fn(|context| match self.alive.get() {
                true => Pin::new(&mut running).poll(context),
                false => Poll::Pending,
            })
            .await;
        }
        self.wait_for_turn().await;
    }

    async fn set(&self, changes: &Changes) {
        if let Some(changing) = self.process.set(&self.lane, changes) {
            self.book.borrow_mut().begin_set(changes);
            let done = changing.await;
            self.book.borrow_mut().end_set(done, self.process.as_ref());
        }
    }

    async fn discard_dirty(&self) {
        // One at a time: the book has room for one.
        if self.book.borrow().oracle.discarding {
            return;
        }
        if let Some(discarding) = self.process.discard_dirty(&self.lane) {
            self.book.borrow_mut().begin_discard();
            let done = discarding.await;
            self.book.borrow_mut().end_discard(done);
        }
    }

    async fn status(&self, pending: &Pending) {
        let (at, padding) = self.blocks_around(pending.range);
        let answer = self.stack.status(at).await;
        self.lane.rest().await;
        self.wait_for_turn().await;
        let first_sector = pending.range.0 - padding.head / GRAIN as u32;
        self.book.borrow_mut().record_status_answer(pending, first_sector, answer);
    }

    /// Returns the stack's blocks around sectors of the laboratory.
    fn blocks_around(&self, (first, count): Range) -> (Extent, Padding) {
        let (offset, length) = (u64::from(first) * GRAIN as u64, count * GRAIN as u32);
        self.stack.limits().around(offset, length).expect("inside the disk")
    }

    async fn operate(&self, act: Act, flush: Option<Flushing>) {
        let Some(sent) = self.send(act) else { return };
        if sent.pending.kind == Kind::Status {
            return self.status(&sent.pending).await;
        }
        let Sent { pending, buffer, at, padding } = &sent;
        let result = match *padding {
            Padding::NONE => self.submit(pending, *at, buffer).await,
            padding => self.part(pending, *at, buffer.clone(), padding).await,
        };
        self.judge(sent, result, flush).await;
    }

    /// Sends two changes, one immediately behind the other, and waits for both answers.
    async fn operate_both(&self, one: Change, two: Change) {
        let acts =
            [one, two].map(|Change { kind, first, count }| Act::Operate { kind, first, count });
        if self.process.cut_sectors() > 0 {
            // In parts they would have no order as a whole.
            self.operate(acts[0], None).await;
            return self.operate(acts[1], None).await;
        }
        let [one, two] = acts.map(|act| self.send(act).expect("an operation"));
        self.book.borrow_mut().comes_behind(&two.pending, &one.pending);
        let mut asked = Vec::with_capacity(2);
        for Sent { pending, buffer, at, padding } in [&one, &two] {
            let request = request(pending.kind, *at, buffer.clone());
            asked.push(self.ask(pending.operation, request, *padding).await);
        }
        let (mut asked, done) = (asked.into_iter(), Rc::new(Event::new()));
        let (first, second) = (asked.next().expect("two"), asked.next().expect("two"));
        let (seen, client, ended) = (done.seen(), self.clone(), done.clone());
        let other = async move {
            let result = client.answer(one.pending.operation, first).await;
            client.judge(one, result, None).await;
            ended.notify();
        };
        self.lane.spawn(other).expect("a lane has room for some clients");
        let result = self.answer(two.pending.operation, second).await;
        self.judge(two, result, None).await;
        done.after(seen).await;
    }

    /// Sends an operation. None: the act sends none.
    fn send(&self, act: Act) -> Option<Sent> {
        let (kind, first, count) = match act {
            Act::Again(Pending { kind, range: (first, count), .. })
            | Act::Operate { kind, first, count } => (kind, first, count),
            _ => return None,
        };
        let fua = self.process.takes_fua() || self.stack.limits().fua != Fua::None;
        let kind = match kind {
            Kind::WriteFua if !fua => Kind::Write,
            Kind::ZeroFua if !fua => Kind::Zero,
            kind => kind,
        };
        let (at, padding) = self.blocks_around((first, count));
        let padding = if kind == Kind::Flush { Padding::NONE } else { padding };
        let buffer = self.scratch.take(at.count);
        let dirty = self.process.dirty_blocks() > 0;
        let mut book = self.book.borrow_mut();
        let pending = match act {
            Act::Again(before) => book.record_resend(&before, dirty),
            _ => book.record_request(kind, (first, count), dirty),
        };
        if kind != Kind::Status {
            let mut bytes = vec![0xa5; buffer.bytes()];
            if matches!(kind, Kind::Write | Kind::WriteFua) {
                let body = padding.head as usize..bytes.len() - padding.tail as usize;
                stamp::fill(&mut bytes[body], pending.operation, first);
            }
            buffer.write(&bytes);
        }
        Some(Sent { pending, buffer, at, padding })
    }

    /// Notes the answer to an operation.
    async fn judge(&self, sent: Sent, mut result: Result, flush: Option<Flushing>) {
        let Sent { pending, buffer, padding, .. } = sent;
        // An operation can be complete and not answered: a kill may come between the two, and
        // effects seen in the middle of a step (`midway.rs`) must not have been answered in it.
        self.lane.rest().await;
        self.wait_for_turn().await;
        let mut bytes = vec![0xa5; buffer.bytes()];
        if pending.kind == Kind::Read {
            buffer.read(&mut bytes);
        }
        if let Some(Flushing { is_first, doubt }) = flush
            && (result.is_ok() || doubt.is_err())
        {
            // The client cannot distinguish errors: one of the backing reports the doubt as well.
            self.book.borrow_mut().doubts(&pending, is_first, doubt.is_err());
            result = result.and(doubt);
        }
        let body = padding.head as usize..bytes.len() - padding.tail as usize;
        self.book.borrow_mut().record_answer(&pending, result, &bytes[body]);
    }

    /// Sends the request, in parts if the subject requires that.
    async fn submit(&self, pending: &Pending, at: Extent, buffer: &Buf) -> Result {
        let (first, count) = (at.first as u32, at.count);
        let cut = self.process.cut_sectors();
        let mut done = 0;
        while done < count {
            let mut length = count - done;
            if cut > 0 && pending.kind != Kind::Flush {
                length = length.min(cut - (first + done) % cut);
            }
            let part = buffer.part(done, length);
            let at = Extent::new(u64::from(first + done), length);
            self.part(pending, at, part, Padding::NONE).await?;
            done += length;
            if pending.kind == Kind::Flush {
                break;
            }
        }
        Ok(())
    }

    async fn part(&self, pending: &Pending, at: Extent, buffer: Buf, padding: Padding) -> Result {
        if let Some(observing) = self.observe(pending, at, &buffer) {
            self.lane.turn().await;
            return observing.await;
        }
        let request = request(pending.kind, at, buffer);
        let asked = self.ask(pending.operation, request, padding).await;
        self.answer(pending.operation, asked).await
    }

    /// Begins a read as an observer, if this one is to be one.
    fn observe(&self, pending: &Pending, at: Extent, buffer: &Buf) -> Option<Observing> {
        let is_observed = pending.kind == Kind::Read
            && self.observed_one_in > 0
            && pending.operation.is_multiple_of(self.observed_one_in);
        if !is_observed {
            return None;
        }
        self.process.observe(&self.lane, at, buffer.clone())
    }

    /// Sends a request as an export does: if it can be answered immediately, it is; otherwise it is
    /// queued behind the earlier changes of this client that it overlaps.
    async fn ask(&self, operation: Operation, request: Request, padding: Padding) -> Asked {
        let is_read = matches!(request, Request::Read { .. });
        let asks = (padding == Padding::NONE || is_read) && !self.order.must_wait(&request);
        if asks && let Some(result) = run_for(operation, || self.stack.try_now(&request)) {
            self.lane.turn().await;
            return Asked::Answered(result);
        }
        self.lane.turn().await;
        Asked::Running(self.order.run(&self.stack, request, padding))
    }

    async fn answer(&self, operation: Operation, asked: Asked) -> Result {
        let mut running = match asked {
            Asked::Answered(result) => return result,
            Asked::Running(running) => running,
        };
        poll_fn(|context| match self.alive.get() {
            true => run_for(operation, || Pin::new(&mut running).poll(context)),
            false => Poll::Pending,
        })
        .await
    }
}

fn request(kind: Kind, at: Extent, buffer: Buf) -> Request {
    match kind {
        Kind::Read => Request::Read { at, into: buffer },
        Kind::Write | Kind::WriteFua => {
            Request::Write { at, from: buffer, fua: kind == Kind::WriteFua }
        }
        Kind::Zero | Kind::ZeroFua => {
            Request::Zero { at, fua: kind == Kind::ZeroFua, may_unmap: true }
        }
        Kind::Discard => Request::Discard { at },
        Kind::Flush => Request::Flush,
        Kind::Status => unreachable!("a status is no request"),
    }
}
