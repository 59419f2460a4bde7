//! Requests that continue after their client has got an error.
//!
//! When a backing has stalled, requests that were sent to it cannot be cancelled: each keeps its
//! buffer and a task until the backing answers again. To bound the number that a retrying client
//! can accumulate, the server's [`Budget`] counts all running requests. The same layer measures the
//! time in which at least one is running, if the export's owner reports it.

use crate::budget::{Budget, Load};
use crate::busy::BusyTime;
use crate::pool::occupied;
use block::{Extent, Layer, Padding, Request, Result, Stack, Stretch};
use std::sync::Arc;

/// Counts the requests that run in the stack below.
struct Counting {
    below: Stack,
    budget: Arc<Budget>,
    busy: Option<Arc<BusyTime>>,
}

/// Counted until it is dropped, that is, until the stack has released the request.
struct Running<'a> {
    counting: &'a Counting,
    load: Load,
}

impl Counting {
    fn begin(&self, bytes: usize) -> Running<'_> {
        let load = Load { requests: 1, bytes };
        self.budget.begin(load);
        if let Some(busy) = &self.busy {
            busy.begin(self.below.lane().now());
        }
        Running { counting: self, load }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.counting.budget.end(self.load);
        if let Some(busy) = &self.counting.busy {
            busy.end(self.counting.below.lane().now());
        }
    }
}

impl Layer for Counting {
    fn lower(&self) -> &Stack {
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

/// Returns the stack for requests that become tasks. Without a watchdog on the backing no request
/// is left behind; if the time is not reported either, nothing is counted.
pub(crate) fn counting(stack: &Stack, budget: &Arc<Budget>, busy: Option<&Arc<BusyTime>>) -> Stack {
    if stack.stall().is_none() && busy.is_none() {
        return stack.clone();
    }
    let (budget, busy) = (budget.clone(), busy.cloned());
    let below = Counting { below: stack.clone(), budget, busy };
    Stack::new(stack.lane(), below)
}
