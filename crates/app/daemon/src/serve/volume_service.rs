//! A served volume, and the operator's actions on it.

use super::lane_volume::LaneVolume;
use super::warmth::Warmth;
use crate::control::errors::BackingErrors;
use crate::control::losses::{GivenUp, Losses};
use crate::control::words::{Row, State};
use crate::device::{Devices, NewDevice, RouteFront};
use crate::hot_lists::HotLists;
use crate::units::WaitTime;
use block::{Durability, Request, Size, Spec, WriteMode};
use cache::{BLOCK_SECTORS, Counters, Shared};
use lane::Event;
use ring::Ring;
use stack::SCRATCH;
use stack::{Attached, Exit, Failure, Loss, Volume};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Size of a block, in bytes.
const BLOCK: u64 = BLOCK_SECTORS as u64 * block::SECTOR;

/// A volume while this daemon serves it, on its home lane: the open volume, its address, and the
/// state that an operator changes.
pub(crate) struct VolumeService {
    pub(crate) name: String,
    /// The backing, with absolute paths.
    pub(crate) backing: String,
    pub(crate) volume: Volume,
    pub(crate) attached: Attached,
    /// Its address for clients; empty: there is none.
    pub(crate) address: String,
    /// The state with which every lane serves it.
    pub(crate) lane_volume: LaneVolume,
    /// The ring of the home lane.
    pub(crate) ring: Ring,
    /// Its list of hot blocks, if it has one.
    warmth: Option<Rc<Warmth>>,
    /// Signalled once it is no longer served.
    pub(crate) ended: Event,
    has_ended: Cell<bool>,
    losses: RefCell<Losses>,
    /// The write mode before the pause. None: the volume is not paused.
    paused: Cell<Option<WriteMode>>,
    /// Whether an operator's action is in progress.
    busy: Cell<bool>,
}

/// An operator's action, the only one of its volume until this is dropped.
struct Operation<'a>(&'a Cell<bool>);

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Returns the number of reads, and of those answered from memory.
fn reads(counters: &Counters) -> (u64, u64) {
    (counters.read_hits + counters.read_misses + counters.read_joins, counters.read_hits)
}

