//! Volumes as block devices of this machine.
//!
//! ```text
//!   volume --front/ublk--> queues --the kernel's ublk--> /dev/ublkbN <--------------+
//!   volume --front/fuse--> RUNTIME/devices/NAME/NAME --loop device--> /dev/loopN <--+
//!   volume --front/nbd/direct--> sockets --the kernel's NBD client--> /dev/nbdN <---+
//!                                                                                   |
//!                                                      /dev/overdrive/NAME ---link--+
//! ```
//!
//! The kernel keeps a device while no process serves it, and requests to it wait. The next process
//! finds the device again, a loop device by its file, the others by the identity stored in their
//! drivers, and continues to serve it.

mod answer;
mod apart;
mod blocking;
mod faces;
mod orphan;
mod over_file;
mod over_nbd;
mod over_ublk;
mod place;
mod route;
mod using;
mod waiting;

use crate::front::{Direct, Ublk};
use crate::plan::Route;
use crate::units::WaitTime;
use block::{Fua, Limits};
use blocking::blocking;
use lane::{Event, Lane, first};

use over_file::OverFile;
use over_nbd::{OverNbd, VolumeProperties};
use over_ublk::OverUblk;
use stack::{Exit, Failure, ValveShared};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

pub use answer::device_call;
pub use apart::DEVICE_CALL;
pub use faces::sweep_faces;
pub(crate) use faces::{mark, unmark};
pub use orphan::{Orphan, orphan};
pub use place::DEVICES;
pub(crate) use place::{directory, hash, link};
pub use waiting::{WaitingVolume, waiting_volumes};

/// Maximum number of connections of a new device of the kernel's NBD client.
const CONNECTIONS_MAX: usize = 8;

/// Longest wait for changes in progress before a device is resized, in nanoseconds.
const HOLD_NS: u64 = 5_000_000_000;

/// Longest time that flushing and removing a device may take, in nanoseconds.
const DETACH_NS: u64 = 60_000_000_000;

/// Checks that a device may have this name.
///
/// # Errors
/// The reason why not, with a correction.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let checked = match name.starts_with('.') {
        true => Err(format!("'{name}' is hidden; choose another name with --name")),
        false => fuse::check_names(&[name.to_owned()]),
    };
    checked.map_err(|why| Failure::new(Exit::Usage, why))
}

/// How the kernel reaches a volume, with the front that serves it in that way.
#[derive(Clone)]
pub(crate) enum By {
    /// Over a file of a separate front.
    Fuse,
    /// Over connections to this front.
    Nbd(Rc<Direct>),
    /// By queues that this front serves.
    Ublk(Rc<Ublk>),
}

/// A volume that is to become a device.
pub(crate) struct Wanted<'a> {
    pub(crate) volume: &'a str,
    /// Identity of its contents.
    pub(crate) identity: &'a str,
    /// Limits that its clients see.
    pub(crate) limits: &'a Limits,
    /// The valve that holds its changes back.
    pub(crate) valve: &'a Arc<ValveShared>,
    /// Time for which failed changes are tried again, in milliseconds.
    pub(crate) retry_ms: u64,
    /// How long requests wait for a new daemon after one has ended.
    pub(crate) wait_time: WaitTime,
    /// The files and devices below the volume.
    pub(crate) keys: &'a [String],
    /// Whether it answers every request with an error, so that no flush of it can succeed.
    pub(crate) is_lost: bool,
}

/// The lower end of a device.
#[derive(Clone)]
enum Stand {
    File(Arc<OverFile>),
    Nbd(Arc<OverNbd>, Rc<Direct>),
    Ublk(Arc<OverUblk>, Rc<Ublk>),
}

impl Stand {
    fn node(&self) -> Option<PathBuf> {
        match self {
            Stand::File(device) => device.node(),
            Stand::Nbd(device, _) => device.node(),
            Stand::Ublk(device, _) => device.node(),
        }
    }

    fn route(&self) -> Route {
        match self {
            Stand::File(_) => Route::Fuse,
            Stand::Nbd(..) => Route::Nbd,
            Stand::Ublk(..) => Route::Ublk,
        }
    }

