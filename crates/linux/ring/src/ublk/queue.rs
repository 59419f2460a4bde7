//! A queue of a device: its requests' descriptors, and the commands that fetch and answer requests.
#![allow(unsafe_code)]

use crate::flight::Hold;
use crate::ring::Ring;
use block::Buf;
use host::File;
use io_uring::{opcode, types};
use lane::Ticket;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// `_IOWR('u', 0x20, struct ublksrv_io_cmd)`, and the same with 0x21.
const FETCH: u32 = 0xc010_7520;
const COMMIT_AND_FETCH: u32 = 0xc010_7521;

/// Bytes of a request's descriptor, `struct ublksrv_io_desc`.
const DESCRIPTOR_BYTES: usize = 24;
/// Maximum number of requests of a queue, which determines the distance between the queues'
/// descriptors.
const TAGS_MAX: usize = 4096;
const ADDRESS_BYTES: usize = 8;

fn mapped_bytes(tags: usize) -> usize {
    (tags * DESCRIPTOR_BYTES).next_multiple_of(rustix::param::page_size())
}

/// A queue of the device with this `/dev/ublkcN`.
pub struct UblkQueue {
    file: File,
    number: u16,
    tags: u16,
    descriptors: NonNull<u8>,
}

impl UblkQueue {
    /// Opens the queue with this number, with `tags` requests at a time.
    ///
    /// # Errors
    /// The system's errors.
    pub fn open(file: &File, number: u16, tags: u16) -> io::Result<UblkQueue> {
        let offset = usize::from(number) * mapped_bytes(TAGS_MAX);
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        let bytes = mapped_bytes(tags.into());
        let any = std::ptr::null_mut::<c_void>();
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let base = unsafe { rustix::mm::mmap(any, bytes, protection, flags, file, offset as u64) }?;
        let descriptors = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(UblkQueue { file: file.clone(), number, tags, descriptors })
    }

    /// Returns the driver's descriptor of the request that this tag has fetched last.
    ///
    /// # Panics
    /// If the queue has no such tag.
    pub fn descriptor(&self, tag: u16) -> [u8; DESCRIPTOR_BYTES] {
        assert!(tag < self.tags, "the queue has such a tag");
        let at = usize::from(tag) * DESCRIPTOR_BYTES;
        // SAFETY: inside the mapping, which is page-aligned and large enough for all tags; a
        // descriptor is a multiple of the words that are read. The driver changes it only while the
        // tag waits for a request; a concurrent change would only be read as other numbers.
        let words = unsafe { self.descriptors.add(at).cast::<[u64; 3]>().as_ptr().read_volatile() };
        let mut bytes = [0; DESCRIPTOR_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn command(&self, tag: u16, result: i32, address: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..2].copy_from_slice(&self.number.to_ne_bytes());
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        bytes[8..8 + ADDRESS_BYTES].copy_from_slice(&address.to_ne_bytes());
        bytes
    }
}

impl Drop for UblkQueue {
    fn drop(&mut self) {
        let bytes = mapped_bytes(self.tags.into());
        // SAFETY: the mapping belongs to this object, and no reference into it is left: all data
        // read from it was copied.
        let _ = unsafe { rustix::mm::munmap(self.descriptors.as_ptr().cast(), bytes) };
    }
}

impl Ring {
    /// Fetches a request of this tag; the data of a write arrives in the buffer. With a result,
    /// first answers the tag's previous request, with the data of the buffer if it is a read. The
    /// ticket resolves to 0, or to a negative errno, also if the ring [leaves](Ring::leave) the
    /// device, although the driver then still has the command.
    pub fn fetch(&self, queue: &UblkQueue, tag: u16, result: Option<i32>, buffer: &Buf) -> Ticket {
        let mut address = 0;
        let mut stretches = 0;
        buffer.addresses(|at, _| {
            address = at.as_ptr() as u64;
            stretches += 1;
        });
        assert_eq!(stretches, 1, "a buffer in one piece");
        let number = if result.is_some() { COMMIT_AND_FETCH } else { FETCH };
        let command = queue.command(tag, result.unwrap_or(0), address);
        let file = types::Fd(queue.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(file, number).cmd(command).build();
        let (keep, file) = (Some(buffer.keep() as _), Some(queue.file.clone()));
        let hold = Hold { keep, file, stays: true, ..Hold::default() };
        // SAFETY: the command points into the buffer's memory; `hold` keeps the memory at its
        // address, and the file open, until the command has ended. A ring that is dropped before
        // that leaks them.
        unsafe { self.launch(entry, hold) }
    }

    /// Stops waiting for fetches from the device of this file: their tickets resolve to -ECANCELED.
    /// The kernel cancels the commands when the ring is gone.
    pub fn leave(&self, file: &File) {
        let left = self.0.flights.borrow_mut().abandon(file);
        for ticket in left {
            self.lane().complete(ticket, -i64::from(libc::ECANCELED));
        }
    }
}
