//! Volumes as block devices of this machine.
//!
//! ```text
//!   volume --front/fuse--> RUNTIME/devices/NAME/NAME --loop device--> /dev/loopN <--link-- /dev/overdrive/NAME
//! ```
//!
//! The kernel keeps a device while no process serves it: what is asked of it waits. The next process finds the loop device
//! over the file that it serves, and goes on with it.

mod blocking;
mod over_file;
mod place;

use blocking::blocking;
use lane::{Lane, first};
use over_file::OverFile;
use stack::{Exit, Failure, Keep};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uring::LoopOptions;

pub use place::{DEVICES, Orphan, orphan};
pub(crate) use place::{directory, link};

/// How long a device may take to be flushed and to go, in nanoseconds.
const DETACH_NS: u64 = 60_000_000_000;

/// Whether a device may have this name.
///
/// # Errors
/// Why not, with the mend.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let checked = match name.starts_with('.') {
        true => Err(format!("'{name}' is hidden; give it another name by --name")),
        false => fuse::check_names(&[name.to_owned()]),
    };
    checked.map_err(|why| Failure::new(Exit::Usage, why))
}

/// A volume that is to be a block device.
#[derive(Clone, Debug)]
pub struct Attaching {
    /// Its name, and its device's.
    pub volume: String,
    /// What keeps the device's file mounted when this process is killed. None: nothing.
    pub keep: Option<Keep>,
}

/// A device of a volume.
struct Device {
    volume: String,
    over: Arc<OverFile>,
    is_attached: bool,
}

/// The block devices of a daemon.
pub(crate) struct Devices {
    lane: Lane,
    runtime: PathBuf,
    list: RefCell<Vec<Device>>,
}

impl Devices {
    pub(crate) fn new(lane: &Lane, runtime: &Path) -> Devices {
        Devices { lane: lane.clone(), runtime: runtime.to_owned(), list: RefCell::default() }
    }

    /// Adds one, whose file will be served.
    ///
    /// # Errors
    /// The directory of its file cannot be made.
    pub(crate) fn add(&self, volume: &str, options: LoopOptions) {
        let file = place::directory(&self.runtime, volume).join(volume);
        let over = Arc::new(OverFile { file, link: place::link(volume), options });
        self.list.borrow_mut().push(Device { volume: volume.to_owned(), over, is_attached: false });
    }

    fn find(&self, volume: &str) -> Option<Arc<OverFile>> {
        let list = self.list.borrow();
        list.iter().find(|device| device.volume == volume).map(|device| device.over.clone())
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

    /// The node of a volume's device, while it is attached.
    pub(crate) fn node(&self, volume: &str) -> Option<PathBuf> {
        let list = self.list.borrow();
        let device = list.iter().find(|device| device.volume == volume && device.is_attached)?;
        device.over.node()
    }

    /// Makes all of them, or goes on with those that a process before this one has made. Their files are served by then.
    ///
    /// # Errors
    /// One cannot be had; those before it stay.
    pub(crate) async fn attach(&self) -> Result<(), Failure> {
        for volume in self.volumes() {
            let over = self.find(&volume).expect("listed");
            blocking(move || over.attach()).await??;
            self.note(&volume, true);
        }
        Ok(())
    }

    /// Flushes a device and takes it away. A volume that is no device, or no more, is done with at once.
    ///
    /// # Errors
    /// Busy, and by what; it cannot be flushed, or does not go within a minute. Then it stays.
    pub(crate) async fn detach(&self, volume: &str) -> Result<(), Failure> {
        let Some(over) = self.find(volume) else { return Ok(()) };
        let mut detached = None;
        let detaching = async { detached = Some(blocking(move || over.detach()).await) };
        first(detaching, self.lane.sleep_until(self.lane.now() + DETACH_NS)).await;
        let late = || Failure::new(Exit::Io, format!("{volume}: its device cannot be flushed"));
        detached.ok_or_else(late)???;
        self.list.borrow_mut().retain(|device| device.volume != volume);
        Ok(())
    }

    /// Takes all of them away that nothing uses. What uses the others waits for the next process.
    pub(crate) async fn detach_idle(&self) {
        for volume in self.volumes() {
            if let Err(failure) = self.detach(&volume).await {
                crate::tell!(
                    "overdrive: {failure}; the device stays, and waits for the next 'overdrive attach' or 'serve'"
                );
            }
        }
    }
}
