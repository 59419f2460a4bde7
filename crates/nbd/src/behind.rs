//! Requests that go on behind a client that was told not to wait for them.
//!
//! When a backing has stalled, what was sent to it cannot be called back: it keeps its buffer and a
//! task until the backing answers after all. So that a client which tries again and again cannot
//! pile them up, whatever runs is counted in the server's [`Budget`].

use crate::budget::{Budget, Load};
use block::{Block, Extent, Limits, Padding, Request, Result, Stack, Stretch};
use lane::TASKS_MAX;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

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
    fn begin_with_buffer(&self, request: &Request) -> Running<'_> {
        let bytes = match request {
            Request::Read { into: buf, .. } | Request::Write { from: buf, .. } => buf.bytes(),
            _ => 0,
        };
        self.begin(if bytes == 0 { 0 } else { crate::pool::occupied(bytes) })
    }

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

impl Block for Counting {
    fn limits(&self) -> &Limits {
        self.below.limits()
    }

    async fn run(&self, request: Request) -> Result {
        let _running = self.begin_with_buffer(&request);
        self.below.run(request).await
    }

    async fn run_padded(&self, request: Request, padding: Padding) -> Result {
        let _running = self.begin_with_buffer(&request);
        self.below.run_padded(request, padding).await
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let _running = self.begin(0);
        self.below.status(at).await
    }

    fn stall(&self) -> Option<&Arc<block::Stall>> {
        self.below.stall()
    }
}

/// The stack for requests that become tasks. Where nobody watches the backing, nothing is ever left
/// behind and nothing has to be counted.
pub(crate) fn counting(stack: &Stack, budget: &Arc<Budget>) -> Stack {
    if stack.stall().is_none() {
        return stack.clone();
    }
    let below = Counting { below: stack.clone(), budget: budget.clone() };
    Stack::new(stack.lane(), below)
}

/// [`Stack::status`], with an error once the backing has stalled; as
/// [`Stack::run_unless_stalled`] does it for requests.
pub(crate) async fn status_unless_stalled(stack: &Stack, at: Extent) -> Result<Vec<Stretch>> {
    let mut running = Some(stack.status(at));
    std::future::poll_fn(|context| {
        let asked = running.as_mut().expect("polled again after its end");
        if let Poll::Ready(result) = Pin::new(asked).poll(context) {
            return Poll::Ready(result);
        }
        let Some(stall) = stack.stall().filter(|stall| stall.is_on()) else {
            return Poll::Pending;
        };
        // No room for it on its own: then the client waits.
        if stack.lane().tasks() >= TASKS_MAX {
            return Poll::Pending;
        }
        let running = running.take().expect("it has not ended");
        let left_behind = async move {
            // Whoever wanted the result has been told that there is none.
            let _ = running.await;
        };
        stack.lane().spawn(left_behind).expect("a task slot was free");
        Poll::Ready(Err(stall.error()))
    })
    .await
}
