//! A socket on the ring as the byte stream of the NBD client.

use block::{Memory, Part, Result};
use host::File;
use ring::Ring;
use std::sync::Arc;

pub(crate) struct Socket {
    pub(crate) ring: Ring,
    pub(crate) file: File,
}

impl nbd::Wire for Socket {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        self.ring.receive(&self.file, memory, offset, length).await
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.ring.send(&self.file, parts).await
    }

    fn finish(&self) {
        // It fails only if the other side has closed first; the same holds for the next one.
        let _ = ring::finish(&self.file);
    }

    fn shutdown(&self) {
        let _ = ring::shutdown(&self.file);
    }
}
