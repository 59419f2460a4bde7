//! The clients of a history: tasks that do what their plan says.

use crate::book::{Book, Pending};
use crate::plan::{Act, Kind, Step};
use crate::stamp::{self, GRAIN};
use crate::subject::{Connection, Process, on_behalf_of};
use block::{Buf, Extent, Fua, Memory, Request, Result, Stack};
use lane::Lane;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// Memory for the buffers of a history: each operation gets its own, none is used twice.
pub(crate) struct Scratch {
    memory: Arc<Memory>,
    used: Cell<usize>,
}

impl Scratch {
    /// Room for `operations` operations of at most `sectors` sectors.
    pub(crate) fn new(operations: u32, sectors: u32) -> Scratch {
        let bytes = (operations * sectors) as usize * GRAIN;
        Scratch { memory: Arc::new(Memory::heap(bytes)), used: Cell::new(0) }
    }

    fn take(&self, sectors: u32) -> Buf {
        let offset = self.used.get();
        self.used.set(offset + sectors as usize * GRAIN);
        Buf::over(self.memory.clone(), offset, sectors, GRAIN as u32)
    }
}

/// One client.
pub(crate) struct Client {
    pub(crate) lane: Lane,
    pub(crate) stack: Stack,
    pub(crate) process: Rc<dyn Process>,
    pub(crate) book: Rc<RefCell<Book>>,
    pub(crate) scratch: Rc<Scratch>,
}

impl Client {
    /// Does what the plan says, to the end.
    pub(crate) async fn run(self, plan: Vec<Step>) {
        let mut connection: Option<Box<dyn Connection>> = None;
        let mut proven = false;
        for step in plan {
            self.lane.sleep_until(self.lane.now() + step.pause_ns).await;
            self.lane.turn().await;
            match step.act {
                Act::Reconnect => {
                    drop(connection.take());
                    self.book.borrow_mut().gone(std::mem::take(&mut proven));
                }
                Act::SetMode(mode) => {
                    self.process.set_mode(mode);
                    self.book.borrow_mut().mode_set(mode);
                }
                Act::Operate { kind, first, count } => {
                    if connection.is_none() {
                        connection = Some(self.process.connect());
                        self.lane.turn().await;
                    }
                    if kind == Kind::Flush {
                        self.book.borrow_mut().proves(std::mem::replace(&mut proven, true));
                        connection.as_ref().expect("just connected").flushed();
                        self.lane.turn().await;
                    }
                    self.operate(kind, first, count).await;
                }
            }
        }
        self.lane.turn().await;
        drop(connection);
        let mut book = self.book.borrow_mut();
        book.gone(proven);
        book.clients -= 1;
    }

    async fn operate(&self, kind: Kind, first: u32, count: u32) {
        let fua = self.process.takes_fua() || self.stack.limits().fua != Fua::None;
        let kind = match kind {
            Kind::WriteFua if !fua => Kind::Write,
            Kind::ZeroFua if !fua => Kind::Zero,
            kind => kind,
        };
        let buffer = self.scratch.take(count);
        let pending = {
            let dirty = self.process.dirty_blocks() > 0;
            self.book.borrow_mut().sent(kind, (first, count), dirty)
        };
        let mut stamps = vec![0xa5; count as usize * GRAIN];
        if matches!(kind, Kind::Write | Kind::WriteFua) {
            stamp::fill(&mut stamps, pending.operation, first);
        }
        buffer.write(&stamps);
        let result = self.submit(&pending, &buffer).await;
        if kind == Kind::Read {
            buffer.read(&mut stamps);
        }
        self.book.borrow_mut().answered(&pending, result, &stamps);
    }

    /// Sends the request, in parts where the subject wants it cut.
    async fn submit(&self, pending: &Pending, buffer: &Buf) -> Result {
        let (first, count) = pending.range;
        let cut = self.process.cut_sectors();
        let mut done = 0;
        while done < count {
            let mut length = count - done;
            if cut > 0 && pending.kind != Kind::Flush {
                length = length.min(cut - (first + done) % cut);
            }
            let part = buffer.part(done, length);
            let at = Extent::new(u64::from(first + done), length);
            self.part(pending, at, part).await?;
            done += length;
            if pending.kind == Kind::Flush {
                break;
            }
        }
        Ok(())
    }

    async fn part(&self, pending: &Pending, at: Extent, buffer: Buf) -> Result {
        let request = request(pending.kind, at, buffer);
        let operation = pending.operation;
        // As an export does: what can be answered at once is.
        if let Some(result) = on_behalf_of(operation, || self.stack.try_now(&request)) {
            self.lane.turn().await;
            return result;
        }
        self.lane.turn().await;
        let mut running = self.stack.run(request);
        poll_fn(|context| on_behalf_of(operation, || Pin::new(&mut running).poll(context))).await
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
    }
}
