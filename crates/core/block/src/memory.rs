//! Pinned memory that the kernel, other processes and the engine share.
//!
//! A [`Memory`] is a stretch of bytes at a fixed address. Code copies bytes in and out, or uses
//! atomic words; it never holds a reference into the memory, so the kernel or another process may
//! write it at any time. The users of a memory agree on the writer of each byte at each time (a
//! request owns its buffer until it is answered; a published slot is never written).
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Alignment that direct I/O requires of buffers.
const PAGE: usize = 4096;
/// Bytes of a cache line of the processor.
const LINE: usize = 64;

#[inline]
fn prefetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect on memory and cannot fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Prefetches the first cache line of a value.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_line(std::ptr::from_ref(value).cast());
}

/// Copies whole cache lines to an aligned address, without loading the target's lines and without
/// leaving them in the processor's caches.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`]. `to` is aligned to [`LINE`], and `length` is a multiple of
/// it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_lines_past_caches(from: *const u8, to: *mut u8, length: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const PARTS: usize = LINE / size_of::<__m128i>();
    let (from, to) = (from.cast::<[__m128i; PARTS]>(), to.cast::<[__m128i; PARTS]>());
    for line in 0..length / LINE {
        // SAFETY: by this function's contract; every part of an aligned line is aligned.
        unsafe {
            let (from, to) = (from.add(line).cast::<__m128i>(), to.add(line).cast::<__m128i>());
            let parts: [__m128i; PARTS] =
                std::array::from_fn(|part| _mm_loadu_si128(from.add(part)));
            for (part, bytes) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.add(part), bytes);
            }
        }
    }
    // Such stores are not ordered with later ones, which may publish the bytes.
    // SAFETY: a fence accesses no memory. SSE2 is a part of x86-64.
    unsafe { _mm_sfence() }
}

enum Origin {
    /// Where the allocation starts; the base is aligned within it.
    Heap(NonNull<u8>, Layout),
    /// Memory that something else has mapped; this value keeps the mapping alive.
    Mapped(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>),
}

/// A stretch of pinned memory.
pub struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    origin: Origin,
}

// SAFETY: the bytes belong to this object until it is dropped, and are accessed only through copies
// and atomic words. Callers keep copies apart by protocol, as the module text says.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A part of a memory that is to be sent.
#[derive(Clone, Debug)]
pub struct Part {
    /// The memory. Nothing changes these bytes until they have been sent.
    pub memory: Arc<Memory>,
    /// Offset of the first byte.
    pub offset: usize,
    /// Number of bytes; not 0.
    pub length: usize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Memory {
    /// Allocates zeroed memory, aligned to 4096 bytes so that direct I/O can use it.
    pub fn heap(bytes: usize) -> Memory {
        // Aligned by hand: an aligned allocation would touch every page to zero it. Fresh pages
        // from the system are zero already and cost nothing until they are used.
        let layout = Layout::from_size_align(bytes + PAGE, 16).expect("a sensible size");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: at most one page further, and the allocation includes that page.
        let base = unsafe { start.add(start.align_offset(PAGE)) };
        Memory { base, bytes, origin: Origin::Heap(start, layout) }
    }

    /// Wraps memory that something else has mapped.
    ///
    /// # Safety
    /// `base` is valid for reads and writes of `bytes` bytes and aligned to 8 bytes, for as long as
    /// `keep` lives.
    pub unsafe fn mapped(
        base: NonNull<u8>,
        bytes: usize,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Memory { base, bytes, origin: Origin::Mapped(keep) }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the address of `length` bytes at `offset`, for the kernel.
    ///
    /// # Panics
    /// If the range exceeds the memory.
    #[inline]
    pub fn address(&self, offset: usize, length: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes && length <= self.bytes - offset, "outside the memory");
        // SAFETY: the range was just checked to be inside the allocation.
        unsafe { self.base.add(offset) }
    }

    /// Copies bytes out of the memory.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.address(offset, into.len());
        // SAFETY: both are valid for the length; a private slice cannot overlap pinned memory.
        unsafe { from.as_ptr().copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes into the memory.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) {
        let to = self.address(offset, from.len());
        // SAFETY: as in `read`.
        unsafe { to.as_ptr().copy_from_nonoverlapping(from.as_ptr(), from.len()) }
    }

    /// Sets bytes to zero.
    #[inline]
    pub fn zero(&self, offset: usize, length: usize) {
        let at = self.address(offset, length);
        // SAFETY: valid for the length.
        unsafe { at.as_ptr().write_bytes(0, length) }
    }

    /// Copies between two memories, or within one if the ranges do not overlap.
    #[inline]
    pub fn copy(&self, offset: usize, into: &Memory, into_offset: usize, length: usize) {
        let from = self.address(offset, length);
        let to = into.address(into_offset, length);
        let apart = from.addr().get().abs_diff(to.addr().get()) >= length;
        assert!(apart, "a copy onto itself");
        // SAFETY: both are valid for the length and do not overlap.
        unsafe { from.as_ptr().copy_to_nonoverlapping(to.as_ptr(), length) }
    }

    /// Same as [`Memory::copy`], but does not leave the target in the processor's caches, where it
    /// would replace data that is needed sooner. For bytes that are not expected to be read soon. A
    /// copy to memory that is not in these caches takes little more than half the time.
    #[inline]
    pub fn copy_past_caches(
        &self,
        offset: usize,
        into: &Memory,
        into_offset: usize,
        length: usize,
    ) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let from = self.address(offset, length);
            let to = into.address(into_offset, length);
            let is_apart = from.addr().get().abs_diff(to.addr().get()) >= length;
            if is_apart && (to.addr().get() | length).is_multiple_of(LINE) {
                // SAFETY: both are valid for the length and do not overlap; the target consists of
                // whole lines.
                return unsafe { copy_lines_past_caches(from.as_ptr(), to.as_ptr(), length) };
            }
        }
        self.copy(offset, into, into_offset, length);
    }

    /// Returns the 8-byte word at `offset`.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "the offset of a word is a multiple of 8");
        let at = self.address(offset, 8);
        // SAFETY: inside the memory and aligned (the base is), and such words are only used as
        // atomics.
        unsafe { at.cast::<AtomicU64>().as_ref() }
    }

    /// Prefetches the bytes into the processor's caches. Does not change them.
    #[inline]
    pub fn prefetch(&self, offset: usize, length: usize) {
        let start = self.address(offset, length).as_ptr().cast_const();
        for line in 0..length.div_ceil(LINE) {
            prefetch_line(start.wrapping_add(line * LINE));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Origin::Heap(start, layout) = self.origin {
            // SAFETY: allocated in `heap` with this layout; nothing can reach it any more.
            unsafe { dealloc(start.as_ptr(), layout) }
        }
    }
}
