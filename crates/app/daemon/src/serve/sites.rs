//! All volumes of a daemon, and what ends it.

use super::ServedVolume;
use super::captive::{Which, either};
use super::site::Site;
use crate::control::losses::Losses;
use crate::control::words::Row;
use crate::device::{self, Devices};
use crate::front::{Ending, Fleet};
use crate::lanes::Lanes;
use lane::Event;
use stack::{Exit, Failure};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;

/// How long clients and the backing may take at the end, before what is dirty is left to the holder,
/// in nanoseconds.
const END_NS: u64 = 60_000_000_000;

/// Between two looks whether the memory of a volume is still in use, in nanoseconds.
const LEAVE_PAUSE_NS: u64 = 50_000_000;

/// The volumes of a daemon.
pub(crate) struct Sites {
    list: RefCell<Vec<Rc<Site>>>,
    /// How clients reach them.
    pub(crate) fleet: Fleet,
    /// Which of them are block devices.
    pub(crate) devices: Devices,
    /// On which threads.
    pub(crate) lanes: Rc<Lanes>,
    ending: Cell<Option<Ending>>,
    /// The end was asked for.
    pub(crate) asked: Event,
    /// The program to execute for an upgrade, or why there can be none.
    program: Result<PathBuf, String>,
    failure: RefCell<Option<Failure>>,
    served: RefCell<Vec<ServedVolume>>,
}

impl Sites {
    pub(crate) fn new(
        list: Vec<Rc<Site>>,
        fleet: Fleet,
        devices: Devices,
        lanes: Rc<Lanes>,
        program: Result<PathBuf, String>,
    ) -> Rc<Sites> {
        Rc::new(Sites {
            list: RefCell::new(list),
            fleet,
            devices,
            lanes,
            ending: Cell::new(None),
            asked: Event::new(),
            program,
            failure: RefCell::new(None),
            served: RefCell::default(),
        })
    }

    pub(crate) fn all(&self) -> Vec<Rc<Site>> {
        self.list.borrow().clone()
    }

    /// Notes for the next process what is served: all volumes, or none.
    ///
    /// # Errors
    /// A note cannot be written.
    pub(crate) fn record(&self) -> Result<(), Failure> {
        let list = self.list.borrow();
        let recorded = list.iter().try_for_each(|site| site.volume.record());
        if recorded.is_err() {
            list.iter().for_each(|site| site.volume.restore_record());
        }
        recorded
    }

    pub(crate) fn find(&self, name: &str) -> Result<Rc<Site>, Failure> {
        let list = self.list.borrow();
        let found = list.iter().find(|site| site.name == name);
        found.cloned().ok_or_else(|| {
            let message = format!("{name}: no volume of this name; see 'overdrive volume list'");
            Failure::new(Exit::Negative, message)
        })
    }

    pub(crate) fn rows(&self) -> serde_json::Value {
        let rows: Vec<_> = self.list.borrow().iter().map(|site| self.row(site)).collect();
        serde_json::to_value(rows).expect("plain data")
    }

    /// A volume in a list, with its device.
    pub(crate) fn row(&self, site: &Site) -> Row {
        let Some((node, route)) = self.devices.node(&site.name) else { return site.row() };
        let (device, route) = (node.display().to_string(), route.word().to_owned());
        Row { device, route, ..site.row() }
    }

