//! An export of an NBD server: the backing before it is open, and the node.

use super::nbd_way::{Role, Way};
use super::nbd_writing::WrittenExport;
use super::{Attached, Backing, Former, Health, Identity, OpenNode, Opened, Opening, Unkept};
use crate::failure::{Exit, Failure};
use crate::target::absolute;
use block::{Limits, Stack};
use host::File;
use nbd::client::{
    ATTEMPT_NS, Agreed, Dial, ExportAddress, Fault, Link, LinkShared, WriteDials, refusal,
};
use nbd::codec::{NBD_FLAG_CAN_MULTI_CONN, NBD_FLAG_READ_ONLY, NBD_FLAG_SEND_DF};
use ring::{Ring, Socket};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

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
        Some(identity_of(&self.uri).key)
    }

    fn open(&self, ring: &Ring, is_read_only: bool, former: Former) -> Opening {
        let (uri, ring) = (self.uri.clone(), ring.clone());
        Box::pin(async move {
            let node = open(&uri, is_read_only, &ring, former).await?;
            // It is closed immediately.
            let second = node.way.connect(&ring, Role::Reads, SECOND_NS).await;
            let notes = second.err().map(|error| {
                format!(
                    "{uri}: its server accepts no second connection ({error}); with several \
                     threads, reads on the others fail: use --threads 1, or let the server accept \
                     more (qemu-nbd --shared=8)"
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
    let way = Way::new(&address).map_err(unreachable)?;
    let (socket, agreed) = way.connect(ring, Role::Reads, ATTEMPT_NS).await.map_err(unreachable)?;
    if let Some(why) = refusal(&agreed) {
        return Err(usage(&format!("the export {why}")));
    }
    let identity = identity_of(uri);
    let written = match is_read_only || agreed.can(NBD_FLAG_READ_ONLY) {
        true => None,
        false => Some(Arc::new(open_written(uri, ring, &way, &agreed, &identity, former).await?)),
    };
    way.set_spare(socket, agreed.clone());
    let shared = match &written {
        Some(written) => LinkShared::written(agreed, written.writing.clone()),
        None => LinkShared::new(agreed),
    };
    Ok(NbdNode { identity, shared, way: Arc::new(way), written })
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
        return WrittenExport::adopt(ring, simple, kept);
    }
    let written = WrittenExport::fresh(ring, simple, was_served(identity))?;
    written.connect(ring, way, SECOND_NS).await.map_err(|error| {
        usage(&format!(
            "its server accepts fewer than three connections ({error}), which are needed to write \
             it: let it accept more (qemu-nbd --shared=8), or add --read-only"
        ))
    })?;
    Ok(written)
}

/// Returns the identity of an export, which is its URI.
fn identity_of(uri: &str) -> Identity {
    // The same from any working directory.
    let (name, number) = (uri.to_owned(), hash(&absolute(uri)));
    Identity { key: format!("nbd-{number:016x}"), number, birth: String::new(), name }
}

/// Returns a hash that is the same in each version. Source: FNV-1a, draft-eastlake-fnv.
fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Returns the failure of connecting to an export.
pub fn unreachable_export(uri: &str, error: &io::Error) -> Failure {
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref());
    let exit = match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Exit::NoDaemon,
        ErrorKind::PermissionDenied => Exit::Permission,
        // The server has answered.
        _ if matches!(fault, Some(Fault::Refused { .. })) => Exit::Negative,
        _ => Exit::Io,
    };
    let mend = "check the URI, and that its server is running";
    Failure::new(exit, format!("{uri}: cannot reach the export: {error}; {mend}"))
}

/// The way to a server, from one lane.
struct LaneWay {
    ring: Ring,
    way: Arc<Way>,
    role: Role,
    written: Option<Arc<WrittenExport>>,
}

impl LaneWay {
    async fn connect(&self) -> Option<(OwnedFd, Agreed)> {
        let (Some(written), Role::Changes | Role::Anchor) = (&self.written, self.role) else {
            return match self.way.spare() {
                Some(spare) => Some(spare),
                None => self.way.connect(&self.ring, self.role, ATTEMPT_NS).await.ok(),
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
        let (socket, agreed) = self.way.connect(&self.ring, self.role, ATTEMPT_NS).await.ok()?;
        Some((written.register(self.role, socket).ok()?, agreed))
    }
}

impl Dial for LaneWay {
    type Wire = Socket;

    async fn dial(&self) -> Option<(Socket, Agreed)> {
        let (socket, agreed) = self.connect().await?;
        Some((Socket::to_server(&self.ring, Arc::new(socket)), agreed))
    }
}

/// An export. Each lane has a connection of its own for reads; one lane carries all changes.
struct NbdNode {
    identity: Identity,
    shared: Arc<LinkShared>,
    way: Arc<Way>,
    /// None: it is only read.
    written: Option<Arc<WrittenExport>>,
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
        Attached { stack: Stack::new(ring.lane(), link), cache: None }
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.identity.clone())
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

    fn keepable_version(&self) -> u64 {
        self.written.as_ref().map_or(0, |written| written.version())
    }

    fn settled_at(&self, now_ns: u64) -> Option<u64> {
        self.written.as_ref()?.writing.peek(|fence| fence.settled_at(now_ns))
    }

    fn fence(&self) -> io::Result<()> {
        self.written.as_ref().map_or(Ok(()), WrittenExport::settle_former)
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
