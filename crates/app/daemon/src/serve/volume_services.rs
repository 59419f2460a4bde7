//! All volumes of a daemon, and requests for its end.

use super::ServedVolume;
use super::actions::Operation;
use super::captive::{Which, either};
use super::recorders::Recorders;
use super::volume_service::VolumeService;
use crate::broker;
use crate::confine;
use crate::control::losses::Losses;
use crate::control::words::Row;
use crate::device::{self, Devices, blocking};
use crate::front::{Ending, Fronts};
use crate::lanes::Lanes;
use crate::log_level;
use crate::plan::{ConfigFile, StartValues, TlsPlan};
use lane::Event;
use stack::{Exit, Failure};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

/// Longest time for clients to disconnect at the end, and then for writing dirty data back before
/// it is left to the holder, in nanoseconds.
const END_NS: u64 = 60_000_000_000;

/// Time between two checks whether the memory of a volume is still in use, in nanoseconds.
const LEAVE_PAUSE_NS: u64 = 50_000_000;

/// The configuration that the daemon has read at its start.
#[derive(Default)]
pub(crate) struct Configured {
    /// The file, which the program of an upgrade reads again. None: there is none.
    pub(crate) file: Option<ConfigFile>,
    /// How clients use TLS, unless the file says otherwise by then.
    pub(crate) tls: TlsPlan,
    /// Values that are read only at the start, by volume.
    pub(crate) start_values: BTreeMap<String, StartValues>,
}

/// All volumes that this daemon serves, with the fronts, devices and lanes that serve them.
pub(crate) struct VolumeServices {
    list: RefCell<Vec<Rc<VolumeService>>>,
    /// Fronts by which clients reach them.
    pub(crate) fronts: Fronts,
    /// Block devices among them.
    pub(crate) devices: Devices,
    /// Lanes that serve them.
    pub(crate) lanes: Rc<Lanes>,
    /// Recordings of them.
    pub(super) recorders: Rc<Recorders>,
    ending: Cell<Option<Ending>>,
    is_upgrading: Cell<bool>,
    /// Signalled when the end is requested.
    pub(crate) end_requested: Event,
    /// The program to execute for an upgrade, or the reason why there is none.
    program: Result<PathBuf, String>,
    configured: Configured,
    failure: RefCell<Option<Failure>>,
    served: RefCell<Vec<ServedVolume>>,
}

impl VolumeServices {
    pub(crate) fn new(
        list: Vec<Rc<VolumeService>>,
        fronts: Fronts,
        devices: Devices,
        lanes: Rc<Lanes>,
        program: Result<PathBuf, String>,
        configured: Configured,
    ) -> Rc<VolumeServices> {
        Rc::new(VolumeServices {
            list: RefCell::new(list),
            fronts,
            devices,
            lanes,
            recorders: Rc::default(),
            ending: Cell::new(None),
            is_upgrading: Cell::new(false),
            end_requested: Event::new(),
            program,
            configured,
            failure: RefCell::new(None),
            served: RefCell::default(),
        })
    }

    pub(crate) fn all(&self) -> Vec<Rc<VolumeService>> {
        self.list.borrow().clone()
    }

    /// Records the served volumes for the next process: all of them, or none.
    ///
    /// # Errors
    /// A record cannot be written.
    pub(crate) fn record(&self) -> Result<(), Failure> {
        let list = self.list.borrow();
        let recorded = list.iter().try_for_each(|service| service.volume.record());
        if recorded.is_err() {
            list.iter().for_each(|service| service.volume.restore_record());
        }
        recorded
    }

    pub(crate) fn find(&self, name: &str) -> Result<Rc<VolumeService>, Failure> {
        let list = self.list.borrow();
        let found = list.iter().find(|service| service.name == name);
        found.cloned().ok_or_else(|| {
            let message =
                format!("{name}: there is no volume of this name; see 'overdrive volume list'");
            Failure::new(Exit::Negative, message)
        })
    }

    pub(crate) fn rows(&self) -> serde_json::Value {
        let rows: Vec<_> = self.list.borrow().iter().map(|service| self.row(service)).collect();
        serde_json::to_value(rows).expect("plain data")
    }

    /// Returns a volume's row of the list, with its device.
    pub(crate) fn row(&self, service: &VolumeService) -> Row {
        let Some((node, route)) = self.devices.node(&service.name) else { return service.row() };
        let (device, route) = (node.display().to_string(), route.word().to_owned());
        Row { device, route, ..service.row() }
    }

    /// Returns a volume's stack, limits and settings, and the values that were read at the start.
    pub(crate) fn show(&self, service: &VolumeService) -> serde_json::Value {
        let mut shown = service.show(&self.row(service), self.lanes.threads());
        shown["start"] = serde_json::json!(self.configured.start_values.get(&service.name));
        let file = self.configured.file.as_ref();
        shown["config"] = file.and_then(|file| file.path.to_str()).into();
        shown
    }

