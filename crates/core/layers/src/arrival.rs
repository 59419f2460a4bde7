//! Order of arrival: overlapping changes of one client take effect in the order of their arrival.
//!
//! A [`Block`] does not order requests that are in flight together. A client that sends a discard
//! and, before its answer, a write of the same blocks expects the data to stay; most servers ensure
//! that. So a change waits until the earlier changes of its client that it overlaps are answered.
//! All others proceed: without overlaps, a change costs one check of the extents in flight.
//!
//! This layer is above a stack, on one lane, and not inside the stack. Only here the requests of a
//! client arrive in order: below, each is a task, and tasks run in any order.
//!
//! [`Block`]: block::Block

use crate::planted::{Bug, planted};
use alloc::rc::Rc;
use alloc::vec::Vec;
use block::{Extent, Padding, Request, Result, Stack, UnlessStalled};
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};

/// Unit in which the filter counts extents: sectors of a block of 4 KiB.
const GRANULE_SECTORS: u64 = 8;
/// Maximum number of granules of an extent; a longer one is counted in `long`.
const GRANULES_MAX: u64 = 16;
const BUCKETS: usize = 512;
/// Shift that extracts the bucket from a hash.
const HASH_SHIFT: u32 = u64::BITS - BUCKETS.trailing_zeros();

/// Counts the granules of the extents in flight, in hashed buckets. Most changes overlap none, and
/// the filter shows this without a search.
struct Filter {
    buckets: [u16; BUCKETS],
    /// Number of extents that are too long for the buckets.
    long: usize,
}

impl Filter {
    /// Returns the buckets of an extent. None: it is too long.
    fn buckets_of(at: Extent) -> Option<impl Iterator<Item = usize>> {
        let first = at.first / GRANULE_SECTORS;
        let end = at.end().div_ceil(GRANULE_SECTORS);
        // Fibonacci hashing: spreads neighbours and strides evenly.
        let bucket = |granule: u64| granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> HASH_SHIFT;
        let buckets = (first..end).map(move |granule| bucket(granule) as usize);
        (end - first <= GRANULES_MAX).then_some(buckets)
    }

    fn add(&mut self, at: Extent) {
        match Filter::buckets_of(at) {
            Some(buckets) => buckets.for_each(|bucket| self.buckets[bucket] += 1),
            None => self.long += 1,
        }
    }

    fn remove(&mut self, at: Extent) {
        match Filter::buckets_of(at) {
            Some(buckets) => buckets.for_each(|bucket| self.buckets[bucket] -= 1),
            None => self.long -= 1,
        }
    }

    /// Returns false only if no extent in flight overlaps this one.
    fn may_overlap(&self, at: Extent) -> bool {
        let is_used = |bucket: usize| self.buckets[bucket] > 0;
        self.long > 0 || Filter::buckets_of(at).is_none_or(|mut buckets| buckets.any(is_used))
    }
}

/// A change in flight, or one that waits for an earlier one.
struct Entry {
    /// Increases with each change.
    number: u64,
    at: Extent,
    /// Wakes the task of a waiting change.
    waker: Option<Waker>,
}

/// The changes of a client, in the order of their arrival.
struct Line {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    filter: Filter,
    number: u64,
    /// Number of waiting changes with a waker.
    waiting: usize,
}

impl Line {
    fn new(changes: usize) -> Line {
        Line {
            entries: Vec::with_capacity(changes),
            free: Vec::with_capacity(changes),
            filter: Filter { buckets: [0; BUCKETS], long: 0 },
            number: 0,
            waiting: 0,
        }
    }

    /// Whether an earlier change than this number overlaps the extent.
    fn is_taken(&self, at: Extent, number: u64) -> bool {
        let mut entries = self.entries.iter().flatten();
        entries.any(|entry| entry.number < number && entry.at.overlaps(&at))
    }

    /// Whether any change overlaps this extent.
    fn overlaps(&self, at: Extent) -> bool {
        self.filter.may_overlap(at) && self.is_taken(at, u64::MAX)
    }

