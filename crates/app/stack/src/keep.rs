//! Takes over the memory of a volume's earlier process, and has the memory of this one retained by
//! a holder (C5).
//!
//! ```text
//!   a backing at a path --key--> does a holder retain memory for it?
//!        no:   open the backing, make memory, have both retained
//!        yes:  take both over, wait for the dead daemon's I/O (fence)
//!              enough memory for the slots that are configured:  recover, serve immediately
//!              otherwise:  write everything back first, release it, then continue as without
//! ```

use crate::failure::{Exit, Failure};
use crate::node::{Identity, OpenNode};
use crate::recorded::Recorded;
use block::CacheSpec;
use cache::{Arena, Cache, Found, Geometry, Settings, Shared};
use holder::{Busy, Doubts, Keeper, RetainedVolume};
use lane::Lane;
use ring::{Fence, Ring, SharedMemory};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Longest wait for the I/O of a dead daemon, in milliseconds.
const FENCE_MS: u64 = 30_000;

/// How memory is retained: where holders are found, and the program that becomes a holder.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The user's runtime directory.
    pub runtime: PathBuf,
    /// The `overdrive` program; it has the hidden command `hold`.
    pub program: PathBuf,
}

/// The memory and descriptors of an earlier process, owned by this one now.
pub(crate) struct Left {
    pub(crate) retained: RetainedVolume,
    pub(crate) arena: OwnedFd,
    /// The descriptors of the backing ([`OpenNode::keepable`]).
    pub(crate) backing: Vec<OwnedFd>,
    pub(crate) keeper: Keeper,
    /// The arena, once it has been examined.
    pub(crate) found: Option<FoundArena>,
}

/// An arena that is taken over.
pub(crate) struct FoundArena {
    pub(crate) memory: SharedMemory,
    /// Layout from now on; every slot of it has memory.
    pub(crate) geometry: Geometry,
}

fn trouble(what: &str, name: &str, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        // The image is locked by a holder that does not answer.
        io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Exit::Busy
        }
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{name}: {what}: {error}"))
}

impl Keep {
    /// Returns the store of doubts, which outlive the memory they are about.
    pub(crate) fn doubts(&self) -> Doubts {
        Doubts::of(&self.runtime)
    }

    /// Takes over the memory that a holder retains for the backing of this identity, if there is
    /// any.
    pub(crate) fn find(&self, key: &str, name: &str) -> Result<Option<Left>, Failure> {
        match Keeper::find(&self.runtime, key) {
            Ok(found) => Ok(found.map(|found| Left {
                retained: found.retained,
                arena: found.arena,
                backing: found.backing,
                keeper: found.keeper,
                found: None,
            })),
            Err(error) => Err(match Busy::of(&error) {
                Some(busy) => Failure::new(
                    Exit::Busy,
                    format!(
                        "{name}: is already served by process {}; see 'overdrive volume list'",
                        busy.pid
                    ),
                ),
                None => trouble("its retained memory cannot be taken over", name, &error),
            }),
        }
    }

    /// Starts a holder that retains a volume's memory and its backing from now on.
    pub(crate) fn start(
        &self,
        volume: &str,
        identity: &Identity,
        backing: &[BorrowedFd<'_>],
        memory: &SharedMemory,
    ) -> Result<Keeper, Failure> {
        let retained = RetainedVolume {
            volume: volume.to_owned(),
            backing: identity.name.clone(),
            key: identity.key.clone(),
            is_recorded: true,
        };
        let started =
            Keeper::start(&self.runtime, &retained, memory.file(), backing, &self.program);
        started.map_err(|error| {
            let what = "no holder for its memory could be started (--no-holder serves without \
                        one: a kill then loses unflushed writes)";
            trouble(what, &identity.name, &error)
        })
    }
}

impl Left {
    /// Waits until the I/O of the daemon that used the memory before has ended (C15).
    pub(crate) fn fence(&self, node: &dyn OpenNode) -> Result<Fence, Failure> {
        let fence = fence(self.arena.as_fd(), &self.retained.backing)?;
        node.fence().map_err(|error| {
            trouble(
                "requests of an earlier process may still arrive",
                &self.retained.backing,
                &error,
            )
        })?;
        Ok(fence)
    }

