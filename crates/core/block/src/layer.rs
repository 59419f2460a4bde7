//! A device on top of exactly one other device: it forwards each request that it does not change.

use crate::error::Result;
use crate::limits::Limits;
use crate::link_state::LinkState;
use crate::padding::Padding;
use crate::request::{Extent, Request};
use crate::stack::{Block, Stack};
use crate::stall::Stall;
use crate::status::Stretch;
use std::future::Future;
use std::sync::Arc;

/// A [`Block`] on top of one stack. Every method forwards to that stack by default, so a layer
/// implements only the methods that it changes.
///
/// A request reaches [`Layer::try_now`] first and, if that returns `None`, [`Layer::serve`]. A
/// layer that must see every request overrides both.
pub trait Layer: 'static {
    /// The stack below this layer.
    fn lower(&self) -> &Stack;

    /// See [`Block::limits`].
    #[inline]
    fn limits(&self) -> &Limits {
        self.lower().limits()
    }

    /// See [`Block::try_now`].
    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        self.lower().try_now(request)
    }

    /// See [`Block::prefetch`].
    #[inline]
    fn prefetch(&self, requests: &[Request]) {
        self.lower().prefetch(requests);
    }

    /// Serves a request: with [`Block::run`] if it has no padding, else with [`Block::run_padded`].
    ///
    /// # Errors
    /// The errors of these two.
    fn serve(&self, request: Request, padding: Padding) -> impl Future<Output = Result> {
        self.lower().serve(request, padding)
    }

    /// See [`Block::status`].
    ///
    /// # Errors
    /// The device's errors.
    fn status(&self, at: Extent) -> impl Future<Output = Result<Vec<Stretch>>> {
        self.lower().status(at)
    }

    /// See [`Block::stall`].
    #[inline]
    fn stall(&self) -> Option<&Arc<Stall>> {
        self.lower().stall()
    }

    /// See [`Block::held_ns`].
    fn held_ns(&self) -> u64 {
        self.lower().held_ns()
    }

    /// See [`Block::may_keep`].
    fn may_keep(&self, at: Extent) -> bool {
        self.lower().may_keep(at)
    }

    /// See [`Block::link`].
    fn link(&self) -> Option<&Arc<LinkState>> {
        self.lower().link()
    }
}

impl<L: Layer> Block for L {
    #[inline]
    fn limits(&self) -> &Limits {
        Layer::limits(self)
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        Layer::try_now(self, request)
    }

    #[inline]
    fn prefetch(&self, requests: &[Request]) {
        Layer::prefetch(self, requests);
    }

    fn run(&self, request: Request) -> impl Future<Output = Result> {
        self.serve(request, Padding::NONE)
    }

    fn run_padded(&self, request: Request, padding: Padding) -> impl Future<Output = Result> {
        self.serve(request, padding)
    }

    fn status(&self, at: Extent) -> impl Future<Output = Result<Vec<Stretch>>> {
        Layer::status(self, at)
    }

    #[inline]
    fn stall(&self) -> Option<&Arc<Stall>> {
        Layer::stall(self)
    }

    fn held_ns(&self) -> u64 {
        Layer::held_ns(self)
    }

    fn may_keep(&self, at: Extent) -> bool {
        Layer::may_keep(self, at)
    }

    fn link(&self) -> Option<&Arc<LinkState>> {
        Layer::link(self)
    }
}
