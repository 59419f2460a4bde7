//! The session of a mount on one lane: receives and answers messages.

use crate::codec::*;
use crate::device::Device;
use crate::file::{Busy, File};
use crate::message::{Inbox, Outbox};
use crate::mount::Mount;
use block::{Error, Kind, Part, Result};
use export::{Bounds, Buffer, Client, Export, Operation, Unwatched};
use lane::{Lane, first};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of requests in flight of a volume on a lane, and maximum bytes of their payloads.
const IN_FLIGHT_MAX: usize = 512;
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Number of messages in a row after which another lane is called to help.
const BURST: u32 = 8;

/// A volume on this lane.
pub(crate) struct Volume {
    pub(crate) file: Arc<File>,
    pub(crate) client: Client,
    /// Creates the session of a new handle.
    pub(crate) session: Rc<dyn Fn() -> Box<dyn export::Session>>,
}

/// The answer to a request if it succeeds.
#[derive(Clone, Copy)]
pub(crate) enum ReplyKind {
    /// `length` bytes of the buffer, from `at` on.
    Data { at: usize, length: usize },
    /// The number of bytes written.
    Written(u32),
    /// No data.
    Done,
}

/// A request to a volume that is being served.
pub(crate) struct ActiveRequest {
    pub(crate) unique: u64,
    pub(crate) volume: Rc<Volume>,
    pub(crate) reply_kind: ReplyKind,
    pub(crate) buffer: Option<Buffer>,
    pub(crate) busy: Busy,
}

/// A mount on one lane.
pub struct Session<D> {
    pub(crate) device: D,
    pub(crate) mount: Arc<Mount>,
    pub(crate) outbox: Outbox,
    lane: Lane,
    volumes: RefCell<Vec<Rc<Volume>>>,
    /// Whether the last message came alone, while no request was in flight.
    is_lone: Cell<bool>,
}

impl<D: Device> Session<D> {
    /// Creates a session of these volumes, on the lane of their stacks.
    pub fn new(lane: &Lane, device: D, mount: &Arc<Mount>, exports: Vec<Export>) -> Rc<Session<D>> {
        let volume = |export: Export| {
            let file = mount.named(export.name.as_bytes())?;
            let session = export.session.clone();
            // Clients are counted by handle, on whatever lane a handle is used.
            let export = Export { session: Rc::new(|| Box::new(Unwatched)), ..export };
            let bounds = Bounds {
                in_flight_max: IN_FLIGHT_MAX,
                in_flight_bytes_max: IN_FLIGHT_BYTES_MAX,
                budget: mount.budget.clone(),
            };
            let client = Client::new(&export, export.limits(u32::MAX), mount.stop(), bounds);
            Some(Rc::new(Volume { file, client, session }))
        };
        let volumes = exports.into_iter().filter_map(volume).collect();
        Rc::new(Session {
            device,
            mount: mount.clone(),
            outbox: Outbox::new(),
            lane: lane.clone(),
            volumes: RefCell::new(volumes),
            is_lone: Cell::new(false),
        })
    }

    /// Removes a volume from this lane when it is no longer served.
    pub fn remove(&self, name: &str) {
        let mut volumes = self.volumes.borrow_mut();
        let gone: Vec<_> = volumes.extract_if(.., |volume| volume.file.name == name).collect();
        drop(volumes);
        // Outside the borrow: this may drop the last reference to a stack.
        drop(gone);
    }

    /// Starts the tasks that wait for the end of each volume. On one lane only.
    pub fn watch(&self) {
        for file in self.mount.files() {
            // Without a free task slot, its sessions end with the mount.
            let _ = self.lane.spawn(async move { file.end().await });
        }
    }

    /// Makes the kernel send all unanswered messages again: an earlier process has received them,
    /// and has died. Call it after the fence.
    ///
    /// # Errors
    /// The kernel does not support it (before Linux 6.9).
    pub fn resend(&self) -> Result {
        self.device.send(&self.outbox.bare(Reply::resend()))
    }

    /// Receives and serves messages until the end of the mount is requested. On one lane only.
    ///
    /// # Errors
    /// `Stopping`: the file system was unmounted, or its connection aborted.
    pub async fn lead(self: Rc<Self>) -> Result {
        let inbox = Inbox::new();
        let served = loop {
            let mut received = None;
            let receiving = async { received = Some(self.device.receive(&inbox.parts).await) };
            first(self.mount.stop().wait(), receiving).await;
            let served = match received {
                None => break Ok(()),
                Some(Ok(bytes)) => self.serve_all(&inbox, bytes).await,
                Some(Err(error)) => Err(error),
            };
            if served.is_err() {
                break served;
            }
        };
        self.device.close().await;
        served
    }

    /// Receives and serves messages whenever the leading lane has more to do than it can.
    pub async fn help(self: Rc<Self>) {
        let inbox = Inbox::new();
        loop {
            let seen = self.mount.work.seen();
            // An error of the connection is reported by the leading lane.
            if let Ok(Some(bytes)) = self.device.receive_now(&inbox.parts) {
                let _ = self.serve_all(&inbox, bytes).await;
            }
            if self.mount.stop().is_asked() {
                return;
            }
            self.mount.work.after(seen).await;
        }
    }

    /// Serves a message, and all messages that have arrived by then.
    async fn serve_all(self: &Rc<Self>, inbox: &Inbox, bytes: usize) -> Result {
        let (mut next, mut taken, came_alone) = (Some(bytes), 0, self.is_idle());
        self.is_lone.set(false);
        while let Some(bytes) = next {
            taken += 1;
            if taken % BURST == 0 {
                self.mount.work.notify_one();
            }
            self.serve(inbox, bytes).await;
            if self.mount.stop().is_asked() {
                return Ok(());
            }
            next = self.device.receive_now(&inbox.parts)?;
        }
        self.is_lone.set(taken == 1 && came_alone);
        self.lane.set_lockstep(self.is_lone.get() && self.is_idle());
        Ok(())
    }

