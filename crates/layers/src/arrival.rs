//! Order of arrival: changes of one client that overlap take effect in the order in which they
//! came.
//!
//! A [`Block`] keeps no order between requests that are under way together. A client that sends a
//! discard and, before its answer, a write of the same blocks expects the data to stay, and gets
//! that from most servers. So a change waits until the earlier changes of its client that it
//! overlaps are answered. All others pass: where nothing overlaps, a change costs a look at the
//! extents that are under way.
//!
//! This stands above a stack, on one lane, and not inside it. Only here the requests of a client
//! come in their order: below, each is a task, and tasks run in any order.
//!
//! [`Block`]: block::Block

use crate::planted::{Bug, planted};
use alloc::rc::Rc;
use alloc::vec::Vec;
use block::{Extent, Padding, Request, Result, Stack, Unless};
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};

/// A change that is under way, or waits for an earlier one.
struct Entry {
    /// Rises from one to the next.
    number: u64,
    at: Extent,
    /// Wakes the task of a change that waits.
    waker: Option<Waker>,
}

/// The changes of a client, in the order in which they came.
struct Line {
    entries: Vec<Entry>,
    number: u64,
}

impl Line {
    fn is_taken(&self, at: Extent, before: usize) -> bool {
        self.entries[..before].iter().any(|entry| entry.at.overlaps(&at))
    }

    fn enter(&mut self, at: Extent) -> u64 {
        self.number += 1;
        self.entries.push(Entry { number: self.number, at, waker: None });
        self.number
    }

    fn index_of(&self, number: u64) -> usize {
        let index = self.entries.binary_search_by_key(&number, |entry| entry.number);
        index.expect("a change is in the line until it leaves")
    }

    /// Removes a change, and wakes those that have waited for it alone.
    fn leave(&mut self, number: u64) {
        let index = self.index_of(number);
        let Entry { at: left, .. } = self.entries.remove(index);
        for next in index..self.entries.len() {
            let Entry { at, ref waker, .. } = self.entries[next];
            if waker.is_some() && at.overlaps(&left) && !self.is_taken(at, next) {
                self.entries[next].waker.take().expect("it was there").wake();
            }
        }
    }
}

/// The changes of one client that are under way in a stack. For one lane.
#[derive(Clone)]
pub struct ArrivalOrder(Rc<RefCell<Line>>);

impl ArrivalOrder {
    /// For a client without changes under way. Up to `changes` of them take no further memory.
    pub fn new(changes: usize) -> ArrivalOrder {
        let entries = Vec::with_capacity(changes);
        ArrivalOrder(Rc::new(RefCell::new(Line { entries, number: 0 })))
    }

    /// True if a request that comes now has to wait for an earlier change. It then goes to
    /// [`ArrivalOrder::run`]; a stack must not be asked to answer it at once.
    #[inline]
    pub fn must_wait(&self, request: &Request) -> bool {
        request.is_change() && self.overlaps(request)
    }

    /// Apart from [`ArrivalOrder::must_wait`], so that reads only pass there by a jump.
    #[inline(never)]
    fn overlaps(&self, request: &Request) -> bool {
        let line = self.0.borrow();
        let Some(at) = request.extent().filter(|_| !line.entries.is_empty()) else { return false };
        line.is_taken(at, line.entries.len()) && !planted(Bug::OvertakeOnConnection)
    }

    /// Serves a request below, as [`Stack::run_unless_stalled`] does it, behind the earlier changes
    /// that it overlaps. Its place in the order is that of this call, not of the first poll. A
    /// change that still waits when the backing stalls is given up: its client gets the error, and
    /// nothing of it is done later.
    pub fn run(&self, stack: &Stack, request: Request, padding: Padding) -> InOrder {
        let place = request.extent().filter(|_| request.is_change()).map(|at| {
            let waits = self.must_wait(&request);
            Place { order: self.clone(), number: self.0.borrow_mut().enter(at), waits }
        });
        let asked = match padding {
            Padding::NONE => stack.run_unless_stalled(request),
            padding => stack.run_padded_unless_stalled(request, padding),
        };
        InOrder { place, asked }
    }
}

/// A place in the line, until it is dropped.
struct Place {
    order: ArrivalOrder,
    number: u64,
    /// An earlier change overlaps this one.
    waits: bool,
}

impl Place {
    /// Whether a change that waits may begin now; if not, its task is woken when it may.
    fn may_begin(&mut self, context: &mut Context<'_>) -> bool {
        let mut line = self.order.0.borrow_mut();
        let index = line.index_of(self.number);
        self.waits = line.is_taken(line.entries[index].at, index);
        line.entries[index].waker = self.waits.then(|| context.waker().clone());
        !self.waits
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.order.0.borrow_mut().leave(self.number);
    }
}

/// A request under way, or waiting for earlier ones. See [`ArrivalOrder::run`].
pub struct InOrder {
    place: Option<Place>,
    /// Not polled before its place is the first.
    asked: Unless,
}

impl Future for InOrder {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result> {
        let stalled = self.asked.stalled();
        if let Some(place) = self.place.as_mut().filter(|place| place.waits) {
            if let Some(error) = stalled {
                self.place = None;
                return Poll::Ready(Err(error));
            }
            if !place.may_begin(context) {
                return Poll::Pending;
            }
        }
        let result = ready!(Pin::new(&mut self.asked).poll(context));
        self.place = None;
        Poll::Ready(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(extents: &[(u64, u32)]) -> Line {
        let mut line = Line { entries: Vec::new(), number: 0 };
        extents.iter().for_each(|&(first, count)| _ = line.enter(Extent::new(first, count)));
        line
    }

    fn is_first(line: &Line, number: u64) -> bool {
        let index = line.index_of(number);
        !line.is_taken(line.entries[index].at, index)
    }

    #[test]
    fn a_change_waits_for_all_earlier_ones_that_it_overlaps_and_for_no_other() {
        let mut line = line(&[(0, 8), (16, 8), (4, 16), (24, 8)]);
        let first = |line: &Line, numbers: &[u64]| {
            numbers.iter().map(|&number| is_first(line, number)).collect::<Vec<_>>()
        };
        assert_eq!(first(&line, &[1, 2, 3, 4]), [true, true, false, true]);
        line.leave(2);
        assert_eq!(first(&line, &[1, 3, 4]), [true, false, true]);
        line.leave(1);
        assert_eq!(first(&line, &[3, 4]), [true, true]);
        let number = line.enter(Extent::new(19, 1));
        assert!(!is_first(&line, number));
        line.leave(3);
        assert!(is_first(&line, number));
    }
}
