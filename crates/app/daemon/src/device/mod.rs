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

mod blocking;
mod broker_process;
mod faces;
mod helper;
mod helper_call;
mod orphan;
mod over_file;
mod over_nbd;
mod over_ublk;
mod place;
mod route;
mod using;
mod waiting;

use crate::front::{KernelNbd, Ublk};
use crate::plan::Route;
use block::{Fua, Limits};
pub(crate) use blocking::blocking;
pub use broker_process::run_broker;
use lane::{Event, Lane, first};
use over_file::OverFile;
use over_nbd::{OverNbd, VolumeProperties};
use over_ublk::OverUblk;
use route::RouteFront;
use stack::{Exit, Failure, ValveShared};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

pub use faces::sweep_faces;
pub(crate) use faces::{parts, unmark_backing};
pub use helper::device_call;
pub use helper_call::DEVICE_CALL;
pub use orphan::{Orphan, orphan};
pub use place::DEVICES;
pub(crate) use place::directory;
pub(crate) use route::BoundRoute;
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

/// Properties of a volume that becomes a device.
pub(crate) struct NewDevice<'a> {
    pub(crate) volume: &'a str,
    /// Identity of its contents.
    pub(crate) identity: &'a str,
    /// Limits that its clients see.
    pub(crate) limits: &'a Limits,
    /// The valve that holds its changes back.
    pub(crate) valve: &'a Arc<ValveShared>,
    /// Time for which failed changes are tried again, in milliseconds.
    pub(crate) retry_ms: u64,
    /// The files and devices below the volume.
    pub(crate) keys: &'a [String],
    /// Whether it answers every request with an error, so that no flush of it can succeed.
    pub(crate) is_lost: bool,
}

/// The kernel's side of a device, with the front that serves it.
#[derive(Clone)]
enum KernelSide {
    File(Arc<OverFile>),
    Nbd(Arc<OverNbd>, Rc<KernelNbd>),
    Ublk(Arc<OverUblk>, Rc<Ublk>),
}

impl KernelSide {
    fn node(&self) -> Option<PathBuf> {
        match self {
            KernelSide::File(device) => device.node(),
            KernelSide::Nbd(device, _) => device.node(),
            KernelSide::Ublk(device, _) => device.node(),
        }
    }

    fn route(&self) -> Route {
        match self {
            KernelSide::File(_) => Route::Fuse,
            KernelSide::Nbd(..) => Route::Nbd,
            KernelSide::Ublk(..) => Route::Ublk,
        }
    }

    async fn attach(self) -> Result<(), Failure> {
        match self {
            KernelSide::File(device) => blocking(move || device.attach()).await?,
            KernelSide::Nbd(device, front) => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from);
                let count = device.connections(processors.min(CONNECTIONS_MAX));
                let sockets: std::io::Result<Vec<_>> =
                    (0..count).map(|_| front.connect()).collect();
                let none =
                    |error| Failure::new(Exit::Io, format!("no connection can be made: {error}"));
                let sockets = sockets.map_err(none)?;
                blocking(move || device.attach(sockets)).await?
            }
            KernelSide::Ublk(device, front) => attach_ublk(device, &front).await,
        }
    }

    async fn detach(self, last: LastRequest) -> Result<(), Failure> {
        match self {
            KernelSide::File(device) => blocking(move || device.detach(last)).await?,
            KernelSide::Nbd(device, _) => blocking(move || device.detach(last)).await?,
            KernelSide::Ublk(device, _) => blocking(move || device.detach(last)).await?,
        }
    }
}

/// Attaches a ublk device in three steps: the driver makes the device, our lanes serve its queues,
/// and only then can it have a disk.
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
    kernel_side: KernelSide,
    is_attached: bool,
    last: LastRequest,
    valve: Arc<ValveShared>,
    /// The files and devices below the volume.
    keys: Vec<String>,
}

