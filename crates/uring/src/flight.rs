//! What is in flight, and what it holds.
//!
//! An entry of the table outlives the future that started it: the kernel may read and write the
//! memory, the scatter list and the file until the completion has come.
#![allow(unsafe_code)]

use crate::File;
use block::Memory;
use lane::Keep;
use std::ptr::NonNull;
use std::sync::Arc;

/// The longest scatter list that the kernel takes (UIO_MAXIOV).
pub(crate) const PIECES_MAX: usize = 1024;

/// A scatter list and its message header, at a fixed place (it is boxed by the pool).
pub(crate) struct Vectors {
    pub(crate) iovecs: Vec<libc::iovec>,
    pub(crate) header: libc::msghdr,
    /// The memories of a message; the one memory of a block buffer is held by the flight itself.
    pub(crate) memories: Vec<Arc<Memory>>,
    pub(crate) bytes: usize,
}

impl Vectors {
    fn new() -> Vectors {
        Vectors {
            iovecs: Vec::with_capacity(16),
            // SAFETY: a msghdr of zeros is valid: no name, no vectors, no control data.
            header: unsafe { std::mem::zeroed() },
            memories: Vec::with_capacity(16),
            bytes: 0,
        }
    }

    fn clear(&mut self) {
        self.iovecs.clear();
        self.memories.clear();
        self.bytes = 0;
    }

    /// Appends a stretch. False: the list is full.
    pub(crate) fn push(&mut self, at: NonNull<u8>, bytes: usize) -> bool {
        if self.iovecs.len() == PIECES_MAX {
            return false;
        }
        self.iovecs.push(libc::iovec { iov_base: at.as_ptr().cast(), iov_len: bytes });
        self.bytes += bytes;
        true
    }

    /// Points the header at the list as it is now; returns the header's address.
    pub(crate) fn seal(&mut self) -> *const libc::msghdr {
        self.header.msg_iov = self.iovecs.as_mut_ptr();
        self.header.msg_iovlen = self.iovecs.len();
        &self.header
    }
}

/// What one operation in flight holds.
#[derive(Default)]
pub(crate) struct Hold {
    pub(crate) keep: Keep,
    pub(crate) file: Option<File>,
    pub(crate) vectors: Option<Box<Vectors>>,
}

impl Hold {
    /// Lets go of all of it: the kernel is done.
    pub(crate) fn release(self) {
        let Hold { keep, file, vectors } = self;
        drop((keep, file, vectors));
    }
}

struct Flight {
    /// The lane's ticket to complete; None: the entry is free.
    ticket: Option<u64>,
    hold: Hold,
}

/// The operations in flight of one ring, and the pool of scatter lists.
#[derive(Default)]
pub(crate) struct Flights {
    table: Vec<Flight>,
    free: Vec<u32>,
    #[allow(clippy::vec_box, reason = "the kernel knows their addresses while they are in flight")]
    lists: Vec<Box<Vectors>>,
}

impl Flights {
    /// Notes an operation; its number is what the kernel hands back.
    pub(crate) fn add(&mut self, ticket: u64, hold: Hold) -> u64 {
        let flight = Flight { ticket: Some(ticket), hold };
        let index = match self.free.pop() {
            Some(index) => {
                self.table[index as usize] = flight;
                index
            }
            None => {
                self.table.push(flight);
                self.table.len() as u32 - 1
            }
        };
        u64::from(index)
    }

    /// The operation has ended: its ticket, and what it held, for the caller to release.
    pub(crate) fn end(&mut self, number: u64) -> (u64, Hold) {
        let flight = &mut self.table[number as usize];
        let ticket = flight.ticket.take().expect("a completion comes once");
        let mut hold = std::mem::take(&mut flight.hold);
        if let Some(list) = hold.vectors.take() {
            self.give(list);
        }
        self.free.push(number as u32);
        (ticket, hold)
    }

    /// How many are in flight.
    pub(crate) fn count(&self) -> usize {
        self.table.len() - self.free.len()
    }

    /// An empty scatter list from the pool.
    pub(crate) fn list(&mut self) -> Box<Vectors> {
        self.lists.pop().unwrap_or_else(|| Box::new(Vectors::new()))
    }

    /// Returns a scatter list to the pool.
    pub(crate) fn give(&mut self, mut list: Box<Vectors>) {
        list.clear();
        self.lists.push(list);
    }
}
