//! The way to the server of an NBD export.

use lane::Lock;
use nbd::client::{Attempt, Dialled, ExportAddress, Resolved, ServerSocket, Wish, dial};
use nbd::codec::ALLOCATION_CONTEXT;
use ring::Ring;
use rustix::net::sockopt;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tls::ClientTls;

/// The use of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Reads,
    Changes,
    Anchor,
}

/// Longest pause between retransmissions: a connection that has survived a cut goes on this soon.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A connection for reads ends after this time in which the server's machine acknowledges nothing:
/// a new one is soon made when the link has returned, while the server's retransmissions may pause
/// for longer, and reads may be sent again at no cost. The connections for changes have the longer
/// time of [`dial`], because their end has a cost.
const SILENCE_OF_READS: Duration = Duration::from_secs(3);
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Sets how soon a TCP connection notices the end and the return of its link. A unix socket has
/// nothing of this kind, and an older kernel lacks the limit of pauses.
fn notice_cuts(socket: &OwnedFd, role: Role) {
    let _ = host::limit_retransmission_pauses(socket, PAUSE_MAX);
    if role == Role::Reads {
        let _ = sockopt::set_tcp_keepidle(socket, PROBE_INTERVAL);
        let _ = sockopt::set_tcp_keepintvl(socket, PROBE_INTERVAL);
        let _ = sockopt::set_tcp_user_timeout(socket, SILENCE_OF_READS.as_millis() as u32);
    }
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
                Ok(connected) => {
                    notice_cuts(&connected.socket, role);
                    return Ok(connected);
                }
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
