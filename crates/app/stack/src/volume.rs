//! A volume: an open spec.

use crate::backing_records::{BackingRecords, Loss};
use crate::failure::{Exit, Failure};
use crate::flags::OpenFlags;
use crate::keep::{self, Keep};
use crate::node::{
    Attached, CacheNode, ExportWaits, Identity, ModelNode, OpenNode, PoolNode, Retention, Unkept,
};
use crate::open_step::OpenStep;
use crate::opening::{Backings, Opening};
use crate::shared::{SharedHalves, now_ns};
use block::Spec;
use cache::Shared;
use holder::Keeper;
use layers::{Counts, ValveShared};
use pool::PoolShared;
use ring::{Ring, SharedMemory};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// An open volume, on the thread that manages it.
pub struct Volume {
    halves: Arc<SharedHalves>,
    spec: Spec,
    notes: Vec<String>,
    lanes_max: Option<usize>,
    keep: Option<Keep>,
    name: String,
    read_only: bool,
    keeper: RefCell<Option<Keeper>>,
    /// Whether the keeper updates the record when it ends; one of an older version does not.
    is_recorded: Cell<bool>,
    records: Rc<BackingRecords>,
    /// Whether its memory may hold data that is not on the backing.
    absorbs: Cell<bool>,
    loss: Cell<Option<Loss>>,
    /// Identifies this process uniquely until the next boot.
    process: String,
}

impl Volume {
    /// Opens everything that the spec names. `progress` is called with each step that may take
    /// long.
    ///
    /// # Errors
    /// With the exit status for the reason: a name that is too long; a backing that is
    /// missing, busy, too small or of an image format; too little memory.
    pub fn open(
        spec: Spec,
        flags: OpenFlags,
        progress: &mut dyn FnMut(OpenStep),
    ) -> Result<Volume, Failure> {
        Volume::open_over(spec, flags, &|_, _| None, progress)
    }

    /// Opens a volume as [`Volume::open`] does, but uses the backings that `backings` returns for
    /// leaves of the spec instead of the built-in ones.
    ///
    /// # Errors
    /// Those of [`Volume::open`], and those of the backing.
    pub fn open_over(
        spec: Spec,
        flags: OpenFlags,
        backings: Backings<'_>,
        progress: &mut dyn FnMut(OpenStep),
    ) -> Result<Volume, Failure> {
        check_name(&flags.name)?;
        check_one_cache(&spec)?;
        let mut opening = Opening::new(&flags, backings, progress)?;
        let node = opening.open(&spec)?;
        let writes = |part: &Spec| match part {
            Spec::Cache { cache, .. } => cache.write.absorbs(),
            Spec::Pool { .. } => true,
            _ => false,
        };
        // Data that a former process has absorbed may still have to be written back.
        let is_written = !flags.read_only && !node.limits().read_only;
        let may_absorb = opening.is_taken_over || is_written && spec.walk().any(writes);
        if may_absorb && opening.keeper.is_none() {
            opening.note_not_retained(&*node);
        }
        let Opening { keeper, is_recorded, records, notes, lanes_max, .. } = opening;
        Ok(Volume {
            halves: Arc::new(SharedHalves::new(node)),
            spec,
            notes,
            lanes_max,
            keep: flags.keep,
            name: flags.name,
            read_only: flags.read_only,
            keeper: RefCell::new(keeper),
            is_recorded: Cell::new(is_recorded),
            records,
            absorbs: Cell::new(may_absorb),
            loss: Cell::new(None),
            process: process_identity(),
        })
    }

    /// Returns the state that its lanes share. Any thread may attach a lane to it.
    pub fn halves(&self) -> &Arc<SharedHalves> {
        &self.halves
    }

    fn node(&self) -> &dyn OpenNode {
        self.halves.node()
    }