    async fn attach(self) -> Result<(), Failure> {
        match self {
            Stand::File(device) => blocking(move || device.attach()).await?,
            Stand::Nbd(device, front) => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from);
                let count = device.connections(processors.min(CONNECTIONS_MAX));
                let sockets: std::io::Result<Vec<_>> =
                    (0..count).map(|_| front.connect()).collect();
                let none =
                    |error| Failure::new(Exit::Io, format!("no connection can be made: {error}"));
                let sockets = sockets.map_err(none)?;
                blocking(move || device.attach(sockets)).await?
            }
            Stand::Ublk(device, front) => attach_ublk(device, &front).await,
        }
    }

    async fn detach(self, last: Last) -> Result<(), Failure> {
        match self {
            Stand::File(device) => blocking(move || device.detach(last)).await?,
            Stand::Nbd(device, _) => blocking(move || device.detach(last)).await?,
            Stand::Ublk(device, _) => blocking(move || device.detach(last)).await?,
        }
    }
}

/// The driver makes the device, our lanes serve its queues, and only then can it have a disk.
async fn attach_ublk(device: Arc<OverUblk>, front: &Ublk) -> Result<(), Failure> {
    let (queues, preparing) = (front.queues(), device.clone());
    let prepared = blocking(move || preparing.prepare(queues)).await??;
    let served = front.serve(&prepared.opened).await;
    let start = move || {
        let started = served.and_then(|()| device.start(&prepared));
        if started.is_err() {
            device.undo(prepared);
        }
        started
    };
    blocking(start).await?
}

/// A device of a volume.
struct Device {
    volume: String,
    stand: Stand,
    is_attached: bool,
    last: Last,
    valve: Arc<ValveShared>,
}

/// The last request to a device before it is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    /// A flush, which must succeed.
    Flush,
    /// No request: the device answers with errors, and its users have seen that.
    Nothing,
}

/// The block devices of a daemon.
pub(crate) struct Devices {
    lane: Lane,
    runtime: PathBuf,
    list: RefCell<Vec<Device>>,
    /// Whether devices are being made whose nodes are not known yet.
    is_attaching: Cell<bool>,
    attached: Event,
}

impl Devices {
    pub(crate) fn new(lane: &Lane, runtime: &Path) -> Devices {
        Devices {
            lane: lane.clone(),
            runtime: runtime.to_owned(),
            list: RefCell::default(),
            is_attaching: Cell::new(false),
            attached: Event::new(),
        }
    }

    /// Adds a device, which will be served in this way.
    pub(crate) fn add(&self, by: &By, wanted: &Wanted<'_>) {
        let Wanted { volume, identity, limits, valve, retry_ms, wait_time, keys, is_lost } =
            *wanted;
        let (block_bytes, read_only) = (limits.block_logical_bytes, limits.read_only);
        let stand = match by {
            By::Fuse => {
                let file = place::directory(&self.runtime, volume).join(volume);
                Stand::File(Arc::new(OverFile {
                    file,
                    link: place::link(volume),
                    bytes: limits.bytes(),
                    block_bytes,
                    read_only,
                    keys: keys.to_owned(),
                }))
            }
            By::Ublk(front) => {
                let device = OverUblk::new(&self.runtime, volume, identity, limits, keys);
                Stand::Ublk(Arc::new(device), front.clone())
            }
            By::Nbd(front) => {
                let is_fua_native = limits.fua == Fua::Native || !limits.flush_needed;
                let properties = VolumeProperties {
                    identity,
                    block_bytes,
                    is_fua_native,
                    retry_ms,
                    wait_time,
                    keys,
                };
                let device = OverNbd::new(&self.runtime, volume, &properties);
                Stand::Nbd(Arc::new(device), front.clone())
            }
        };
        let last = if is_lost { Last::Nothing } else { Last::Flush };
        let (volume, valve) = (volume.to_owned(), valve.clone());
        let device = Device { volume, stand, is_attached: false, last, valve };
        self.list.borrow_mut().push(device);
    }

    /// Returns the runtime directory.
    pub(crate) fn runtime(&self) -> &Path {
        &self.runtime
    }

    fn find(&self, volume: &str) -> Option<(Stand, Last)> {
        let list = self.list.borrow();
        let found = list.iter().find(|device| device.volume == volume);
        found.map(|device| (device.stand.clone(), device.last))
    }

    /// Whether a volume is a device that was not removed.
    pub(crate) fn has(&self, volume: &str) -> bool {
        self.find(volume).is_some()
    }

    fn volumes(&self) -> Vec<String> {
        self.list.borrow().iter().map(|device| device.volume.clone()).collect()
    }

    fn note(&self, volume: &str, is_attached: bool) {
        let mut list = self.list.borrow_mut();
        for device in list.iter_mut().filter(|device| device.volume == volume) {
            device.is_attached = is_attached;
        }
    }

    /// Returns the node of a volume's device, and how the kernel reaches it, while it is attached.
    pub(crate) fn node(&self, volume: &str) -> Option<(PathBuf, Route)> {
        let list = self.list.borrow();
        let device = list.iter().find(|device| device.volume == volume && device.is_attached)?;
        Some((device.stand.node()?, device.stand.route()))
    }

