//! The trait of all block devices, and the type-erased handle to one.

use crate::error::{Error, Kind, Result};
use crate::limits::Limits;
use crate::link_state::LinkState;
use crate::padding::Padding;
use crate::request::{Extent, Request};
use crate::stall::Stall;
use crate::status::Stretch;
use lane::{Lane, Pooled, TASKS_MAX};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A block device as one lane sees it.
///
/// Only `Flush` and FUA order requests: a flush makes durable all changes that were answered before
/// the flush was sent. Overlapping requests that are in flight together may take effect in either
/// order, block by block.
///
/// Implementors may assume that every request has passed [`Limits::check`] of their limits. A
/// future that has been polled once is polled until it completes, unless its whole world dies.
pub trait Block: 'static {
    /// Abilities of this device.
    fn limits(&self) -> &Limits;

    /// Answers immediately if that needs no wait, no allocation, no system call and at most one
    /// lock section. `None`: nothing was done, use [`Block::run`]. A layer that answers keeps no
    /// part of the request's buffer: the caller reuses that memory immediately. A cache calls it
    /// for writes in a section of its own.
    fn try_now(&self, _request: &Request) -> Option<Result> {
        None
    }

    /// Prefetches the memory that `try_now` of these requests will access. Changes nothing.
    fn prefetch(&self, _requests: &[Request]) {}

    /// Serves the request.
    fn run(&self, request: Request) -> impl Future<Output = Result>;

    /// Serves a request whose range covers only a part of its first and last block. A read fills
    /// its buffer with the whole blocks. A change leaves the padding on the device unchanged; the
    /// buffer of a write has room for the padding, and the device fills it in.
    ///
    /// # Errors
    /// `Unsupported`: the device accepts whole blocks only ([`Limits::unaligned`] is false).
    fn run_padded(&self, _request: Request, _padding: Padding) -> impl Future<Output = Result> {
        async { Err(Error::new(Kind::Unsupported, "serve a part of a block")) }
    }

    /// Returns the known state of the contents without reading them: at least one stretch, covering
    /// `at` from its start. The stretches may end early, or extend beyond the end of `at`. Sectors
    /// that are not known to be zeros are reported as data.
    ///
    /// # Errors
    /// The device's errors.
    fn status(&self, at: Extent) -> impl Future<Output = Result<Vec<Stretch>>> {
        async move { Ok(vec![Stretch::data(at.count)]) }
    }

    /// The state of the watchdog of the backing, if the backing has one.
    fn stall(&self) -> Option<&Arc<Stall>> {
        None
    }

    /// The longest time, in nanoseconds, for which a layer holds back one of the present requests
    /// on purpose. A watchdog above it waits that much longer for an answer.
    fn held_ns(&self) -> u64 {
        0
    }

    /// Whether a cache may keep data that a read of these sectors returns, if the read is sent
    /// after this call: no change of which the cache has no record can replace it later.
    fn may_keep(&self, _at: Extent) -> bool {
        true
    }

    /// The link to the server of the backing, if it has one.
    fn link(&self) -> Option<&Arc<LinkState>> {
        None
    }
}

trait Erased {
    fn limits(&self) -> &Limits;
    fn try_now(&self, request: &Request) -> Option<Result>;
    fn prefetch(&self, requests: &[Request]);
    fn run(self: Rc<Self>, lane: &Lane, request: Request) -> Pooled<Result>;
    fn run_padded(
        self: Rc<Self>,
        lane: &Lane,
        request: Request,
        padding: Padding,
    ) -> Pooled<Result>;
    fn status(self: Rc<Self>, lane: &Lane, at: Extent) -> Pooled<Result<Vec<Stretch>>>;
    fn stall(&self) -> Option<&Arc<Stall>>;
    fn held_ns(&self) -> u64;
    fn may_keep(&self, at: Extent) -> bool;
    fn link(&self) -> Option<&Arc<LinkState>>;
}

impl<B: Block> Erased for B {
    fn limits(&self) -> &Limits {
        Block::limits(self)
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        Block::try_now(self, request)
    }

    fn prefetch(&self, requests: &[Request]) {
        Block::prefetch(self, requests);
    }

    fn run(self: Rc<Self>, lane: &Lane, request: Request) -> Pooled<Result> {
        lane.pin(async move { Block::run(&*self, request).await })
    }

    fn run_padded(
        self: Rc<Self>,
        lane: &Lane,
        request: Request,
        padding: Padding,
    ) -> Pooled<Result> {
        lane.pin(async move { Block::run_padded(&*self, request, padding).await })
    }

    fn status(self: Rc<Self>, lane: &Lane, at: Extent) -> Pooled<Result<Vec<Stretch>>> {
        lane.pin(async move { Block::status(&*self, at).await })
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        Block::stall(self)
    }

    fn held_ns(&self) -> u64 {
        Block::held_ns(self)
    }

    fn may_keep(&self, at: Extent) -> bool {
        Block::may_keep(self, at)
    }

    fn link(&self) -> Option<&Arc<LinkState>> {
        Block::link(self)
    }
}

