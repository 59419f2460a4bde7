//! An export of an NBD server: the backing before it is open, and the node.

use super::nbd_way::{Role, Way};
use super::nbd_writing::WrittenExport;
use super::{
    Attached, Backing, Former, Health, Identity, OpenNode, Opened, Opening, Retention, Unkept,
};
use crate::failure::{Exit, Failure};
use crate::target::absolute;
use block::{Limits, Stack, stable_hash};
use host::File;
use nbd::client::{
    Agreed, Attempt, Dial, Dialled, ExportAddress, Fault, Link, LinkShared, ServerSocket,
    WriteDials, refusal,
};
use nbd::codec::{NBD_FLAG_CAN_MULTI_CONN, NBD_FLAG_READ_ONLY, NBD_FLAG_SEND_DF};
use nbd::fence::{Fence, SETTLE_NS};
use ring::{Ring, Socket};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tls::{ClientTls, MaybeTls};

/// Time for which a server may keep a second connection waiting.
const SECOND: Attempt = Attempt::within(2_000_000_000);

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
        Some(export_key(&self.uri))
    }

    fn open(&self, ring: &Ring, is_read_only: bool, former: Former) -> Opening {
        let (uri, ring) = (self.uri.clone(), ring.clone());
        Box::pin(async move {
            let mut node = open(&uri, is_read_only, &ring, former).await?;
            // It is closed immediately.
            let second = node.way.connect(&ring, Role::Reads, SECOND).await;
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
        self.read_only
    }
}

async fn open(
    uri: &str,
    is_read_only: bool,
    ring: &Ring,
    former: Former,
) -> Result<NbdNode, Failure> {
    let usage = |text: &str| Failure::new(Exit::Usage, format!("{uri}: {text}"));
    let address = ExportAddress::parse(uri).map_err(usage)?;
    let unreachable = |error| unreachable_export(uri, &error);
    let tls = open_tls(&address).map_err(|why| usage(&why))?;
    let way = Way::new(&address, tls).map_err(unreachable)?;
    let dialled = way.connect(ring, Role::Reads, Attempt::FIRST).await.map_err(unreachable)?;
    let agreed = dialled.agreed.clone();
    if let Some(why) = refusal(&agreed) {
        return Err(usage(&format!("the export {why}")));
    }
    let identity = identity_of(uri);
    // A process that only reads keeps no table, and ends in order while a change of the one before
    // it may still be executed.
    let settle_ns = if (former.was_served)(&identity) { SETTLE_NS } else { 0 };
    let unsettled_until_ns = ring.lane().now() + settle_ns;
    let written = match is_read_only || agreed.can(NBD_FLAG_READ_ONLY) {
        true => None,
        false => Some(Arc::new(open_written(uri, ring, &way, &agreed, &identity, former).await?)),
    };
    way.set_spare(dialled);
    let writing = written.as_ref().map(|written| written.writing.clone());
    let shared = LinkShared::open(agreed, writing, way.notice_ns());
    Ok(NbdNode {
        identity,
        shared,
        way: Arc::new(way),
        written,
        unsettled_until_ns,
        is_attached: AtomicBool::new(false),
        is_single: false,
    })
}

/// Opens the part of an export that is needed to write it.
async fn open_written(
    uri: &str,
    ring: &Ring,
    way: &Way,
    agreed: &Agreed,
    identity: &Identity,
    former: Former,
) -> Result<WrittenExport, Failure> {
    let usage = |text: &str| Failure::new(Exit::Usage, format!("{uri}: {text}"));
    if !agreed.can(NBD_FLAG_CAN_MULTI_CONN) {
        return Err(usage(
            "its server does not promise that several connections show the same contents \
             (multi-conn): let it accept several connections (qemu-nbd --shared=8, nbdkit \
             --filter=multi-conn), or add --read-only",
        ));
    }
    let mut simple = Agreed { structured: false, contexts: Vec::new(), ..agreed.clone() };
    // This flag belongs to structured replies.
    simple.export.flags &= !NBD_FLAG_SEND_DF;
    let Former { kept, was_served } = former;
    if let Some(kept) = kept {
        // Its connections are used, or made when they are needed.
        return WrittenExport::adopt(ring, simple, kept, way.is_encrypted());
    }
    let written = WrittenExport::fresh(ring, simple, was_served(identity), way.is_encrypted())?;
    written.connect(ring, way, SECOND).await.map_err(|error| {
        usage(&format!(
            "its server accepts fewer than three connections ({error}), which are needed to write \
             it: let it accept more (qemu-nbd --shared=8), or add --read-only"
        ))
    })?;
    Ok(written)
}

/// Returns the identity of an export, which is its URI.
fn identity_of(uri: &str) -> Identity {
    let (key, number) = (export_key(uri), export_number(uri));
    Identity { key, number, birth: String::new(), name: uri.to_owned() }
}

/// Returns the key of an export.
pub(crate) fn export_key(uri: &str) -> String {
    format!("nbd-{:016x}", export_number(uri))
}

/// The same from any working directory, and for each path to a unix socket.
fn export_number(uri: &str) -> u64 {
    let real = ExportAddress::parse(uri).ok().and_then(|address| match address.socket {
        ServerSocket::Unix(path) => Some((address.export, path.canonicalize().ok()?)),
        ServerSocket::Tcp { .. } => None,
    });
    match real {
        Some((export, path)) => stable_hash(format!("{}/{export}", path.display()).bytes()),
        None => stable_hash(absolute(uri).bytes()),
    }
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

/// Changes and flushes of an export that are not answered, and old copies of changes that its
/// server may still execute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportWaits {
    /// Number of changes and flushes that are not answered.
    pub unanswered: u64,
    /// Number of those that are held because of old copies.
    pub held: u64,
    /// Age of the oldest one.
    pub oldest_ns: u64,
    /// Event for which it waits.
    pub waits_for: Option<&'static str>,
    /// Number of old copies.
    pub fences: u64,
    /// Time after which the server executes none of them any more.
    pub settled_in_ns: u64,
}

/// The way to a server, from one lane.
struct LaneWay {
    ring: Ring,
    way: Arc<Way>,
    role: Role,
    written: Option<Arc<WrittenExport>>,
}

impl LaneWay {
    async fn connect(&self) -> Option<Dialled> {
        let (Some(written), Role::Changes | Role::Anchor) = (&self.written, self.role) else {
            return match self.way.spare() {
                Some(spare) => Some(spare),
                None => self.way.connect(&self.ring, self.role, Attempt::AGAIN).await.ok(),
            };
        };
        if let Some(spare) = written.spare(self.role) {
            return Some(spare);
        }
        if self.role == Role::Anchor {
            // It ends with the anchor, so that its unsent changes are dropped now.
            written.abort(Role::Changes);
        }
        written.abort(self.role);
        let dialled = self.way.connect(&self.ring, self.role, Attempt::AGAIN).await.ok()?;
        let socket = written.register(self.role, dialled.socket).ok()?;
        if self.role == Role::Changes {
            // It is the last one of a session.
            written.retention.wait(self.ring.lane()).await;
        }
        Some(Dialled { socket, ..dialled })
    }
}

impl Dial for LaneWay {
    type Wire = MaybeTls<Socket>;

    async fn dial(&self) -> Option<(MaybeTls<Socket>, Agreed)> {
        let Dialled { socket, session, agreed } = self.connect().await?;
        let socket = Socket::to_server(&self.ring, Arc::new(socket));
        Some((MaybeTls::new(socket, session), agreed))
    }
}

/// An export. Each lane has a connection of its own for reads; one lane carries all changes.
struct NbdNode {
    identity: Identity,
    shared: Arc<LinkShared>,
    way: Arc<Way>,
    /// Whether a lane uses it. The first one keeps its connection for reads.
    is_attached: AtomicBool,
    /// Whether the server accepts one connection only.
    is_single: bool,
    /// None: it is only read.
    written: Option<Arc<WrittenExport>>,
    /// If it is only read: until then, changes of an earlier process may be executed.
    unsettled_until_ns: u64,
}

impl OpenNode for NbdNode {
    fn limits(&self) -> Limits {
        self.shared.limits()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let way = |role| LaneWay {
            ring: ring.clone(),
            way: self.way.clone(),
            role,
            written: self.written.clone(),
        };
        let dials = WriteDials { changes: way(Role::Changes), anchor: way(Role::Anchor) };
        let link = Link::attach(ring.lane(), way(Role::Reads), Some(dials), &self.shared);
        if !self.is_attached.swap(true, Ordering::Relaxed) {
            link.connect_early();
        }
        Attached { stack: Stack::new(ring.lane(), link), cache: None }
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.identity.clone())
    }

    fn lanes_max(&self) -> Option<usize> {
        self.is_single.then_some(1)
    }

    fn keepable(&self) -> Result<Vec<File>, Unkept> {
        match &self.written {
            Some(written) => Ok(written.keepable()),
            None => Err(Unkept::OnlyRead),
        }
    }

    fn needs_holder(&self) -> bool {
        self.written.is_some()
    }

    fn retention(&self) -> Option<&Retention> {
        self.written.as_ref().map(|written| &written.retention)
    }

    fn settled_at(&self, now_ns: u64) -> Option<u64> {
        match &self.written {
            Some(written) => written.writing.peek(|fence| fence.settled_at(now_ns)),
            None => Some(self.unsettled_until_ns).filter(|until_ns| *until_ns > now_ns),
        }
    }

    fn export_waits(&self, now_ns: u64) -> Option<ExportWaits> {
        let writing = &self.written.as_ref()?.writing;
        let requests = writing.waits();
        let oldest = requests.oldest;
        let fences = writing.peek(|fence| (fence.fences(now_ns), fence.settled_at(now_ns)));
        Some(ExportWaits {
            unanswered: requests.unanswered,
            held: requests.held,
            oldest_ns: oldest.map_or(0, |(begun_ns, _)| now_ns.saturating_sub(begun_ns)),
            waits_for: oldest.map(|(_, waits_for)| waits_for.name()),
            fences: fences.0 as u64,
            settled_in_ns: fences.1.map_or(0, |until_ns| until_ns.saturating_sub(now_ns)),
        })
    }

    fn fence(&self) -> io::Result<()> {
        self.written.as_ref().map_or(Ok(()), WrittenExport::settle_former)
    }

    fn has_lost_changes(&self) -> bool {
        self.written.as_ref().is_some_and(|it| it.writing.peek(|fence| fence.has_loss()))
    }

    fn note_loss_reported(&self) {
        if let Some(written) = &self.written {
            written.writing.peek(Fence::note_reported);
        }
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
