//! Opens a volume: from the file at the bottom to the cache's memory, taking over the memory of an
//! earlier process.

use crate::backing_records::BackingRecords;
use crate::failure::{Exit, Failure};
use crate::flags::OpenFlags;
use crate::keep::{self, Keep, Retained, SettleResult, TakenOver, TakeoverResult};
use crate::memory::{
    MEMORY_MIN, cache_memory, check_dirty, geometry_for, memory, memory_failure, useful_bytes,
};
use crate::node::{
    Backing, CacheNode, FileBacking, Former, Identity, ModelNode, NbdBacking, NullNode, OpenNode,
    Opened, RamNode, Unkept, open_layer, open_model, open_pool, open_stripe,
};
use crate::open_step::OpenStep;
use crate::planted::{Bug, planted};
use crate::setup_lane::SetupLane;
use crate::shared::{members_max, now_ns};
use block::{CacheSpec, Durability, Null, Ram, SECTOR, Size, Spec, VOLUME_BYTES_MAX, WriteMode};
use cache::{CACHED_BYTES_MAX, CleanBlocks, Geometry, Settings, Shared};
use holder::Keeper;
use host::OpenOptions;
use ring::{Fence, HugePages, SharedMemory};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// Note about `scratch`, at every start and whenever it is set.
pub const SCRATCH: &str = "durability scratch: flushes are ignored; after a power cut the \
                           contents of the volume must be discarded";
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
    /// Memory of an earlier process: taken over when the backing is opened, used when the cache is
    /// opened.
    taken_over: Option<TakenOver>,
    pub(crate) keeper: Option<Keeper>,
    /// Whether the keeper updates the record when it ends; one of an older version does not.
    pub(crate) is_recorded: bool,
    /// Whether the memory was taken over from an earlier process.
    pub(crate) is_taken_over: bool,
    /// When its holder was asked for it.
    begun_ns: u64,
    pub(crate) records: Rc<BackingRecords>,
    pub(crate) notes: Vec<String>,
    /// The smallest [`OpenNode::lanes_max`] of its backings.
    pub(crate) lanes_max: Option<usize>,
    progress: &'a mut dyn FnMut(OpenStep),
}

/// The memory of a cache that is being opened.
struct CacheMemory {
    memory: SharedMemory,
    geometry: Geometry,
    fence: Option<Fence>,
    /// The handling of clean blocks in it.
    clean: CleanBlocks,
}

/// Returns why clean blocks that were taken over may differ from the image, by the holder's answer
/// to [`Keeper::watch`]. None: they equal it.
fn reason_to_drop(watched: &io::Result<bool>) -> Option<&'static str> {
    match watched {
        Ok(true) => None,
        Ok(false) => Some("another program has opened it"),
        Err(_) => Some("its holder does not report whether another program has opened it"),
    }
}