    /// Whether no request of this lane is in flight.
    fn is_idle(&self) -> bool {
        self.volumes.borrow().iter().all(|volume| volume.client.in_flight() == 0)
    }

    async fn serve(self: &Rc<Self>, inbox: &Inbox, bytes: usize) {
        let mut place = [0; LOOKED_AT_BYTES];
        let shown = inbox.look(bytes, &mut place);
        let Some(header) = Header::parse(shown) else { return };
        match Question::parse(&header, shown, bytes) {
            Question::Read { offset, length } => self.read(&header, offset, length).await,
            Question::Write { handle, offset, length, durable } => {
                self.write(&header, inbox, handle, offset, length, durable).await;
            }
            Question::Sync { handle } => self.sync(&header, handle).await,
            Question::Close => self.close(&header).await,
            Question::Allocate { offset, length, mode } => {
                self.allocate(&header, offset, length, mode).await;
            }
            Question::Seek { offset, whence } => self.seek(&header, offset, whence).await,
            Question::Silent | Question::Interrupt { .. } => {}
            other => self.describe(&header, other),
        }
    }

    /// Sends an answer. Ignores the error of an answer that is no longer awaited.
    pub(crate) fn send(&self, parts: &[Part]) {
        let _ = self.device.send(parts);
    }

    pub(crate) fn reply(&self, reply: Reply) {
        self.send(&self.outbox.bare(reply));
    }

    pub(crate) fn refuse(&self, header: &Header, errno: i32) {
        self.reply(Reply::error(header.unique, errno));
    }

    pub(crate) fn volume(&self, node: u64) -> Option<Rc<Volume>> {
        self.volumes.borrow().iter().find(|volume| volume.file.node == node).cloned()
    }

    /// Starts a request to a volume. None: it was answered, or it is left to the next process.
    pub(crate) fn begin(&self, header: &Header, reply_kind: ReplyKind) -> Option<ActiveRequest> {
        let Some(volume) = self.volume(header.node) else {
            self.refuse(header, ENODEV);
            return None;
        };
        let Some(busy) = volume.file.begin() else {
            if volume.file.is_removed.load(Ordering::SeqCst) {
                self.refuse(header, ENODEV);
            }
            return None;
        };
        Some(ActiveRequest { unique: header.unique, volume, reply_kind, buffer: None, busy })
    }

    /// Admits a request with a buffer of `bytes` bytes (0: none) as soon as there is room. None:
    /// its backing has stalled, and the request was answered.
    pub(crate) async fn admit(
        &self,
        mut active: ActiveRequest,
        bytes: usize,
    ) -> Option<ActiveRequest> {
        match active.volume.client.admit(bytes, async || {}).await {
            Ok(buffer) => {
                active.buffer = buffer;
                Some(active)
            }
            Err(error) => {
                self.fail(&active, error);
                None
            }
        }
    }

    /// Answers the operation immediately if possible, else starts a task for it.
    pub(crate) async fn ask_or_start(self: &Rc<Self>, active: ActiveRequest, operation: Operation) {
        let (client, mut answer) = (&active.volume.client, None);
        if let Some(request) = operation.plain() {
            client.turn().await;
            answer = client.ask(request);
        }
        match answer {
            Some(result) => {
                // The window is dropped first, so that the buffer can be reused.
                drop(operation);
                self.finish(active, result);
            }
            None => self.start(active, operation).await,
        }
    }

    /// Starts a task for an operation.
    pub(crate) async fn start(self: &Rc<Self>, active: ActiveRequest, operation: Operation) {
        let (session, volume) = (self.clone(), active.volume.clone());
        let mut running = volume.client.run(operation);
        let task = async move {
            // By reference: moving it into the await would allocate room for it twice.
            let result = (&mut running).await;
            session.finish(active, result);
        };
        volume.client.launch(task).await;
    }

    /// Answers an admitted request. A request that was not served because the server stops gets no
    /// answer: the kernel sends it to the next server.
    pub(crate) fn finish(&self, active: ActiveRequest, result: Result) {
        match result {
            Ok(()) => self.succeed(&active),
            Err(error) => self.fail(&active, error),
        }
        let ActiveRequest { volume, buffer, busy, .. } = active;
        volume.client.withdraw(buffer);
        drop(busy);
        if self.is_lone.get() && self.is_idle() {
            self.lane.set_lockstep(true);
        }
    }

    fn succeed(&self, active: &ActiveRequest) {
        match (active.reply_kind, &active.buffer) {
            (ReplyKind::Data { at, length }, Some(buffer)) => {
                let reply = Reply::done(active.unique);
                self.send(&self.outbox.with(reply, buffer.memory(), at, length));
            }
            (ReplyKind::Data { .. }, None) => unreachable!("data is read into a buffer"),
            (ReplyKind::Written(bytes), _) => self.reply(Reply::written(active.unique, bytes)),
            (ReplyKind::Done, _) => self.reply(Reply::done(active.unique)),
        }
    }

    pub(crate) fn fail(&self, active: &ActiveRequest, error: Error) {
        let ActiveRequest { volume, unique, reply_kind, .. } = active;
        let is_removed = volume.file.is_removed.load(Ordering::SeqCst);
        if volume.client.is_for_next(Err(error)) && !is_removed {
            return;
        }
        let errno = match error.kind {
            Kind::Stopping => ENODEV,
            kind => errno_of(kind, matches!(reply_kind, ReplyKind::Written(_))),
        };
        self.reply(Reply::error(*unique, errno));
    }
}