    /// Returns the stack as data.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Whether clients' changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.node().limits().read_only
    }

    /// Returns notes for the operator, such as fallbacks that were taken.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the maximum number of lanes that can serve it, if a backing limits it.
    pub fn lanes_max(&self) -> Option<usize> {
        self.lanes_max
    }

    /// Returns the shared half of the cache, if there is one.
    pub fn cache(&self) -> Option<&Arc<Shared>> {
        self.halves.cache()
    }

    /// Returns the request counts of the backing. None: there is a cache, which counts them itself.
    pub fn counts(&self) -> Option<&Counts> {
        self.cache().is_none().then_some(self.halves.counts())
    }

    /// Returns the modelled drive at the bottom, if there is one.
    pub fn model(&self) -> Option<&Arc<drive_backend::Shared>> {
        self.node().find().map(|ModelNode(model)| model)
    }

    /// Whether the cache lies in huge pages; None without a cache.
    pub fn has_huge_pages(&self) -> Option<bool> {
        self.memory().map(SharedMemory::has_huge_pages)
    }

    /// Returns damage to the backing while it was served, as a sentence; None if there is none.
    pub fn damage(&self) -> Option<String> {
        self.node().walk().find_map(|node| node.health().damage)
    }

    /// Whether a backing became too short while it was served, so that changes and flushes fail.
    pub fn was_short(&self) -> bool {
        self.node().walk().any(|node| node.health().was_short)
    }

    /// Accepts backings again that were too short and have their former size back. Returns whether
    /// there was one.
    pub fn accept_sizes(&self) -> bool {
        self.node().walk().filter(|node| node.accept_size()).count() > 0
    }

    /// Returns the keys of the files and devices at its bottom.
    pub fn keys(&self) -> Vec<String> {
        self.node().backings().filter_map(|node| Some(node.identity()?.key)).collect()
    }

    /// Returns the identity of its contents, which distinguishes it from other volumes of its name:
    /// that of the pool, even if members are missing, or the keys of its files and devices.
    /// Contents that end with this process have the identity of the process.
    pub fn identity(&self) -> String {
        if let Some(pool) = self.pool() {
            return format!("pool:{:032x}", pool.identity());
        }
        match self.keys() {
            keys if keys.is_empty() => format!("process:{}", std::process::id()),
            keys => keys.join(","),
        }
    }

    /// Returns an identity of its contents that outlives this process, and that no later backing
    /// gets, even with a reused inode number. None: its contents end with this process.
    pub fn lasting_identity(&self) -> Option<String> {
        if let Some(pool) = self.pool() {
            return Some(format!("pool:{:032x}", pool.identity()));
        }
        let of = |node: &dyn OpenNode| {
            node.identity().map(|Identity { key, birth, .. }| format!("{key} {birth}"))
        };
        let all: Option<Vec<String>> = self.node().backings().map(of).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.join(","))
    }

    /// Returns the shared half of the pool, if there is one.
    pub fn pool(&self) -> Option<&Arc<PoolShared>> {
        self.node().find().map(|pool: &PoolNode| &pool.shared)
    }

    /// Returns the valve that holds changes back during a freeze.
    pub fn valve(&self) -> &Arc<ValveShared> {
        self.halves.valve()
    }

    /// Returns the memory of the cache, so that dirty data in it can be rescued.
    pub fn memory(&self) -> Option<&SharedMemory> {
        self.node().find().map(|cache: &CacheNode| &cache.memory)
    }

    /// Whether a holder retains the memory if this process dies.
    pub fn is_kept(&self) -> bool {
        self.keeper.borrow().as_ref().is_some_and(is_alive)
    }

    /// Whether all data survives an exec in this process: a living holder retains dirty data, or
    /// there can be none, and the backing is not memory of this process.
    pub fn outlives_exec(&self) -> bool {
        if let Err(unkept) = self.node().keepable() {
            let is_empty = unkept == Unkept::Empty && self.cache().is_none();
            return is_empty || unkept == Unkept::OnlyRead;
        }
        let by_holder = |keeper: &Keeper| keeper.owner_socket().is_some() && is_alive(keeper);
        match (&*self.keeper.borrow(), self.cache()) {
            (Some(keeper), _) => by_holder(keeper),
            (None, Some(shared)) => !shared.write_mode().absorbs() && !shared.has_failed(),
            (None, None) => true,
        }
    }

    /// Returns the connection to the holder, which becomes readable once the holder has died. None:
    /// there is no holder.
    pub fn keeper_socket(&self) -> Option<host::File> {
        let keeper = self.keeper.borrow();
        let socket = keeper.as_ref()?.owner_socket()?;
        socket.try_clone_to_owned().ok().map(Arc::new)
    }

    /// Starts a new holder to replace one that has died.
    pub fn keep_again(&self) -> Result<(), Failure> {
        let (Some(keep), Some(memory)) = (&self.keep, self.memory()) else { return Ok(()) };
        let version = self.node().retention().map_or(0, Retention::present);
        let (Some(identity), Ok(backing)) = (self.node().identity(), self.node().keepable()) else {
            return Ok(());
        };
        let again = keep.start(&self.name, &identity, &backing, memory)?;
        if let Some(retention) = self.node().retention() {
            retention.note_retained(version);
        }
        // Nothing else has written to the backing while this process served it.
        let _ = again.watch();
        *self.keeper.borrow_mut() = Some(again);
        self.is_recorded.set(true);
        // Needed only if the former holder was of an older version; otherwise the record already
        // names this memory.
        let _ = self.record();
        Ok(())
    }

    /// Has the present descriptors of the backing retained, if they have changed.
    ///
    /// # Errors
    /// The holder does not answer: it retains those before.
    pub fn keep_changed(&self) -> Result<(), Failure> {
        let Some(retention) = self.node().retention() else { return Ok(()) };
        let version = retention.present();
        if retention.retained() == version {
            return Ok(());
        }
        let result = match (&*self.keeper.borrow(), self.node().keepable()) {
            (Some(keeper), Ok(backing)) => keep::exchange(keeper, &self.name, &backing),
            _ => Ok(()),
        };
        retention.note_retained(version);
        result
    }

    /// Returns the versions of the descriptors of its backing. None: they do not change.
    pub fn retention(&self) -> Option<&Retention> {
        self.node().retention()
    }

    /// Returns the time of the monotonic clock from which on no request of an ended connection can
    /// reach the backing any more. None: that is so now.
    pub fn settled_at(&self) -> Option<u64> {
        self.node().settled_at(now_ns())
    }

    /// Describes the requests to an export that wait. None: the backing is no export that is
    /// written.
    pub fn export_waits(&self) -> Option<ExportWaits> {
        self.node().export_waits(now_ns())
    }

    /// Takes the connection to the holder of the memory out of the volume.
    pub fn take_keeper(&self) -> Option<Keeper> {
        self.keeper.borrow_mut().take()
    }

    /// Releases the retained memory, once everything is durable. A doubt is noted first.
    pub fn release(&self) {
        let is_noted = self.note_doubt();
        let Some(keeper) = self.take_keeper() else { return };
        match is_noted {
            // Even if the holder does not answer: it detects itself that nothing is dirty.
            Ok(()) => _ = keeper.release(),
            // The memory records the doubt, and stays retained for it.
            Err(_) => keeper.abandon(),
        }
    }

    /// Notes for the next process that a flush of the backing is in doubt, if it is (C1).
    fn note_doubt(&self) -> std::io::Result<()> {
        match (&self.keep, self.node().identity(), self.cache()) {
            (Some(keep), Some(identity), Some(shared)) if shared.is_in_doubt() => {
                keep.doubts().note(&identity.key, &identity.birth)
            }
            _ => Ok(()),
        }
    }

    /// Returns the identity of the memory whose end would lose data that is not on the backing.
    /// None: there is no such data, or the holder is of a version that does not update the record.
    fn memory_at_stake(&self) -> Option<String> {
        let is_noted = self.keeper.borrow().is_none() || self.is_recorded.get();
        (self.absorbs.get() && is_noted).then(|| self.memory_identity())
    }

    /// Returns the identity of its cache's memory. Without a cache, it is that of the process: the
    /// unwritten data of a pool ends with it.
    fn memory_identity(&self) -> String {
        let memory = self.memory().and_then(|memory| holder::memory_identity(memory.file()).ok());
        memory.unwrap_or_else(|| format!("process {}", self.process))
    }

    /// Returns the loss of data since the former process. Call this if a device or a mount in use
    /// has waited for the volume.
    pub fn loss_of_waiting(&self) -> Option<Loss> {
        self.records.loss(Some(&self.memory_identity()), self.node())
    }

    /// Serves the volume as a disk that was pulled out: every request fails, until nothing waits
    /// for the volume any more. The loss stays noted for the next process.
    pub fn lose(&self, loss: Loss) {
        self.records.freeze();
        self.loss.set(Some(loss));
    }

    /// Returns the loss, if the volume is served as a disk that was pulled out.
    pub fn loss(&self) -> Option<Loss> {
        self.loss.get()
    }

    /// Records for the next process which backings are served. Call this before serving.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn record(&self) -> Result<(), Failure> {
        let memory = self.memory_at_stake();
        self.records.write(memory.as_deref(), self.node()).map_err(|error| {
            let message = format!(
                "{}: the record of what is served cannot be written ({error}); free space in the \
                 runtime directory",
                self.name
            );
            Failure::new(Exit::Io, message)
        })
    }

    /// Checks that its cache may absorb writes.
    ///
    /// # Errors
    /// A kill of this process would lose them: the backing cannot be retained
    /// ([`Unkept::Other`]).
    pub fn check_absorbing(&self) -> Result<(), Failure> {
        match self.node().keepable() {
            Err(Unkept::Other(reason)) if self.keep.is_some() => {
                let message = format!(
                    "{}: writes must be written through, because a kill of the daemon would lose \
                     data in memory: {reason}",
                    self.name
                );
                Err(Failure::new(Exit::Negative, message))
            }
            _ => Ok(()),
        }
    }

    /// Restores the record of the earlier process, if there was one. Call this if this process has
    /// served nothing.
    pub fn restore_record(&self) {
        self.records.restore(self.node());
    }

    /// Records whether its memory may hold data that is not on the backing. Call this before the
    /// cache begins to absorb writes, and after it has stopped.
    ///
    /// # Errors
    /// Those of [`Volume::record`].
    pub fn record_absorbing(&self, absorbs: bool) -> Result<(), Failure> {
        self.absorbs.set(absorbs && !self.is_read_only());
        self.record()
    }

    /// Records the end: everything is on the backing, and the volume is no longer served.
    /// `is_waited_for`: a device or a mount in use waits for the next process.
    pub fn end_record(&self, is_waited_for: bool) {
        match is_waited_for {
            // If this fails, the next process is only more careful than necessary.
            true => drop(self.records.write(None, self.node())),
            false => self.records.remove(self.node()),
        }
    }

    /// Attaches the volume to the ring's lane.
    ///
    /// # Errors
    /// Those of [`SharedHalves::attach`].
    pub fn attach(&self, ring: &Ring) -> Result<Attached, Failure> {
        self.halves.attach(ring)
    }
}

