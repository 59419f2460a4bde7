//! Bytes received and not yet understood.

use crate::windows::Windows;
use block::Wire;
use block::{Buf, Memory, Result};
use std::sync::Arc;

/// The receive buffer of a connection.
pub(crate) struct Inbox {
    memory: Arc<Memory>,
    windows: Windows,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new(bytes: usize) -> Inbox {
        let memory = Arc::new(Memory::heap(bytes));
        Inbox { windows: Windows::new(memory.clone()), memory, start: 0, end: 0 }
    }

    /// The same bytes in a buffer of another size, in which they have room.
    pub(crate) fn resized(self, bytes: usize) -> Inbox {
        let mut resized = Inbox::new(bytes);
        let length = self.available();
        self.memory.copy(self.start, &resized.memory, 0, length);
        resized.end = length;
        resized
    }

    /// Bytes that may wait at most.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.bytes()
    }

    /// Bytes that wait.
    pub(crate) fn available(&self) -> usize {
        self.end - self.start
    }

    /// The next bytes, without taking them; None: they have not all come yet.
    #[inline]
    pub(crate) fn peek<const BYTES: usize>(&self) -> Option<[u8; BYTES]> {
        if self.available() < BYTES {
            return None;
        }
        let mut bytes = [0; BYTES];
        self.memory.read(self.start, &mut bytes);
        Some(bytes)
    }

    /// A window on the next bytes; None: they have not all come yet, or stand at an odd place.
    pub(crate) fn window(&mut self, sectors: u32) -> Option<Buf> {
        if self.available() < sectors as usize * block::SECTOR as usize {
            return None;
        }
        self.windows.at(self.start, sectors)
    }

    /// Lets go of the next bytes.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.available());
        self.start += bytes;
    }

    /// Takes up to `length` bytes into another memory; returns how many.
    pub(crate) fn copy_out(&mut self, into: &Memory, offset: usize, length: usize) -> usize {
        let count = length.min(self.available());
        self.memory.copy(self.start, into, offset, count);
        self.consume(count);
        count
    }

    /// The next bytes as a vector; the caller has checked that they are few and have come.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(self.start, &mut bytes);
        self.consume(length);
        bytes
    }

    /// Receives more behind what waits. 0: the other side has ended.
    pub(crate) async fn receive(&mut self, wire: &impl Wire) -> Result<usize> {
        self.move_to_front();
        let room = self.memory.bytes() - self.end;
        assert!(room > 0, "more is asked for only where there is room for it");
        let count = wire.receive(&self.memory, self.end, room).await?;
        assert!(count <= room, "a wire wrote beyond its buffer");
        self.end += count;
        Ok(count)
    }

    /// What waits is nearly always nothing, or the beginning of a header. The pieces are copied
    /// one by one through a place of their own, because old and new place may overlap.
    fn move_to_front(&mut self) {
        let length = self.available();
        let mut done = 0;
        let mut piece = [0; 64];
        while self.start > 0 && done < length {
            let count = piece.len().min(length - done);
            self.memory.read(self.start + done, &mut piece[..count]);
            self.memory.write(done, &piece[..count]);
            done += count;
        }
        (self.start, self.end) = (0, length);
    }
}