impl VolumeService {
    pub(crate) fn new(
        name: &str,
        backing: &str,
        address: String,
        volume: Volume,
        lane_volume: LaneVolume,
        ring: &Ring,
        lists: Option<HotLists>,
    ) -> Result<Rc<VolumeService>, Failure> {
        let attached = lane_volume.attach(ring)?;
        let in_doubt = volume.cache().is_some_and(|shared| shared.is_in_doubt());
        let warmth = Warmth::new(name, &volume, &attached, lists);
        Ok(Rc::new(VolumeService {
            name: name.to_owned(),
            backing: stack::absolute(backing),
            volume,
            attached,
            address,
            lane_volume,
            ring: ring.clone(),
            warmth,
            ended: Event::new(),
            has_ended: Cell::new(false),
            losses: RefCell::new(Losses { in_doubt, ..Losses::default() }),
            paused: Cell::new(None),
            busy: Cell::new(false),
        }))
    }

    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        self.volume.cache()
    }

    pub(crate) fn clients(&self) -> u64 {
        self.lane_volume.clients.count()
    }

    /// Ends its tasks, once it is no longer served.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.ended.notify();
        self.warmth.iter().for_each(|warmth| warmth.end());
        if let Some(sensor) = &self.lane_volume.sensor {
            sensor.end();
        }
    }

    /// Has its list of hot blocks read back, and saved from time to time.
    pub(crate) fn start_warmth(&self) {
        self.warmth.iter().for_each(Warmth::start);
    }

    /// Saves its list of hot blocks a last time.
    pub(crate) async fn save_last_list(&self) {
        if let Some(warmth) = &self.warmth {
            warmth.save_last().await;
        }
    }

    /// Removes its list of hot blocks. Returns whether there was one.
    pub(crate) async fn forget_list(&self) -> Result<bool, Failure> {
        match &self.warmth {
            Some(warmth) => warmth.forget().await,
            None => Ok(false),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Whether an operator has frozen or paused it.
    pub(crate) fn is_held(&self) -> bool {
        self.volume.valve().is_closed() || self.paused.get().is_some()
    }

    fn is_stalled(&self) -> bool {
        self.attached.stack.stall().is_some_and(|stall| stall.is_on())
    }

    pub(crate) fn state(&self) -> State {
        let failed = self.shared().is_some_and(|shared| shared.has_failed());
        let failed = failed || self.volume.was_short();
        match () {
            () if self.lane_volume.stop.is_asked() => State::Ending,
            () if self.volume.loss().is_some() => State::Lost,
            () if self.is_stalled() => State::Stalled,
            () if failed => State::Failed,
            () if self.volume.valve().is_closed() => State::Frozen,
            () if self.paused.get().is_some() => State::Paused,
            () => State::Serving,
        }
    }

    /// Returns the errors of the backing up to now.
    pub(crate) fn errors(&self) -> BackingErrors {
        let counted = |shared: &Arc<Shared>| (&shared.counters(self.ring.lane().now())).into();
        match self.volume.counts() {
            Some(counts) => counts.into(),
            None => self.shared().map(counted).unwrap_or_default(),
        }
    }

    pub(crate) fn row(&self) -> Row {
        let shared = self.shared();
        let dirty = shared.map_or(0, |shared| u64::from(shared.dirty_blocks()));
        let slots = shared.map_or(0, |shared| u64::from(shared.geometry().slots));
        let counted = shared.map(|shared| reads(&shared.counters(self.ring.lane().now())));
        let (reads, read_hits) = counted.unwrap_or_default();
        Row {
            name: self.name.clone(),
            backing: self.backing.clone(),
            state: self.state(),
            size_bytes: self.attached.stack.limits().bytes(),
            memory_bytes: slots * BLOCK,
            write: shared.map_or(WriteMode::None, |shared| shared.write_mode()).word().to_owned(),
            dirty_bytes: dirty * BLOCK,
            errors: self.errors().sum(),
            reads,
            read_hits,
            clients: self.clients(),
            uri: self.address.clone(),
            pid: std::process::id(),
            keys: self.volume.keys(),
            device: String::new(),
            route: String::new(),
        }
    }

    /// Adds it to the devices, with this route.
    pub(crate) fn add_to(&self, devices: &Devices, by: &RouteFront, wait_time: WaitTime) {
        let mut limits = self.attached.stack.limits().clone();
        limits.read_only |= self.volume.is_read_only();
        let (identity, retry_ms) = (self.volume.identity(), self.retry_ms());
        let (volume, identity, limits) = (&*self.name, &*identity, &limits);
        let (valve, is_lost) = (self.volume.valve(), self.volume.loss().is_some());
        let keys = &*self.volume.keys();
        let new = NewDevice { volume, identity, limits, valve, retry_ms, wait_time, keys, is_lost };
        devices.add(by, &new);
    }

    /// Returns the time for which failed changes are tried again, in milliseconds.
    pub(crate) fn retry_ms(&self) -> u64 {
        self.shared().map_or(0, |shared| shared.settings().retry_time_ns / 1_000_000)
    }

    fn begin_operation(&self) -> Result<Operation<'_>, Failure> {
        if self.busy.replace(true) {
            let message = format!(
                "{}: another operation is in progress; try again once it has ended",
                self.name
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        Ok(Operation(&self.busy))
    }

    fn io_failure(&self, error: block::Error) -> Failure {
        Failure::new(Exit::Io, format!("{}: {error}", self.name))
    }

    /// Makes all answered writes durable, even if a client's flush guarantees less by the volume's
    /// settings.
    pub(crate) async fn flush(&self) -> Result<(), Failure> {
        if let Some(loss) = self.volume.loss() {
            let Failure { exit, message } = self.loss_failure(loss, true);
            return Err(Failure::new(exit, format!("{}: {message}", self.name)));
        }
        let durability = self.shared().map(|shared| shared.settings().durability);
        let flushed = match durability {
            None | Some(Durability::Flush) => {
                self.attached.stack.run_unless_stalled(Request::Flush).await
            }
            Some(Durability::Ordered | Durability::Scratch) => self.drain().await,
        };
        flushed.map_err(|error| self.io_failure(error))
    }

    /// Writes back all dirty data.
    pub(crate) async fn drain(&self) -> block::Result {
        match &self.attached.cache {
            Some(cache) => cache.drain().await,
            None => self.attached.stack.run_unless_stalled(Request::Flush).await,
        }
    }

    pub(crate) async fn pause(&self) -> Result<(), Failure> {
        let _operation = self.begin_operation()?;
        let Some(shared) = self.shared() else {
            let message = format!("{}: has no cache to pause", self.name);
            return Err(Failure::new(Exit::Negative, message));
        };
        let before = self.paused.get().unwrap_or(shared.write_mode());
        shared.set_write_mode(WriteMode::None);
        if let Err(error) = self.drain().await {
            shared.set_write_mode(before);
            return Err(self.io_failure(error));
        }
        self.paused.set(Some(before));
        Ok(())
    }

    pub(crate) async fn freeze(&self) -> Result<(), Failure> {
        let _operation = self.begin_operation()?;
        let valve = self.volume.valve();
        if !valve.close() {
            return Ok(());
        }
        let quiet = valve.quiet(|| self.is_stalled()).await;
        let drained = if quiet { self.drain().await } else { Ok(()) };
        if quiet && drained.is_ok() {
            return Ok(());
        }
        valve.open();
        Err(match drained {
            Err(error) => self.io_failure(error),
            Ok(()) => {
                let message = format!(
                    "{}: not frozen, because the backing does not answer changes in progress",
                    self.name
                );
                Failure::new(Exit::Io, message)
            }
        })
    }

    pub(crate) fn resume(&self) -> Result<(), Failure> {
        let _operation = self.begin_operation()?;
        let was_frozen = self.volume.valve().is_closed();
        self.volume.valve().open();
        let before = self.paused.take();
        if let (Some(before), Some(shared)) = (before, self.shared()) {
            shared.set_write_mode(before);
        }
        if was_frozen || before.is_some() {
            return Ok(());
        }
        let message = format!("{}: is neither paused nor frozen", self.name);
        Err(Failure::new(Exit::Negative, message))
    }

    /// Changes settings, all of them or none; returns notes for the operator.
    pub(crate) async fn set(&self, pairs: &[String]) -> Result<Vec<String>, Failure> {
        let _operation = self.begin_operation()?;
        let name = &self.name;
        let Some(cache) = &self.attached.cache else {
            let message = format!("{name}: has no cache to set");
            return Err(Failure::new(Exit::Negative, message));
        };
        let changes = crate::setting::changes(pairs, cache.shared().geometry())?;
        if self.is_held() {
            let message = format!("{name}: is frozen or paused; resume it first");
            return Err(Failure::new(Exit::Busy, message));
        }
        let mut notes = Vec::new();
        let absorbs = changes.write.map(WriteMode::absorbs);
        if absorbs == Some(true) {
            self.volume.check_absorbing()?;
            // Writeback must not wait for memory pages.
            if let Err(error) = host::lock_process() {
                notes.push(error.to_string());
            }
            self.volume.record_absorbing(true)?;
        }
        if let Err(error) = cache.set(&changes).await {
            let message = format!("{name}: {error}; no setting was changed");
            return Err(Failure::new(Exit::Io, message));
        }
        if absorbs == Some(false) {
            self.volume.record_absorbing(false)?;
        }
        if changes.durability == Some(Durability::Scratch) {
            notes.push(SCRATCH.to_owned());
        }
        Ok(notes)
    }

    /// Ends the failed state: tries again to write dirty data back, or discards it.
    pub(crate) async fn clear_error(
        &self,
        discard_dirty: bool,
        failure: Option<u64>,
        saved_to: Option<String>,
    ) -> Result<serde_json::Value, Failure> {
        let _operation = self.begin_operation()?;
        let still = self.shared().map(|shared| shared.times_cleared());
        if failure.is_some() && failure != still {
            let message = format!(
                "{}: was cleared and has failed again since; the saved data is not all dirty \
                 data, so nothing was discarded",
                self.name
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        let failed = self.shared().is_some_and(|shared| shared.has_failed());
        let was_short = self.volume.was_short();
        if was_short && self.volume.accept_sizes() {
            crate::tell!(
                "overdrive: {}: its backing had shrunk and has its former size again: data \
                 beyond the smaller size is lost, and reads return the present contents",
                self.name
            );
        }
        let (Some(cache), true) = (&self.attached.cache, failed) else {
            if was_short {
                return self.try_again(0, true).await;
            }
            let message = format!("{}: has not failed, so there is no error to clear", self.name);
            return Err(Failure::new(Exit::Negative, message));
        };
        let unflushed = was_short || self.may_have_lost_unflushed();
        if discard_dirty {
            let blocks = cache.discard_dirty().await.map_err(|error| self.io_failure(error))?;
            let bytes = blocks * BLOCK;
            let mut losses = self.losses.borrow_mut();
            losses.unflushed |= unflushed;
            losses.given_up.push(GivenUp { bytes, saved_to });
            return Ok(
                serde_json::json!({ "discarded_bytes": bytes, "may_miss_unflushed": unflushed }),
            );
        }
        let dirty = u64::from(cache.shared().dirty_blocks()) * BLOCK;
        cache.shared().clear_error();
        self.try_again(dirty, unflushed).await
    }

    /// Writes all dirty data back once more, `dirty_bytes` in all. `unflushed`: writes made
    /// directly to the backing may be missing.
    async fn try_again(
        &self,
        dirty_bytes: u64,
        unflushed: bool,
    ) -> Result<serde_json::Value, Failure> {
        self.losses.borrow_mut().unflushed |= unflushed;
        match self.drain().await {
            Ok(()) => Ok(serde_json::json!({
                "written_bytes": dirty_bytes,
                "may_miss_unflushed": unflushed,
            })),
            Err(error) => Err(Failure::new(
                Exit::Io,
                format!("{}: {error}; the volume has failed again", self.name),
            )),
        }
    }

    /// Whether a failed volume may miss writes made directly to its backing, because a flush has
    /// failed. For a volume that was taken over in the failed state, the reason is unknown.
    fn may_have_lost_unflushed(&self) -> bool {
        let errors = self.errors();
        let has_hung = self.attached.stack.stall().is_some_and(|stall| stall.begun() > 0);
        errors.flushes > 0 || errors.sum() == 0 && !has_hung
    }

    /// Returns the losses of acknowledged writes since this daemon began to serve it.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = self.losses.borrow().clone();
        match self.shared() {
            Some(shared) => {
                losses.damaged_headers = shared.counters(self.ring.lane().now()).headers_rejected;
            }
            // Without a cache, writes lost by a failed flush are not written again.
            None => losses.unflushed |= self.errors().flushes > 0,
        }
        losses
    }

    /// Returns the stack as data, with the present settings.
    fn stack_now(&self) -> Spec {
        let mut stack = self.volume.spec().clone();
        let (Spec::Cache { cache, .. }, Some(shared)) = (&mut stack, self.shared()) else {
            return stack;
        };
        shared.settings().write_to(cache, shared.geometry());
        cache.write = self.paused.get().unwrap_or(cache.write);
        cache.guard = shared.guard_state(0).on;
        stack
    }

    /// Returns its stack, limits and settings, with its row of the list, served by this number of
    /// threads.
    pub(crate) fn show(&self, row: &Row, threads: usize) -> serde_json::Value {
        let settings = self.shared().map(|shared| {
            let (settings, geometry) = (shared.settings(), shared.geometry());
            serde_json::json!({
                "write": shared.write_mode(),
                "durability": settings.durability,
                "memory_bytes": u64::from(geometry.slots) * BLOCK,
                "huge_pages": self.volume.has_huge_pages(),
                "shards": geometry.shards,
                "dirty_bytes_max": u64::from(settings.dirty_blocks_max) * BLOCK,
                "dirty_age_ns": settings.dirty_age_ns,
                "flush_target_ns": settings.flush_target_ns,
                "retry_time_ns": settings.retry_time_ns,
                "guard": shared.guard_state(0).on,
            })
        });
        serde_json::json!({
            "schema": "overdrive.volume/1",
            "volume": row,
            "stack": self.stack_now(),
            "limits": self.attached.stack.limits(),
            "cache": settings,
            "notes": self.volume.notes(),
            "kept": self.volume.is_kept(),
            "threads": threads,
        })
    }

    /// Returns the failure of a volume that is, or was, served as a disk that was pulled out.
    pub(crate) fn loss_failure(&self, loss: Loss, is_attached: bool) -> Failure {
        let (name, backing) = (&self.name, &self.backing);
        let next = match is_attached {
            true => format!(
                "the device answers every request with an error until it is detached: unmount \
                 its file systems, run 'overdrive detach {name}', and check {backing} before you \
                 attach it again"
            ),
            false => {
                format!("check the contents of {backing}, as after a power cut, before you use it")
            }
        };
        Failure::new(Exit::Integrity, format!("{loss}; {next}"))
    }

    /// Returns the failure of a stop that could not write all dirty data back.
    pub(crate) fn not_drained(&self, error: block::Error) -> Failure {
        let dirty = self.shared().map_or(0, |shared| u64::from(shared.dirty_blocks()));
        let name = &self.name;
        let message = if dirty > 0 && self.volume.is_kept() {
            format!(
                "{error}; {} of acknowledged writes are not on the backing and stay retained; \
                 repair it and serve it again, or save them with 'overdrive volume clear-error \
                 {name} --rescue FILE'",
                Size(dirty * BLOCK),
            )
        } else {
            let lost = match dirty {
                0 => "data written since the last flush that succeeded".to_owned(),
                _ => format!("{} of acknowledged writes", Size(dirty * BLOCK)),
            };
            format!(
                "{error}; {lost} may not be on the backing: repair it, and check its contents \
                 before you use it"
            )
        };
        Failure::new(Exit::Io, message)
    }
}
