//! Opening a volume: from the file at the bottom to the cache's memory, with what an earlier life has
//! left behind.

use crate::failure::{Exit, Failure};
use crate::half::{CacheHalf, Half};
use crate::keep::{self, FoundArena, Keep, Left, Settled};
use crate::model;
use crate::planted::{Bug, planted};
use crate::pools;
use crate::recorded::Recorded;
use block::{CacheSpec, Durability, Null, Ram, SECTOR, Size, Spec, VOLUME_BYTES_MAX, WriteMode};
use cache::{Arena, Geometry, Settings, Shared};
use holder::{Keeper, Records};
use host::{Direct, FileVolume, Intent, Lock, OpenError, OpenErrorKind, OpenOptions};
use layers::{DelayShared, FaultsShared};
use ring::{Fence, HugePages, SharedMemory};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The least memory that a cache makes sense with.
const MEMORY_MIN: u64 = 1 << 20;
/// The least limit of dirty data that lets writes be absorbed at all.
const DIRTY_MIN: u64 = 8 << 10;
/// What is said of `scratch`, at every start and whenever it is set.
pub const SCRATCH: &str = "durability scratch: flushes are ignored; after a power cut the volume is \
                           to be thrown away";
/// Bytes of a block.
const BLOCK_BYTES: usize = cache::BLOCK_SECTORS as usize * SECTOR as usize;
/// Bytes that stand for a sector: real ones.
const GRAIN: u32 = 512;
/// How long an image that another process has locked is waited for: a daemon that was just killed, and
/// its holder, let go of it within moments.
const LOCK_WAIT_MS: u64 = 1_000;

/// How to open what a spec names.
#[derive(Clone, Debug, Default)]
pub struct OpenFlags {
    /// The volume's name.
    pub name: String,
    /// Serve byte by byte what looks like an image format, and on this host what looks like a cluster's file system.
    pub raw: bool,
    /// Refuse clients' changes, whatever the backing takes.
    pub read_only: bool,
    /// The device that this volume becomes. Its backing is that device's, also while no daemon
    /// serves it. None: it becomes none.
    pub device: Option<String>,
    /// What keeps the memory of a cache that may hold dirty data; None: nothing does, what was not
    /// flushed ends with the process.
    pub keep: Option<Keep>,
    /// Where backings that are served are noted for the next process; None: nowhere.
    pub records: Option<Records>,
}

/// What opening gathers on its way up.
pub(crate) struct Opening<'a> {
    flags: &'a OpenFlags,
    /// What was kept for the backing: found where that is opened, used where the memory is made.
    left: Option<Left>,
    pub(crate) keeper: Option<Keeper>,
    /// The keeper is of a version that changes the record when it ends.
    pub(crate) is_recorded: bool,
    /// The memory is that of a process before.
    pub(crate) is_taken_over: bool,
    pub(crate) recorded: Recorded,
    pub(crate) notes: Vec<String>,
    /// The memory that was kept was settled, and its volume was in doubt (C1).
    was_in_doubt: bool,
    progress: &'a mut dyn FnMut(usize, usize),
}

fn options_of(spec: &Spec) -> Option<(&Path, OpenOptions)> {
    let Spec::File { path, read_only, buffered } = spec else { return None };
    let (read_only, buffered) = (*read_only, *buffered);
    Some((path, OpenOptions { read_only, buffered, ..OpenOptions::default() }))
}

/// The file at the bottom of a stack.
fn file_of(spec: &Spec) -> Option<(&Path, OpenOptions)> {
    spec.chain().find_map(options_of)
}

/// Whether writes may be answered before they are on the backing.
pub(crate) fn absorbs(mode: WriteMode) -> bool {
    matches!(mode, WriteMode::Back | WriteMode::BackNow)
}

