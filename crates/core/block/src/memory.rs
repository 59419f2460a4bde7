//! Pinned memory that the kernel, other processes and the engine share.
//!
//! A [`Memory`] is a stretch of bytes at a fixed place. It is only ever copied in and out, or
//! touched as atomic words; nothing holds a reference into it, so that the kernel or another
//! process may write it at any time. Which party may write which bytes when is the protocol of
//! its user (a request owns its buffer until it is answered; a published slot is never
//! written).
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What direct I/O wants buffers to be aligned to.
const PAGE: usize = 4096;
/// Bytes of a processor's cache line.
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

/// Asks the processor to bring the first line of a value nearer.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_line(std::ptr::from_ref(value).cast());
}

enum Origin {
    /// Where the allocation starts; the base is aligned within it.
    Heap(NonNull<u8>, Layout),
    /// Another's mapping, kept alive by this.
    Mapped(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>),
}

/// A stretch of pinned memory.
pub struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    origin: Origin,
}

// SAFETY: the bytes belong to this object until it is dropped, and are reached only through copies
// and atomic words; callers keep copies apart by protocol, as the module text says.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A stretch of a memory: what is to be sent.
#[derive(Clone, Debug)]
pub struct Part {
    /// The memory; nothing changes these bytes until the sending has ended.
    pub memory: Arc<Memory>,
    /// The first byte.
    pub offset: usize,
    /// How many bytes; not 0.
    pub length: usize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Memory {
    /// Zeroed memory of the process, aligned to 4096 bytes (direct I/O can use it).
    pub fn heap(bytes: usize) -> Memory {
        // Aligned by hand: asked for alignment, the allocator would touch every page to zero it,
        // where pages fresh from the system are zero and cost nothing until they are used.
        let layout = Layout::from_size_align(bytes + PAGE, 16).expect("a sensible size");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: at most a page further, which was asked for.
        let base = unsafe { start.add(start.align_offset(PAGE)) };
        Memory { base, bytes, origin: Origin::Heap(start, layout) }
    }

    /// Memory that something else has mapped.
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

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of `length` bytes at `offset`: for handing to the kernel.
    ///
    /// # Panics
    /// If they are not all inside.
    #[inline]
    pub fn address(&self, offset: usize, length: usize) -> NonNull<u8> {
        assert!(offset <= self.bytes && length <= self.bytes - offset, "outside the memory");
        // SAFETY: just checked to be inside the allocation.
        unsafe { self.base.add(offset) }
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = self.address(offset, into.len());
        // SAFETY: both are valid for the length; a private slice cannot overlap pinned memory.
        unsafe { from.as_ptr().copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes in.
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

    /// Copies between two memories, or within one (where the ranges may not overlap).
    #[inline]
    pub fn copy(&self, offset: usize, into: &Memory, into_offset: usize, length: usize) {
        let from = self.address(offset, length);
        let to = into.address(into_offset, length);
        let apart = from.addr().get().abs_diff(to.addr().get()) >= length;
        assert!(apart, "a copy onto itself");
        // SAFETY: both are valid for the length and do not overlap.
        unsafe { from.as_ptr().copy_to_nonoverlapping(to.as_ptr(), length) }
    }

    /// The 8-byte word at `offset`.
    ///
    /// # Panics
    /// If the offset is not a multiple of 8.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a word stands at a multiple of 8");
        let at = self.address(offset, 8);
        // SAFETY: inside, aligned (the base is), and such words are only used as atomics.
        unsafe { at.cast::<AtomicU64>().as_ref() }
    }

    /// Asks the processor to bring the bytes nearer. Without effect on what they are.
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
