//! Deadlines of a lane.

use crate::mailbox::TaskRef;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Two heaps of deadlines. A dropped sleep leaves its entry: the wake-up is then spurious.
pub(crate) struct Timers {
    heap: BinaryHeap<Entry>,
    /// Deadlines for which a sleeping lane is not woken.
    deferrable: BinaryHeap<Entry>,
    added: u64,
}

/// Deadline, number, task: of equal deadlines the first one added fires first.
type Entry = Reverse<(u64, u64, u32)>;

/// Wakes the tasks of a heap whose deadline is not after `now`.
fn fire(heap: &mut BinaryHeap<Entry>, now: u64) {
    while let Some(Reverse((deadline, _, task))) = heap.peek().copied() {
        if deadline > now {
            return;
        }
        heap.pop();
        TaskRef::unpack(task as usize).wake();
    }
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers { heap: BinaryHeap::with_capacity(256), deferrable: BinaryHeap::new(), added: 0 }
    }

    pub(crate) fn add(&mut self, deadline: u64, is_deferrable: bool, task: TaskRef) {
        self.added += 1;
        let heap = if is_deferrable { &mut self.deferrable } else { &mut self.heap };
        heap.push(Reverse((deadline, self.added, task.pack() as u32)));
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
        self.deferrable.clear();
    }

    /// The earliest deadline for which a sleeping lane is woken.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((deadline, ..))| *deadline)
    }

    /// Wakes all tasks whose deadline is not after `now`.
    pub(crate) fn fire(&mut self, now: u64) {
        fire(&mut self.heap, now);
        fire(&mut self.deferrable, now);
    }
}