/// The cache of this stack, if a later process must know what its memory says: what its backing
/// does not have, or that a flush of that is under way.
fn must_outlive_process(spec: &Spec) -> Option<&CacheSpec> {
    let cache = spec.chain().find_map(|part| match part {
        Spec::Cache { cache, .. } => Some(cache),
        _ => None,
    })?;
    let writable = file_of(spec).is_some_and(|(_, options)| !options.read_only);
    writable.then_some(cache)
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        flags: &'a OpenFlags,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Opening<'a> {
        Opening {
            flags,
            left: None,
            keeper: None,
            is_recorded: false,
            is_taken_over: false,
            recorded: Recorded::new(flags.records.clone()),
            notes: Vec::new(),
            was_in_doubt: false,
            progress,
        }
    }

    /// Takes over what is kept for the backing. What the volume as it is wanted now cannot take as it
    /// is, goes to the backing first.
    pub(crate) fn find_left(&mut self, spec: &Spec) -> Result<(), Failure> {
        let (Some(keep), Some((path, options))) = (&self.flags.keep, file_of(spec)) else {
            return Ok(());
        };
        self.refuse_backing(path, options)?;
        let Some(mut left) = keep.find(path)? else { return Ok(()) };
        let copy = left.arena.try_clone().map_err(|error| memory_failure(&error))?;
        let mut memory = SharedMemory::adopt(copy).map_err(|error| memory_failure(&error))?;
        let Some(found) = keep::found_in(&memory) else {
            // A daemon that was killed before it laid out the memory has served no client.
            let fresh = memory.memory().word(0).load(Ordering::Acquire) == 0;
            if fresh {
                let _ = left.keeper.release();
                return Ok(());
            }
            let message = format!(
                "{}: the memory that process kept for it is of another version of Overdrive; serve \
                 it with that version once, or give the data up by ending the process od-holder",
                path.display()
            );
            return Err(Failure::new(Exit::Integrity, message));
        };
        let bytes = check_size(&left, found.sectors * SECTOR, path)?;
        let wanted = must_outlive_process(spec).map(|cache| geometry_for(cache, bytes));
        let resized = wanted.and_then(|wanted| found.resized(wanted.slots));
        let is_good =
            |next: &Geometry| next.slots >= found.geometry.slots || next.has_roomy_shards();
        if let Some(geometry) = resized.filter(is_good) {
            memory.set_used(Arena::used(&geometry, found.grain));
            let slots_added = geometry.slots.saturating_sub(found.geometry.slots);
            let backed = self.back(&memory, slots_added);
            // Where there are too few huge pages, ordinary ones do: in an arena of its own.
            if backed.is_ok() || !memory.has_huge_pages() {
                backed.map_err(|error| memory_failure(&error))?;
                left.found = Some(FoundArena { memory, geometry });
                self.left = Some(left);
                return Ok(());
            }
        }
        let Settled { blocks, in_doubt } =
            keep::settle(left, &found, &memory, path, &self.recorded)?;
        self.was_in_doubt = in_doubt;
        let has_cache = spec.chain().any(|part| matches!(part, Spec::Cache { .. }));
        if in_doubt && !has_cache {
            self.notes.push(format!(
                "{}: the earlier process was killed during a flush of the backing, whose result is not known: writes \
                 that had gone past the cache may be lost; without a cache no flush fails for that",
                path.display()
            ));
        }
        if blocks > 0 {
            self.notes.push(format!(
                "{}: {} of acknowledged writes were kept from an earlier life; they are on the backing \
                 now",
                path.display(),
                Size(blocks * 4096)
            ));
        }
        Ok(())
    }

    /// Notes of a device that it does not outlive its daemon: nothing keeps the memory of this half.
    pub(crate) fn note_unkept(&mut self, half: &Half) {
        let is_of_files = half.files().next().is_some();
        if self.flags.device.is_none() || !is_of_files {
            return;
        }
        let why = match self.flags.keep {
            Some(_) => "nothing keeps memory for several files or devices",
            None => "--no-holder",
        };
        self.notes.push(format!(
            "if the daemon of this device is killed, writes that were not flushed are lost ({why}): the device then \
             gives errors until it is detached and attached again"
        ));
    }

    /// Puts memory behind slots that had none before.
    fn back(&mut self, memory: &SharedMemory, slots: u32) -> std::io::Result<()> {
        match slots as usize * BLOCK_BYTES {
            0 => Ok(()),
            bytes => memory.back(bytes, self.progress),
        }
    }

    /// Opens a stack from its bottom to its top.
    pub(crate) fn open(&mut self, spec: &Spec) -> Result<Half, Failure> {
        let half = self.open_any_size(spec)?;
        let bytes = half.limits().bytes();
        if bytes > VOLUME_BYTES_MAX {
            let message = format!(
                "the volume would have {bytes} bytes, and clients can be shown {VOLUME_BYTES_MAX}; use \
                 fewer or smaller members"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(half)
    }

    fn open_any_size(&mut self, spec: &Spec) -> Result<Half, Failure> {
        Ok(match spec {
            Spec::File { path, .. } => {
                let (_, options) = options_of(spec).expect("it is a file");
                Half::File(self.open_file(path, options)?)
            }
            Spec::Ram { size } => {
                let memory = memory("overdrive ram", size.0, HugePages::Never, self.progress)?;
                Half::Ram(Ram::over(memory.memory().clone(), size.0 / SECTOR, GRAIN))
            }
            Spec::Null { size } => Half::Null(Null::new(size.0 / SECTOR, GRAIN)),
            Spec::Model { model } => {
                let (shared, note) = model::open(model)?;
                self.notes.push(note);
                Half::Model(shared)
            }
            Spec::Pool { members } => {
                let open =
                    |member: &Option<Spec>| member.as_ref().map(|spec| self.open(spec)).transpose();
                let members = members.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
                pools::open(members, &mut self.notes)?
            }
            Spec::Stripe { members, chunk } => {
                let members = members.iter().map(|spec| self.open(spec));
                pools::stripe(members.collect::<Result<_, Failure>>()?, *chunk)?
            }
            Spec::Delay { delay, below } => {
                Half::Delay(DelayShared::new(delay), Box::new(self.open(below)?))
            }
            Spec::Faults { faults, below } => {
                Half::Faults(FaultsShared::new(faults), Box::new(self.open(below)?))
            }
            Spec::Cache { cache, below } => {
                let below = self.open(below)?;
                self.open_cache(spec, cache, below)?
            }
        })
    }

    /// Refuses a backing on which another device than this volume's stands.
    fn refuse_backing(&self, path: &Path, options: OpenOptions) -> Result<(), Failure> {
        let device = self.flags.device.as_deref();
        Ok(host::refuse_backing(path, !options.read_only, device)?)
    }

    fn open_file(&mut self, path: &Path, options: OpenOptions) -> Result<Arc<FileVolume>, Failure> {
        self.refuse_backing(path, options)?;
        let kept = self.left.as_ref().map(|left| left.backing.try_clone());
        let file = match kept {
            Some(kept) => {
                let kept = kept.map_err(|error| memory_failure(&error))?;
                FileVolume::from_file(path, kept, options)?
            }
            None => FileVolume::open_waiting(path, options, LOCK_WAIT_MS)
                .map_err(|error| image_instead(error, path, self.flags))?,
        };
        // Clients may have written anything to a backing that was served until now.
        let was_served = self.recorded.find(&file) || self.left.is_some();
        let is_accepted = was_served && !planted(Bug::ExamineTakenOver);
        let is_raw = self.flags.raw || is_accepted;
        self.notes.extend(host::examine(&file, Intent::Serve { is_raw })?);
        note_file(&file, options.buffered, &mut self.notes);
        Ok(file)
    }

    fn open_cache(&mut self, whole: &Spec, spec: &CacheSpec, below: Half) -> Result<Half, Failure> {
        if spec.memory.0 < MEMORY_MIN {
            let message = format!("--memory {}: a cache needs at least 1 MiB", spec.memory);
            return Err(Failure::new(Exit::Usage, message));
        }
        if let Some(dirty) = spec.dirty_bytes {
            check_dirty(dirty, spec.memory)?;
        }
        if spec.durability == Durability::Scratch {
            self.notes.push(SCRATCH.to_owned());
        }
        let limits = below.limits();
        if spec.memory.0 > useful(limits.bytes()) {
            self.notes.push(format!(
                "the volume has only {}; that is cached whole",
                Size(limits.bytes())
            ));
        }
        let is_device = self.flags.device.is_some();
        let is_unkept = self.flags.keep.is_some() && below.is_of_several();
        if absorbs(spec.write) && is_unkept && !is_device {
            self.notes.push(
                "the memory of a cache over several devices is not kept: if this process is killed, \
                 what was acknowledged but not flushed is lost (as with --no-holder)"
                    .to_owned(),
            );
        }
        let (memory, geometry, fence) = self.memory_of(whole, spec, &below)?;
        if let Err(error) = memory.lock() {
            self.notes.push(error.to_string());
        }
        let settings = Settings::from_spec(spec, &geometry);
        let identity = below.file().map_or(0, |file| file.identity());
        let shared = Shared::new(&limits, geometry, settings, identity, memory.memory().clone())
            .map_err(|error| Failure::new(Exit::Integrity, error.to_string()))?;
        shared.set_guard(spec.guard, 0);
        if self.was_in_doubt {
            shared.begin_doubt();
        }
        self.note_recovered(&shared);
        if let Err(error) = memory.give_back_unused() {
            self.notes.push(format!("memory that is not needed any more stays in use: {error}"));
        }
        Ok(Half::Cache(Box::new(CacheHalf { shared, memory, fence, below })))
    }

    /// The memory that was kept, or a fresh one, which is kept from now on; and how it is laid out.
    fn memory_of(
        &mut self,
        whole: &Spec,
        spec: &CacheSpec,
        below: &Half,
    ) -> Result<(SharedMemory, Geometry, Option<Fence>), Failure> {
        let path = below.file().map(|file| file.path().to_owned()).unwrap_or_default();
        if let Some(left) = self.left.take() {
            let fence = left.fence(&path)?;
            let found = left.found.expect("what is left has been looked at");
            (self.keeper, self.is_recorded) = (Some(left.keeper), left.kept.is_recorded);
            self.is_taken_over = true;
            return Ok((found.memory, found.geometry, Some(fence)));
        }
        let limits = below.limits();
        let geometry = geometry_for(spec, limits.bytes());
        let (Some(keep), Some(file), Some(_)) =
            (&self.flags.keep, below.file(), must_outlive_process(whole))
        else {
            let memory = cache_memory(&geometry, limits.grain, self.progress)?;
            return Ok((memory, geometry, None));
        };
        // The next process may want more.
        let most = host::memory_of_machine().unwrap_or(0).min(useful(limits.bytes()));
        let roomy = geometry.with_spare(most);
        let (memory, geometry) = match cache_memory(&roomy, limits.grain, self.progress) {
            Ok(memory) => (memory, roomy),
            // A limit of address space or of file sizes may be in the way.
            Err(_) => (cache_memory(&geometry, limits.grain, self.progress)?, geometry),
        };
        let fence = keep::fence(memory.file(), &path)?;
        self.keeper = Some(keep.start(&self.flags.name, file, &memory)?);
        self.is_recorded = true;
        Ok((memory, geometry, Some(fence)))
    }

    fn note_recovered(&mut self, shared: &Shared) {
        let counters = shared.counters(0);
        let failed = shared.has_failed();
        if counters.blocks_recovered > 0 {
            let fate = if failed { "stay kept" } else { "are being written out" };
            self.notes.push(format!(
                "{} of acknowledged writes were kept from an earlier life; they are served, and {fate}",
                Size(counters.blocks_recovered * 4096)
            ));
        }
        if counters.headers_rejected > 0 {
            self.notes.push(format!(
                "{} headers of the memory that was kept are damaged and were left out: check what \
                 the volume holds",
                counters.headers_rejected
            ));
        }
        if shared.is_in_doubt() {
            self.notes.push(
                "the earlier process was killed during a flush of the backing, whose result is not known: writes \
                 that had gone past the cache may be lost; the first flush of every client fails"
                    .to_owned(),
            );
        }
        if failed {
            self.notes.push(
                "the volume had failed, and still has: writes and flushes get errors, nothing is written \
                 out; see 'overdrive volume clear-error --help'"
                    .to_owned(),
            );
        }
    }
}

/// Returns the size of a backing for which a memory is kept. It may have grown since it was served.
///
/// # Errors
/// It has shrunk.
fn check_size(left: &Left, bytes: u64, path: &Path) -> Result<u64, Failure> {
    let end = rustix::fs::seek(&left.backing, rustix::fs::SeekFrom::End(0));
    let now = end.map_err(|errno| memory_failure(&errno.into()))?;
    if now >= bytes {
        return Ok(now);
    }
    let (name, volume) = (path.display(), &left.kept.volume);
    let message = format!(
        "{name}: has {now} bytes, and had {bytes} when it was served: data beyond its end is lost; \
         acknowledged writes are kept for it: give it the size that it had (truncate -s {bytes} \
         {name}) and serve it again, or save them with 'overdrive volume clear-error {volume} \
         --rescue FILE'"
    );
    Err(Failure::new(Exit::Integrity, message))
}

/// The most memory that a cache of so many bytes can use.
fn useful(bytes: u64) -> u64 {
    // A block may have two versions while an epoch closes; more than that would stay empty.
    (bytes + bytes / 4).max(MEMORY_MIN)
}

fn geometry_for(spec: &CacheSpec, bytes: u64) -> Geometry {
    Geometry::for_memory(spec.memory.0.min(useful(bytes)))
}

fn memory_failure(error: &std::io::Error) -> Failure {
    // It is a file without a name, so that limit holds for it, too.
    let mend = match error.kind() {
        std::io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f)",
        _ => "",
    };
    Failure::new(Exit::Usage, format!("memory for the volume: {error}{mend}"))
}

/// An image file may have any size: where that is what opening complained about, its format is the
/// better reason, and filling it up the worst advice.
fn image_instead(error: OpenError, path: &Path, flags: &OpenFlags) -> Failure {
    let size = matches!(error.kind, OpenErrorKind::Misaligned | OpenErrorKind::TooSmall);
    if !size || flags.raw {
        return error.into();
    }
    let mut first_bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(4096).read_to_end(&mut first_bytes));
    match host::detect(&first_bytes) {
        Some(format) if read.is_ok() && !format.is_container() => {
            Failure::new(Exit::Usage, host::reason(format, path))
        }
        _ => error.into(),
    }
}

