//! The system's allocator, which asks for huge pages behind what is large, once that was wanted.
//!
//! A modelled drive looks up two tables of hundreds of megabytes at random addresses: with pages of 4 KiB
//! nearly each look misses the translation buffer, and waits for the page table besides. Transparent
//! huge pages are a matter of advice on many machines, and only an allocator can give it.
#![allow(unsafe_code)]

use rustix::mm::Advice;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Less is not worth a system call; the C library maps what is as large as this for itself.
const LARGE_BYTES: usize = 32 << 20;
const HUGE_BYTES: usize = 2 << 20;

static WANTED: AtomicBool = AtomicBool::new(false);

/// From now on allocations of 32 MiB and more lie in huge pages, if the kernel has some to give and the
/// program's allocator is [`HugeAllocator`]. For programs that look up large tables at random and may
/// take 2 MiB of memory where they touch 4 KiB.
pub fn want_huge_allocations() {
    WANTED.store(true, Ordering::Relaxed);
}

/// The system's allocator, to be a program's `#[global_allocator]`; see [`want_huge_allocations`].
#[derive(Clone, Copy, Debug)]
pub struct HugeAllocator;

fn advise(block: *mut u8, bytes: usize) {
    if bytes < LARGE_BYTES || block.is_null() || !WANTED.load(Ordering::Relaxed) {
        return;
    }
    // Whole huge pages within the block: what lies beside it is not ours.
    let skipped = block.align_offset(HUGE_BYTES);
    let length = bytes.saturating_sub(skipped) / HUGE_BYTES * HUGE_BYTES;
    // SAFETY: this part of a block that was just allocated is mapped, and the advice changes no contents.
    // Best effort: a kernel without transparent huge pages says EINVAL.
    let _ = unsafe {
        rustix::mm::madvise(block.wrapping_add(skipped).cast(), length, Advice::LinuxHugepage)
    };
}

// SAFETY: everything is left to the system's allocator. Advice on a block's pages is no part of its
// contract, and neither allocates nor panics.
unsafe impl GlobalAlloc for HugeAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is handed on.
        let block = unsafe { System.alloc(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is handed on.
        let block = unsafe { System.alloc_zeroed(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the block came from `alloc` above with this layout, and the caller answers for the size.
        let block = unsafe { System.realloc(block, layout, bytes) };
        advise(block, bytes);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` above, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}