/// The last request to a device before it is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LastRequest {
    /// A flush, which must succeed.
    Flush,
    /// No request: the device answers with errors, which its users have seen.
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

    /// Adds a device, which will be served by this route.
    pub(crate) fn add(&self, route: &BoundRoute, new: &NewDevice<'_>) {
        let NewDevice { volume, identity, limits, valve, retry_ms, keys, is_lost } = *new;
        let (block_bytes, read_only) = (limits.block_logical_bytes, limits.read_only);
        let kernel_side = match &route.front {
            RouteFront::Fuse => {
                let file = place::directory(&self.runtime, volume).join(volume);
                KernelSide::File(Arc::new(OverFile {
                    file,
                    link: place::link(volume),
                    bytes: limits.bytes(),
                    block_bytes,
                    read_only,
                    keys: keys.to_owned(),
                }))
            }
            RouteFront::Ublk(front) => {
                let device = OverUblk::new(&self.runtime, volume, identity, limits, keys);
                KernelSide::Ublk(Arc::new(device), front.clone())
            }
            RouteFront::Nbd(front) => {
                let is_fua_native = limits.fua == Fua::Native || !limits.flush_needed;
                let terms = VolumeProperties {
                    identity,
                    block_bytes,
                    is_fua_native,
                    retry_ms,
                    wait_time: route.wait_time,
                    keys,
                };
                let device = OverNbd::new(&self.runtime, volume, &terms);
                KernelSide::Nbd(Arc::new(device), front.clone())
            }
        };
        let last = if is_lost { LastRequest::Nothing } else { LastRequest::Flush };
        let (volume, valve, keys) = (volume.to_owned(), valve.clone(), keys.to_owned());
        let device = Device { volume, kernel_side, is_attached: false, last, valve, keys };
        self.list.borrow_mut().push(device);
        self.is_attaching.set(true);
    }

    /// Returns the runtime directory.
    pub(crate) fn runtime(&self) -> &Path {
        &self.runtime
    }

    fn find(&self, volume: &str) -> Option<(KernelSide, LastRequest)> {
        let list = self.list.borrow();
        let found = list.iter().find(|device| device.volume == volume);
        found.map(|device| (device.kernel_side.clone(), device.last))
    }

    /// Whether a volume is a device that was not removed.
    pub(crate) fn has(&self, volume: &str) -> bool {
        self.find(volume).is_some()
    }

    fn volumes(&self) -> Vec<String> {
        self.list.borrow().iter().map(|device| device.volume.clone()).collect()
    }

    fn set_attached(&self, volume: &str, is_attached: bool) {
        let mut list = self.list.borrow_mut();
        for device in list.iter_mut().filter(|device| device.volume == volume) {
            device.is_attached = is_attached;
        }
    }

    /// Returns the node of a volume's device, and how the kernel reaches it, while it is attached.
    pub(crate) fn node(&self, volume: &str) -> Option<(PathBuf, Route)> {
        let list = self.list.borrow();
        let device = list.iter().find(|device| device.volume == volume && device.is_attached)?;
        Some((device.kernel_side.node()?, device.kernel_side.route()))
    }

    /// Returns the nodes of all devices that are attached, and how the kernel reaches each.
    pub(crate) fn nodes(&self) -> Vec<(PathBuf, Route)> {
        self.volumes().iter().filter_map(|volume| self.node(volume)).collect()
    }

    /// Returns the volumes whose devices are attached.
    pub(crate) fn attached(&self) -> Vec<String> {
        self.volumes().into_iter().filter(|volume| self.node(volume).is_some()).collect()
    }

    /// Returns a volume whose device another program has removed.
    pub(crate) fn removed_elsewhere(&self) -> Option<String> {
        self.volumes().into_iter().find(|volume| self.node(volume).is_none())
    }

    /// Makes all devices, or continues with those that an earlier process has made; then makes
    /// udev prefer them to their backings. Their volumes must be served by then.
    ///
    /// # Errors
    /// One cannot be made; those before it stay.
    pub(crate) async fn attach(&self) -> Result<(), Failure> {
        let attached = self.attach_all().await;
        self.is_attaching.set(false);
        self.attached.notify();
        attached?;
        self.mark_faces().await
    }

    async fn attach_all(&self) -> Result<(), Failure> {
        for volume in self.volumes() {
            let (kernel_side, _) = self.find(&volume).expect("listed");
            let held = self.hold_for_resize(&volume, &kernel_side).await;
            let attached = kernel_side.attach().await;
            held.into_iter().for_each(|valve| valve.open());
            attached?;
            self.set_attached(&volume, true);
        }
        Ok(())
    }

    async fn mark_faces(&self) -> Result<(), Failure> {
        for volume in self.volumes() {
            if self.node(&volume).is_some() {
                faces::mark_device(&self.runtime, &volume, &self.keys(&volume)).await?;
            }
        }
        Ok(())
    }

    /// Returns the files and devices below a volume's device.
    fn keys(&self, volume: &str) -> Vec<String> {
        let list = self.list.borrow();
        let found = list.iter().find(|device| device.volume == volume);
        found.map_or(Vec::new(), |device| device.keys.clone())
    }

    /// Holds a volume's changes back if it has a loop device that is about to be resized. None:
    /// they are not held back, or the operator has frozen the volume already.
    async fn hold_for_resize(
        &self,
        volume: &str,
        kernel_side: &KernelSide,
    ) -> Option<Arc<ValveShared>> {
        let KernelSide::File(device) = kernel_side else { return None };
        let valve = {
            let list = self.list.borrow();
            list.iter().find(|device| device.volume == volume).map(|device| device.valve.clone())?
        };
        if !device.is_to_be_resized() || !valve.close() {
            return None;
        }
        // If the backing does not answer in time, the device is resized anyway.
        let quiet = async {
            let _ = valve.quiet(|| false).await;
        };
        first(quiet, self.lane.sleep_until(self.lane.now() + HOLD_NS)).await;
        Some(valve)
    }

    /// Waits until no device is being made. A half-made device would be mistaken for a missing one,
    /// and it can only be completed while its volume is served.
    pub(crate) async fn wait_until_made(&self) {
        loop {
            let seen = self.attached.seen();
            if !self.is_attaching.get() {
                return;
            }
            self.attached.after(seen).await;
        }
    }

    /// Sets the time, in milliseconds, for which failed changes of a volume are tried again. A
    /// device whose driver limits the time of requests gets a limit beyond that.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) async fn set_retry(&self, volume: &str, retry_ms: u64) -> Result<(), Failure> {
        match self.find(volume) {
            Some((KernelSide::Nbd(device, _), _)) => {
                blocking(move || device.set_retry(retry_ms)).await?
            }
            Some((KernelSide::File(_) | KernelSide::Ublk(..), _)) | None => Ok(()),
        }
    }

    /// Returns a volume whose device does not survive an exec, because its driver considers its
    /// server alive.
    pub(crate) fn bound_to_process(&self) -> Option<String> {
        let list = self.list.borrow();
        let found = list.iter().find(|device| matches!(device.kernel_side, KernelSide::Ublk(..)));
        found.map(|device| device.volume.clone())
    }

    /// Flushes a device, unless `force` is set, and removes it. Does nothing for a volume that is
    /// not, or no longer, a device.
    ///
    /// # Errors
    /// Busy, with the user; it cannot be flushed, or is not removed within a minute. Then
    /// it stays.
    pub(crate) async fn detach(&self, volume: &str, force: bool) -> Result<(), Failure> {
        let Some((kernel_side, last)) = self.find(volume) else { return Ok(()) };
        let last = if force { LastRequest::Nothing } else { last };
        let mut detached = None;
        let detaching = async {
            self.wait_until_made().await;
            detached = Some(kernel_side.detach(last).await);
        };
        first(detaching, self.lane.sleep_until(self.lane.now() + DETACH_NS)).await;
        let late = || Failure::new(Exit::Io, format!("{volume}: its device cannot be flushed"));
        let detached = detached.unwrap_or_else(|| Err(late()));
        detached.map_err(|Failure { exit, message }| match (exit, last) {
            (Exit::Io, LastRequest::Flush) => {
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
                    volume = volume,
                    "overdrive: {failure}; the device stays, and waits for the next 'overdrive attach' or 'serve'"
                );
            }
        }
    }
}
