//! The one trait, and the one place where types are erased.

use crate::error::{Error, Kind, Result};
use crate::limits::Limits;
use crate::padding::Padding;
use crate::request::{Extent, Request};
use crate::stall::{Stall, Unless};
use crate::status::Stretch;
use lane::{Lane, Pooled};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// A block device as one lane sees it.
///
/// There is no order between requests but what `Flush` and FUA give: a flush makes durable what was
/// answered before it was sent. Requests that overlap and are under way together may take effect in
/// either order, block by block.
///
/// Implementors may assume that every request has passed [`Limits::check`] of their limits. A
/// future, once polled, is polled to its end, or its whole world dies.
pub trait Block: 'static {
    /// What this device can do.
    fn limits(&self) -> &Limits;

    /// Answers here and now: no wait, no allocation, no system call, one lock section. `None`:
    /// nothing was done, use [`Block::run`]. A layer that answers keeps nothing of the request's buffer: the
    /// caller uses that memory again at once.
    fn try_now(&self, _request: &Request) -> Option<Result> {
        None
    }

    /// Brings nearer what `try_now` of these requests will touch. Changes nothing.
    fn prefetch(&self, _requests: &[Request]) {}

    /// Serves the request.
    fn run(&self, request: Request) -> impl Future<Output = Result>;

    /// Serves a request of which only a part of the first and of the last block is meant. A read
    /// fills its buffer with the whole blocks. A change leaves the padding as it is; the buffer of a
    /// write has room for the padding, and gets it filled in.
    ///
    /// # Errors
    /// `Unsupported`: the device takes whole blocks only; [`Limits::unaligned`] says so.
    fn run_padded(&self, _request: Request, _padding: Padding) -> impl Future<Output = Result> {
        async { Err(Error::new(Kind::Unsupported, "serve a part of a block")) }
    }

    /// What is known about the contents without reading them: stretches that cover `at` from its
    /// start, at least one; they may end early, or reach beyond its end. It may err only in one
    /// direction: what is not known to be zeros is called data.
    ///
    /// # Errors
    /// What the device answers.
    fn status(&self, at: Extent) -> impl Future<Output = Result<Vec<Stretch>>> {
        async move { Ok(vec![Stretch::data(at.count)]) }
    }

    /// What tells that the backing has stopped to answer, where that is watched.
    fn stall(&self) -> Option<&Arc<Stall>> {
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
}

/// A built stack, seen from its top: the handle that exports and layers hold. Its futures live in
/// the lane's pool, so that a request allocates nothing.
#[derive(Clone)]
pub struct Stack {
    top: Rc<dyn Erased>,
    lane: Lane,
}

impl Stack {
    /// A stack whose top is `block`, used from `lane`.
    pub fn new(lane: &Lane, block: impl Block) -> Stack {
        Stack { top: Rc::new(block), lane: lane.clone() }
    }

    /// The lane this stack is used from.
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

    /// A request with the padding that it has, or with none.
    pub fn serve(&self, request: Request, padding: Padding) -> Pooled<Result> {
        match padding {
            Padding::NONE => self.run(request),
            padding => self.run_padded(request, padding),
        }
    }

    /// [`Block::run`] for exports: also ends, with an error, once the backing has stalled. What was
    /// begun goes on behind it, with the buffer that it uses, so that nothing it was ordered before
    /// overtakes it.
    pub fn run_unless_stalled(&self, request: Request) -> Unless {
        self.unless_stalled(self.run(request))
    }

    /// [`Block::status`] for exports, as [`Stack::run_unless_stalled`] does it for requests.
    pub fn status_unless_stalled(&self, at: Extent) -> Unless<Vec<Stretch>> {
        self.unless_stalled(self.status(at))
    }

    fn unless_stalled<T>(&self, running: Pooled<Result<T>>) -> Unless<T> {
        Unless::new(&self.lane, self.top.stall().cloned(), running)
    }

    /// [`Block::run_padded`] for exports, which ends as [`Stack::run_unless_stalled`] does.
    pub fn run_padded_unless_stalled(&self, request: Request, padding: Padding) -> Unless {
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
}