fn note_file(file: &FileVolume, buffered: bool, notes: &mut Vec<String>) {
    let path = file.path().display();
    if let Direct::No(why) = file.direct()
        && !buffered
    {
        notes.push(format!(
            "{path}: no direct I/O ({why}); the host's page cache is used below the volume, too"
        ));
    }
    if let Lock::No(why) = file.lock() {
        notes.push(format!(
            "{path}: not locked against others ({why}); make sure that no other program writes it"
        ));
    } else if let Some(why) = file.local_locks() {
        notes.push(format!("{path}: {why}; make sure that no other host uses it"));
    }
}

fn memory(
    name: &str,
    bytes: u64,
    huge: HugePages,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SharedMemory, Failure> {
    let too_large = || Failure::new(Exit::Usage, format!("{} is too large", Size(bytes)));
    let bytes = usize::try_from(bytes).map_err(|_| too_large())?;
    ring::shared_memory(name, bytes, huge, progress).map_err(|error| memory_failure(&error))
}

fn cache_memory(
    geometry: &Geometry,
    grain: u32,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SharedMemory, Failure> {
    let (bytes, used) = (Arena::bytes(geometry, grain), Arena::used(geometry, grain));
    ring::shared_memory_of("overdrive cache", bytes, used, HugePages::IfFree, progress)
        .map_err(|error| memory_failure(&error))
}

/// Refuses a limit of dirty data that a cache of so much memory cannot have.
///
/// # Errors
/// Usage, with the mend.
pub fn check_dirty(dirty: Size, memory: Size) -> Result<(), Failure> {
    let most = Size(memory.0 / 16 * 15);
    let message = if dirty.0 < DIRTY_MIN {
        format!("--dirty-bytes {dirty}: at least 8 KiB; to hold no write back use --write through")
    } else if dirty > most {
        format!("--dirty-bytes {dirty}: at most fifteen sixteenths of --memory, which is {most}")
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, message))
}