    /// Makes all devices, or continues with those that an earlier process has made. Their volumes
    /// must be served by then.
    ///
    /// # Errors
    /// One cannot be made; those before it stay.
    pub(crate) async fn attach(&self) -> Result<(), Failure> {
        self.is_attaching.set(true);
        let attached = self.attach_all().await;
        self.is_attaching.set(false);
        self.attached.notify();
        attached
    }

    async fn attach_all(&self) -> Result<(), Failure> {
        for volume in self.volumes() {
            let (stand, _) = self.find(&volume).expect("listed");
            let held = self.hold_for_resize(&volume, &stand).await;
            let attached = stand.attach().await;
            held.into_iter().for_each(|valve| valve.open());
            attached?;
            self.note(&volume, true);
        }
        Ok(())
    }

    /// Holds the changes of a volume back if its device, over a file, is about to be resized. None:
    /// they are not held, or the operator holds them already.
    async fn hold_for_resize(&self, volume: &str, stand: &Stand) -> Option<Arc<ValveShared>> {
        let Stand::File(device) = stand else { return None };
        let valve = {
            let list = self.list.borrow();
            list.iter().find(|device| device.volume == volume).map(|device| device.valve.clone())?
        };
        if !device.is_to_be_resized() || !valve.close() {
            return None;
        }
        // A backing that does not answer is not waited for: the device is resized anyway.
        let quiet = async {
            let _ = valve.quiet(|| false).await;
        };
        first(quiet, self.lane.sleep_until(self.lane.now() + HOLD_NS)).await;
        Some(valve)
    }

    /// Waits until no device is being made: a half-made device would be taken for none, and its
    /// maker waits for the volumes that are served.
    async fn settled(&self) {
        loop {
            let seen = self.attached.seen();
            if !self.is_attaching.get() {
                return;
            }
            self.attached.after(seen).await;
        }
    }

    /// Sets the time, in milliseconds, for which failed changes of a volume are tried again: a
    /// device whose requests have a limit gets a higher one.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) async fn set_retry(&self, volume: &str, retry_ms: u64) -> Result<(), Failure> {
        match self.find(volume) {
            Some((Stand::Nbd(device, _), _)) => {
                blocking(move || device.set_retry(retry_ms)).await?
            }
            Some((Stand::File(_) | Stand::Ublk(..), _)) | None => Ok(()),
        }
    }

    /// Returns a volume whose device does not survive an exec, because its driver considers its
    /// server alive.
    pub(crate) fn bound_to_process(&self) -> Option<String> {
        let list = self.list.borrow();
        let found = list.iter().find(|device| matches!(device.stand, Stand::Ublk(..)));
        found.map(|device| device.volume.clone())
    }

    /// Flushes a device, unless `force` is set, and removes it. Does nothing for a volume that is
    /// not, or no longer, a device.
    ///
    /// # Errors
    /// Busy, with the user; it cannot be flushed, or is not removed within a minute. Then
    /// it stays.
    pub(crate) async fn detach(&self, volume: &str, force: bool) -> Result<(), Failure> {
        let Some((stand, last)) = self.find(volume) else { return Ok(()) };
        let last = if force { Last::Nothing } else { last };
        let mut detached = None;
        let detaching = async {
            self.settled().await;
            detached = Some(stand.detach(last).await);
        };
        first(detaching, self.lane.sleep_until(self.lane.now() + DETACH_NS)).await;
        let late = || Failure::new(Exit::Io, format!("{volume}: its device cannot be flushed"));
        let detached = detached.unwrap_or_else(|| Err(late()));
        detached.map_err(|Failure { exit, message }| match (exit, last) {
            (Exit::Io, Last::Flush) => {
                let next = format!(
                    "repair the backing, then run 'overdrive volume clear-error {volume} \
                     --retry'; or run 'overdrive detach {volume} --force': users of the device \
                     get errors, and dirty data stays retained"
                );
                Failure::new(exit, format!("{message}; {next}"))
            }
            _ => Failure { exit, message },
        })?;
        self.list.borrow_mut().retain(|device| device.volume != volume);
        Ok(())
    }

    /// Removes all devices that are not in use. Users of the others wait for the next process.
    pub(crate) async fn detach_idle(&self) {
        for volume in self.volumes() {
            if let Err(failure) = self.detach(&volume, false).await {
                crate::tell!(
                    "overdrive: {failure}; the device stays, and waits for the next 'overdrive attach' or 'serve'"
                );
            }
        }
    }
}
