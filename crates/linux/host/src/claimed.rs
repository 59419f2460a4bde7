//! A block device that only this process uses.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A device that only this process uses: it is not mounted, and no other device is on top of it.
#[derive(Debug)]
pub struct ClaimedDevice(pub(crate) OwnedFd);

impl ClaimedDevice {
    /// Claims the device of this node, as long as the result lives.
    ///
    /// # Errors
    /// `ResourceBusy`: it is in use. Otherwise the system's errors.
    pub fn claim(node: &Path) -> io::Result<ClaimedDevice> {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(ClaimedDevice(rustix::fs::open(node, flags, Mode::empty())?))
    }
}
