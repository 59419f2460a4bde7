//! Buffers of messages and answers.

use crate::codec::{LOOKED_AT_BYTES, Reply, TRANSFER_BYTES_MAX, WRITE_HEAD_BYTES};
use block::{Buf, Memory, Part, SECTOR};
use std::sync::Arc;

/// Maximum length of an answer in front of its data, in bytes.
const HEAD_BYTES: usize = 512;
/// Room for the blocks around a read of maximum size.
const AROUND_BYTES: usize = 128 << 10;

fn whole(memory: &Arc<Memory>) -> Buf {
    Buf::from_memory(memory.clone(), 0, (memory.bytes() as u64 / SECTOR) as u32, SECTOR as u32)
}

fn part(memory: &Arc<Memory>, offset: usize, length: usize) -> Part {
    Part { memory: memory.clone(), offset, length }
}

/// Holds one message at a time. The data of a write starts at the beginning of `body`, aligned as
/// direct I/O requires.
///
/// ```text
///   head  header 40, arguments 40      body  the rest: names, or a write's data
/// ```
pub(crate) struct Inbox {
    pub(crate) parts: [Part; 2],
    body: Buf,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        let head = Arc::new(Memory::heap(WRITE_HEAD_BYTES));
        let body = Arc::new(Memory::heap(TRANSFER_BYTES_MAX));
        let parts = [part(&head, 0, WRITE_HEAD_BYTES), part(&body, 0, TRANSFER_BYTES_MAX)];
        Inbox { parts, body: whole(&body) }
    }

    /// Returns the beginning of a message of `bytes` bytes.
    pub(crate) fn look<'a>(&self, bytes: usize, into: &'a mut [u8; LOOKED_AT_BYTES]) -> &'a [u8] {
        let [head, body] = &self.parts;
        let shown = &mut into[..bytes.min(LOOKED_AT_BYTES)];
        let (first, rest) = shown.split_at_mut(shown.len().min(WRITE_HEAD_BYTES));
        head.memory.read(0, first);
        body.memory.read(0, rest);
        shown
    }

    /// Returns a window on the first sectors of a write's data.
    pub(crate) fn window(&self, sectors: u32) -> Buf {
        self.body.part(0, sectors)
    }

    /// Copies a write's data.
    pub(crate) fn copy_out(&self, into: &Memory, offset: usize, length: usize) {
        self.parts[1].memory.copy(0, into, offset, length);
    }
}

/// Holds one answer at a time.
pub(crate) struct Outbox {
    head: Arc<Memory>,
    data: Arc<Memory>,
    whole: Buf,
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        let data = Arc::new(Memory::heap(TRANSFER_BYTES_MAX + AROUND_BYTES));
        Outbox { head: Arc::new(Memory::heap(HEAD_BYTES)), whole: whole(&data), data }
    }

    /// Returns a window on `sectors` sectors of the room for data.
    pub(crate) fn window(&self, sectors: u32) -> Buf {
        self.whole.part(0, sectors)
    }

    /// Returns an answer without data.
    pub(crate) fn bare(&self, mut reply: Reply) -> [Part; 1] {
        let sealed = reply.seal(0);
        self.head.write(0, sealed);
        [part(&self.head, 0, sealed.len())]
    }

    /// Returns an answer with data that is stored in this memory.
    pub(crate) fn with(
        &self,
        mut reply: Reply,
        memory: &Arc<Memory>,
        at: usize,
        length: usize,
    ) -> [Part; 2] {
        let sealed = reply.seal(length);
        self.head.write(0, sealed);
        [part(&self.head, 0, sealed.len()), part(memory, at, length)]
    }

    /// Returns an answer with data that is stored in the window.
    pub(crate) fn own(&self, reply: Reply, at: usize, length: usize) -> [Part; 2] {
        self.with(reply, &self.data, at, length)
    }

    /// Returns an answer with a copy of these bytes as its data.
    pub(crate) fn copied(&self, reply: Reply, bytes: &[u8]) -> [Part; 2] {
        self.data.write(0, bytes);
        self.own(reply, 0, bytes.len())
    }
}