    /// Appends a change. Returns its index.
    fn enter(&mut self, at: Extent) -> usize {
        self.number += 1;
        self.filter.add(at);
        let entry = Some(Entry { number: self.number, at, waker: None });
        match self.free.pop() {
            Some(index) => {
                self.entries[index] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }

    /// Whether a waiting change may begin now; if not, `waker` is called when it may.
    fn may_begin(&mut self, index: usize, waker: &Waker) -> bool {
        let entry = self.entries[index].as_ref().expect("a change is in line until it leaves");
        let (at, number, had_waker) = (entry.at, entry.number, entry.waker.is_some());
        let waits = self.is_taken(at, number);
        self.waiting = self.waiting + usize::from(waits) - usize::from(had_waker);
        if let Some(entry) = &mut self.entries[index] {
            entry.waker = waits.then(|| waker.clone());
        }
        !waits
    }

    /// Removes a change, and wakes the changes that waited only for it.
    fn leave(&mut self, index: usize) {
        let left = self.entries[index].take().expect("a change leaves once");
        self.free.push(index);
        self.filter.remove(left.at);
        self.waiting -= usize::from(left.waker.is_some());
        if self.waiting == 0 {
            return;
        }
        for next in 0..self.entries.len() {
            let Some(Entry { number, at, waker: Some(waker) }) = &self.entries[next] else {
                continue;
            };
            if at.overlaps(&left.at) && !self.is_taken(*at, *number) {
                // The task checks again, and removes the waker.
                waker.wake_by_ref();
            }
        }
    }
}

/// The changes of one client that are in flight in a stack. For one lane.
#[derive(Clone)]
pub struct ArrivalOrder(Rc<RefCell<Line>>);

impl ArrivalOrder {
    /// For a client without changes in flight. Up to `changes` changes need no further memory.
    pub fn new(changes: usize) -> ArrivalOrder {
        ArrivalOrder(Rc::new(RefCell::new(Line::new(changes))))
    }

    /// Whether a request that arrives now must wait for an earlier change. It then goes to
    /// [`ArrivalOrder::run`], and not to the stack's `try_now`.
    #[inline]
    pub fn must_wait(&self, request: &Request) -> bool {
        request.is_change() && self.overlaps(request)
    }

    /// Separate, so that [`ArrivalOrder::must_wait`] is a single jump for reads.
    #[inline(never)]
    fn overlaps(&self, request: &Request) -> bool {
        let overlaps = request.extent().is_some_and(|at| self.0.borrow().overlaps(at));
        overlaps && !planted(Bug::OvertakeOnConnection)
    }

    /// Serves a request in the stack below like [`Stack::run_unless_stalled`], after the earlier
    /// changes that it overlaps. Its position in the order is that of this call, not of the first
    /// poll. A change that still waits when the backing stalls is dropped: its client gets the
    /// error, and the change never takes effect.
    pub fn run(&self, stack: &Stack, request: Request, padding: Padding) -> InOrder {
        let position = request.extent().filter(|_| request.is_change()).map(|at| {
            let waits = self.must_wait(&request);
            Position { order: self.clone(), index: self.0.borrow_mut().enter(at), waits }
        });
        let running = match padding {
            Padding::NONE => stack.run_unless_stalled(request),
            padding => stack.run_padded_unless_stalled(request, padding),
        };
        InOrder { position, running }
    }
}

/// A position in the order, until it is dropped.
struct Position {
    order: ArrivalOrder,
    index: usize,
    /// Whether an earlier change overlaps this one.
    waits: bool,
}

impl Position {
    /// Whether a waiting change may begin now; if not, its task is woken when it may.
    fn may_begin(&mut self, context: &mut Context<'_>) -> bool {
        self.waits = !self.order.0.borrow_mut().may_begin(self.index, context.waker());
        !self.waits
    }
}

impl Drop for Position {
    fn drop(&mut self) {
        self.order.0.borrow_mut().leave(self.index);
    }
}

/// A request in flight, or waiting for earlier ones. See [`ArrivalOrder::run`].
pub struct InOrder {
    position: Option<Position>,
    /// Not polled before the request may begin.
    running: UnlessStalled,
}

impl Future for InOrder {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result> {
        let stalled = self.running.stalled();
        if let Some(position) = self.position.as_mut().filter(|position| position.waits) {
            if let Some(error) = stalled {
                self.position = None;
                return Poll::Ready(Err(error));
            }
            if !position.may_begin(context) {
                return Poll::Pending;
            }
        }
        let result = ready!(Pin::new(&mut self.running).poll(context));
        self.position = None;
        Poll::Ready(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, count: u32) -> Extent {
        Extent::new(first, count)
    }

    #[test]
    fn a_change_waits_for_all_earlier_ones_that_it_overlaps_and_for_no_other() {
        let mut line = Line::new(4);
        let extents = [extent(0, 8), extent(16, 8), extent(4, 16), extent(24, 8)];
        let places = extents.map(|at| line.enter(at));
        let waker = Waker::noop();
        let may_begin = |line: &mut Line| places.map(|position| line.may_begin(position, waker));
        assert_eq!(may_begin(&mut line), [true, true, false, true]);
        assert_eq!(line.waiting, 1);
        line.leave(places[1]);
        line.leave(places[0]);
        assert!(line.may_begin(places[2], waker));
        assert_eq!(line.waiting, 0);
        // The index of one that has left, with a new number.
        let last = line.enter(extent(19, 1));
        assert_eq!(last, places[0]);
        assert!(!line.may_begin(last, waker) && line.may_begin(places[3], waker));
        line.leave(places[2]);
        assert!(line.may_begin(last, waker));
    }

    #[test]
    fn the_filter_misses_no_overlap() {
        let mut random = lane::Random::new(7);
        let mut draw = || {
            let count = [1, 8, 64, 120, 129, 5000][random.below(6) as usize];
            extent(random.below(1 << 16), count)
        };
        let mut line = Line::new(32);
        let mut places = Vec::new();
        let (mut overlaps, mut skipped) = (0, 0);
        for round in 0..20_000 {
            let at = draw();
            let taken = line.is_taken(at, u64::MAX);
            assert_eq!(line.overlaps(at), taken, "round {round}: {at:?}");
            overlaps += u32::from(taken);
            skipped += u32::from(!line.filter.may_overlap(at));
            places.push(line.enter(at));
            if places.len() == 8 {
                places.drain(..4).for_each(|position| line.leave(position));
            }
        }
        places.drain(..).for_each(|position| line.leave(position));
        assert!(line.filter.buckets.iter().all(|&count| count == 0) && line.filter.long == 0);
        assert!(overlaps > 100 && skipped > 1000, "{overlaps} and {skipped}");
    }
}
