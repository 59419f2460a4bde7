//! The one trait, and the one place where types are erased.

use crate::error::Result;
use crate::limits::Limits;
use crate::request::Request;
use lane::{Lane, Pooled};
use std::future::Future;
use std::rc::Rc;

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
    /// nothing was done, use [`Block::run`]. Who answers keeps nothing of the request's buffer: the
    /// caller uses that memory again at once.
    fn try_now(&self, _request: &Request) -> Option<Result> {
        None
    }

    /// Brings nearer what `try_now` of these requests will touch. Changes nothing.
    fn prefetch(&self, _requests: &[Request]) {}

    /// Serves the request.
    fn run(&self, request: Request) -> impl Future<Output = Result>;
}

trait Erased {
    fn limits(&self) -> &Limits;
    fn try_now(&self, request: &Request) -> Option<Result>;
    fn prefetch(&self, requests: &[Request]);
    fn run(self: Rc<Self>, lane: &Lane, request: Request) -> Pooled<Result>;
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
}
