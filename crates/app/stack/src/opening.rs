//! Opens a volume: from the file at the bottom to the cache's memory, taking over the memory of an
//! earlier process.

use crate::backing_records::BackingRecords;
use crate::failure::{Exit, Failure};
use crate::flags::OpenFlags;
use crate::keep::{self, AdoptedArena, Keep, Retained, SettleResult};
use crate::node::{
    Backing, CacheNode, DelayNode, FaultsNode, FileBacking, Former, Identity, ModelNode, NullNode,
    OpenNode, Opened, RamNode, Unkept, open_model, open_pool, open_stripe,
};
use crate::planted::{Bug, planted};
use crate::setup_lane::SetupLane;
use block::{CacheSpec, Durability, Null, Ram, SECTOR, Size, Spec, VOLUME_BYTES_MAX, WriteMode};
use cache::{Arena, Geometry, Settings, Shared};
use holder::Keeper;
use host::OpenOptions;
use layers::{DelayShared, FaultsShared};
use ring::{Fence, HugePages, SharedMemory};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Minimum memory of a cache.
const MEMORY_MIN: u64 = 1 << 20;
/// Minimum limit of dirty data with which writes are absorbed.
const DIRTY_MIN: u64 = 8 << 10;
/// Note about `scratch`, at every start and whenever it is set.
pub const SCRATCH: &str = "durability scratch: flushes are ignored; after a power cut the \
                           contents of the volume must be discarded";
/// Size of a block, in bytes.
const BLOCK_BYTES: usize = cache::BLOCK_SECTORS as usize * SECTOR as usize;
/// Granularity of requests to `ram:` and `null:` backings, in bytes.
const GRAIN: u32 = 512;

/// Returns the backing for a leaf of a spec. None: use the built-in backing.
pub type Backings<'a> = &'a dyn Fn(&Spec, &OpenFlags) -> Option<Box<dyn Backing>>;

/// State of opening a stack, from the bottom up.
pub(crate) struct Opening<'a> {
    flags: &'a OpenFlags,
    backings: Backings<'a>,
    /// The lane on which backings are opened.
    setup_lane: SetupLane,
    /// The cache of the stack.
    cache: Option<CacheSpec>,
    /// Retained memory: found when the backing is opened, used when the cache is opened.
    retained: Option<Retained>,
    pub(crate) keeper: Option<Keeper>,
    /// Whether the keeper updates the record when it ends; one of an older version does not.
    pub(crate) is_recorded: bool,
    /// Whether the memory was taken over from an earlier process.
    pub(crate) is_taken_over: bool,
    pub(crate) records: Rc<BackingRecords>,
    pub(crate) notes: Vec<String>,
    progress: &'a mut dyn FnMut(usize, usize),
}

