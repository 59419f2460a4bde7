//! An allocator for tests that counts the allocations of each thread. It becomes the allocator of
//! each program that uses this crate.
//!
//! It counts per thread because the test harness has a thread too, which reports tests that take
//! longer than a minute.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls are forwarded to the system's allocator. The counter does not affect its
// contract, and it neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending may have no counter any more. Then no one reads it either.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantee about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` above, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Number of allocations of the calling thread until now.
pub fn of_this_thread() -> u64 {
    ALLOCATIONS.get()
}

#[cfg(test)]
mod tests {
    use super::of_this_thread;

    #[test]
    fn what_a_thread_allocates_is_counted_and_what_others_do_is_not() {
        let other = std::thread::spawn(|| drop(vec![0u8; 10]));
        other.join().expect("it does not panic");
        let before = of_this_thread();
        let mut list = vec![1u8];
        list.reserve(1000);
        assert!(list.capacity() > 1000);
        assert_eq!(of_this_thread() - before, 2, "a list, and one that is larger");
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            wait.recv().expect("the other end is there");
            (0..100).for_each(|_| drop(Box::new([0u64; 4])));
        });
        let before = of_this_thread();
        go.send(()).expect("the other end is there");
        let count = of_this_thread() - before;
        other.join().expect("it does not panic");
        assert!(count < 100, "{count}");
    }
}
