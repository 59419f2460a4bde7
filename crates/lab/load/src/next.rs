//! The next event and its worker: a tournament tree of their times.
//!
//! A worker has at most one event, so that each worker has a leaf of its own, and a change replays
//! the matches from that leaf to the root:
//!
//! ```text
//!             10.1            the first event of all
//!          /        \
//!       10.1         25.0
//!      /    \       /    \
//!   40.2   10.1  25.0   none  a leaf for each worker: its time, and the order if times are equal
//! ```
//!
//! The number of matches does not depend on the times, and none needs a branch. A heap of events
//! needs one branch per level, and the processor mispredicts half of them. (Knuth, The Art of
//! Computer Programming 3, 5.4.1: trees of losers and of winners.)

use std::hint::select_unpredictable;

/// Events of workers, at most one each, in the order of their times; events of the same time in the
/// order in which they were added.
pub(crate) struct NextEvents {
    /// The root has the number 1, the children of `n` have `2 n` and `2 n + 1`, and the leaves come
    /// last.
    winners: Vec<Event>,
    /// The index of the first leaf, and the number of leaves.
    leaves: usize,
    /// Number of events added so far.
    count: u64,
    /// The worker of the event that was removed last, if its leaf still has it: most workers get
    /// their next event before another one is removed, and then the matches are replayed once.
    removed: u32,
}

/// No worker.
const NOBODY: u32 = u32::MAX;

/// The time of an event, and its order.
#[derive(Clone, Copy)]
struct Event {
    at_ns: u64,
    /// The number of the event, and in the lowest bits its worker.
    order: u64,
}

/// Bits of a worker's number.
const WORKER_BITS: u32 = 16;

/// No event: later than any other.
const NONE: Event = Event { at_ns: u64::MAX, order: u64::MAX };

impl Event {
    #[inline]
    fn is_none(self) -> bool {
        self.order == u64::MAX
    }

    /// Returns the earlier of the two.
    #[inline]
    fn earlier(self, other: Event) -> Event {
        let same = (self.at_ns == other.at_ns) & (self.order < other.order);
        let is_first = (self.at_ns < other.at_ns) | same;
        Event {
            at_ns: select_unpredictable(is_first, self.at_ns, other.at_ns),
            order: select_unpredictable(is_first, self.order, other.order),
        }
    }
}

impl NextEvents {
    /// Returns an empty tree for this number of workers.
    ///
    /// # Panics
    /// If there are more than 65,536.
    pub(crate) fn new(workers: u32) -> NextEvents {
        assert!(workers <= 1 << WORKER_BITS, "a worker's number has {WORKER_BITS} bits");
        let leaves = workers.max(1).next_power_of_two() as usize;
        NextEvents { winners: vec![NONE; 2 * leaves], leaves, count: 0, removed: NOBODY }
    }

    /// Adds an event of a worker that has none.
    #[inline]
    pub(crate) fn add(&mut self, at_ns: u64, worker: u32) {
        self.count += 1;
        let order = self.count << WORKER_BITS | u64::from(worker);
        if self.removed == worker {
            self.removed = NOBODY;
        }
        self.play(worker, Event { at_ns, order });
    }

    /// Removes the first event. Returns its time and its worker.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u64, u32)> {
        if self.removed != NOBODY {
            self.play(self.removed, NONE);
            self.removed = NOBODY;
        }
        let first = self.winners[1];
        if first.is_none() {
            return None;
        }
        let worker = first.order as u32 & ((1 << WORKER_BITS) - 1);
        self.removed = worker;
        Some((first.at_ns, worker))
    }

    /// Returns the time of the first event; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn first_ns(&self) -> u64 {
        self.first().at_ns
    }

    /// Whether there are no events.
    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    #[inline]
    fn first(&self) -> Event {
        if self.removed == NOBODY {
            return self.winners[1];
        }
        // The best of all that the removed event has met on its way to the root.
        let mut node = self.leaves + self.removed as usize;
        let mut first = NONE;
        while node > 1 {
            first = first.earlier(self.winners[node ^ 1]);
            node /= 2;
        }
        first
    }

    #[inline]
    fn play(&mut self, worker: u32, event: Event) {
        let mut node = self.leaves + worker as usize;
        let mut winner = event;
        self.winners[node] = event;
        while node > 1 {
            winner = winner.earlier(self.winners[node ^ 1]);
            node /= 2;
            self.winners[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::Random;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    #[test]
    fn events_come_in_the_order_of_their_times_and_those_of_one_time_as_they_were_noted() {
        for workers in [1, 2, 3, 32, 33, 256] {
            let (mut events, mut heap) = (NextEvents::new(workers), BinaryHeap::new());
            let mut random = Random::new(u64::from(workers));
            let mut idle: Vec<u32> = (0..workers).collect();
            let (mut now, mut count) = (0, 0u64);
            for _ in 0..20_000 {
                if !idle.is_empty() && random.below(2) == 0 {
                    let worker = idle.swap_remove(random.below(idle.len() as u64) as usize);
                    let at = now + random.below(5);
                    count += 1;
                    events.add(at, worker);
                    heap.push(Reverse((at, count, worker)));
                    continue;
                }
                let expected = heap.pop().map(|Reverse((at, _, worker))| (at, worker));
                assert_eq!(events.take(), expected);
                assert_eq!(events.is_empty(), heap.is_empty());
                if let Some(Reverse((at, ..))) = heap.peek() {
                    assert_eq!(events.first_ns(), *at);
                }
                if let Some((at, worker)) = expected {
                    now = at;
                    idle.push(worker);
                }
            }
            assert!(count > 5_000);
        }
    }

    #[test]
    fn an_event_at_the_end_of_all_times_is_one() {
        let mut events = NextEvents::new(2);
        events.add(u64::MAX, 1);
        assert!(!events.is_empty());
        assert_eq!(events.take(), Some((u64::MAX, 1)));
        assert_eq!(events.take(), None);
    }
}
