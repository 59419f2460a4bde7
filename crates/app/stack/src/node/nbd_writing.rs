//! The state of an NBD export that is written: its fence, and the connections of changes.
//!
//! ```text
//!   holder:  table of the fence (memory), anchor, connection of changes
//!   killed --> the next process: adopts the table; after the fence of the rings
//!              reads the answers that the connection of changes still has, and ends it;
//!              flushes on the anchor, and ends it
//! ```
//!
//! Over TLS the keys end with the process. The next one ends both connections unread: no change
//! that was sent counts as answered, and no flush as done.

use super::nbd_way::{Role, Way};
use super::retention::Retention;
use crate::Failure;
use crate::memory::memory;
use crate::setup_lane::SetupLane;
use host::File;
use lane::Lock;
use nbd::client::{Agreed, Attempt, Dialled, Writing, flush_again, read_answers};
use nbd::codec::NBD_FLAG_SEND_FLUSH;
use nbd::fence::{Export, Fence, SETTLE_NS, Sockets, TABLE_BYTES};
use ring::{HugePages, Ring, SharedMemory};
use rustix::net::{Shutdown, connect_unspec, shutdown, sockopt::socket_cookie};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tls::Session;

/// A page of memory, in bytes.
const PAGE: usize = 4096;

/// The connections that a holder retains.
#[derive(Default)]
struct Connections {
    changes: Option<File>,
    anchor: Option<File>,
    /// Those of an earlier process, until its answers are read.
    former: Vec<OwnedFd>,
    /// Connections that were made in advance.
    spare_changes: Option<Spare>,
    spare_anchor: Option<Spare>,
}

/// A connection that was made in advance, and its TLS session.
type Spare = (OwnedFd, Option<Session>);

/// An export that is written.
pub(super) struct WrittenExport {
    pub(super) writing: Arc<Writing>,
    agreed: Agreed,
    table: File,
    connections: Lock<Connections>,
    /// The versions of the table and the connections.
    pub(super) retention: Retention,
    /// Whether connections are protected by TLS.
    is_encrypted: bool,
    /// Keeps the table mapped.
    _memory: SharedMemory,
}

/// Returns the description of an export for its table.
fn export_of(agreed: &Agreed) -> Export {
    let sizes = agreed.sizes.map_or([0; 3], |sizes| [sizes.min, sizes.preferred, sizes.max]);
    let [min, preferred, max] = sizes.map(u64::from);
    let abilities = [u64::from(agreed.export.flags) | min << 32, preferred | max << 32];
    Export { sectors: agreed.export.bytes / block::SECTOR, abilities }
}

impl WrittenExport {
    /// Begins without the table of an earlier process.
    /// `was_served`: an earlier process has served it since the boot, and has not ended in order.
    pub(super) fn fresh(
        ring: &Ring,
        agreed: Agreed,
        was_served: bool,
        is_encrypted: bool,
    ) -> Result<WrittenExport, Failure> {
        let memory = table_memory()?;
        let export = export_of(&agreed);
        let mut fence = Fence::new(memory.memory(), export);
        let now_ns = ring.lane().now();
        // The clock starts at the boot, at which the last processes of the machine ended.
        let until_ns = if was_served { now_ns + SETTLE_NS } else { SETTLE_NS };
        if until_ns > now_ns {
            fence.hold_all(export.sectors, until_ns);
        }
        WrittenExport::with(memory, fence, agreed, Vec::new(), is_encrypted)
    }

    /// Continues with the descriptors that an earlier process has left.
    pub(super) fn adopt(
        ring: &Ring,
        agreed: Agreed,
        kept: Vec<OwnedFd>,
        is_encrypted: bool,
    ) -> Result<WrittenExport, Failure> {
        let mut kept = kept.into_iter();
        let now_ns = ring.lane().now();
        let memory = kept.next().and_then(|table| SharedMemory::adopt(table).ok());
        let found = memory.and_then(|memory| {
            let fence = Fence::adopt(memory.memory(), export_of(&agreed), now_ns)?;
            Some((memory, fence))
        });
        match found {
            Some((memory, fence)) => {
                WrittenExport::with(memory, fence, agreed, kept.collect(), is_encrypted)
            }
            // Of another version, or of an export that has changed.
            None => {
                let export = WrittenExport::fresh(ring, agreed, true, is_encrypted)?;
                export.writing.fence(Fence::lose);
                Ok(export)
            }
        }
    }

    fn with(
        memory: SharedMemory,
        fence: Fence,
        agreed: Agreed,
        former: Vec<OwnedFd>,
        is_encrypted: bool,
    ) -> Result<WrittenExport, Failure> {
        let table = memory.file().try_clone_to_owned();
        let table = table.map_err(|error| crate::memory::memory_failure(&error))?;
        Ok(WrittenExport {
            writing: Writing::new(fence, agreed.clone()),
            agreed,
            table: Arc::new(table),
            connections: Lock::new(Connections { former, ..Connections::default() }),
            retention: Retention::default(),
            is_encrypted,
            _memory: memory,
        })
    }

