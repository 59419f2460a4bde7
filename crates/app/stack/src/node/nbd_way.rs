//! The way to the server of an NBD export.

use lane::Lock;
use nbd::client::{Agreed, ExportAddress, Resolved, ServerSocket, Wish, dial};
use nbd::codec::ALLOCATION_CONTEXT;
use ring::Ring;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;

/// The use of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Reads,
    Changes,
    Anchor,
}

/// The way to a server.
pub(super) struct Way {
    /// Addresses of the server, as they were found at the start.
    addresses: Vec<Resolved>,
    export: String,
    /// The connection of the opening, for the first lane that needs one.
    spare: Lock<Option<(OwnedFd, Agreed)>>,
}

impl Way {
    pub(super) fn new(address: &ExportAddress) -> io::Result<Way> {
        let addresses = match &address.socket {
            ServerSocket::Unix(path) => vec![Resolved::Unix(path.clone())],
            ServerSocket::Tcp { host, port } => {
                (host.as_str(), *port).to_socket_addrs()?.map(Resolved::Tcp).collect()
            }
        };
        Ok(Way { addresses, export: address.export.clone(), spare: Lock::new(None) })
    }

    /// Connects to the first of the addresses that answers within `limit_ns`.
    pub(super) async fn connect(
        &self,
        ring: &Ring,
        role: Role,
        limit_ns: u64,
    ) -> io::Result<(OwnedFd, Agreed)> {
        let mut failed = io::Error::from(ErrorKind::NotFound);
        for address in &self.addresses {
            match dial(ring.lane(), address, self.wish(role), limit_ns).await {
                Ok(connected) => return Ok(connected),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Keeps a connection for the first lane that needs one.
    pub(super) fn set_spare(&self, socket: OwnedFd, agreed: Agreed) {
        self.spare.with(|spare| *spare = Some((socket, agreed)));
    }

    /// Returns the connection that was kept.
    pub(super) fn spare(&self) -> Option<(OwnedFd, Agreed)> {
        self.spare.with(Option::take)
    }

    /// The answers to changes and flushes are simple replies, which a next process can find in the
    /// stream.
    fn wish(&self, role: Role) -> Wish {
        let (export, sizes) = (self.export.clone(), true);
        match role {
            Role::Reads => {
                let contexts = vec![ALLOCATION_CONTEXT.to_owned()];
                Wish { export, sizes, structured: true, contexts }
            }
            Role::Changes | Role::Anchor => Wish { export, sizes, ..Wish::default() },
        }
    }
}
