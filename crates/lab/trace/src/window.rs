//! Sorts accesses by their times, as far as a bounded window allows.

use crate::access::Access;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

/// Number of accesses in the window: the maximum displacement of a line. Blktrace's buffers of 512
/// KiB per processor hold fewer events.
pub const WINDOW: usize = 1 << 16;

/// The accesses in the window, oldest on top.
#[derive(Default, Debug)]
pub struct Window {
    heap: BinaryHeap<Reverse<Waiting>>,
    /// Number of accesses received.
    count: u64,
    /// The latest time of the accesses passed on.
    passed_ns: u64,
    /// Number of accesses older than one passed on before.
    pub late: u64,
}

#[derive(Debug)]
struct Waiting {
    access: Access,
    /// Accesses of equal times stay in the order of the file.
    number: u64,
}

impl Waiting {
    fn key(&self) -> (u64, u64) {
        (self.access.time_ns, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Window {
    /// Adds an access, and passes on the oldest if the window is full.
    pub fn put(&mut self, access: Access, into: &mut Vec<Access>) {
        if access.time_ns < self.passed_ns {
            self.late += 1;
        }
        self.heap.push(Reverse(Waiting { access, number: self.count }));
        self.count += 1;
        if self.heap.len() > WINDOW {
            self.let_go(into);
        }
    }

    /// Passes on all.
    pub fn finish(&mut self, into: &mut Vec<Access>) {
        while !self.heap.is_empty() {
            self.let_go(into);
        }
    }

    /// Passes on all; the times of the following accesses start again.
    pub fn begin_again(&mut self, into: &mut Vec<Access>) {
        self.finish(into);
        self.passed_ns = 0;
    }

    fn let_go(&mut self, into: &mut Vec<Access>) {
        if let Some(Reverse(oldest)) = self.heap.pop() {
            self.passed_ns = self.passed_ns.max(oldest.access.time_ns);
            into.push(oldest.access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;

    fn at(time_ns: u64) -> Access {
        let details = crate::Details::default();
        let (device, direction, bytes) = (0, Direction::Read, 1);
        Access { time_ns, device, direction, first_byte: time_ns, bytes, details }
    }

    #[test]
    fn what_is_in_the_window_is_put_in_order_and_what_is_late_is_counted() {
        let (mut window, mut out) = (Window::default(), Vec::new());
        let count = WINDOW as u64 + 10;
        (0..count).rev().for_each(|time| window.put(at(time + 5), &mut out));
        assert_eq!((out.len(), window.late), (10, 9), "the oldest of a full window each");
        window.put(at(1), &mut out);
        window.finish(&mut out);
        assert_eq!((out.len() as u64, window.late), (count + 1, 10));
        let waited = &out[11..];
        assert!(waited.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
    }

    #[test]
    fn equal_times_keep_their_order() {
        let (mut window, mut out) = (Window::default(), Vec::new());
        (0..9).for_each(|first_byte| window.put(Access { first_byte, ..at(3) }, &mut out));
        window.finish(&mut out);
        assert!(out.iter().map(|access| access.first_byte).eq(0..9));
    }
}