    /// Connects in advance, so that a server that accepts too few connections is noticed. The
    /// anchor is the first.
    pub(super) async fn connect(&self, ring: &Ring, way: &Way, attempt: Attempt) -> io::Result<()> {
        for role in [Role::Anchor, Role::Changes] {
            let Dialled { socket, session, agreed } = way.connect(ring, role, attempt).await?;
            if !agreed.is_alike(&self.agreed) {
                return Err(io::Error::other("it describes the export in another way each time"));
            }
            ring.lane().turn().await;
            let spare = (self.register(role, socket)?, session);
            ring.lane().turn().await;
            self.connections.with(|all| match role {
                Role::Anchor => all.spare_anchor = Some(spare),
                _ => all.spare_changes = Some(spare),
            });
        }
        Ok(())
    }

    /// Returns a connection that was made in advance.
    pub(super) fn spare(&self, role: Role) -> Option<Dialled> {
        let spare = self.connections.with(|all| match role {
            Role::Reads => None,
            Role::Changes => all.spare_changes.take(),
            Role::Anchor => all.spare_anchor.take(),
        });
        let agreed = || self.agreed.clone();
        spare.map(|(socket, session)| Dialled { socket, session, agreed: agreed() })
    }

    /// Ends the present connection of a role in the kernel, with all that it has not sent yet.
    pub(super) fn abort(&self, role: Role) {
        let ended = self.connections.with(|all| match role {
            Role::Reads => None,
            Role::Changes => all.changes.take(),
            Role::Anchor => all.anchor.take(),
        });
        if let Some(socket) = ended {
            end(&*socket);
        }
    }

    /// Makes a connection the present one of its role, which a holder is to retain. Returns it.
    pub(super) fn register(&self, role: Role, socket: OwnedFd) -> io::Result<OwnedFd> {
        let kept = Arc::new(socket.try_clone()?);
        let sockets = self.connections.with(|all| {
            match role {
                Role::Reads => {}
                Role::Changes => all.changes = Some(kept),
                Role::Anchor => all.anchor = Some(kept),
            }
            let cookie = |file: &Option<File>| {
                file.as_ref().and_then(|file| socket_cookie(file).ok()).unwrap_or(0)
            };
            Sockets { changes: cookie(&all.changes), anchor: cookie(&all.anchor) }
        });
        // No decision of the fence depends on these words.
        self.writing.peek(|fence| fence.set_sockets(sockets));
        self.retention.change();
        Ok(socket)
    }

    /// Returns the descriptors for a holder: the table, and the connections.
    pub(super) fn keepable(&self) -> Vec<File> {
        let connections = self.connections.peek(|all| [all.anchor.clone(), all.changes.clone()]);
        std::iter::once(self.table.clone()).chain(connections.into_iter().flatten()).collect()
    }

    /// Reads the answers that an earlier process has left, and flushes. The fence holds the ranges
    /// of changes that stay unanswered.
    pub(super) fn settle_former(self: &Arc<WrittenExport>) -> io::Result<()> {
        let former = self.connections.peek(|all| std::mem::take(&mut all.former));
        let export = self.clone();
        let failed = |failure: Failure| io::Error::other(failure.message);
        let setup = SetupLane::new().map_err(failed)?;
        let work = |ring: &Ring| {
            let lane = ring.lane().clone();
            async move { export.read_former(&lane, former).await }
        };
        setup.run(work).map_err(failed)
    }

    async fn read_former(&self, lane: &lane::Lane, former: Vec<OwnedFd>) {
        if self.is_encrypted {
            // Their end drops the changes that are not at the server yet.
            former.iter().for_each(end);
            let now_ns = lane.now();
            return self.writing.fence(|fence| fence.abandon(now_ns));
        }
        let known = self.writing.fence(|fence| fence.sockets());
        let mut anchor = None;
        for socket in former {
            match socket_cookie(&socket) {
                Ok(cookie) if cookie == known.changes && cookie != 0 => {
                    read_answers(lane, &socket, &self.writing).await;
                    end(&socket);
                }
                Ok(cookie) if cookie == known.anchor && cookie != 0 => anchor = Some(socket),
                _ => end(&socket),
            }
        }
        lane.turn().await;
        let now_ns = lane.now();
        self.writing.fence(|fence| fence.changes_end(now_ns));
        let can_flush = self.agreed.can(NBD_FLAG_SEND_FLUSH);
        if let Some(socket) = anchor.as_ref().filter(|_| can_flush) {
            flush_again(lane, socket, &self.writing).await;
            lane.turn().await;
        }
        // An answer to an earlier flush may still come, so the connection is not used any more. If
        // the flush has succeeded, nothing is lost with it.
        anchor.iter().for_each(end);
        let now_ns = lane.now();
        self.writing.peek(|fence| fence.session_ends(now_ns));
    }
}

/// Ends a connection, and drops its unsent bytes, also while others have its descriptor.
fn end(socket: impl AsFd) {
    // A unix socket has nothing of this kind: its bytes are at the server.
    let _ = shutdown(&socket, Shutdown::Both);
    let _ = connect_unspec(&socket);
}

fn table_memory() -> Result<SharedMemory, Failure> {
    let bytes = TABLE_BYTES.next_multiple_of(PAGE) as u64;
    memory("overdrive changes", bytes, HugePages::Never, &mut |_| ())
}
