//! An export of an NBD server, which is only read: the backing before it is open, and the node.

use super::{Attached, Backing, Former, Health, Identity, OpenNode, Opened, Opening, Unkept};
use crate::failure::{Exit, Failure};
use crate::target::absolute;
use block::{Limits, Stack, stable_hash};
use lane::Lock;
use nbd::client::{
    ATTEMPT_NS, Agreed, Dial, Dialled, ExportAddress, Fault, Link, LinkShared, Resolved,
    ServerSocket, Wish, dial, refusal,
};
use nbd::codec::{ALLOCATION_CONTEXT, NBD_FLAG_READ_ONLY};
use ring::{Ring, Socket};
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use tls::{ClientTls, MaybeTls};

/// Time for which a server may keep a second connection waiting.
const SECOND_NS: u64 = 2_000_000_000;

/// An export that is not open yet.
pub(crate) struct NbdBacking {
    pub(crate) uri: String,
    /// Whether changes by clients are refused.
    pub(crate) read_only: bool,
}

impl Backing for NbdBacking {
    fn name(&self) -> String {
        self.uri.clone()
    }

    fn key(&self) -> Option<String> {
        // Nothing is retained for a backing that is only read.
        None
    }

    fn open(&self, ring: &Ring, _is_read_only: bool, _former: Former) -> Opening {
        let (uri, read_only, ring) = (self.uri.clone(), self.read_only, ring.clone());
        Box::pin(async move {
            let mut node = open(&uri, read_only, &ring).await?;
            // It is closed immediately.
            let second = node.way.connect(&ring, SECOND_NS).await;
            node.is_single = second.is_err();
            let notes = second.err().map(|error| {
                format!(
                    "{uri}: its server accepts no second connection ({error}), so one thread \
                     serves clients; to use several, let the server accept more (qemu-nbd \
                     --shared=8)"
                )
            });
            Ok(Opened { node: Box::new(node), notes: notes.into_iter().collect() })
        })
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

async fn open(uri: &str, read_only: bool, ring: &Ring) -> Result<NbdNode, Failure> {
    let usage = |text: &str| Failure::new(Exit::Usage, format!("{uri}: {text}"));
    let address = ExportAddress::parse(uri).map_err(usage)?;
    let unreachable = |error| unreachable_export(uri, &error);
    let tls = open_tls(&address).map_err(|why| usage(&why))?;
    let way = Way::new(&address, tls).map_err(unreachable)?;
    let dialled = way.connect(ring, ATTEMPT_NS).await.map_err(unreachable)?;
    let agreed = dialled.agreed.clone();
    if !read_only && !agreed.can(NBD_FLAG_READ_ONLY) {
        return Err(usage(
            "this version only reads NBD exports: add --read-only; to write, mount the export as \
             a file with 'nbdfuse FILE URI' and serve that file",
        ));
    }
    if let Some(why) = refusal(&agreed) {
        return Err(usage(&format!("the export {why}")));
    }
    way.spare.with(|spare| *spare = Some(dialled));
    // The same from any working directory.
    let (name, key) = (uri.to_owned(), stable_hash(absolute(uri).bytes()));
    let identity =
        Identity { key: format!("nbd-{key:016x}"), number: key, birth: String::new(), name };
    let (shared, way) = (LinkShared::new(agreed), Arc::new(way));
    Ok(NbdNode { identity, shared, way, is_single: false })
}

/// Reads the certificates for an address. None: it is not encrypted.
///
/// # Errors
/// As [`ClientTls::open`].
fn open_tls(address: &ExportAddress) -> Result<Option<ClientTls>, String> {
    let trusted = address.trusted_host();
    trusted.map(|(directory, host)| ClientTls::open(directory, host)).transpose()
}

/// Returns the failure of connecting to an export.
pub fn unreachable_export(uri: &str, error: &io::Error) -> Failure {
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref());
    let exit = match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Exit::NoDaemon,
        ErrorKind::PermissionDenied => Exit::Permission,
        // The server has answered.
        _ if matches!(fault, Some(Fault::Refused { .. })) => Exit::Negative,
        _ if matches!(fault, Some(Fault::NoTls | Fault::Untrusted(_))) => Exit::Permission,
        _ => Exit::Io,
    };
    let mend = "check the URI, and that its server is running";
    Failure::new(exit, format!("{uri}: cannot reach the export: {error}; {mend}"))
}

