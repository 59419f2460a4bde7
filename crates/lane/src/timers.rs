//! Deadlines of a lane.

use crate::mailbox::TaskRef;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A heap of deadlines. A sleeper that went away leaves its entry: the wake is then spurious.
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    added: u64,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { heap: BinaryHeap::with_capacity(256), added: 0 }
    }

    pub(crate) fn add(&mut self, deadline: u64, task: TaskRef) {
        self.added += 1;
        self.heap.push(Reverse((deadline, self.added, task.pack() as u32)));
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((deadline, ..))| *deadline)
    }

    /// Wakes all tasks whose deadline is not after `now`.
    pub(crate) fn fire(&mut self, now: u64) {
        while let Some(Reverse((deadline, _, task))) = self.heap.peek().copied() {
            if deadline > now {
                return;
            }
            self.heap.pop();
            TaskRef::unpack(task as usize).wake();
        }
    }
}
