//! A socket on the ring as the byte stream that the NBD server wants.

use block::{Memory, Result};
use std::cell::RefCell;
use std::sync::Arc;
use uring::{File, Ring};

pub(crate) struct Socket {
    ring: Ring,
    file: File,
    parts: RefCell<Vec<uring::Part>>,
}

impl Socket {
    pub(crate) fn new(ring: &Ring, file: File) -> Socket {
        Socket { ring: ring.clone(), file, parts: RefCell::default() }
    }
}

impl nbd::Wire for Socket {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        self.ring.receive(&self.file, memory, offset, length).await
    }

    async fn send(&self, parts: &[nbd::Part]) -> Result {
        // One send is under way at a time: the list is taken, used, and put back.
        let mut list = self.parts.take();
        list.extend(parts.iter().map(|part| uring::Part {
            memory: part.memory.clone(),
            offset: part.offset,
            length: part.length,
        }));
        let result = self.ring.send(&self.file, &list).await;
        list.clear();
        self.parts.replace(list);
        result
    }

    fn shutdown(&self) {
        // It fails only where the other side was faster.
        let _ = uring::shutdown(&self.file);
    }
}
