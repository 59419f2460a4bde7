//! The connections of a holder: few, and the holder never waits for any of them.

use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of connections at a time.
pub(crate) const CONNECTIONS_MAX: usize = 16;

/// One connection. Its descriptor is non-blocking.
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// The process at the other end, when it connected.
    pub(crate) pid: i32,
    /// Whether it serves the volume.
    pub(crate) is_owner: bool,
    /// Whether it is about to take over the retained memory.
    pub(crate) is_approaching: bool,
    /// Whether it has not sent anything yet.
    is_silent: bool,
}

/// All connections, oldest first. At most one is the owner.
pub(crate) struct Connections(Vec<Connection>);

impl Connections {
    pub(crate) fn new() -> Connections {
        Connections(Vec::with_capacity(CONNECTIONS_MAX))
    }

    /// Adds a connection. If there are too many, another is cut off: the oldest that has sent
    /// nothing, else the oldest, but never the owner. Thus silent connections cannot keep others
    /// out.
    pub(crate) fn add(&mut self, socket: OwnedFd) {
        if self.0.len() >= CONNECTIONS_MAX {
            let silent = self.0.iter().position(|one| one.is_silent && !one.is_owner);
            let oldest = self.0.iter().position(|one| !one.is_owner);
            if let Some(index) = silent.or(oldest) {
                self.0.remove(index);
            }
        }
        let pid = ring::peer(&socket).map_or(0, |peer| peer.process);
        self.0.push(Connection {
            socket,
            pid,
            is_owner: false,
            is_approaching: false,
            is_silent: true,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, index: usize) -> &Connection {
        &self.0[index]
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|one| one.socket.as_fd())
    }

    pub(crate) fn owner(&self) -> Option<&Connection> {
        self.0.iter().find(|one| one.is_owner)
    }

    /// Notes that this connection is about to take over the retained memory.
    pub(crate) fn approach(&mut self, index: usize) {
        self.0[index].is_approaching = true;
    }

    /// Whether a connection is about to take over the retained memory.
    pub(crate) fn is_approached(&self) -> bool {
        self.0.iter().any(|one| one.is_approaching)
    }

    pub(crate) fn mark_active(&mut self, index: usize) {
        self.0[index].is_silent = false;
    }

    /// Makes a connection the owner. The earlier owner is closed already.
    pub(crate) fn set_owner(&mut self, index: usize, pid: i32) {
        self.0.iter_mut().for_each(|one| one.is_owner = false);
        self.0[index].is_owner = true;
        // The socket's credentials show pid 0 for a process of another pid namespace, so the pid in
        // its message is used.
        if self.0[index].pid == 0 {
            self.0[index].pid = pid;
        }
    }

    /// Closes a connection. True if it was the owner.
    pub(crate) fn end(&mut self, index: usize) -> bool {
        self.0.remove(index).is_owner
    }

    /// Sends a packet to a connection, and cuts the connection off if that would block or fails.
    pub(crate) fn send(
        &mut self,
        index: usize,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Sent {
        loop {
            return match crate::packet::send(&self.0[index].socket, bytes, descriptors) {
                Ok(()) => Sent::Yes,
                Err(Errno::INTR) => continue,
                Err(_) => Sent::No { owner_lost: self.end(index) },
            };
        }
    }
}

/// Result of sending.
pub(crate) enum Sent {
    Yes,
    /// The connection has been closed.
    No {
        owner_lost: bool,
    },
}
