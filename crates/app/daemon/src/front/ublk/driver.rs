//! A queue on the ring, as a session's interface to the driver.

use block::Buf;
use host::File;
use ring::{Ring, UblkQueue};
use std::future::Future;
use std::io;

pub(super) struct Driver {
    ring: Ring,
    queue: UblkQueue,
}

impl Driver {
    /// # Errors
    /// Those of the system.
    pub(super) fn open(ring: &Ring, file: &File, number: u16, tags: u16) -> io::Result<Driver> {
        Ok(Driver { ring: ring.clone(), queue: UblkQueue::open(file, number, tags)? })
    }
}

impl ::ublk::Fetch for Driver {
    fn fetch(&self, tag: u16, buffer: &Buf) -> impl Future<Output = i64> {
        self.ring.fetch(&self.queue, tag, None, buffer)
    }

    fn answer(&self, tag: u16, result: i32, buffer: &Buf) -> impl Future<Output = i64> {
        self.ring.fetch(&self.queue, tag, Some(result), buffer)
    }

    fn answer_last(&self, tag: u16, result: i32, buffer: &Buf) {
        drop(self.ring.fetch(&self.queue, tag, Some(result), buffer));
    }

    fn descriptor(&self, tag: u16) -> [u8; 24] {
        self.queue.descriptor(tag)
    }
}
