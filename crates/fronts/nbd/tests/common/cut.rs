//! A wire that ends anywhere.

use block::{Memory, Part, Result};
use nbd::{Pipe, Wire};
use std::cell::Cell;
use std::sync::Arc;

/// A wire that ends after a number of received bytes.
pub(crate) struct Cut {
    pub(crate) pipe: Pipe,
    /// Bytes that are still received.
    pub(crate) left: Cell<usize>,
}

impl Wire for Cut {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        let most = length.min(self.left.get());
        if most == 0 {
            self.pipe.shutdown();
            return Ok(0);
        }
        let count = self.pipe.receive(memory, offset, most).await?;
        self.left.set(self.left.get() - count);
        Ok(count)
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.pipe.send(parts).await
    }

    async fn finish(&self) {
        self.pipe.finish().await;
    }

    fn shutdown(&self) {
        self.pipe.shutdown();
    }
}
