//! A served volume.
//!
//! ```text
//!   VolumeService   on the home lane: the open volume, its state, and what operators see of it
//!     LaneVolume      on every lane: attaches the stack there, and exports it to the fronts
//! ```

use super::clients::{Clients, CountedClient};
use super::mapping::Mapping;
use super::pressure::Threads;
use super::sensor::{self, Sensor};
use super::warmth::Warmth;
use crate::control::errors::BackingErrors;
use crate::control::losses::Losses;
use crate::control::statistics::Link;
use crate::control::words::{Row, State};
use crate::device::{BoundRoute, Devices, NewDevice};
use crate::hot_lists::HotLists;
use crate::metrics::VolumeSample;
use crate::runtime::control_socket;
use block::{Request, Size, Spec, WriteMode};
use cache::{BLOCK_SECTORS, Counters, Shared};
use export::{BusyTime, Export, Stop};
use lane::{Event, Lane};
use ring::Ring;
use stack::{Attached, Exit, Failure, Loss, SharedHalves, Volume};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Size of a block, in bytes.
pub(super) const BLOCK: u64 = BLOCK_SECTORS as u64 * block::SECTOR;

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
    /// Time by the ring's clock at which it was first served by this process.
    pub(crate) begun_ns: u64,
    /// Its list of hot blocks, if it has one.
    warmth: Option<Rc<Warmth>>,
    /// Its map of files, if it has a cache.
    pub(super) mapping: Option<Rc<Mapping>>,
    /// Signalled once it is no longer served.
    pub(crate) ended: Event,
    has_ended: Cell<bool>,
    pub(super) losses: RefCell<Losses>,
    /// The write mode before the pause. None: the volume is not paused.
    pub(super) paused: Cell<Option<WriteMode>>,
    /// Whether an operator's action is in progress.
    pub(super) busy: Cell<bool>,
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
        let control = control_socket(&crate::runtime_directory(), std::process::id());
        let mapping = Mapping::new(name, &volume, &attached, lists.clone(), control);
        let warmth = Warmth::new(name, &volume, &attached, lists);
        Ok(Rc::new(VolumeService {
            name: name.to_owned(),
            backing: stack::absolute(backing),
            volume,
            attached,
            address,
            lane_volume,
            ring: ring.clone(),
            begun_ns: ring.lane().now(),
            warmth,
            mapping,
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

    /// Has its files mapped from time to time, if that is set.
    pub(crate) fn start_mapping(&self) {
        self.mapping.iter().for_each(Mapping::start);
    }

    /// Ends its map of files with the process that makes it.
    pub(crate) async fn end_mapping(&self) {
        if let Some(mapping) = &self.mapping {
            mapping.end();
            mapping.process_ended().await;
        }
    }

    /// Lets changed settings apply to the lists of hot blocks and to the map of files.
    pub(super) fn apply_to_tasks(&self) {
        self.warmth.iter().for_each(|warmth| warmth.apply_settings());
        self.mapping.iter().for_each(|mapping| mapping.apply_settings());
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

    pub(super) fn is_stalled(&self) -> bool {
        self.attached.stack.stall().is_some_and(|stall| stall.is_on())
    }

    /// Returns the state of the link to the server of its backing, if it has one.
    pub(crate) fn link(&self) -> Option<Link> {
        let link = self.attached.stack.link()?;
        Some(Link::of(link, self.ring.lane().now()))
    }

    pub(super) fn is_link_down(&self) -> bool {
        self.link().is_some_and(|link| link.is_down())
    }

    pub(crate) fn state(&self) -> State {
        let failed = self.shared().is_some_and(|shared| shared.has_failed());
        let failed = failed || self.volume.was_short();
        match () {
            () if self.lane_volume.stop.is_asked() => State::Ending,
            () if self.volume.loss().is_some() => State::Lost,
            () if self.is_link_down() && !failed => State::LinkDown,
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

    /// Returns its values for a scrape of metrics, without the counters of its cache.
    pub(crate) fn sample(&self, now_ns: u64) -> VolumeSample {
        let slots = self.shared().map_or(0, |shared| u64::from(shared.geometry().slots));
        VolumeSample {
            name: self.name.clone(),
            state: self.state(),
            clients: self.clients(),
            size_bytes: self.attached.stack.limits().bytes(),
            memory_bytes: slots * BLOCK,
            errors: self.volume.counts().map_or_else(BackingErrors::default, Into::into),
            cache: self.shared().cloned(),
            link: self.link(),
            now_ns,
        }
    }

    /// Adds it to the devices, with this route.
    pub(crate) fn add_to(&self, devices: &Devices, route: &BoundRoute) {
        let mut limits = self.attached.stack.limits().clone();
        limits.read_only |= self.volume.is_read_only();
        let (identity, retry_ms) = (self.volume.identity(), self.retry_ms());
        let (volume, identity, limits) = (&*self.name, &*identity, &limits);
        let (valve, is_lost) = (self.volume.valve(), self.volume.loss().is_some());
        let keys = &*self.volume.keys();
        let new = NewDevice { volume, identity, limits, valve, retry_ms, keys, is_lost };
        devices.add(route, &new);
    }

    /// Returns the time for which failed changes are tried again, in milliseconds.
    pub(crate) fn retry_ms(&self) -> u64 {
        self.shared().map_or(0, |shared| shared.settings().retry_time_ns / 1_000_000)
    }

    /// Writes back all dirty data. A backing that is only read is not needed for that.
    pub(crate) async fn drain(&self) -> block::Result {
        let dirty = self.shared().map_or(0, |shared| shared.dirty_blocks());
        match &self.attached.cache {
            _ if self.volume.is_read_only() && dirty == 0 => Ok(()),
            Some(cache) => cache.drain().await,
            None => self.attached.stack.run_unless_stalled(Request::Flush).await,
        }
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
        if let Some(mapping) = &self.mapping {
            cache.rules = mapping.rules();
        }
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
            "link": self.link(),
            "files": self.mapping.as_ref().and_then(|mapping| mapping.last()),
            "notes": self.volume.notes(),
            "kept": self.volume.is_kept(),
            "threads": threads,
            "log_level": host::log_level().word(),
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

/// A volume's state that every lane uses to serve it.
#[derive(Clone)]
pub(crate) struct LaneVolume {
    name: String,
    halves: Arc<SharedHalves>,
    read_only: bool,
    /// Set if the volume is served as a disk that was pulled out.
    loss: Option<Loss>,
    /// Ends the clients of this volume.
    pub(crate) stop: Arc<Stop>,
    pub(crate) clients: Arc<Clients>,
    /// Time in which its clients wait for requests.
    pub(crate) busy: Arc<BusyTime>,
    /// Runs the guard of its cache, if there is one.
    pub(crate) sensor: Option<Arc<Sensor>>,
    /// The threads that serve it.
    pub(crate) threads: Threads,
}

impl LaneVolume {
    /// Returns a volume that these threads serve.
    pub(crate) fn new(name: &str, volume: &Volume, threads: &Threads, quiet: bool) -> LaneVolume {
        let clients = Arc::default();
        let sensor = |shared| Arc::new(Sensor::new(name, shared, &clients, threads, quiet));
        LaneVolume {
            name: name.to_owned(),
            halves: volume.halves().clone(),
            read_only: volume.is_read_only(),
            loss: volume.loss(),
            stop: Arc::default(),
            sensor: volume.cache().map(sensor),
            clients,
            busy: Arc::default(),
            threads: threads.clone(),
        }
    }

    pub(crate) fn cache(&self) -> Option<&Arc<Shared>> {
        self.halves.cache()
    }

    /// Attaches its stack to the lane of this ring.
    ///
    /// # Errors
    /// Those of [`SharedHalves::attach`].
    pub(crate) fn attach(&self, ring: &Ring) -> Result<Attached, Failure> {
        self.halves.attach(ring)
    }

    /// Returns the export for fronts on the lane to which the volume was attached.
    pub(crate) fn export(&self, lane: &Lane, attached: &Attached) -> Export {
        let stack = match self.loss {
            Some(loss) => loss.stack(lane, attached.stack.limits()),
            None => attached.stack.clone(),
        };
        let mut export = Export::new(&self.name, stack);
        export.read_only = self.read_only;
        export.stop = Some(self.stop.clone());
        export.busy = Some(self.busy.clone());
        let (clients, shared) = (self.clients.clone(), self.cache().cloned());
        let lane = attached.stack.lane().clone();
        export.session =
            Rc::new(move || Box::new(CountedClient::new(&clients, shared.as_ref(), lane.now())));
        export
    }

    /// Attaches the volume to the lane of this ring, starts its sensor there, and returns the
    /// export for fronts.
    ///
    /// # Errors
    /// Those of [`SharedHalves::attach`].
    pub(crate) fn start_on(&self, ring: &Ring) -> Result<Export, Failure> {
        let attached = self.attach(ring)?;
        self.start_sensor(ring.lane());
        Ok(self.export(ring.lane(), &attached))
    }

    /// Starts its sensor on this lane, too.
    pub(crate) fn start_sensor(&self, lane: &Lane) {
        if let Some(sensor) = &self.sensor {
            sensor::start(lane, sensor);
        }
    }
}
