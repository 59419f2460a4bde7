//! Operations in flight, and the resources that they hold.
//!
//! An entry of the table outlives the future that started it: the kernel may access the memory, the
//! scatter list and the file until the completion arrives.
#![allow(unsafe_code)]

use block::Memory;
use host::File;
use lane::Keep;
use std::ptr::NonNull;
use std::sync::Arc;

/// Maximum length of a scatter list in the kernel (UIO_MAXIOV).
pub(crate) const PIECES_MAX: usize = 1024;

/// A scatter list and its message header, at a fixed address (the pool boxes it).
pub(crate) struct Vectors {
    pub(crate) iovecs: Vec<libc::iovec>,
    pub(crate) header: libc::msghdr,
    /// The memories of a message. The flight itself holds the single memory of a block buffer.
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

    /// Appends a stretch. Returns false if the list is full.
    pub(crate) fn push(&mut self, at: NonNull<u8>, bytes: usize) -> bool {
        if self.iovecs.len() == PIECES_MAX {
            return false;
        }
        self.iovecs.push(libc::iovec { iov_base: at.as_ptr().cast(), iov_len: bytes });
        self.bytes += bytes;
        true
    }

    /// Points the header at the current list. Returns the header's address.
    pub(crate) fn seal(&mut self) -> *const libc::msghdr {
        self.header.msg_iov = self.iovecs.as_mut_ptr();
        self.header.msg_iovlen = self.iovecs.len();
        &self.header
    }
}

/// Resources of one operation in flight.
#[derive(Default)]
pub(crate) struct Hold {
    pub(crate) keep: Keep,
    pub(crate) file: Option<File>,
    pub(crate) vectors: Option<Box<Vectors>>,
    /// Whether the kernel keeps the operation until the ring is gone, and nothing cancels it
    /// before.
    pub(crate) stays: bool,
}

impl Hold {
    /// Releases all resources: the kernel has finished.
    pub(crate) fn release(self) {
        let Hold { keep, file, vectors, stays: _ } = self;
        drop((keep, file, vectors));
    }
}

struct Flight {
    state: State,
    hold: Hold,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// The lane's ticket to complete.
    Awaited(u64),
    /// Nothing waits for it any more.
    Left,
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
    /// Adds an operation. Returns its number, which the kernel returns with the completion.
    pub(crate) fn add(&mut self, ticket: u64, hold: Hold) -> u64 {
        let flight = Flight { state: State::Awaited(ticket), hold };
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

    /// Ends an operation. Returns its ticket, if that is still awaited, and its resources, for the
    /// caller to release.
    pub(crate) fn end(&mut self, number: u64) -> (Option<u64>, Hold) {
        let flight = &mut self.table[number as usize];
        let ticket = match std::mem::replace(&mut flight.state, State::Free) {
            State::Awaited(ticket) => Some(ticket),
            State::Left => None,
            State::Free => unreachable!("a completion comes once"),
        };
        let mut hold = std::mem::take(&mut flight.hold);
        if let Some(list) = hold.vectors.take() {
            self.give(list);
        }
        self.free.push(number as u32);
        (ticket, hold)
    }

    /// Stops waiting for the operations of this file that stay in the kernel. Returns their
    /// tickets.
    pub(crate) fn leave(&mut self, file: &File) -> Vec<u64> {
        let is_its = |hold: &Hold| {
            hold.stays && hold.file.as_ref().is_some_and(|held| std::sync::Arc::ptr_eq(held, file))
        };
        let its = self.table.iter_mut().filter(|flight| is_its(&flight.hold));
        its.filter_map(|flight| match flight.state {
            State::Awaited(ticket) => {
                flight.state = State::Left;
                Some(ticket)
            }
            State::Free | State::Left => None,
        })
        .collect()
    }

    /// Number of operations in flight that end or can be cancelled.
    pub(crate) fn passing(&self) -> usize {
        let is_short_lived = |flight: &&Flight| flight.state != State::Free && !flight.hold.stays;
        self.table.iter().filter(is_short_lived).count()
    }

    /// Number of operations in flight.
    pub(crate) fn count(&self) -> usize {
        self.table.len() - self.free.len()
    }

    /// Takes an empty scatter list from the pool.
    pub(crate) fn list(&mut self) -> Box<Vectors> {
        self.lists.pop().unwrap_or_else(|| Box::new(Vectors::new()))
    }

    /// Returns a scatter list to the pool.
    pub(crate) fn give(&mut self, mut list: Box<Vectors>) {
        list.clear();
        self.lists.push(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        Arc::new(std::fs::File::open("/dev/null").expect("it is there").into())
    }

    fn hold(file: &File, stays: bool) -> Hold {
        Hold { file: Some(file.clone()), stays, ..Hold::default() }
    }

    #[test]
    fn what_stays_of_a_file_is_left_and_ends_unheard() {
        let (ours, other) = (file(), file());
        let mut flights = Flights::default();
        let numbers = [
            flights.add(1, hold(&ours, true)),
            flights.add(2, hold(&ours, false)),
            flights.add(3, hold(&other, true)),
        ];
        assert_eq!((flights.count(), flights.passing()), (3, 1));
        assert_eq!(flights.leave(&ours), [1]);
        assert!(flights.leave(&ours).is_empty(), "once");
        let tickets = numbers.map(|number| flights.end(number).0);
        assert_eq!(tickets, [None, Some(2), Some(3)]);
        assert_eq!((flights.count(), flights.passing()), (0, 0));
        assert_eq!(flights.add(4, hold(&ours, true)), numbers[2], "its place is used again");
        assert_eq!(flights.leave(&ours), [4]);
    }
}
