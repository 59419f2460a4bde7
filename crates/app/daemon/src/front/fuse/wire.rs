//! /dev/fuse on the ring, as the device of a session.

use block::{Part, Result};
use host::File;
use ring::Ring;

pub(super) struct Wire {
    ring: Ring,
    file: File,
}

impl Wire {
    pub(super) fn new(ring: &Ring, file: &File) -> Wire {
        Wire { ring: ring.clone(), file: file.clone() }
    }
}

impl ::fuse::Device for Wire {
    async fn receive(&self, into: &[Part]) -> Result<usize> {
        self.ring.message(&self.file, into).await
    }

    fn receive_now(&self, into: &[Part]) -> Result<Option<usize>> {
        ring::take_message(&self.file, into)
    }

    fn send(&self, parts: &[Part]) -> Result {
        ring::send_message(&self.file, parts)
    }

    async fn close(&self) {
        // A task that still waits for a message would keep the connection open. Cancelling fails if
        // there is none.
        let _ = self.ring.cancel(&self.file).await;
    }
}