/// Longest name, in bytes, that a holder stores. The NBD protocol would allow 4096.
const NAME_BYTES_MAX: usize = 255;

/// Refuses names that clients or holders could not receive.
fn check_name(name: &str) -> Result<(), Failure> {
    if name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let message = format!("--name: give at most {NAME_BYTES_MAX} bytes, none of them zero");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(())
}

/// Refuses more than one cache: memory, statistics and settings of only one are handled.
fn check_one_cache(spec: &Spec) -> Result<(), Failure> {
    let caches = spec.walk().filter(|part| matches!(part, Spec::Cache { .. })).count();
    let below_members = spec.chain().all(|part| !matches!(part, Spec::Cache { .. }));
    if caches > 1 || caches == 1 && below_members {
        let message = "a volume has at most one cache, above all members of a pool or stripe";
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(())
}

/// Returns an identity of this process that is unique until the next boot.
fn process_identity() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("{}-{}", std::process::id(), now.map_or(0, |now| now.as_nanos()))
}

/// Whether the keeper is alive: the connection to a holder hangs up when it dies.
fn is_alive(keeper: &Keeper) -> bool {
    let Some(socket) = keeper.owner_socket() else { return true };
    let mut polled = [PollFd::new(&socket, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{CacheSpec, DelaySpec, FaultsSpec, RateLimitSpec, Size};
    use lane::Lane;

    fn open(spec: Spec) -> Result<Volume, Failure> {
        Volume::open(spec, OpenFlags::default(), &mut |_| ())
    }

    fn cached(below: Spec) -> Spec {
        let cache = CacheSpec { memory: Size(1 << 20), ..CacheSpec::default() };
        Spec::Cache { cache, below: Box::new(below) }
    }

    fn delayed(below: Spec) -> Spec {
        Spec::Delay { delay: DelaySpec::default(), below: Box::new(below) }
    }

    #[test]
    fn the_cache_is_found_at_any_position() {
        let failing = Spec::Faults {
            faults: FaultsSpec::default(),
            below: Box::new(cached(delayed(Spec::Ram { size: Size(4 << 20) }))),
        };
        let volume = open(delayed(failing)).expect("a stack of memory");
        assert!(volume.cache().is_some() && volume.memory().is_some());
        assert!(volume.has_huge_pages().is_some() && volume.counts().is_none());
        let lane = Lane::new();
        let ring = Ring::new(&lane).expect("a ring");
        let attached = volume.attach(&ring).expect("few tasks");
        let attached_to = attached.cache.as_ref().expect("found on the lane, too").shared();
        assert!(Arc::ptr_eq(attached_to, volume.cache().expect("found")));
        attached_to.stop();
        lane.abandon();
    }

    #[test]
    fn a_layer_has_the_identity_and_the_descriptors_of_its_child() {
        let file = tempfile::NamedTempFile::new().expect("a place for it");
        file.as_file().set_len(1 << 20).expect("sparse");
        let path = file.path().to_owned();
        let file = Spec::File { path, read_only: false, buffered: false };
        let limited = |below| Spec::Limit {
            limit: RateLimitSpec { iops: 1, ..RateLimitSpec::default() },
            below: Box::new(below),
        };
        let expected = open(file.clone()).expect("a file").identity();
        assert!(!expected.starts_with("process:"), "{expected}");
        for spec in [limited(file.clone()), cached(limited(file.clone())), delayed(limited(file))] {
            let volume = open(spec).expect("a file");
            assert_eq!(volume.identity(), expected);
            assert_eq!(volume.node().keepable().map(|kept| kept.len()), Ok(1));
            assert_eq!(volume.node().limits().bytes(), 1 << 20);
        }
        let ram = open(limited(Spec::Ram { size: Size(1 << 20) })).expect("memory");
        assert_eq!(ram.node().keepable().err(), Some(Unkept::Process));
    }

    #[test]
    fn a_lasting_identity_is_that_of_the_contents() {
        assert_eq!(
            open(Spec::Ram { size: Size(4 << 20) }).expect("memory").lasting_identity(),
            None
        );
        let place = tempfile::tempdir().expect("room");
        let identity = |name: &str| {
            let path = place.path().join(name);
            let file = std::fs::File::options().create(true).append(true).open(&path);
            file.and_then(|file| file.set_len(4 << 20)).expect("room");
            let spec = Spec::File { path, read_only: false, buffered: true };
            open(cached(spec)).expect("a file").lasting_identity().expect("files last")
        };
        let first = identity("one");
        assert_eq!(identity("one"), first);
        std::fs::rename(place.path().join("one"), place.path().join("moved")).expect("ours");
        assert_eq!(identity("moved"), first);
        assert_ne!(identity("one"), first, "another file at its path");
    }

    #[test]
    fn members_whose_total_size_exceeds_the_limit_of_clients_are_refused() {
        let null = |bytes: u64| Spec::Null { size: Size(bytes) };
        let stripe =
            |bytes| Spec::Stripe { members: vec![null(bytes), null(bytes)], chunk: Size(64 << 10) };
        assert!(open(stripe(3 << 60)).is_ok());
        for spec in [stripe(6 << 60), cached(stripe(6 << 60)), cached(null(15 << 60))] {
            let failure = open(spec).err().expect("refused");
            assert_eq!(failure.exit, Exit::Usage, "{failure}");
            assert!(failure.message.contains("clients support at most"), "{failure}");
        }
    }

    #[test]
    fn a_volume_has_one_cache_at_most() {
        let ram = || Spec::Ram { size: Size(4 << 20) };
        let members = vec![cached(ram()), ram()];
        for spec in
            [cached(delayed(cached(ram()))), Spec::Stripe { members, chunk: Size(64 << 10) }]
        {
            let failure = open(spec).err().expect("refused");
            assert_eq!(failure.exit, Exit::Usage, "{failure}");
        }
    }
}