    /// Duplicates the descriptors of the backing.
    pub(crate) fn backing_clones(&self) -> io::Result<Vec<OwnedFd>> {
        self.backing.iter().map(OwnedFd::try_clone).collect()
    }
}

/// Waits for the I/O of the memory's earlier owner, and makes a later owner wait for ours.
pub(crate) fn fence(arena: BorrowedFd<'_>, name: &str) -> Result<Fence, Failure> {
    Fence::take(arena, FENCE_MS).map_err(|error| trouble("its memory", name, &error))
}

/// Result of writing a memory's contents back.
pub(crate) struct Settled {
    /// Blocks written.
    pub(crate) blocks: u64,
    /// See [`Shared::is_in_doubt`].
    pub(crate) in_doubt: bool,
}

/// Writes everything that is retained back to its backing, at the size that the backing had, and
/// releases it.
///
/// # Errors
/// Exit status 6 if writing to the backing fails: everything stays retained.
pub(crate) fn settle(
    left: Left,
    found: &Found,
    memory: &SharedMemory,
    node: &dyn OpenNode,
    recorded: &Recorded,
    doubts: &Doubts,
) -> Result<Settled, Failure> {
    let fence = left.fence(node)?;
    let name = &left.retained.backing;
    let identity = node.identity().map_or(0, |identity| identity.number);
    let geometry = found.geometry;
    let settings = Settings::from_spec(&CacheSpec::default(), &geometry);
    let shared = Shared::new(&node.limits(), geometry, settings, identity, memory.memory().clone())
        .map_err(|error| Failure::new(Exit::Integrity, format!("{name}: {error}")))?;
    let blocks = u64::from(shared.dirty_blocks());
    let drained = drain(node, &shared, &fence);
    if let Err(error) = drained {
        return Err(Failure::new(
            Exit::Io,
            format!(
                "{name}: {error}; {blocks} blocks of acknowledged writes are retained for it and \
                 could not be written to it: serve it with its former memory ({}), or rescue \
                 them with 'overdrive volume clear-error {} --rescue FILE'",
                block::Size(u64::from(found.geometry.slots) * 4096),
                left.retained.volume,
            ),
        ));
    }
    if shared.is_in_doubt() {
        // The doubt is noted before the memory that also records it is released: this process may
        // be killed before the next memory records it.
        doubts
            .note(&left.retained.key, &node.identity().map_or(String::new(), |it| it.birth))
            .map_err(|error| {
                trouble("a doubt about its last flush", &left.retained.backing, &error)
            })?;
    }
    if let Ok(memory) = holder::memory_identity(left.arena.as_fd()) {
        recorded.clear_memory(&left.retained.key, &memory);
    }
    left.keeper.release().map_err(|error| trouble("its holder", &left.retained.backing, &error))?;
    Ok(Settled { blocks, in_doubt: shared.is_in_doubt() })
}

fn drain(node: &dyn OpenNode, shared: &Arc<Shared>, fence: &Fence) -> Result<(), String> {
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(|error| error.to_string())?;
    ring.hold(fence).map_err(|error| error.to_string())?;
    let cache = Cache::attach(shared, &lane, node.attach(&ring).stack);
    let work = async move {
        let result = cache.drain().await;
        cache.shared().stop();
        result
    };
    let drained = ring.block_on(work).map_err(|error| error.to_string())?;
    lane.abandon();
    drained.map_err(|error| error.to_string())
}

/// Returns the contents of a memory, or the reason why they cannot be read.
pub(crate) fn found_in(memory: &SharedMemory) -> Option<Found> {
    Arena::found(memory.memory())
}