    /// Returns the reason for the end, once it is requested.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    pub(crate) fn end(&self, ending: Ending) {
        if self.ending.get().is_none() {
            self.ending.set(Some(ending));
            self.end_requested.notify();
        }
    }

    /// Returns the program that an upgrade executes.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        self.program.clone().ok()
    }

    /// Saves the lists of hot blocks, while clients continue.
    async fn save_lists(&self) {
        for service in self.all() {
            service.save_last_list().await;
        }
    }

    /// Saves the lists of hot blocks, and requests the end for an upgrade, after all checks that
    /// can be made before.
    ///
    /// # Errors
    /// Busy: another upgrade has begun. The next program could not continue; nothing has changed.
    pub(crate) async fn upgrade(&self) -> Result<(), Failure> {
        let begun = Operation::begin(&self.is_upgrading).filter(|_| self.ending().is_none());
        let Some(_operation) = begun else {
            let message = "this daemon is being upgraded or stopped already; see 'overdrive \
                           volume list' for the one that serves next";
            return Err(Failure::new(Exit::Busy, message));
        };
        self.save_lists().await;
        match self.program.clone() {
            Err(why) => return Err(Failure::new(Exit::Usage, why)),
            Ok(program) => self.check_program(program).await?,
        }
        if let Some(volume) = self.devices.bound_to_process() {
            let message = format!(
                "{volume}: is a device by ublk, which a new program in the same process cannot \
                 take over; restart the daemon instead, and users of the device wait (under \
                 systemd: systemctl restart)"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        let unkept = self.list.borrow().iter().any(|service| !service.volume.outlives_exec());
        if unkept {
            let message = "no holder retains the memory of a volume of this daemon, so it would \
                           be lost; restart the daemon instead (under systemd: systemctl restart)";
            return Err(Failure::new(Exit::Usage, message));
        }
        let list = self.list.borrow();
        if let Some(service) = list.iter().find(|service| service.is_held()) {
            let message = format!(
                "{}: is frozen or paused, and the new program could not continue that; resume it \
                 first",
                service.name
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        drop(list);
        if self.ending().is_some() {
            let message = "this daemon ends, because a device could not be made; see its messages";
            return Err(Failure::new(Exit::Busy, message));
        }
        self.end(Ending::Upgrade);
        Ok(())
    }

    /// Checks, while clients continue, that this program runs and could serve.
    async fn check_program(&self, program: PathBuf) -> Result<(), Failure> {
        let spec = |one: &Rc<VolumeService>| (one.name.clone(), one.volume.spec().clone());
        let served: Vec<_> = self.list.borrow().iter().map(spec).collect();
        let (file, tls) = (self.configured.file.clone(), self.configured.tls.clone());
        self.devices.wait_until_made().await;
        let devices = self.devices.attached();
        if broker::present().is_some()
            && let Some(volume) = self.devices.removed_elsewhere()
        {
            return Err(confine::forbidden(&volume, "its device, which was removed,"));
        }
        let checked = blocking(move || {
            try_program(&program)?;
            confine::check_next(&program, file.as_ref(), &tls, &served, &devices)
        });
        checked.await?
    }

    /// Changes settings of a volume, all of them or none; returns notes for the operator.
    pub(crate) async fn set(&self, name: &str, changes: &[String]) -> Result<Vec<String>, Failure> {
        let service = self.find(name)?;
        let (level, others) = log_level::split(changes)?;
        let mut notes = Vec::new();
        if level.is_none() || !others.is_empty() {
            notes = service.set(&others).await?;
            self.devices.set_retry(name, service.retry_ms()).await?;
        }
        level.into_iter().for_each(host::set_log_level);
        crate::detail!(volume = name, "overdrive: {name}: set {}", changes.join(" "));
        Ok(notes)
    }

    /// Ends one volume: removes its device, disconnects its clients, writes its dirty data back,
    /// then releases the backing. A device that is in use is refused, and nothing changes. One that
    /// cannot be flushed is refused as well, unless `force` is set.
    pub(crate) async fn detach(&self, name: &str, force: bool) -> Result<Losses, Failure> {
        let service = self.find(name)?;
        self.devices.detach(name, force).await?;
        self.fronts.remove(name);
        let result = self.close(&service).await;
        let losses = service.losses();
        if let Err(failure) = &result {
            crate::complain!(volume = name, "overdrive: {name}: {failure}");
            self.note_failure(failure.clone());
        }
        self.list.borrow_mut().retain(|other| other.name != name);
        // Lets the notified workers and the watch end, which drops their handles of the backing.
        let lane = service.ring.lane();
        self.lanes.forget(lane, name).await;
        lane.rest().await;
        if result.is_err() {
            self.leave_to_holder(service);
        }
        if self.list.borrow().is_empty() {
            self.end(Ending::Stop);
        }
        result.map(|()| losses)
    }

    /// Leaves a volume that could not be written back to its holder, so that its data can be
    /// rescued while this daemon continues. The volume stays this daemon's while a request of it is
    /// in progress, because its memory may still change. Another daemon can serve it only after
    /// this process has ended, which proves that its I/O has ended (C15).
    fn leave_to_holder(&self, service: Rc<VolumeService>) {
        let (Some(keeper), Some(shared)) = (service.volume.take_keeper(), service.shared()) else {
            return;
        };
        let (memory, lane) = (Arc::downgrade(shared), service.ring.lane().clone());
        drop(service);
        let leaving = {
            let lane = lane.clone();
            async move {
                while memory.strong_count() > 0 {
                    lane.sleep_until(lane.now() + LEAVE_PAUSE_NS).await;
                }
                keeper.abandon();
            }
        };
        // If the lane is full, the task is dropped: the holder notices when this process ends.
        let _ = lane.spawn(leaving);
    }

    /// Disconnects a volume's clients, and writes back all dirty data.
    pub(crate) async fn close(&self, service: &Rc<VolumeService>) -> Result<(), Failure> {
        let lane = service.ring.lane().clone();
        service.lane_volume.stop.ask();
        service.volume.valve().refuse();
        service.end_mapping().await;
        let deadline_ns = lane.now() + END_NS;
        while service.clients() > 0 && lane.now() < deadline_ns {
            let changed = &service.lane_volume.clients.changed;
            let seen = changed.seen();
            if service.clients() > 0 {
                either(changed.after(seen), lane.sleep_until(deadline_ns)).await;
            }
        }
        // A separate task: a backing that does not answer must not block the end, and requests
        // begun there must not be dropped.
        let drained = Rc::new((Cell::new(None), Event::new()));
        let (place, working) = (drained.clone(), service.clone());
        let seen = drained.1.seen();
        let work = async move {
            place.0.set(Some(working.drain().await));
            place.1.notify();
        };
        let no_room = |_| Failure::new(Exit::Busy, "the lane has no free task slot");
        lane.spawn(work).map_err(no_room)?;
        let ended = either(drained.1.after(seen), lane.sleep_until(lane.now() + END_NS)).await;
        let result = match (ended, drained.0.get()) {
            (Which::First, Some(result)) => result,
            _ => Err(block::Error::new(block::Kind::Io, "wait any longer for the backing")),
        };
        service.save_last_list().await;
        let counters = service.shared().map(|shared| shared.counters(lane.now()));
        let (name, backing, uri) =
            (service.name.clone(), service.backing.clone(), service.address.clone());
        let losses = service.losses();
        self.served.borrow_mut().push(ServedVolume { name, backing, uri, counters, losses });
        if let Some(shared) = service.shared() {
            shared.stop();
        }
        service.end();
        match result {
            Err(error) => Err(service.not_drained(error)),
            Ok(()) => {
                // The next process starts without the state of the ended connections.
                while let Some(until_ns) = service.volume.settled_at() {
                    lane.sleep_until(until_ns).await;
                }
                service.volume.release();
                let is_attached = self.devices.has(&service.name);
                service.volume.end_record(is_attached);
                if self.devices.node(&service.name).is_none() {
                    host::forget_backings(&service.volume.keys(), &service.name);
                    device::unmark_backing(self.devices.runtime(), &service.volume.keys()).await?;
                }
                if let Some(loss) = service.volume.loss() {
                    return Err(service.loss_failure(loss, is_attached));
                }
                service.volume.damage().map_or(Ok(()), |damage| Err(Failure::new(Exit::Io, damage)))
            }
        }
    }

    /// Keeps the first failure for the command's message and exit status; later ones are printed.
    pub(crate) fn note_failure(&self, failure: Failure) {
        let mut first_failure = self.failure.borrow_mut();
        match &*first_failure {
            None => *first_failure = Some(failure),
            Some(first) => crate::complain!("overdrive: {first}; also: {failure}"),
        }
    }

    /// Returns the volumes that were served, with their final state.
    pub(crate) fn served(&self) -> Vec<ServedVolume> {
        self.served.borrow().clone()
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }
}

/// Checks that this program starts at all, so that it can replace the running one. Waits some
/// milliseconds for it.
fn try_program(program: &Path) -> Result<(), Failure> {
    let tried = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let why = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => output.status.to_string(),
        Err(error) => error.to_string(),
    };
    let message = format!(
        "{}: does not run ({why}); not upgraded: the running program continues",
        program.display()
    );
    Err(Failure::new(Exit::Usage, message))
}
