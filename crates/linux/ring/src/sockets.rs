//! Operations on stream sockets. The sockets must be blocking (as [`Ring::accept`] creates them):
//! on a non-blocking socket the kernel would answer immediately instead of waiting.
#![allow(unsafe_code)]

use crate::flight::{Hold, Vectors};
use crate::operations::{failure, fd, must_restart};
use crate::ring::Ring;
use block::{Error, Kind, Memory, Part, Result};
use host::File;
use io_uring::{opcode, types};
use lane::Ticket;
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// Ends both directions of a connection, or the listening of a listener: all waiting operations
/// end.
///
/// # Errors
/// The system's errors, except for a connection that has already ended.
pub fn shutdown(socket: &File) -> Result {
    end(socket, Shutdown::Both)
}

/// Ends the sending direction only: the other side reads all sent data, and then the end.
///
/// # Errors
/// The system's errors, except for a connection that has already ended.
pub fn finish(socket: &File) -> Result {
    end(socket, Shutdown::Write)
}

fn end(socket: &File, how: Shutdown) -> Result {
    match rustix::net::shutdown(socket, how) {
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(failure(-i64::from(errno.raw_os_error()), "end a connection")),
    }
}

/// Receives data that has already arrived. Returns its length, or a negative errno.
fn receive_now(socket: &File, memory: &Arc<Memory>, offset: usize, length: usize) -> i64 {
    let at = memory.address(offset, length);
    let (file, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: `address` has checked that the bytes are inside the memory, which outlives the call.
    let result = unsafe { libc::recv(file, at.as_ptr().cast(), length, flags) };
    match result {
        0.. => result as i64,
        _ => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
    }
}

impl Ring {
    /// Waits until the file is readable, has ended, or has an error. Returns the poll(2) events.
    async fn poll(&self, file: &File) -> Result<u32> {
        self.plain(file, "wait for a file", || {
            opcode::PollAdd::new(fd(file), libc::POLLIN as u32).build()
        })
        .await
        .map(|events| events as u32)
    }

    /// Waits until the file (a socket, a pidfd, a signalfd) is readable or has ended.
    ///
    /// # Errors
    /// `Stopping`: it was cancelled.
    pub async fn readable(&self, file: &File) -> Result {
        self.poll(file).await.map(|_| ())
    }

    /// Accepts a connection, as a blocking socket that is closed on exec. The listener must be
    /// non-blocking.
    ///
    /// Waits with a poll and then calls accept4: if the kernel completed an accept after its future
    /// was dropped, it would leave an open connection without an owner.
    ///
    /// # Errors
    /// `Stopping`: the listener was shut down or the wait cancelled. `Io` with an errno: the
    /// process or the system is out of descriptors or memory (wait a little, then try again).
    pub async fn accept(&self, listener: &File) -> Result<OwnedFd> {
        const DOING: &str = "accept a connection";
        loop {
            match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(socket),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => (),
                Err(Errno::INVAL) => return Err(Error::new(Kind::Stopping, DOING)),
                Err(errno) => return Err(failure(-i64::from(errno.raw_os_error()), DOING)),
            }
            // accept4 on a unix listener that was shut down still returns EAGAIN; only poll shows
            // it.
            if self.poll(listener).await? & libc::POLLHUP as u32 != 0 {
                return Err(Error::new(Kind::Stopping, DOING));
            }
        }
    }

    /// Receives at least one byte and up to `length` bytes into `memory`. Returns their number; 0
    /// at the end of the stream.
    ///
    /// # Errors
    /// `Io`, `Stopping`.
    ///
    /// # Panics
    /// If the range exceeds the memory.
    pub async fn receive(
        &self,
        socket: &File,
        memory: &Arc<Memory>,
        offset: usize,
        length: usize,
    ) -> Result<usize> {
        let received = match self.receive_polling(socket, memory, offset, length).await {
            Some(result) if result < 0 => Err(failure(result, "receive")),
            Some(result) => Ok(result as usize),
            None => self.receive_sleeping(socket, memory, offset, length).await,
        };
        if received.is_ok() {
            self.0.idle.record_arrival(self.lane(), socket.as_raw_fd());
        }
        received
    }

    /// Same as [`Ring::receive`], for replies of a server: they are no arrivals of requests, so the
    /// loop neither polls for them nor counts them.
    ///
    /// # Errors
    /// As [`Ring::receive`].
    ///
    /// # Panics
    /// As [`Ring::receive`].
    pub async fn receive_sleeping(
        &self,
        socket: &File,
        memory: &Arc<Memory>,
        offset: usize,
        length: usize,
    ) -> Result<usize> {
        loop {
            match self.start_receive(socket, memory, offset, length, 0).await {
                passing if must_restart(passing) => self.lane().rest().await,
                error if error < 0 => return Err(failure(error, "receive")),
                bytes => return Ok(bytes as usize),
            }
        }
    }

    /// Receives while the loop polls. Returns the number of bytes, or a negative errno. None: it
    /// does not poll, or no data came while it did.
    async fn receive_polling(
        &self,
        socket: &File,
        memory: &Arc<Memory>,
        offset: usize,
        length: usize,
    ) -> Option<i64> {
        let receiver = self.begin_direct()?;
        while receiver.next().await {
            let result = receive_now(socket, memory, offset, length);
            if !must_restart(result) {
                receiver.record_arrival();
                return Some(result);
            }
        }
        None
    }

    /// Receives `length` bytes into `memory`; fewer only at the end of the stream.
    ///
    /// # Errors
    /// `Io`, `Stopping`.
    ///
    /// # Panics
    /// If the range exceeds the memory.
    pub async fn receive_all(
        &self,
        socket: &File,
        memory: &Arc<Memory>,
        offset: usize,
        length: usize,
    ) -> Result<usize> {
        let mut done = 0;
        while done < length {
            let (at, rest) = (offset + done, length - done);
            let result = self.start_receive(socket, memory, at, rest, libc::MSG_WAITALL).await;
            match result {
                0 => break,
                passing if must_restart(passing) => self.lane().rest().await,
                error if error < 0 => return Err(failure(error, "receive")),
                bytes => done += bytes as usize,
            }
        }
        Ok(done)
    }

    fn start_receive(
        &self,
        socket: &File,
        memory: &Arc<Memory>,
        offset: usize,
        length: usize,
        flags: i32,
    ) -> Ticket {
        let at = memory.address(offset, length);
        let length = length.min(1 << 30) as u32;
        let entry = opcode::Recv::new(fd(socket), at.as_ptr(), length).flags(flags).build();
        let (keep, file) = (Some(memory.clone() as _), Some(socket.clone()));
        let hold = Hold { keep, file, ..Hold::default() };
        // SAFETY: the entry points into the memory; `hold` keeps the memory, and the file open.
        unsafe { self.launch(entry, hold) }
    }

    /// Sends all parts, in order. Only one task at a time may send on a socket.
    ///
    /// Data that fits into the socket's buffer is sent by a plain system call. On the ring, the
    /// completion of such a send would be there before the wait for the next request, and would end
    /// that wait: one more system call per reply (7.0 instead of 5.7 us for a round trip over a
    /// socket pair, client included).
    ///
    /// # Errors
    /// `Io` (the peer has gone), `Stopping`.
    ///
    /// # Panics
    /// If a part exceeds its memory.
    pub async fn send(&self, socket: &File, parts: &[Part]) -> Result {
        let total: usize = parts.iter().map(|part| part.length).sum();
        let mut sent = 0;
        let mut at_once = true;
        while sent < total {
            let list = self.list_of(parts, sent);
            let result = match at_once {
                true => self.send_now(socket, list),
                false => self.start_send(socket, list).await,
            };
            if at_once && result == -i64::from(libc::EAGAIN) {
                at_once = false;
            } else if must_restart(result) {
                self.lane().rest().await;
            } else if result <= 0 {
                return Err(failure(result, "send"));
            } else {
                sent += result as usize;
            }
        }
        Ok(())
    }

    /// Returns a scatter list of the parts without their first `skip` bytes, up to the list's
    /// maximum.
    fn list_of(&self, parts: &[Part], mut skip: usize) -> Box<Vectors> {
        let mut list = self.0.flights.borrow_mut().take_list();
        for part in parts {
            let skipped = skip.min(part.length);
            skip -= skipped;
            let length = part.length - skipped;
            if length == 0 {
                continue;
            }
            let at = part.memory.address(part.offset + skipped, length);
            if !list.push(at, length) {
                break;
            }
            list.memories.push(part.memory.clone());
        }
        list
    }

    /// Sends as much as fits into the socket's buffer. Returns its length, or a negative errno.
    fn send_now(&self, socket: &File, mut list: Box<Vectors>) -> i64 {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the header points to the list next to it, and the list into memories that it
        // holds; all of it keeps its address during the call.
        let result = unsafe { libc::sendmsg(socket.as_raw_fd(), list.seal(), flags) };
        let result = match result {
            0.. => result as i64,
            _ => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        };
        self.0.flights.borrow_mut().return_list(list);
        result
    }

    fn start_send(&self, socket: &File, mut list: Box<Vectors>) -> Ticket {
        // WAITALL: the kernel itself continues after a short send.
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let entry = opcode::SendMsg::new(types::Fd(fd(socket).0), list.seal()).flags(flags).build();
        let file = Some(socket.clone());
        let hold = Hold { file, vectors: Some(list), ..Hold::default() };
        // SAFETY: the entry points to the boxed header, the header to the list next to it, and the
        // list into memories that it holds; `hold` keeps the box at its address, and the file open.
        unsafe { self.launch(entry, hold) }
    }
}
