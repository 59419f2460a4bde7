//! Takes over the memory that a volume's earlier process has left, and has a holder retain the
//! memory of this one (C5).
//!
//! ```text
//!   a backing at a path --key--> does a holder retain memory for it?
//!        no:   open the backing, make memory, have both retained
//!        yes:  take both over, wait for the dead daemon's I/O (fence)
//!              enough memory for the slots that are configured:  recover, serve immediately
//!              otherwise:  write everything back, release the memory, continue as for "no"
//! ```

use crate::backing_records::BackingRecords;
use crate::failure::{Exit, Failure};
use crate::node::{Identity, OpenNode};
use crate::planted::{Bug, planted};
use block::CacheSpec;
use cache::{Arena, Cache, CleanBlocks, Geometry, Settings, Shared};
use holder::{Busy, Doubts, Found, Keeper, RetainedVolume};
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

/// The memory and descriptors of an earlier process, which this process has received.
pub(crate) struct Retained {
    /// The volume to which they belong.
    pub(crate) label: RetainedVolume,
    pub(crate) arena: OwnedFd,
    /// The descriptors of the backing ([`OpenNode::keepable`]).
    pub(crate) backing: Vec<OwnedFd>,
    pub(crate) keeper: Keeper,
    /// Whether no other program has written to the image. None: nothing is known.
    is_unchanged: Option<bool>,
    /// The arena to serve from, once it has been examined and fits.
    pub(crate) adopted: Option<AdoptedArena>,
}

/// An arena that is taken over.
pub(crate) struct AdoptedArena {
    pub(crate) memory: SharedMemory,
    /// Layout to use from now on. Each of its slots has memory.
    pub(crate) geometry: Geometry,
}

fn retention_failure(what: &str, name: &str, error: &io::Error) -> Failure {
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
    /// Returns the notes of doubtful flushes, which outlive the memory that recorded the doubt.
    pub(crate) fn doubts(&self) -> Doubts {
        Doubts::of(&self.runtime)
    }

    /// Takes over the memory that a holder retains for the backing of this identity, if there is
    /// any.
    pub(crate) fn find(&self, key: &str, name: &str) -> Result<Option<Retained>, Failure> {
        match Keeper::find(&self.runtime, key) {
            Ok(found) => Ok(found.map(Retained::new)),
            Err(error) => Err(match Busy::of(&error) {
                Some(busy) => Failure::new(
                    Exit::Busy,
                    format!(
                        "{name}: is already served by process {}; see 'overdrive volume list'",
                        busy.pid
                    ),
                ),
                None => retention_failure("its retained memory cannot be taken over", name, &error),
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
            retention_failure(what, &identity.name, &error)
        })
    }
}

impl Retained {
    fn new(found: Found) -> Retained {
        let Found { retained, arena, backing, image, keeper } = found;
        // Before this process examines the image, which may change its ctime.
        let is_unchanged = match (&image, backing.first()) {
            (Some(report), Some(image)) => {
                Some(report.is_unchanged(image) || planted(Bug::TrustChangedImage))
            }
            _ => None,
        };
        Retained { label: retained, arena, backing, keeper, is_unchanged, adopted: None }
    }

    /// Waits until the I/O of the daemon that used the memory before has ended (C15).
    pub(crate) fn fence(&self, node: &dyn OpenNode) -> Result<Fence, Failure> {
        let fence = fence(self.arena.as_fd(), &self.label.backing)?;
        node.fence().map_err(|error| {
            retention_failure(
                "requests of an earlier process may still arrive",
                &self.label.backing,
                &error,
            )
        })?;
        Ok(fence)
    }

    /// Decides about the clean blocks in the memory (C9). They are kept if the holder has had the
    /// image's lock all the time, and its report excludes a program that ignores locks.
    pub(crate) fn clean_blocks(&self, node: &dyn OpenNode) -> CleanBlocks {
        match self.is_unchanged {
            Some(true) if node.is_locked() => CleanBlocks::Keep,
            _ => CleanBlocks::Drop,
        }
    }

    /// Returns a sentence about a program that may have written to the image.
    pub(crate) fn change_note(&self) -> Option<String> {
        (self.is_unchanged == Some(false)).then(|| {
            format!(
                "{}: another program has opened it since the earlier process began, or has changed \
                 it: the blocks that this process had cached are dropped",
                self.label.backing
            )
        })
    }

    /// Whether the memory has nothing that this process could use: only clean blocks that may
    /// differ from the image.
    pub(crate) fn is_useless(&self) -> bool {
        let survey = || {
            let memory = SharedMemory::peek(self.arena.as_fd()).ok()?;
            Some(Arena::found(&memory)?.survey())
        };
        let is_clean =
            |survey: cache::Survey| !survey.is_dirty() && !survey.failed && !survey.in_doubt;
        self.is_unchanged == Some(false) && survey().is_some_and(is_clean)
    }

    /// Ends the holder. The image is no longer locked.
    pub(crate) fn dismiss(self) {
        let Retained { keeper, arena, backing, .. } = self;
        drop((arena, backing));
        // If the holder does not answer, opening the image reports that it is locked.
        let _ = keeper.release();
    }

    /// Duplicates the descriptors of the backing.
    pub(crate) fn backing_clones(&self) -> io::Result<Vec<OwnedFd>> {
        self.backing.iter().map(OwnedFd::try_clone).collect()
    }
}

/// Waits for the I/O of the memory's earlier owner, and makes a later owner wait for ours.
pub(crate) fn fence(arena: BorrowedFd<'_>, name: &str) -> Result<Fence, Failure> {
    Fence::take(arena, FENCE_MS).map_err(|error| retention_failure("its memory", name, &error))
}

/// Result of [`settle`].
pub(crate) struct SettleResult {
    /// Blocks written.
    pub(crate) blocks: u64,
    /// See [`Shared::is_in_doubt`].
    pub(crate) in_doubt: bool,
}

/// Writes all dirty data in a retained memory back to its backing, with the layout that the memory
/// already has, and releases the memory.
///
/// # Errors
/// Exit status 6 if writing to the backing fails: everything stays retained.
pub(crate) fn settle(
    retained: Retained,
    found: &cache::Found,
    memory: &SharedMemory,
    node: &dyn OpenNode,
    records: &BackingRecords,
    doubts: &Doubts,
) -> Result<SettleResult, Failure> {
    let fence = retained.fence(node)?;
    let name = &retained.label.backing;
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
                retained.label.volume,
            ),
        ));
    }
    if shared.is_in_doubt() {
        // The doubt is noted before its memory is released, because this process may be killed
        // before the next memory records the doubt.
        doubts
            .note(&retained.label.key, &node.identity().map_or(String::new(), |it| it.birth))
            .map_err(|error| {
                retention_failure(
                    "the doubt about its last flush cannot be recorded",
                    &retained.label.backing,
                    &error,
                )
            })?;
    }
    if let Ok(memory) = holder::memory_identity(retained.arena.as_fd()) {
        records.clear_memory(&retained.label.key, &memory);
    }
    retained
        .keeper
        .release()
        .map_err(|error| retention_failure("its holder", &retained.label.backing, &error))?;
    Ok(SettleResult { blocks, in_doubt: shared.is_in_doubt() })
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

/// Returns the description of the arena in a memory. None: it holds no arena of this version.
pub(crate) fn find_arena(memory: &SharedMemory) -> Option<cache::Found> {
    Arena::found(memory.memory())
}
