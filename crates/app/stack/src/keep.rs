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
use crate::memory::{geometry_for, memory_failure, memory_step};
use crate::node::{Identity, OpenNode, export_key};
use crate::open_step::OpenStep;
use crate::planted::{Bug, planted};
use block::{CacheSpec, SECTOR, Spec};
use cache::{Arena, Cache, CleanBlocks, Geometry, Settings, Shared};
use holder::{Busy, Doubts, Keeper, RetainedVolume};
use host::File;
use lane::Lane;
use ring::{Fence, Ring, SharedMemory};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Size of a block, in bytes.
const BLOCK_BYTES: usize = cache::BLOCK_SECTORS as usize * SECTOR as usize;

/// Time between two reports of the data that is left to be written back, in nanoseconds.
const REPORT_NS: u64 = 1_000_000_000;

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

/// Returns the key under which a holder may retain the memory of a stack. None: it retains none.
pub fn retention_key(spec: &Spec) -> Option<String> {
    spec.chain().find_map(|part| match part {
        Spec::File { path, .. } => holder::key_at(path).ok(),
        Spec::Nbd { uri, .. } => Some(export_key(uri)),
        _ => None,
    })
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
}

/// Retained memory from which this process serves.
pub(crate) struct TakenOver {
    pub(crate) retained: Retained,
    pub(crate) memory: SharedMemory,
    /// Layout to use from now on. Each of its slots has memory.
    pub(crate) geometry: Geometry,
}

/// Result of [`Retained::take_over`].
pub(crate) enum TakeoverResult {
    TakenOver(Box<TakenOver>),
    /// Its contents are on the backing, and it was released.
    Settled(SettleResult),
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
        backing: &[File],
        memory: &SharedMemory,
    ) -> Result<Keeper, Failure> {
        let backing: Vec<_> = backing.iter().map(|file| file.as_fd()).collect();
        let retained = RetainedVolume {
            volume: volume.to_owned(),
            backing: identity.name.clone(),
            key: identity.key.clone(),
            is_recorded: true,
        };
        let started =
            Keeper::start(&self.runtime, &retained, memory.file(), &backing, &self.program);
        started.map_err(|error| {
            let what = "no holder for its memory could be started (--no-holder serves without \
                        one: a kill then loses unflushed writes)";
            retention_failure(what, &identity.name, &error)
        })
    }
}

impl Retained {
    fn new(found: holder::Found) -> Retained {
        let holder::Found { retained, arena, backing, image, keeper } = found;
        // Before this process examines the image, which may change its ctime.
        let is_unchanged = match (&image, backing.first()) {
            (Some(report), Some(image)) => {
                Some(report.is_unchanged(image) || planted(Bug::TrustChangedImage))
            }
            _ => None,
        };
        Retained { label: retained, arena, backing, keeper, is_unchanged }
    }

    /// Takes the memory over if the slots of this cache fit into it; otherwise writes its contents
    /// to the backing, which is open, and releases it. `cache` is None for a volume that has no
    /// cache now, or that is read-only.
    ///
    /// # Errors
    /// Everything stays retained: the backing is another one or has shrunk, the memory is of
    /// another version, or it cannot be written to the backing.
    pub(crate) fn take_over(
        self,
        node: &dyn OpenNode,
        cache: Option<&CacheSpec>,
        records: &BackingRecords,
        doubts: &Doubts,
        progress: &mut dyn FnMut(OpenStep),
    ) -> Result<TakeoverResult, Failure> {
        self.check_identity(node)?;
        let copy = self.arena.try_clone().map_err(|error| memory_failure(&error))?;
        let mut memory = SharedMemory::adopt(copy).map_err(|error| memory_failure(&error))?;
        let Some(found) = Arena::found(memory.memory()) else {
            return self.release_fresh(&memory).map(TakeoverResult::Settled);
        };
        let bytes = node.limits().bytes();
        self.check_size(found.sectors * SECTOR, bytes)?;
        let resized = cache.and_then(|cache| found.resized(geometry_for(cache, bytes).slots));
        let is_acceptable =
            |next: &Geometry| next.slots >= found.geometry.slots || next.has_roomy_shards();
        if let Some(geometry) = resized.filter(is_acceptable) {
            memory.set_used(Arena::used(&geometry, found.grain));
            let slots_added = geometry.slots.saturating_sub(found.geometry.slots);
            let backed = allocate_slots(&memory, slots_added, progress);
            // If huge pages run out, everything is written back, and a new arena of ordinary pages
            // is made.
            if backed.is_ok() || !memory.has_huge_pages() {
                backed.map_err(|error| memory_failure(&error))?;
                let taken_over = TakenOver { retained: self, memory, geometry };
                return Ok(TakeoverResult::TakenOver(Box::new(taken_over)));
            }
        }
        settle(self, &found, &memory, node, records, doubts, progress).map(TakeoverResult::Settled)
    }

    /// Refuses a backing other than the one whose data is retained.
    ///
    /// # Errors
    /// Integrity: everything stays retained.
    fn check_identity(&self, node: &dyn OpenNode) -> Result<(), Failure> {
        let RetainedVolume { key, volume, .. } = &self.label;
        let Some(identity) = node.identity().filter(|identity| identity.key != *key) else {
            return Ok(());
        };
        let message = format!(
            "{}: is another backing than the one served under this name before ({}, was {key}), \
             whose changes are still in memory; restore that one, or save them with 'overdrive \
             volume clear-error {volume} --rescue FILE'",
            identity.name, identity.key
        );
        Err(Failure::new(Exit::Integrity, message))
    }

