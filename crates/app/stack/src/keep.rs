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
use crate::recorded::Recorded;
use block::{CacheSpec, Stack};
use cache::{Arena, Cache, Found, Geometry, Settings, Shared};
use holder::{Busy, Doubts, Keeper, Kept};
use host::{FileVolume, OpenOptions};
use lane::Lane;
use ring::{Fence, FileBackend, Ring, SharedMemory};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
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
    pub(crate) backing: OwnedFd,
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

fn trouble(what: &str, path: &Path, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        // A holder that does not answer has it locked.
        io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Exit::Busy
        }
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{}: {what}: {error}", path.display()))
}

impl Keep {
    /// The doubts that outlive what is kept.
    pub(crate) fn doubts(&self) -> Doubts {
        Doubts::of(&self.runtime)
    }

    /// Takes over what is kept for the backing at this path, if something is.
    pub(crate) fn find(&self, path: &Path) -> Result<Option<Left>, Failure> {
        // What cannot be looked at cannot be opened either: that says it better.
        let Ok(key) = holder::key_at(path) else { return Ok(None) };
        match Keeper::find(&self.runtime, &key) {
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
                        "{}: is served by process {} already; see 'overdrive volume list'",
                        path.display(),
                        busy.pid
                    ),
                ),
                None => trouble("what is kept for it cannot be taken over", path, &error),
            }),
        }
    }

    /// Has a volume's memory and its backing kept from now on.
    pub(crate) fn start(
        &self,
        name: &str,
        file: &FileVolume,
        memory: &SharedMemory,
    ) -> Result<Keeper, Failure> {
        let kept = Kept {
            volume: name.to_owned(),
            backing: file.path().display().to_string(),
            key: file.key(),
            is_recorded: true,
        };
        let started =
            Keeper::start(&self.runtime, &kept, memory.file(), file.file().as_fd(), &self.program);
        started.map_err(|error| {
            let what = "no holder for its memory could be started (--no-holder serves without: a \
                        kill then loses what was not flushed)";
            trouble(what, file.path(), &error)
        })
    }
}

impl Left {
    /// Waits until the I/O of the daemon that used the memory before is over (C15).
    pub(crate) fn fence(&self, path: &Path) -> Result<Fence, Failure> {
        fence(self.arena.as_fd(), path)
    }
}

/// Fences a memory against its earlier owner, and a later one against us.
pub(crate) fn fence(arena: std::os::fd::BorrowedFd<'_>, path: &Path) -> Result<Fence, Failure> {
    Fence::take(arena, FENCE_MS).map_err(|error| trouble("its memory", path, &error))
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
    path: &Path,
    recorded: &Recorded,
    doubts: &Doubts,
) -> Result<Settled, Failure> {
    let fence = left.fence(path)?;
    let copy = left.backing.try_clone().map_err(|error| trouble("what is kept", path, &error))?;
    let file = FileVolume::from_file(path, copy, OpenOptions::default())?;
    let geometry = found.geometry;
    let settings = Settings::from_spec(&CacheSpec::default(), &geometry);
    let shared =
        Shared::new(file.limits(), geometry, settings, file.identity(), memory.memory().clone())
            .map_err(|error| {
                Failure::new(Exit::Integrity, format!("{}: {error}", path.display()))
            })?;
    let blocks = u64::from(shared.dirty_blocks());
    let drained = drain(&file, &shared, &fence);
    if let Err(error) = drained {
        return Err(Failure::new(
            Exit::Io,
            format!(
                "{}: {error}; {blocks} blocks of acknowledged writes are kept for it and could not \
                 be written first: serve it with the memory it had ({}), or rescue them with \
                 'overdrive volume clear-error {} --rescue FILE'",
                path.display(),
                block::Size(u64::from(found.geometry.slots) * 4096),
                left.kept.volume,
            ),
        ));
    }
    if shared.is_in_doubt() {
        // Before the memory goes that has noted it: this process may be killed before another has.
        doubts
            .note(&left.kept.key, &holder::birth(left.backing.as_fd()))
            .map_err(|error| trouble("a doubt about its last flush", path, &error))?;
    }
    if let Ok(memory) = holder::memory_identity(left.arena.as_fd()) {
        recorded.clear_memory(&left.kept.key, &memory);
    }
    left.keeper.release().map_err(|error| trouble("its holder", path, &error))?;
    Ok(Settled { blocks, in_doubt: shared.is_in_doubt() })
}

fn drain(file: &Arc<FileVolume>, shared: &Arc<Shared>, fence: &Fence) -> Result<(), String> {
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(|error| error.to_string())?;
    ring.hold(fence).map_err(|error| error.to_string())?;
    let below = Stack::new(&lane, FileBackend::attach(file, &ring));
    let cache = Cache::attach(shared, &lane, below);
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
