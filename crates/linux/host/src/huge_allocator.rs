//! The system's allocator, which requests huge pages for large allocations once that was enabled.
//!
//! A modelled drive looks up random addresses in two tables of hundreds of megabytes: with pages of
//! 4 KiB nearly every lookup misses the translation buffer, and also waits for the page table. On
//! many machines, transparent huge pages require advice, which only an allocator can give.
#![allow(unsafe_code)]

use rustix::mm::Advice;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Minimum size of an allocation that is worth the system call for advice. The C library gives each
/// allocation of this size its own mapping.
const LARGE_BYTES: usize = 32 << 20;
const HUGE_BYTES: usize = 2 << 20;

static WANTED: AtomicBool = AtomicBool::new(false);

/// Makes later allocations of 32 MiB and more use huge pages, if the kernel has free ones and the
/// program's allocator is [`HugeAllocator`]. For programs that access large tables at random, and
/// can afford 2 MiB of memory per 4 KiB accessed.
pub fn want_huge_allocations() {
    WANTED.store(true, Ordering::Relaxed);
}

/// The system's allocator with huge pages, for a program's `#[global_allocator]`; see
/// [`want_huge_allocations`].
#[derive(Clone, Copy, Debug)]
pub struct HugeAllocator;

fn advise(block: *mut u8, bytes: usize) {
    if bytes < LARGE_BYTES || block.is_null() || !WANTED.load(Ordering::Relaxed) {
        return;
    }
    // Whole huge pages within the block: neighbouring memory belongs to others.
    let skipped = block.align_offset(HUGE_BYTES);
    let length = bytes.saturating_sub(skipped) / HUGE_BYTES * HUGE_BYTES;
    // SAFETY: this part of a newly allocated block is mapped, and the advice changes no contents.
    // Best effort: a kernel without transparent huge pages returns EINVAL.
    let _ = unsafe {
        rustix::mm::madvise(block.wrapping_add(skipped).cast(), length, Advice::LinuxHugepage)
    };
}

// SAFETY: all calls are forwarded to the system's allocator. Advice on a block's pages does not
// affect its contract, and neither allocates nor panics.
unsafe impl GlobalAlloc for HugeAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantee about the layout is passed on.
        let block = unsafe { System.alloc(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantee about the layout is passed on.
        let block = unsafe { System.alloc_zeroed(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the block came from `alloc` above with this layout, and the caller guarantees the
        // size.
        let block = unsafe { System.realloc(block, layout, bytes) };
        advise(block, bytes);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` above, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}
