//! Counts the tasks that serve a front, on all lanes.

use lane::{Event, Lane, first};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of tasks that serve, with an event for the end of each.
#[derive(Clone, Default)]
pub(super) struct TaskCount(Arc<(AtomicUsize, Event)>);

/// One task in the count, until this is dropped.
pub(super) struct CountedTask(TaskCount);

impl TaskCount {
    /// Adds a task, which holds the returned value until it ends.
    pub(super) fn add(&self) -> CountedTask {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        CountedTask(self.clone())
    }

    fn count(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    /// Waits until none is left.
    pub(super) async fn none(&self) {
        loop {
            let seen = self.0.1.seen();
            if self.count() == 0 {
                return;
            }
            self.0.1.after(seen).await;
        }
    }

    /// Waits until none is left, at most until the deadline on the lane's clock.
    pub(super) async fn none_until(&self, lane: &Lane, deadline_ns: u64) {
        first(self.none(), lane.sleep_until(deadline_ns)).await;
    }
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        let (count, left) = &*self.0.0;
        count.fetch_sub(1, Ordering::SeqCst);
        left.notify();
    }
}
