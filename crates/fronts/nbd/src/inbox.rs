//! Received bytes that are not parsed yet.

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

    /// Moves the bytes to a buffer of another size, which must have room for them.
    pub(crate) fn resized(self, bytes: usize) -> Inbox {
        let mut resized = Inbox::new(bytes);
        let length = self.available();
        self.memory.copy(self.start, &resized.memory, 0, length);
        resized.end = length;
        resized
    }

    /// Capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.bytes()
    }

    /// Number of bytes in the buffer.
    pub(crate) fn available(&self) -> usize {
        self.end - self.start
    }

    /// Returns the next bytes without consuming them. None: they have not all arrived.
    #[inline]
    pub(crate) fn peek<const BYTES: usize>(&self) -> Option<[u8; BYTES]> {
        if self.available() < BYTES {
            return None;
        }
        let mut bytes = [0; BYTES];
        self.memory.read(self.start, &mut bytes);
        Some(bytes)
    }

    /// Returns a window on the next bytes. None: they have not all arrived, or are not aligned.
    pub(crate) fn window(&mut self, sectors: u32) -> Option<Buf> {
        if self.available() < sectors as usize * block::SECTOR as usize {
            return None;
        }
        self.windows.at(self.start, sectors)
    }

    /// Consumes the next bytes.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.available());
        self.start += bytes;
    }

    /// Moves up to `length` bytes to another memory. Returns their number.
    pub(crate) fn copy_out(&mut self, into: &Memory, offset: usize, length: usize) -> usize {
        let count = length.min(self.available());
        self.memory.copy(self.start, into, offset, count);
        self.consume(count);
        count
    }

    /// Consumes the next bytes and returns them as a vector. The caller has checked that they have
    /// arrived, and that they are few.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read(self.start, &mut bytes);
        self.consume(length);
        bytes
    }

    /// Receives more bytes. 0: the other side has ended.
    pub(crate) async fn receive(&mut self, wire: &impl Wire) -> Result<usize> {
        self.move_to_front();
        let room = self.memory.bytes() - self.end;
        assert!(room > 0, "more is asked for only where there is room for it");
        let count = wire.receive(&self.memory, self.end, room).await?;
        assert!(count <= room, "a wire wrote beyond its buffer");
        self.end += count;
        Ok(count)
    }

    /// The bytes left are nearly always none, or the start of a header. They are copied in pieces
    /// through a small buffer, because source and destination may overlap.
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
