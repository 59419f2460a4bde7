//! A socket on the ring as the byte stream that the NBD client wants.

use block::{Memory, Part, Result};
use std::sync::Arc;
use uring::{File, Ring};

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
        // It fails only where the other side was faster, as the next one.
        let _ = uring::finish(&self.file);
    }

    fn shutdown(&self) {
        let _ = uring::shutdown(&self.file);
    }
}
