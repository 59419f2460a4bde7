//! Remains of a device whose daemon has ended.

use super::place::{directory, link, remove_link};
use super::{over_nbd, over_ublk};
use crate::plan::Route;
use host::{LoopDevice, NbdDevice};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Remains of a device whose daemon has ended.
#[derive(Debug)]
pub struct Orphan {
    volume: String,
    directory: PathBuf,
    loops: Vec<LoopDevice>,
    nbds: Vec<NbdDevice>,
    ublks: Vec<u32>,
}

/// Returns the remains of this volume's device, from the kernel's lists, without a request to its
/// mount.
pub fn orphan(runtime: &Path, volume: &str) -> Option<Orphan> {
    let directory = directory(runtime, volume);
    let loops = LoopDevice::all_over(&directory.join(volume));
    let nbds: Vec<_> = over_nbd::all_of(&directory).into_iter().map(|(device, _)| device).collect();
    let ublks = over_ublk::all_of(&directory);
    let is_none = loops.is_empty() && nbds.is_empty() && ublks.is_empty();
    let is_there = !is_none || crate::front::is_mounted(&directory);
    is_there.then(|| Orphan { volume: volume.to_owned(), directory, loops, nbds, ublks })
}

impl Orphan {
    /// Returns the nodes of its devices, each with the route by which the kernel reaches it.
    pub(super) fn nodes(&self) -> Vec<(PathBuf, Route)> {
        let loops = self.loops.iter().map(|device| (device.path(), Route::Fuse));
        let nbds = self.nbds.iter().map(|device| (device.path(), Route::Nbd));
        let ublks = self.ublks.iter().map(|number| (over_ublk::node(*number), Route::Ublk));
        loops.chain(nbds).chain(ublks).collect()
    }

    /// Gives the device up: waiting and later requests fail. Data retained by the volume's holder
    /// stays retained.
    ///
    /// # Errors
    /// Those of the system.
    pub fn give_up(&self) -> io::Result<()> {
        let link = link(&self.volume);
        crate::front::abort(&self.directory)?;
        for device in &self.loops {
            device.detach()?;
            remove_link(&link, &device.path());
        }
        for device in &self.nbds {
            device.disconnect()?;
            remove_link(&link, &device.path());
        }
        for number in &self.ublks {
            remove_link(&link, &over_ublk::give_up(*number)?);
        }
        // Only the name is left.
        let _ = fs::remove_dir(&self.directory);
        Ok(())
    }
}