/// Returns the built-in backing for a leaf of a spec: a file.
fn built_in(spec: &Spec, flags: &OpenFlags) -> Option<Box<dyn Backing>> {
    let Spec::File { path, read_only, buffered } = spec else { return None };
    Some(Box::new(FileBacking {
        path: path.clone(),
        options: OpenOptions {
            read_only: *read_only,
            buffered: *buffered,
            ..OpenOptions::default()
        },
        is_raw: flags.raw,
        device: flags.device.clone(),
    }))
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        flags: &'a OpenFlags,
        backings: Backings<'a>,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Result<Opening<'a>, Failure> {
        Ok(Opening {
            flags,
            backings,
            setup_lane: SetupLane::new()?,
            cache: None,
            retained: None,
            keeper: None,
            is_recorded: false,
            is_taken_over: false,
            records: Rc::new(BackingRecords::new(flags.records.clone())),
            notes: Vec::new(),
            progress,
        })
    }

    /// Opens a stack from its bottom to its top, with the memory that is retained for the backing
    /// at its bottom.
    pub(crate) fn open(&mut self, spec: &Spec) -> Result<Box<dyn OpenNode>, Failure> {
        self.cache = spec.chain().find_map(|part| match part {
            Spec::Cache { cache, .. } => Some(cache.clone()),
            _ => None,
        });
        self.open_node(spec, true)
    }

    /// Opens a node. `is_bottom`: it is not below a pool or a stripe.
    fn open_node(&mut self, spec: &Spec, is_bottom: bool) -> Result<Box<dyn OpenNode>, Failure> {
        let node = self.open_any_size(spec, is_bottom)?;
        let bytes = node.limits().bytes();
        if bytes > VOLUME_BYTES_MAX {
            let message = format!(
                "the volume would have {bytes} bytes, but clients support at most \
                 {VOLUME_BYTES_MAX}; use fewer or smaller members"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(node)
    }

    fn open_any_size(
        &mut self,
        spec: &Spec,
        is_bottom: bool,
    ) -> Result<Box<dyn OpenNode>, Failure> {
        let backing = (self.backings)(spec, self.flags).or_else(|| built_in(spec, self.flags));
        if let Some(backing) = backing {
            return self.open_backing(&*backing, is_bottom);
        }
        Ok(match spec {
            Spec::File { .. } => unreachable!("it is a built-in backing"),
            Spec::Ram { size } => {
                let memory = memory("overdrive ram", size.0, HugePages::Never, self.progress)?;
                let ram = Ram::from_memory(memory.memory().clone(), size.0 / SECTOR, GRAIN);
                Box::new(RamNode(ram))
            }
            Spec::Null { size } => Box::new(NullNode(Null::new(size.0 / SECTOR, GRAIN))),
            Spec::Model { model } => {
                let (shared, note) = open_model(model)?;
                self.notes.push(note);
                Box::new(ModelNode(shared))
            }
            Spec::Pool { members } => {
                let members = members.iter().map(|member| {
                    member.as_ref().map(|spec| self.open_node(spec, false)).transpose()
                });
                let members = members.collect::<Result<Vec<_>, Failure>>()?;
                Box::new(open_pool(members, &mut self.notes)?)
            }
            Spec::Stripe { members, chunk } => {
                let members = members.iter().map(|spec| self.open_node(spec, false));
                Box::new(open_stripe(members.collect::<Result<_, Failure>>()?, *chunk)?)
            }
            Spec::Delay { delay, below } => Box::new(DelayNode {
                shared: DelayShared::new(delay),
                below: self.open_node(below, is_bottom)?,
            }),
            Spec::Faults { faults, below } => Box::new(FaultsNode {
                shared: FaultsShared::new(faults),
                below: self.open_node(below, is_bottom)?,
            }),
            Spec::Cache { cache, below } => {
                let below = self.open_node(below, is_bottom)?;
                Box::new(self.open_cache(cache, below)?)
            }
        })
    }

    /// Opens a backing, with the descriptors that a holder has retained for it, if there are any.
    fn open_backing(
        &mut self,
        backing: &dyn Backing,
        is_bottom: bool,
    ) -> Result<Box<dyn OpenNode>, Failure> {
        backing.check()?;
        let retained = match (&self.flags.keep, backing.key().filter(|_| is_bottom)) {
            (Some(keep), Some(key)) => {
                keep.find(&key, &backing.name())?.map(|retained| (keep, retained))
            }
            _ => None,
        };
        let Opened { node, notes } = match retained {
            Some((keep, retained)) => self.open_retained(backing, keep, retained)?,
            None => self.open_with(backing, backing.is_read_only(), None)?,
        };
        if let Some(identity) = node.identity() {
            self.records.find(&identity);
        }
        self.notes.extend(notes);
        Ok(node)
    }

    fn open_with(
        &self,
        backing: &dyn Backing,
        is_read_only: bool,
        kept: Option<Vec<OwnedFd>>,
    ) -> Result<Opened, Failure> {
        let (records, was_kept) = (self.records.clone(), kept.is_some());
        let was_served = move |identity: &Identity| {
            (records.find(identity) || was_kept) && !planted(Bug::ExamineTakenOver)
        };
        let former = Former { kept, was_served: Rc::new(was_served) };
        self.setup_lane.run(|ring| backing.open(ring, is_read_only, former))?
    }

    /// Opens a backing for which memory is retained. If the volume's present configuration cannot
    /// use that memory, its contents are first written to the backing.
    fn open_retained(
        &mut self,
        backing: &dyn Backing,
        keep: &Keep,
        retained: Retained,
    ) -> Result<Opened, Failure> {
        let kept = retained.backing_clones().map_err(|error| memory_failure(&error))?;
        let opened = self.open_with(backing, false, Some(kept))?;
        check_identity(&retained, &*opened.node)?;
        let is_writable = !backing.is_read_only();
        self.take_over_or_settle(keep, retained, &*opened.node, is_writable)?;
        if is_writable || self.retained.is_some() {
            return Ok(opened);
        }
        drop(opened);
        self.open_with(backing, true, None)
    }

    /// Takes over the retained memory, or writes its contents to the backing and releases it.
    fn take_over_or_settle(
        &mut self,
        keep: &Keep,
        mut retained: Retained,
        node: &dyn OpenNode,
        is_writable: bool,
    ) -> Result<(), Failure> {
        let name = retained.label.backing.clone();
        let copy = retained.arena.try_clone().map_err(|error| memory_failure(&error))?;
        let mut memory = SharedMemory::adopt(copy).map_err(|error| memory_failure(&error))?;
        let Some(found) = keep::find_arena(&memory) else {
            // A daemon that was killed before it initialized the memory has served no client.
            let fresh = memory.memory().word(0).load(Ordering::Acquire) == 0;
            if fresh {
                let _ = retained.keeper.release();
                return Ok(());
            }
            let message = format!(
                "{name}: the memory retained for it is of another version of Overdrive; serve it \
                 with that version once, or discard the data by ending the process od-holder"
            );
            return Err(Failure::new(Exit::Integrity, message));
        };
        let bytes = node.limits().bytes();
        check_size(&retained, found.sectors * SECTOR, bytes)?;
        let configured = self.cache.as_ref().filter(|_| is_writable);
        let configured = configured.map(|cache| geometry_for(cache, bytes));
        let resized = configured.and_then(|configured| found.resized(configured.slots));
        let is_acceptable =
            |next: &Geometry| next.slots >= found.geometry.slots || next.has_roomy_shards();
        if let Some(geometry) = resized.filter(is_acceptable) {
            memory.set_used(Arena::used(&geometry, found.grain));
            let slots_added = geometry.slots.saturating_sub(found.geometry.slots);
            let backed = self.allocate_slots(&memory, slots_added);
            // If huge pages run out, everything is written back, and a new arena of ordinary pages
            // is made.
            if backed.is_ok() || !memory.has_huge_pages() {
                backed.map_err(|error| memory_failure(&error))?;
                retained.adopted = Some(AdoptedArena { memory, geometry });
                self.retained = Some(retained);
                return Ok(());
            }
        }
        let SettleResult { blocks, in_doubt } =
            keep::settle(retained, &found, &memory, node, &self.records, &keep.doubts())?;
        if in_doubt && self.cache.is_none() {
            self.notes.push(format!(
                "{name}: the earlier process was killed during a flush of the backing, whose \
                 result is unknown: writes that bypassed the cache may be lost; without a cache \
                 no flush fails for this"
            ));
        }
        if blocks > 0 {
            self.notes.push(format!(
                "{name}: {} of acknowledged writes were retained from an earlier process; they \
                 are on the backing now",
                Size(blocks * 4096)
            ));
        }
        Ok(())
    }

    /// Notes that a device does not outlive its daemon: no holder retains this volume's memory.
    pub(crate) fn note_not_retained(&mut self, node: &dyn OpenNode) {
        let is_of_files = node.backings().any(|backing| backing.identity().is_some());
        if self.flags.device.is_none() || !is_of_files {
            return;
        }
        let why = match self.flags.keep {
            Some(_) => "no holder retains the memory of several files or devices",
            None => "--no-holder",
        };
        self.notes.push(format!(
            "if the daemon of this device is killed, unflushed writes are lost ({why}): all \
             requests then fail until the device is detached and attached again"
        ));
    }

    /// Allocates memory for slots that had none before.
    fn allocate_slots(&mut self, memory: &SharedMemory, slots: u32) -> std::io::Result<()> {
        match slots as usize * BLOCK_BYTES {
            0 => Ok(()),
            bytes => memory.back(bytes, self.progress),
        }
    }

    fn open_cache(
        &mut self,
        spec: &CacheSpec,
        below: Box<dyn OpenNode>,
    ) -> Result<CacheNode, Failure> {
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
        if spec.memory.0 > useful_bytes(limits.bytes()) {
            self.notes.push(format!(
                "the volume has only {}, and is cached as a whole",
                Size(limits.bytes())
            ));
        }
        let spec = &self.keepable_settings(spec, &*below);
        let (memory, geometry, fence) = self.memory_of(spec, &*below)?;
        if let Err(error) = memory.lock() {
            self.notes.push(error.to_string());
        }
        let settings = Settings::from_spec(spec, &geometry);
        let identity = below.identity().map_or(0, |identity| identity.number);
        let shared = Shared::new(&limits, geometry, settings, identity, memory.memory().clone())
            .map_err(|error| Failure::new(Exit::Integrity, error.to_string()))?;
        shared.set_guard(spec.guard, 0);
        self.begin_noted_doubt(&shared, &*below);
        self.note_recovered(&shared);
        if let Err(error) = memory.give_back_unused() {
            self.notes.push(format!("unused memory could not be released: {error}"));
        }
        Ok(CacheNode { shared, memory, fence, below })
    }

    /// Returns the settings of the cache, reduced so that a kill of this process loses nothing that
    /// they promise (C5). Each reduction is noted.
    fn keepable_settings(&mut self, spec: &CacheSpec, below: &dyn OpenNode) -> CacheSpec {
        if !spec.write.absorbs() || self.flags.keep.is_none() {
            return spec.clone();
        }
        match below.keepable() {
            // A device has its own note.
            Err(Unkept::Several) if self.flags.device.is_some() => {}
            Err(Unkept::Several) => self.notes.push(
                "no holder retains the memory of a cache over several devices: if this process \
                 is killed, writes that were acknowledged but not flushed are lost (as with \
                 --no-holder)"
                    .to_owned(),
            ),
            Err(Unkept::Other(reason)) => {
                self.notes.push(format!(
                    "writes are written through to the backing, because a kill of this process \
                     would lose data in memory: {reason}"
                ));
                return CacheSpec { write: WriteMode::Through, ..spec.clone() };
            }
            Ok(_) | Err(Unkept::Process | Unkept::Empty) => {}
        }
        spec.clone()
    }

    /// Returns the retained memory, or fresh memory that a holder retains from now on, with its
    /// layout.
    fn memory_of(
        &mut self,
        spec: &CacheSpec,
        below: &dyn OpenNode,
    ) -> Result<(SharedMemory, Geometry, Option<Fence>), Failure> {
        if let Some(retained) = self.retained.take() {
            let fence = retained.fence(below)?;
            let adopted = retained.adopted.expect("the memory has been examined");
            (self.keeper, self.is_recorded) = (Some(retained.keeper), retained.label.is_recorded);
            self.is_taken_over = true;
            return Ok((adopted.memory, adopted.geometry, Some(fence)));
        }
        let limits = below.limits();
        let geometry = geometry_for(spec, limits.bytes());
        let is_read_only = limits.read_only;
        let (Some(keep), Some(identity), Ok(descriptors), false) =
            (&self.flags.keep, below.identity(), below.keepable(), is_read_only)
        else {
            let memory = cache_memory(&geometry, limits.grain, self.progress)?;
            return Ok((memory, geometry, None));
        };
        // Reserves address space, because the next process may be configured with more memory.
        let most = host::memory_of_machine().unwrap_or(0).min(useful_bytes(limits.bytes()));
        let roomy = geometry.with_spare(most);
        let (memory, geometry) = match cache_memory(&roomy, limits.grain, self.progress) {
            Ok(memory) => (memory, roomy),
            // A limit on address space or on file sizes may prevent it.
            Err(_) => (cache_memory(&geometry, limits.grain, self.progress)?, geometry),
        };
        let fence = keep::fence(memory.file(), &identity.name)?;
        let name = &self.flags.name;
        self.keeper = Some(keep.start(name, &identity, &descriptors, &memory)?);
        self.is_recorded = true;
        Ok((memory, geometry, Some(fence)))
    }

    /// Restores a doubt about a flush that was noted when its memory was released. The note stays
    /// until a retained memory records the doubt.
    fn begin_noted_doubt(&self, shared: &Shared, below: &dyn OpenNode) {
        let (Some(keep), Some(identity)) = (&self.flags.keep, below.identity()) else { return };
        let doubts = keep.doubts();
        if doubts.has(&identity.key, &identity.birth) {
            shared.begin_doubt();
            if self.keeper.is_some() {
                doubts.clear(&identity.key);
            }
        }
    }

    fn note_recovered(&mut self, shared: &Shared) {
        let counters = shared.counters(0);
        let failed = shared.has_failed();
        if counters.blocks_recovered > 0 {
            let fate = if failed { "stay retained" } else { "are being written back" };
            self.notes.push(format!(
                "{} of acknowledged writes were retained from an earlier process; they are \
                 served, and {fate}",
                Size(counters.blocks_recovered * 4096)
            ));
        }
        if counters.headers_rejected > 0 {
            self.notes.push(format!(
                "{} headers of the retained memory are damaged and were left out: check the \
                 contents of the volume",
                counters.headers_rejected
            ));
        }
        if shared.is_in_doubt() {
            self.notes.push(
                "the earlier process was killed during a flush of the backing, whose result is \
                 unknown: writes that bypassed the cache may be lost; the first flush of every \
                 client fails"
                    .to_owned(),
            );
        }
        if failed {
            self.notes.push(
                "the volume is still in the failed state: writes and flushes fail, and nothing \
                 is written back; see 'overdrive volume clear-error --help'"
                    .to_owned(),
            );
        }
    }
}

/// Refuses a backing other than the one whose data is retained.
///
/// # Errors
/// Integrity: everything stays retained.
fn check_identity(retained: &Retained, node: &dyn OpenNode) -> Result<(), Failure> {
    let Some(identity) = node.identity().filter(|identity| identity.key != retained.label.key)
    else {
        return Ok(());
    };
    let message = format!(
        "{}: is another backing than the one served under this name before ({}, was {}), whose \
         changes are still in memory; restore that one, or save them with 'overdrive volume \
         clear-error {} --rescue FILE'",
        identity.name, identity.key, retained.label.key, retained.label.volume
    );
    Err(Failure::new(Exit::Integrity, message))
}

/// Checks the size of a backing for which memory is retained. It may have grown since it was
/// served.
///
/// # Errors
/// The backing has shrunk.
fn check_size(retained: &Retained, bytes: u64, now: u64) -> Result<(), Failure> {
    if now >= bytes {
        return Ok(());
    }
    let (name, volume) = (&retained.label.backing, &retained.label.volume);
    let message = format!(
        "{name}: has {now} bytes, but had {bytes} when it was served: data beyond its end is \
         lost; acknowledged writes are retained for it: restore its size (truncate -s {bytes} \
         {name}) and serve it again, or save them with 'overdrive volume clear-error {volume} \
         --rescue FILE'"
    );
    Err(Failure::new(Exit::Integrity, message))
}

/// Returns the most memory that a cache of a volume of this size can use.
fn useful_bytes(bytes: u64) -> u64 {
    // A block may have two versions while an epoch closes; further memory would stay unused.
    (bytes + bytes / 4).max(MEMORY_MIN)
}

fn geometry_for(spec: &CacheSpec, bytes: u64) -> Geometry {
    Geometry::for_memory(spec.memory.0.min(useful_bytes(bytes)))
}

fn memory_failure(error: &std::io::Error) -> Failure {
    // The memory is a file without a name, so the limit on file sizes applies to it too.
    let mend = match error.kind() {
        std::io::ErrorKind::FileTooLarge => "; raise the limit of file sizes (ulimit -f)",
        _ => "",
    };
    Failure::new(Exit::Usage, format!("memory for the volume: {error}{mend}"))
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

/// Refuses a limit of dirty data that is too high for a cache with this memory.
///
/// # Errors
/// Usage, with a correction.
pub fn check_dirty(dirty: Size, memory: Size) -> Result<(), Failure> {
    let most = Size(memory.0 / 16 * 15);
    let message = if dirty.0 < DIRTY_MIN {
        format!(
            "--dirty-bytes {dirty}: give at least 8 KiB; to absorb no writes use --write through"
        )
    } else if dirty > most {
        format!(
            "--dirty-bytes {dirty}: give at most fifteen sixteenths of --memory, which is {most}"
        )
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, message))
}
