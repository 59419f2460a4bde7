//! A block device that one process alone uses.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A device that this process alone uses: nothing is mounted from it, and nothing stands on it.
#[derive(Debug)]
pub struct ClaimedDevice(pub(crate) OwnedFd);

impl ClaimedDevice {
    /// Claims the device of this node, for as long as this is there.
    ///
    /// # Errors
    /// `ResourceBusy` where it is in use; what else the system says.
    pub fn claim(node: &Path) -> io::Result<ClaimedDevice> {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(ClaimedDevice(rustix::fs::open(node, flags, Mode::empty())?))
    }
}
