//! Aligned buffers of one client, reused.

use block::{Buf, Memory};
use std::sync::Arc;

const SMALLEST: usize = 4096;
/// 4 KiB, 8 KiB, ... 64 MiB: the maximum payload with the blocks around it.
const CLASSES: usize = 15;
const SECTOR_BYTES: usize = block::SECTOR as usize;

/// A buffer aligned to 4096 bytes, as direct I/O requires.
pub struct Buffer {
    memory: Arc<Memory>,
    whole: Buf,
    class: usize,
}

impl Buffer {
    fn new(class: usize) -> Buffer {
        let bytes = SMALLEST << class;
        let memory = Arc::new(Memory::heap(bytes));
        let sectors = (bytes / SECTOR_BYTES) as u32;
        Buffer {
            whole: Buf::from_memory(memory.clone(), 0, sectors, SECTOR_BYTES as u32),
            memory,
            class,
        }
    }

    /// Allocates a buffer of at least `bytes` bytes that belongs to no client's pool, for a front
    /// with fixed buffers.
    ///
    /// # Panics
    /// If `bytes` is more than 64 MiB.
    pub fn preallocated(bytes: usize) -> Buffer {
        Buffer::new(class_of(bytes))
    }

    /// The memory, all of which belongs to this buffer.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns the first `sectors` sectors, for a request.
    ///
    /// # Panics
    /// If the buffer is smaller.
    pub fn sectors(&self, sectors: u32) -> Buf {
        self.whole.part(0, sectors)
    }

    /// Memory used, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        SMALLEST << self.class
    }

    /// Whether no other window on the buffer exists.
    pub fn is_free(&self) -> bool {
        // One reference is this buffer's, the other the one that `keep` has just returned.
        Arc::strong_count(&self.whole.keep()) == 2
    }
}

fn class_of(bytes: usize) -> usize {
    let size = bytes.max(SMALLEST).next_power_of_two();
    let class = (size / SMALLEST).trailing_zeros() as usize;
    assert!(class < CLASSES, "a payload of {bytes} bytes was let in");
    class
}

/// Memory that a buffer of `bytes` bytes uses; 0 for no buffer.
pub(crate) fn occupied(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { SMALLEST << class_of(bytes) }
}

/// Unused buffers of a client, by size.
pub(crate) struct Pool {
    free: [Vec<Buffer>; CLASSES],
    kept_bytes: usize,
    kept_bytes_max: usize,
}

impl Pool {
    /// Creates a pool that retains at most `kept_bytes_max` bytes of unused memory.
    pub(crate) fn new(kept_bytes_max: usize) -> Pool {
        Pool { free: Default::default(), kept_bytes: 0, kept_bytes_max }
    }

    /// Returns a buffer of at least `bytes` bytes with arbitrary contents.
    pub(crate) fn take(&mut self, bytes: usize) -> Buffer {
        let class = class_of(bytes);
        let Some(buffer) = self.free[class].pop() else {
            return Buffer::new(class);
        };
        self.kept_bytes -= buffer.bytes();
        buffer
    }

    /// Takes back a buffer whose request has ended.
    pub(crate) fn give(&mut self, buffer: Buffer) {
        let fits = self.kept_bytes + buffer.bytes() <= self.kept_bytes_max;
        // A layer that still holds a window on the buffer must not see the next request's data.
        if fits && buffer.is_free() {
            self.kept_bytes += buffer.bytes();
            self.free[buffer.class].push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_unless_something_holds_them() {
        let mut pool = Pool::new(1 << 20);
        let buffer = pool.take(5000);
        assert_eq!(buffer.bytes(), 8192);
        let memory = Arc::as_ptr(buffer.memory());
        pool.give(buffer);
        let buffer = pool.take(8192);
        assert_eq!(Arc::as_ptr(buffer.memory()), memory, "the same one again");
        let held = buffer.sectors(2);
        pool.give(buffer);
        assert_eq!(pool.kept_bytes, 0);
        drop(held);
    }

    #[test]
    fn the_pool_keeps_a_bounded_amount() {
        let mut pool = Pool::new(8192);
        let buffers = [pool.take(1), pool.take(4096), pool.take(1 << 20)];
        buffers.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(pool.kept_bytes, 8192);
    }
}