/// Returns the built-in backing for a leaf of a spec: a file or an NBD export.
fn built_in(spec: &Spec, flags: &OpenFlags) -> Option<Box<dyn Backing>> {
    match spec {
        Spec::File { path, read_only, buffered } => Some(Box::new(FileBacking {
            path: path.clone(),
            options: OpenOptions {
                read_only: *read_only,
                buffered: *buffered,
                ..OpenOptions::default()
            },
            is_raw: flags.raw,
            device: flags.device.clone(),
        })),
        Spec::Nbd { uri, read_only } => {
            Some(Box::new(NbdBacking { uri: uri.clone(), read_only: *read_only }))
        }
        _ => None,
    }
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        flags: &'a OpenFlags,
        backings: Backings<'a>,
        progress: &'a mut dyn FnMut(OpenStep),
    ) -> Result<Opening<'a>, Failure> {
        Ok(Opening {
            flags,
            backings,
            setup_lane: SetupLane::new()?,
            cache: None,
            taken_over: None,
            keeper: None,
            is_recorded: false,
            is_taken_over: false,
            begun_ns: 0,
            records: Rc::new(BackingRecords::new(flags.records.clone())),
            notes: Vec::new(),
            lanes_max: None,
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
            Spec::File { .. } | Spec::Nbd { .. } => unreachable!("it is a built-in backing"),
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
            Spec::Delay { below, .. } | Spec::Faults { below, .. } | Spec::Limit { below, .. } => {
                open_layer(spec, self.open_node(below, is_bottom)?)
            }
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
        self.begun_ns = now_ns();
        let retained = match (&self.flags.keep, backing.key().filter(|_| is_bottom)) {
            (Some(keep), Some(key)) => {
                keep.find(&key, &backing.name())?.map(|retained| (keep, retained))
            }
            _ => None,
        };
        self.notes.extend(retained.iter().filter_map(|(_, retained)| retained.change_note()));
        let Opened { node, notes } = match retained {
            Some((_, retained)) if retained.is_useless() => {
                retained.dismiss();
                self.open_with(backing, backing.is_read_only(), None)?
            }
            Some((keep, retained)) => self.open_retained(backing, keep, retained)?,
            None => self.open_with(backing, backing.is_read_only(), None)?,
        };
        self.check_holder(&*node, &backing.name(), is_bottom)?;
        if let Some(identity) = node.identity() {
            self.records.find(&identity);
        }
        self.lanes_max = self.lanes_max.into_iter().chain(node.lanes_max()).min();
        self.notes.extend(notes);
        Ok(node)
    }

    /// Refuses a backing that is written only with a holder if there would be none.
    fn check_holder(
        &self,
        node: &dyn OpenNode,
        name: &str,
        is_bottom: bool,
    ) -> Result<(), Failure> {
        let has_one = self.cache.is_some() && self.flags.keep.is_some() && is_bottom;
        if has_one || !node.needs_holder() {
            return Ok(());
        }
        let message = format!(
            "{name}: is written only with a cache and its holder, which retain the changes that \
             are under way when the process is killed; give --memory a size, leave out \
             --no-holder, and serve it outside pools and stripes; or add --read-only"
        );
        Err(Failure::new(Exit::Usage, message))
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
        let is_writable = !backing.is_read_only();
        let name = retained.label.backing.clone();
        let cache = self.cache.as_ref().filter(|_| is_writable);
        let doubts = keep.doubts();
        let result =
            retained.take_over(&*opened.node, cache, &self.records, &doubts, self.progress)?;
        match result {
            TakeoverResult::TakenOver(taken_over) => {
                self.taken_over = Some(*taken_over);
                return Ok(opened);
            }
            TakeoverResult::Settled(settled) => self.note_settled(&name, &settled),
        }
        if is_writable {
            return Ok(opened);
        }
        drop(opened);
        self.open_with(backing, true, None)
    }

    fn note_settled(&mut self, name: &str, settled: &SettleResult) {
        if settled.in_doubt && self.cache.is_none() {
            self.notes.push(format!(
                "{name}: the earlier process was killed during a flush of the backing, whose \
                 result is unknown: writes that bypassed the cache may be lost; without a cache \
                 no flush fails for this"
            ));
        }
        if settled.blocks > 0 {
            self.notes.push(format!(
                "{name}: {} of acknowledged writes were retained from an earlier process; they \
                 are on the backing now",
                Size(settled.blocks * 4096)
            ));
        }
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
        if limits.bytes() > CACHED_BYTES_MAX {
            let message = format!(
                "the volume has {}, but a cache supports at most {}; serve it with \
                 --memory 0, which is no cache, or serve a part of it",
                Size(limits.bytes()),
                Size(CACHED_BYTES_MAX)
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        if spec.memory.0 > useful_bytes(limits.bytes()) {
            self.notes.push(format!(
                "the volume has only {}, and is cached as a whole",
                Size(limits.bytes())
            ));
        }
        let spec = &self.keepable_settings(spec, &*below);
        let taken = self.memory_of(spec, &*below)?;
        if let Err(error) = taken.memory.lock() {
            self.notes.push(error.to_string());
        }
        let shared = self.recover(spec, &taken, &*below)?;
        if self.is_taken_over {
            shared.set_takeover_ns(now_ns() - self.begun_ns);
        }
        let CacheMemory { memory, fence, .. } = taken;
        shared.set_guard(spec.guard, 0);
        self.begin_noted_doubt(&shared, &*below);
        self.note_recovered(&shared);
        if let Err(error) = memory.give_back_unused() {
            self.notes.push(format!("unused memory could not be released: {error}"));
        }
        Ok(CacheNode { shared, memory, fence, below, recorder: Arc::default() })
    }

    /// Makes the state of a cache from its memory, and has the image watched from now on.
    fn recover(
        &mut self,
        spec: &CacheSpec,
        taken: &CacheMemory,
        below: &dyn OpenNode,
    ) -> Result<Arc<Shared>, Failure> {
        let CacheMemory { memory, geometry, clean, .. } = taken;
        let (limits, mut settings) = (below.limits(), Settings::from_spec(spec, geometry));
        let most = members_max(self.flags.caches);
        (settings.workers, settings.readers) =
            (settings.workers.min(most), settings.readers.min(most));
        let number = below.identity().map_or(0, |identity| identity.number);
        let take_over = |clean| {
            let words = memory.memory().clone();
            Shared::take_over(&limits, *geometry, settings, number, words, clean)
                .map_err(|error| Failure::new(Exit::Integrity, error.to_string()))
        };
        let shared = take_over(*clean)?;
        let Some(keeper) = &self.keeper else { return Ok(shared) };
        let watched = keeper.watch();
        let Some(why) = reason_to_drop(&watched) else { return Ok(shared) };
        let shared = match clean {
            CleanBlocks::Drop => shared,
            CleanBlocks::Keep => {
                self.notes.push(format!(
                    "{}: {why} while this process started: the blocks that the earlier process \
                     had cached are dropped",
                    below.identity().map_or_else(String::new, |identity| identity.name)
                ));
                // As after a kill at this point: the same memory, without its clean blocks.
                take_over(CleanBlocks::Drop)?
            }
        };
        // Otherwise the holder is of an older version, or does not answer: it is not waited for
        // again, and the next process drops all clean blocks.
        if watched.is_ok() {
            let _ = keeper.watch();
        }
        Ok(shared)
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
            Ok(_) | Err(Unkept::Process | Unkept::Empty | Unkept::OnlyRead) => {}
        }
        spec.clone()
    }

    /// Returns the retained memory, or fresh memory that a holder retains from now on, with its
    /// layout.
    fn memory_of(
        &mut self,
        spec: &CacheSpec,
        below: &dyn OpenNode,
    ) -> Result<CacheMemory, Failure> {
        if let Some(TakenOver { retained, memory, geometry }) = self.taken_over.take() {
            (self.progress)(OpenStep::Fence);
            let fence = Some(retained.fence(below)?);
            (self.progress)(OpenStep::TakeOver);
            let clean = retained.clean_blocks(below);
            (self.keeper, self.is_recorded) = (Some(retained.keeper), retained.label.is_recorded);
            self.is_taken_over = true;
            return Ok(CacheMemory { memory, geometry, fence, clean });
        }
        let clean = CleanBlocks::Drop;
        let limits = below.limits();
        let geometry = geometry_for(spec, limits.bytes());
        let is_read_only = limits.read_only;
        let (Some(keep), Some(identity), Ok(descriptors), false) =
            (&self.flags.keep, below.identity(), below.keepable(), is_read_only)
        else {
            let memory = cache_memory(&geometry, limits.grain, self.progress)?;
            return Ok(CacheMemory { memory, geometry, fence: None, clean });
        };
        // Reserves address space, because the next process may be configured with more memory.
        let most = host::memory_of_machine().unwrap_or(0).min(useful_bytes(limits.bytes()));
        let roomy = geometry.with_spare(most);
        let (memory, geometry) = match cache_memory(&roomy, limits.grain, self.progress) {
            Ok(memory) => (memory, roomy),
            // A limit on address space or on file sizes may prevent it.
            Err(_) => (cache_memory(&geometry, limits.grain, self.progress)?, geometry),
        };
        let fence = Some(keep::fence(memory.file(), &identity.name)?);
        let name = &self.flags.name;
        self.keeper = Some(keep.start(name, &identity, &descriptors, &memory)?);
        self.is_recorded = true;
        Ok(CacheMemory { memory, geometry, fence, clean })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_blocks_are_kept_only_if_the_holder_reports_no_opening() {
        assert_eq!(reason_to_drop(&Ok(true)), None);
        assert!(reason_to_drop(&Ok(false)).is_some());
        let silent = Err(io::Error::from(io::ErrorKind::TimedOut));
        assert!(reason_to_drop(&silent).is_some());
    }
}
