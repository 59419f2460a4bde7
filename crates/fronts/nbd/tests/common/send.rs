//! Bytes to the other end of a pipe.

use block::{Memory, Part};
use nbd::{Pipe, Wire};
use std::sync::Arc;

/// Sends bytes. Returns false if the other side has ended the connection.
pub(crate) async fn send(wire: &Pipe, bytes: &[u8]) -> bool {
    let memory = Arc::new(Memory::heap(bytes.len()));
    memory.write(0, bytes);
    let part = Part { memory, offset: 0, length: bytes.len() };
    wire.send(&[part]).await.is_ok()
}