/// The way to a server.
struct Way {
    /// Addresses of the server, as they were found at the start.
    addresses: Vec<Resolved>,
    wish: Wish,
    tls: Option<ClientTls>,
    /// The connection of the opening, for the first lane that needs one.
    spare: Lock<Option<Dialled>>,
}

impl Way {
    fn new(address: &ExportAddress, tls: Option<ClientTls>) -> io::Result<Way> {
        let addresses = match &address.socket {
            ServerSocket::Unix(path) => vec![Resolved::Unix(path.clone())],
            ServerSocket::Tcp { host, port } => {
                (host.as_str(), *port).to_socket_addrs()?.map(Resolved::Tcp).collect()
            }
        };
        let wish = Wish {
            export: address.export.clone(),
            sizes: true,
            structured: true,
            contexts: vec![ALLOCATION_CONTEXT.to_owned()],
        };
        Ok(Way { addresses, wish, tls, spare: Lock::new(None) })
    }

    /// Connects to the first of the addresses that answers within `limit_ns`.
    async fn connect(&self, ring: &Ring, limit_ns: u64) -> io::Result<Dialled> {
        let tls = self.tls.as_ref();
        // Without usable new certificates, the former ones are used, until the server refuses them.
        let _ = tls.map(ClientTls::renew);
        let mut failed = io::Error::from(ErrorKind::NotFound);
        for address in &self.addresses {
            match dial(ring.lane(), address, self.wish.clone(), tls, limit_ns).await {
                Ok(connected) => return Ok(connected),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// The way to a server, from one lane.
struct LaneWay {
    ring: Ring,
    way: Arc<Way>,
}

impl Dial for LaneWay {
    type Wire = MaybeTls<Socket>;

    async fn dial(&self) -> Option<(MaybeTls<Socket>, Agreed)> {
        let Dialled { socket, session, agreed } = match self.way.spare.with(Option::take) {
            Some(spare) => spare,
            None => self.way.connect(&self.ring, ATTEMPT_NS).await.ok()?,
        };
        let socket = Socket::to_server(&self.ring, Arc::new(socket));
        Some((MaybeTls::new(socket, session), agreed))
    }
}

/// An export that is only read. Each lane has a connection of its own.
struct NbdNode {
    identity: Identity,
    shared: Arc<LinkShared>,
    way: Arc<Way>,
    /// Whether the server accepts one connection only.
    is_single: bool,
}

impl OpenNode for NbdNode {
    fn limits(&self) -> Limits {
        self.shared.limits()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let way = LaneWay { ring: ring.clone(), way: self.way.clone() };
        let link = Link::attach(ring.lane(), way, &self.shared);
        Attached { stack: Stack::new(ring.lane(), link), cache: None }
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.identity.clone())
    }

    fn lanes_max(&self) -> Option<usize> {
        self.is_single.then_some(1)
    }

    fn keepable(&self) -> Result<Vec<BorrowedFd<'_>>, Unkept> {
        Err(Unkept::OnlyRead)
    }

    fn health(&self) -> Health {
        let damage = self.shared.damage().map(|damage| {
            format!("{}: {damage}; serve it again once that is mended", self.identity.name)
        });
        Health { damage, was_short: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_breaks_the_protocol_is_no_server_that_refuses() {
        let exit = |error: io::Error| unreachable_export("nbd://host/", &error).exit;
        let refused = Fault::Refused { reply: 0x8000_0006, text: "no such export".to_owned() };
        assert_eq!(exit(refused.into()), Exit::Negative);
        assert_eq!(exit(Fault::Nonsense("magic").into()), Exit::Io);
        assert_eq!(exit(ErrorKind::ConnectionRefused.into()), Exit::NoDaemon);
    }
}