/// A built stack, seen from its top: the handle that exports and layers hold. Its futures are
/// stored in the lane's pool, so that a request allocates nothing.
#[derive(Clone)]
pub struct Stack {
    top: Rc<dyn Erased>,
    lane: Lane,
}

impl Stack {
    /// Returns a stack whose top is `block`, used from `lane`.
    pub fn new(lane: &Lane, block: impl Block) -> Stack {
        Stack { top: Rc::new(block), lane: lane.clone() }
    }

    /// The lane of this stack.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// See [`Block::limits`].
    pub fn limits(&self) -> &Limits {
        self.top.limits()
    }

    /// See [`Block::try_now`].
    pub fn try_now(&self, request: &Request) -> Option<Result> {
        self.top.try_now(request)
    }

    /// See [`Block::prefetch`].
    pub fn prefetch(&self, requests: &[Request]) {
        self.top.prefetch(requests);
    }

    /// See [`Block::run`].
    pub fn run(&self, request: Request) -> Pooled<Result> {
        self.top.clone().run(&self.lane, request)
    }

    /// See [`Block::run_padded`].
    pub fn run_padded(&self, request: Request, padding: Padding) -> Pooled<Result> {
        self.top.clone().run_padded(&self.lane, request, padding)
    }

    /// Serves a request with its padding, if it has any.
    pub fn serve(&self, request: Request, padding: Padding) -> Pooled<Result> {
        match padding {
            Padding::NONE => self.run(request),
            padding => self.run_padded(request, padding),
        }
    }

    /// [`Block::run`] for exports: also ends, with an error, when the backing has stalled. The
    /// request itself then continues in the background with its buffer, so that no later request
    /// overtakes it.
    pub fn run_unless_stalled(&self, request: Request) -> UnlessStalled {
        self.unless_stalled(self.run(request))
    }

    /// [`Block::status`] for exports, which ends as [`Stack::run_unless_stalled`] does.
    pub fn status_unless_stalled(&self, at: Extent) -> UnlessStalled<Vec<Stretch>> {
        self.unless_stalled(self.status(at))
    }

    /// Makes a future of this stack end as [`Stack::run_unless_stalled`] does.
    pub fn unless_stalled<T>(&self, running: Pooled<Result<T>>) -> UnlessStalled<T> {
        UnlessStalled::new(&self.lane, self.top.stall().cloned(), running)
    }

    /// [`Block::run_padded`] for exports, which ends as [`Stack::run_unless_stalled`] does.
    pub fn run_padded_unless_stalled(&self, request: Request, padding: Padding) -> UnlessStalled {
        self.unless_stalled(self.run_padded(request, padding))
    }

    /// See [`Block::status`].
    pub fn status(&self, at: Extent) -> Pooled<Result<Vec<Stretch>>> {
        self.top.clone().status(&self.lane, at)
    }

    /// See [`Block::stall`].
    pub fn stall(&self) -> Option<&Arc<Stall>> {
        self.top.stall()
    }

    /// See [`Block::held_ns`].
    pub fn held_ns(&self) -> u64 {
        self.top.held_ns()
    }

    /// See [`Block::may_keep`].
    pub fn may_keep(&self, at: Extent) -> bool {
        self.top.may_keep(at)
    }

    /// See [`Block::link`].
    pub fn link(&self) -> Option<&Arc<LinkState>> {
        self.top.link()
    }
}

/// A request to a stack that waits only while the backing answers.
pub struct UnlessStalled<T = ()> {
    lane: Lane,
    stall: Option<Arc<Stall>>,
    running: Option<Pooled<Result<T>>>,
}

impl<T> UnlessStalled<T> {
    fn new(lane: &Lane, stall: Option<Arc<Stall>>, running: Pooled<Result<T>>) -> Self {
        UnlessStalled { lane: lane.clone(), stall, running: Some(running) }
    }

    /// Returns the error with which it would end now, if the backing has stalled.
    pub fn stalled(&self) -> Option<Error> {
        self.stall.as_ref().filter(|stall| stall.is_on()).map(|stall| stall.error())
    }
}

impl<T: 'static> UnlessStalled<T> {
    /// Lets the request end in the background, without its client. Returns false if the lane has no
    /// free task slot: then nothing has changed, and the client waits.
    pub fn leave_behind(&mut self) -> bool {
        if self.lane.tasks() >= TASKS_MAX {
            return false;
        }
        let running = self.running.take().expect("it has not ended");
        let left_behind = async move {
            // The client has received an error.
            let _ = running.await;
        };
        self.lane.spawn(left_behind).expect("a task slot was free");
        true
    }
}

impl<T: 'static> Future for UnlessStalled<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let running = self.running.as_mut().expect("polled again after its end");
        if let Poll::Ready(result) = Pin::new(running).poll(context) {
            self.running = None;
            return Poll::Ready(result);
        }
        let Some(error) = self.stalled() else { return Poll::Pending };
        match self.leave_behind() {
            true => Poll::Ready(Err(error)),
            false => Poll::Pending,
        }
    }
}
