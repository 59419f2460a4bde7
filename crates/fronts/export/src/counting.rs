//! Requests that go on behind a client that was told not to wait for them.
//!
//! When a backing has stalled, what was sent to it cannot be called back: it keeps its buffer and a
//! task until the backing answers after all. So that a client which tries again and again cannot
//! pile them up, whatever runs is counted in the server's [`Budget`].

use crate::budget::{Budget, Load};
use crate::pool::occupied;
use block::{Extent, Layer, Padding, Request, Result, Stack, Stretch};
use std::sync::Arc;

/// Counts what runs in the stack below.
struct Counting {
    below: Stack,
    budget: Arc<Budget>,
}

/// Counted until it is dropped, which is when the stack has let go of the request.
struct Running<'a> {
    budget: &'a Budget,
    load: Load,
}

impl Counting {
    fn begin(&self, bytes: usize) -> Running<'_> {
        let load = Load { requests: 1, bytes };
        self.budget.begin(load);
        Running { budget: &self.budget, load }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.budget.end(self.load);
    }
}

impl Layer for Counting {
    fn below(&self) -> &Stack {
        &self.below
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let bytes = match &request {
            Request::Read { into: buf, .. } | Request::Write { from: buf, .. } => buf.bytes(),
            _ => 0,
        };
        let _running = self.begin(occupied(bytes));
        self.below.serve(request, padding).await
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let _running = self.begin(0);
        self.below.status(at).await
    }
}

/// The stack for requests that become tasks. Where no watchdog watches the backing, nothing is ever left
/// behind and nothing has to be counted.
pub(crate) fn counting(stack: &Stack, budget: &Arc<Budget>) -> Stack {
    if stack.stall().is_none() {
        return stack.clone();
    }
    let below = Counting { below: stack.clone(), budget: budget.clone() };
    Stack::new(stack.lane(), below)
}