    /// Why the daemon is to end, once it is.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    pub(crate) fn end(&self, ending: Ending) {
        if self.ending.get().is_none() {
            self.ending.set(Some(ending));
            self.asked.notify();
        }
    }

    /// The program that an upgrade executes.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        self.program.clone().ok()
    }

    pub(crate) fn upgrade(&self) -> Result<(), Failure> {
        match &self.program {
            Err(why) => return Err(Failure::new(Exit::Usage, why.clone())),
            Ok(program) => try_program(program)?,
        }
        if let Some(volume) = self.devices.bound_to_process() {
            let message = format!(
                "{volume}: is a device by ublk, which another program of this process cannot take over; restart the \
                 daemon instead, and what uses the device waits (under systemd: systemctl restart)"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        let unkept = self.list.borrow().iter().any(|site| !site.volume.outlives_exec());
        if unkept {
            let message = "a volume of this daemon is not kept by a holder, so that its memory would \
                           be lost: restart it instead (under systemd: systemctl restart)";
            return Err(Failure::new(Exit::Usage, message));
        }
        let list = self.list.borrow();
        if let Some(site) = list.iter().find(|site| site.is_held()) {
            let message = format!(
                "{}: is frozen or paused, and the next program would not know; resume it first",
                site.name
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        drop(list);
        self.end(Ending::Upgrade);
        Ok(())
    }

    /// Changes settings of a volume, all of them or none; returns what the operator should know.
    pub(crate) async fn set(&self, name: &str, changes: &[String]) -> Result<Vec<String>, Failure> {
        let site = self.find(name)?;
        let notes = site.set(changes).await?;
        self.devices.set_retry(name, site.retry_ms()).await?;
        Ok(notes)
    }

    /// Ends one volume: its device and its clients, then what is dirty, then its hold on the backing. A device that is in
    /// use is refused, and nothing changes.
    /// One that cannot be flushed is refused as well, unless by `force`.
    pub(crate) async fn detach(&self, name: &str, force: bool) -> Result<Losses, Failure> {
        let site = self.find(name)?;
        self.devices.detach(name, force).await?;
        self.fleet.remove(name);
        let result = self.close(&site).await;
        let losses = site.losses();
        if let Err(failure) = &result {
            crate::complain!("overdrive: {name}: {failure}");
            self.note_failure(failure.clone());
        }
        self.list.borrow_mut().retain(|other| other.name != name);
        // The workers and the watch hear of it and end, and with them their hold on the backing.
        let lane = site.ring.lane();
        self.lanes.forget(lane, name).await;
        lane.rest().await;
        if result.is_err() {
            self.leave_to_holder(site);
        }
        if self.list.borrow().is_empty() {
            self.end(Ending::Stop);
        }
        result.map(|()| losses)
    }

    /// Has udev prefer the volumes' devices to what they lie on.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) async fn mark_faces(&self) -> Result<(), Failure> {
        for site in self.all() {
            if self.devices.node(&site.name).is_some() {
                let keys = site.volume.keys();
                device::mark(self.devices.runtime(), &site.name, &keys).await?;
            }
        }
        Ok(())
    }

    /// Lets the holder have a volume that could not be written out, so that it can be rescued while this
    /// daemon goes on. (Another one can serve it once this one's I/O is over, which its end shows: C15.) While
    /// a request of it is under way the memory may still change: until then it stays this daemon's.
    fn leave_to_holder(&self, site: Rc<Site>) {
        let (Some(keeper), Some(shared)) = (site.volume.take_keeper(), site.shared()) else {
            return;
        };
        let (memory, lane) = (Arc::downgrade(shared), site.ring.lane().clone());
        drop(site);
        let leaving = {
            let lane = lane.clone();
            async move {
                while memory.strong_count() > 0 {
                    lane.sleep_until(lane.now() + LEAVE_PAUSE_NS).await;
                }
                keeper.abandon();
            }
        };
        // A lane without room drops it: the holder hears of it when this process ends.
        let _ = lane.spawn(leaving);
    }

    /// Disconnects a volume's clients, and writes everything out.
    pub(crate) async fn close(&self, site: &Rc<Site>) -> Result<(), Failure> {
        let lane = site.ring.lane().clone();
        site.served.stop.ask();
        site.volume.valve().refuse();
        let deadline_ns = lane.now() + END_NS;
        while site.clients() > 0 && lane.now() < deadline_ns {
            let changed = &site.served.clients.changed;
            let seen = changed.seen();
            if site.clients() > 0 {
                either(changed.after(seen), lane.sleep_until(deadline_ns)).await;
            }
        }
        // A task of its own: a backing that does not answer must not keep us, and what was begun
        // there is not to be dropped.
        let drained = Rc::new((Cell::new(None), Event::new()));
        let (place, working) = (drained.clone(), site.clone());
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
        let counters = site.shared().map(|shared| shared.counters(lane.now()));
        let (name, backing, uri) = (site.name.clone(), site.backing.clone(), site.address.clone());
        let losses = site.losses();
        self.served.borrow_mut().push(ServedVolume { name, backing, uri, counters, losses });
        if let Some(shared) = site.shared() {
            shared.stop();
        }
        site.end();
        match result {
            Err(error) => Err(site.not_drained(error)),
            Ok(()) => {
                site.volume.release();
                let is_attached = self.devices.has(&site.name);
                site.volume.end_record(is_attached);
                if self.devices.node(&site.name).is_none() {
                    host::forget_backings(&site.volume.keys(), &site.name);
                    device::unmark(self.devices.runtime(), &site.volume.keys()).await?;
                }
                if let Some(loss) = site.volume.loss() {
                    return Err(site.lost(loss, is_attached));
                }
                site.volume.damage().map_or(Ok(()), |damage| Err(Failure::new(Exit::Io, damage)))
            }
        }
    }

    /// What went wrong at the end, the worst first: for the command's status.
    pub(crate) fn note_failure(&self, failure: Failure) {
        let mut noted = self.failure.borrow_mut();
        match &*noted {
            None => *noted = Some(failure),
            Some(first) => crate::complain!("overdrive: {first}; also: {failure}"),
        }
    }

    /// The volumes that were served, as they ended.
    pub(crate) fn served(&self) -> Vec<ServedVolume> {
        self.served.borrow().clone()
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }
}

/// Whether this program can take our place: it runs at least. This waits for it, some milliseconds.
fn try_program(program: &Path) -> Result<(), Failure> {
    let tried = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let why = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => output.status.to_string(),
        Err(error) => error.to_string(),
    };
    let message =
        format!("{}: does not run ({why}); nothing was upgraded, this goes on", program.display());
    Err(Failure::new(Exit::Usage, message))
}
