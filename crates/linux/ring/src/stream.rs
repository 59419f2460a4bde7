//! A stream socket on a ring as the byte stream of a protocol.

use crate::ring::Ring;
use crate::sockets;
use block::{Memory, Part, Result, Wire};
use host::File;
use std::sync::Arc;

/// A connected stream socket, used from the lane of its ring.
pub struct Socket {
    ring: Ring,
    file: File,
    /// Whether the other side is a server, whose replies are received.
    is_to_server: bool,
}

impl Socket {
    /// Creates the lane's handle on a socket, which must be a blocking one ([`Ring::accept`]).
    pub fn new(ring: &Ring, file: File) -> Socket {
        Socket { ring: ring.clone(), file, is_to_server: false }
    }

    /// Same as [`Socket::new`], for a connection to the server of a backing.
    pub fn to_server(ring: &Ring, file: File) -> Socket {
        Socket { ring: ring.clone(), file, is_to_server: true }
    }
}

impl Wire for Socket {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        match self.is_to_server {
            true => self.ring.receive_sleeping(&self.file, memory, offset, length).await,
            false => self.ring.receive(&self.file, memory, offset, length).await,
        }
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.ring.send(&self.file, parts).await
    }

    async fn finish(&self) {
        // This fails only if the other side has ended the connection already; so does `shutdown`.
        let _ = sockets::finish(&self.file);
    }

    fn shutdown(&self) {
        let _ = sockets::shutdown(&self.file);
    }
}
