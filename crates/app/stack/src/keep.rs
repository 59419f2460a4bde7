//! What an earlier life of a volume has left behind, and what keeps what this one would leave (C5).
//!
//! ```text
//!   a backing at a path --key--> is something kept for it?
//!        no:   open the backing, make memory, have both kept
//!        yes:  take both over, wait for the dead daemon's I/O (fence)
//!              room for the slots that are wanted:  recover, serve at once
//!              otherwise:  write everything out first, let go, then as if nothing was kept
//! ```

use crate::failure::{Exit, Failure};
use crate::node::{Identity, OpenNode};
use crate::recorded::Recorded;
use block::CacheSpec;
use cache::{Arena, Cache, Found, Geometry, Settings, Shared};
use holder::{Busy, Doubts, Keeper, Kept};
use lane::Lane;
use ring::{Fence, Ring, SharedMemory};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// How long the I/O of a dead daemon is waited for, in milliseconds.
const FENCE_MS: u64 = 30_000;

/// What keeps memory: where holders are found, and the program that becomes one.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The user's runtime directory.
    pub runtime: PathBuf,
    /// The `overdrive` program; it has the hidden command `hold`.
    pub program: PathBuf,
}

/// What was kept of a volume and is ours now.
pub(crate) struct Left {
    pub(crate) kept: Kept,
    pub(crate) arena: OwnedFd,
    /// The descriptors of the backing ([`OpenNode::keepable`]).
    pub(crate) backing: Vec<OwnedFd>,
    pub(crate) keeper: Keeper,
    /// The arena, once it has been looked at.
    pub(crate) found: Option<FoundArena>,
}

/// An arena that is taken over.
pub(crate) struct FoundArena {
    pub(crate) memory: SharedMemory,
    /// As it is used from now on; there is memory behind it.
    pub(crate) geometry: Geometry,
}

fn trouble(what: &str, name: &str, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        // A holder that does not answer has it locked.
        io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Exit::Busy
        }
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{name}: {what}: {error}"))
}

impl Keep {
    /// The doubts that outlive what is kept.
    pub(crate) fn doubts(&self) -> Doubts {
        Doubts::of(&self.runtime)
    }

    /// Takes over what is kept for the backing of this identity, if something is.
    pub(crate) fn find(&self, key: &str, name: &str) -> Result<Option<Left>, Failure> {
        match Keeper::find(&self.runtime, key) {
            Ok(found) => Ok(found.map(|found| Left {
                kept: found.kept,
                arena: found.arena,
                backing: found.backing,
                keeper: found.keeper,
                found: None,
            })),
            Err(error) => Err(match Busy::of(&error) {
                Some(busy) => Failure::new(
                    Exit::Busy,
                    format!(
                        "{name}: is served by process {} already; see 'overdrive volume list'",
                        busy.pid
                    ),
                ),
                None => trouble("what is kept for it cannot be taken over", name, &error),
            }),
        }
    }

    /// Has a volume's memory and its backing kept from now on.
    pub(crate) fn start(
        &self,
        volume: &str,
        identity: &Identity,
        backing: &[BorrowedFd<'_>],
        memory: &SharedMemory,
    ) -> Result<Keeper, Failure> {
        let kept = Kept {
            volume: volume.to_owned(),
            backing: identity.name.clone(),
            key: identity.key.clone(),
            is_recorded: true,
        };
        let started = Keeper::start(&self.runtime, &kept, memory.file(), backing, &self.program);
        started.map_err(|error| {
            let what = "no holder for its memory could be started (--no-holder serves without: a \
                        kill then loses what was not flushed)";
            trouble(what, &identity.name, &error)
        })
    }
}

impl Left {
    /// Waits until the I/O of the daemon that used the memory before is over (C15).
    pub(crate) fn fence(&self, node: &dyn OpenNode) -> Result<Fence, Failure> {
        let fence = fence(self.arena.as_fd(), &self.kept.backing)?;
        node.fence().map_err(|error| {
            trouble("requests of an earlier process may still reach it", &self.kept.backing, &error)
        })?;
        Ok(fence)
    }

    /// The descriptors of the backing, once more.
    pub(crate) fn backing_clones(&self) -> io::Result<Vec<OwnedFd>> {
        self.backing.iter().map(OwnedFd::try_clone).collect()
    }
}

/// Fences a memory against its earlier owner, and a later one against us.
pub(crate) fn fence(arena: BorrowedFd<'_>, name: &str) -> Result<Fence, Failure> {
    Fence::take(arena, FENCE_MS).map_err(|error| trouble("its memory", name, &error))
}

/// A memory whose contents are on the backing now.
pub(crate) struct Settled {
    /// Blocks that were written.
    pub(crate) blocks: u64,
    /// See [`Shared::is_in_doubt`].
    pub(crate) in_doubt: bool,
}

/// Writes everything that is kept to its backing, with the sizes that it has, and lets go of it.
///
/// # Errors
/// Exit status 6 if the backing does not take it: everything stays kept.
pub(crate) fn settle(
    left: Left,
    found: &Found,
    memory: &SharedMemory,
    node: &dyn OpenNode,
    recorded: &Recorded,
    doubts: &Doubts,
) -> Result<Settled, Failure> {
    let fence = left.fence(node)?;
    let name = &left.kept.backing;
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
                "{name}: {error}; {blocks} blocks of acknowledged writes are kept for it and could not \
                 be written first: serve it with the memory it had ({}), or rescue them with \
                 'overdrive volume clear-error {} --rescue FILE'",
                block::Size(u64::from(found.geometry.slots) * 4096),
                left.kept.volume,
            ),
        ));
    }
    if shared.is_in_doubt() {
        // Before the memory goes that has noted it: this process may be killed before another has.
        doubts
            .note(&left.kept.key, &node.identity().map_or(String::new(), |it| it.birth))
            .map_err(|error| trouble("a doubt about its last flush", &left.kept.backing, &error))?;
    }
    if let Ok(memory) = holder::memory_identity(left.arena.as_fd()) {
        recorded.clear_memory(&left.kept.key, &memory);
    }
    left.keeper.release().map_err(|error| trouble("its holder", &left.kept.backing, &error))?;
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

/// What the memory holds, or why that cannot be known.
pub(crate) fn found_in(memory: &SharedMemory) -> Option<Found> {
    Arena::found(memory.memory())
}
