//! The connections of a holder: few, and none of them waited for.

use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most that are connected at a time.
pub(crate) const CONNECTIONS_MAX: usize = 16;

/// One connection. The descriptor does not block.
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// The process at the other end, when it connected.
    pub(crate) pid: i32,
    /// It serves the volume.
    pub(crate) is_owner: bool,
    /// It is about to take over what is kept.
    pub(crate) approaches: bool,
    /// It has not said anything yet.
    is_silent: bool,
}

/// All connections, the oldest first. At most one is the owner.
pub(crate) struct Connections(Vec<Connection>);

impl Connections {
    pub(crate) fn new() -> Connections {
        Connections(Vec::with_capacity(CONNECTIONS_MAX))
    }

    /// Adds one. If there are too many, another is cut off: the oldest that has said nothing, else
    /// the oldest, but never the owner. So a crowd of silent ones keeps no other out.
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
            approaches: false,
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

    /// Notes that this one is about to take over what is kept.
    pub(crate) fn approach(&mut self, index: usize) {
        self.0[index].approaches = true;
    }

    /// Whether one is about to take over what is kept.
    pub(crate) fn is_approached(&self) -> bool {
        self.0.iter().any(|one| one.approaches)
    }

    pub(crate) fn heard(&mut self, index: usize) {
        self.0[index].is_silent = false;
    }

    /// Makes one the owner; the one before is closed already, and no longer is.
    pub(crate) fn own(&mut self, index: usize, pid: i32) {
        self.0.iter_mut().for_each(|one| one.is_owner = false);
        self.0[index].is_owner = true;
        // Credentials do not reach into other pid namespaces (they say 0): what it says then counts.
        if self.0[index].pid == 0 {
            self.0[index].pid = pid;
        }
    }

    /// Ends one. True if it was the owner.
    pub(crate) fn end(&mut self, index: usize) -> bool {
        self.0.remove(index).is_owner
    }

    /// Sends to one; cuts it off if it does not take it.
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

/// What came of sending.
pub(crate) enum Sent {
    Yes,
    /// The connection has been ended.
    No {
        owner_lost: bool,
    },
}
