//! The way to the server of an NBD export.

use lane::Lock;
use nbd::client::{Attempt, Dialled, ExportAddress, Resolved, ServerSocket, Wish, dial};
use nbd::codec::ALLOCATION_CONTEXT;
use ring::Ring;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use tls::ClientTls;

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
    tls: Option<ClientTls>,
    /// The connection of the opening, for the first lane that needs one.
    spare: Lock<Option<Dialled>>,
}

impl Way {
    pub(super) fn new(address: &ExportAddress, tls: Option<ClientTls>) -> io::Result<Way> {
        let addresses = match &address.socket {
            ServerSocket::Unix(path) => vec![Resolved::Unix(path.clone())],
            ServerSocket::Tcp { host, port } => {
                (host.as_str(), *port).to_socket_addrs()?.map(Resolved::Tcp).collect()
            }
        };
        Ok(Way { addresses, export: address.export.clone(), tls, spare: Lock::new(None) })
    }

    /// Whether connections are protected by TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the time in which a cut of the link is noticed while requests are in flight.
    pub(super) fn notice_ns(&self) -> u64 {
        self.addresses.iter().map(Resolved::notice_ns).max().unwrap_or_default()
    }

    /// Connects to the first of the addresses that answers.
    pub(super) async fn connect(
        &self,
        ring: &Ring,
        role: Role,
        attempt: Attempt,
    ) -> io::Result<Dialled> {
        let tls = self.tls.as_ref();
        // Without usable new certificates, the former ones are used, until the server refuses them.
        let _ = tls.map(ClientTls::renew);
        let mut failed = io::Error::from(ErrorKind::NotFound);
        for address in &self.addresses {
            match dial(ring.lane(), address, self.wish(role), tls, attempt).await {
                Ok(connected) => return Ok(connected),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Keeps a connection for the first lane that needs one.
    pub(super) fn set_spare(&self, dialled: Dialled) {
        self.spare.with(|spare| *spare = Some(dialled));
    }

    /// Returns the connection that was kept.
    pub(super) fn spare(&self) -> Option<Dialled> {
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