    /// Checks the size of the backing, now `now` bytes. It may have grown since it was served with
    /// `bytes`.
    ///
    /// # Errors
    /// The backing has shrunk.
    fn check_size(&self, bytes: u64, now: u64) -> Result<(), Failure> {
        if now >= bytes {
            return Ok(());
        }
        let (name, volume) = (&self.label.backing, &self.label.volume);
        let message = format!(
            "{name}: has {now} bytes, but had {bytes} when it was served: data beyond its end is \
             lost; acknowledged writes are retained for it: restore its size (truncate -s {bytes} \
             {name}) and serve it again, or save them with 'overdrive volume clear-error {volume} \
             --rescue FILE'"
        );
        Err(Failure::new(Exit::Integrity, message))
    }

    /// Releases memory without an arena. A daemon that was killed before it initialized the memory
    /// has served no client.
    ///
    /// # Errors
    /// The memory is initialized, in a format that this version does not know.
    fn release_fresh(self, memory: &SharedMemory) -> Result<SettleResult, Failure> {
        if memory.memory().word(0).load(Ordering::Acquire) == 0 {
            let _ = self.keeper.release();
            return Ok(SettleResult { blocks: 0, in_doubt: false });
        }
        let message = format!(
            "{}: the memory retained for it is of another version of Overdrive; serve it with \
             that version once, or discard the data by ending the process od-holder",
            self.label.backing
        );
        Err(Failure::new(Exit::Integrity, message))
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
        if node.has_lost_changes() {
            self.note_changes_lost()?;
            node.note_loss_reported();
        }
        Ok(fence)
    }

    /// Notes in the memory that the backing may have lost changes that no flush has covered.
    fn note_changes_lost(&self) -> Result<(), Failure> {
        let memory = SharedMemory::peek(self.arena.as_fd());
        let memory = memory.map_err(|error| memory_failure(&error))?;
        if let Some(found) = Arena::found(&memory) {
            found.note_changes_lost();
        }
        Ok(())
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
                "{}: another program has had it open since the earlier process began, or has \
                 changed it: the blocks that this process had cached are dropped",
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

/// Has other descriptors of a volume's backing retained.
pub(crate) fn exchange(keeper: &Keeper, volume: &str, backing: &[File]) -> Result<(), Failure> {
    let backing: Vec<_> = backing.iter().map(|file| file.as_fd()).collect();
    keeper.exchange(&backing).map_err(|error| {
        retention_failure("its holder does not retain its connections", volume, &error)
    })
}

/// Waits for the I/O of the memory's earlier owner, and makes a later owner wait for ours.
pub(crate) fn fence(arena: BorrowedFd<'_>, name: &str) -> Result<Fence, Failure> {
    Fence::take(arena, FENCE_MS).map_err(|error| retention_failure("its memory", name, &error))
}

/// Allocates memory for slots that had none before.
fn allocate_slots(
    memory: &SharedMemory,
    slots: u32,
    progress: &mut dyn FnMut(OpenStep),
) -> io::Result<()> {
    match slots as usize * BLOCK_BYTES {
        0 => Ok(()),
        bytes => memory.back(bytes, &mut |done, all| progress(memory_step(done, all))),
    }
}

/// Result of writing retained memory to its backing.
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
fn settle(
    retained: Retained,
    found: &cache::Found,
    memory: &SharedMemory,
    node: &dyn OpenNode,
    records: &BackingRecords,
    doubts: &Doubts,
    progress: &mut dyn FnMut(OpenStep),
) -> Result<SettleResult, Failure> {
    progress(OpenStep::Fence);
    let fence = retained.fence(node)?;
    let name = &retained.label.backing;
    let identity = node.identity().map_or(0, |identity| identity.number);
    let geometry = found.geometry;
    let settings = Settings::from_spec(&CacheSpec::default(), &geometry);
    let shared = Shared::new(&node.limits(), geometry, settings, identity, memory.memory().clone())
        .map_err(|error| Failure::new(Exit::Integrity, format!("{name}: {error}")))?;
    let blocks = u64::from(shared.dirty_blocks());
    let drained = drain(node, &shared, &fence, progress);
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

/// Writes all dirty data back. Reports the amount that is left at the beginning and every second.
fn drain(
    node: &dyn OpenNode,
    shared: &Arc<Shared>,
    fence: &Fence,
    progress: &mut dyn FnMut(OpenStep),
) -> Result<(), String> {
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(|error| error.to_string())?;
    ring.hold(fence).map_err(|error| error.to_string())?;
    let cache = Cache::attach(shared, &lane, node.attach(&ring).stack);
    let drained = Rc::new(RefCell::new(None));
    let result = drained.clone();
    let work = async move {
        *result.borrow_mut() = Some(cache.drain().await);
        cache.shared().stop();
    };
    let clock = lane.clone();
    // The condition of the loop is checked when a task has run.
    let ticks = async move {
        loop {
            clock.sleep_until(clock.now() + REPORT_NS).await;
        }
    };
    let full = |_| "every task slot of the lane is taken".to_owned();
    lane.spawn(work).map_err(full)?;
    lane.spawn(ticks).map_err(full)?;
    let mut due_ns = 0;
    let ran = ring.run(|| {
        if lane.now() >= due_ns {
            due_ns = lane.now() + REPORT_NS;
            let left_bytes = u64::from(shared.dirty_blocks()) * BLOCK_BYTES as u64;
            progress(OpenStep::WriteBack { left_bytes });
        }
        drained.borrow().is_some()
    });
    lane.abandon();
    ran.map_err(|error| error.to_string())?;
    let result: Option<block::Result> = drained.take();
    result.expect("the loop ended because it is there").map_err(|error| error.to_string())
}
