//! Futures without the heap: the lane keeps memory by size class and reuses it.
//!
//! A future of an erased type ([`Pooled`]) is stored in a block of the smallest class that fits.
//! Blocks return to their class when the future is dropped, so that a lane in steady state never
//! allocates memory.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll};

const ALIGN: usize = 64;
const SMALLEST: usize = 128;
/// 128 B, 256 B, ... 64 KiB.
const CLASSES: usize = 10;

/// The free blocks of each class.
pub(crate) struct Pool {
    free: [RefCell<Vec<NonNull<u8>>>; CLASSES],
}

fn class_layout(class: usize) -> Layout {
    Layout::from_size_align(SMALLEST << class, ALIGN).expect("a class is a power of two")
}

impl Pool {
    pub(crate) fn new() -> Rc<Pool> {
        Rc::new(Pool { free: Default::default() })
    }

    fn take(&self, class: usize) -> NonNull<u8> {
        if let Some(block) = self.free[class].borrow_mut().pop() {
            return block;
        }
        let layout = class_layout(class);
        // SAFETY: the layout has a size above zero.
        let block = unsafe { alloc(layout) };
        NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
    }

    fn give(&self, class: usize, block: NonNull<u8>) {
        self.free[class].borrow_mut().push(block);
    }

    /// Moves a future into the pool.
    ///
    /// # Panics
    /// If the future is larger than 64 KiB: such a future contains a buffer that belongs elsewhere.
    pub(crate) fn pin<F: Future + 'static>(self: &Rc<Pool>, future: F) -> Pooled<F::Output> {
        let size = size_of::<F>().max(1).next_power_of_two().max(SMALLEST);
        let class = (size / SMALLEST).trailing_zeros() as usize;
        assert!(class < CLASSES && align_of::<F>() <= ALIGN, "future of {size} bytes");
        let block = self.take(class);
        // SAFETY: the block is at least as large and as aligned as F, and has no other owner.
        unsafe { block.cast::<F>().write(future) };
        Pooled { block, class, pool: self.clone(), poll: poll_as::<F>, drop: drop_as::<F> }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, free) in self.free.iter_mut().enumerate() {
            for block in free.get_mut().drain(..) {
                // SAFETY: the block came from `alloc` with this class's layout, and is unused.
                unsafe { dealloc(block.as_ptr(), class_layout(class)) };
            }
        }
    }
}

/// A pinned, erased future in a block of the lane's pool.
pub struct Pooled<T> {
    block: NonNull<u8>,
    class: usize,
    pool: Rc<Pool>,
    poll: unsafe fn(NonNull<u8>, &mut Context<'_>) -> Poll<T>,
    drop: unsafe fn(NonNull<u8>),
}

/// # Safety
/// `block` holds a live `F` that does not move until it is dropped.
unsafe fn poll_as<F: Future>(block: NonNull<u8>, context: &mut Context<'_>) -> Poll<F::Output> {
    // SAFETY: by this function's contract; the unique borrow comes from `&mut Pooled`.
    unsafe { Pin::new_unchecked(block.cast::<F>().as_mut()) }.poll(context)
}

/// # Safety
/// `block` holds a live `F`, which is not used again.
unsafe fn drop_as<F>(block: NonNull<u8>) {
    // SAFETY: by this function's contract.
    unsafe { block.cast::<F>().drop_in_place() }
}

impl<T> Future for Pooled<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: `block` holds the future that `poll` was made for, from `pin` until our drop.
        unsafe { (self.poll)(self.block, context) }
    }
}

// The future is behind a pointer: moving the handle does not move it.
impl<T> Unpin for Pooled<T> {}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        // SAFETY: as in `poll`; this is the last use.
        unsafe { (self.drop)(self.block) };
        self.pool.give(self.class, self.block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_values_are_dropped_once() {
        let pool = Pool::new();
        let counted = Rc::new(());
        for _ in 0..3 {
            let held = counted.clone();
            let mut future = pool.pin(async move { Rc::strong_count(&held) });
            let mut context = Context::from_waker(std::task::Waker::noop());
            assert_eq!(Pin::new(&mut future).poll(&mut context), Poll::Ready(2));
        }
        assert_eq!(Rc::strong_count(&counted), 1);
        let blocks: usize = pool.free.iter().map(|class| class.borrow().len()).sum();
        assert_eq!(blocks, 1, "three futures one after another need one block");
    }

    #[test]
    fn a_future_that_is_never_polled_is_dropped_too() {
        let pool = Pool::new();
        let counted = Rc::new(());
        let held = counted.clone();
        drop(pool.pin(async move { drop(held) }));
        assert_eq!(Rc::strong_count(&counted), 1);
    }
}
