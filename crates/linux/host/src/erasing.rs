//! Whether a drive is erasing itself at present: it then answers no reads or writes.

use crate::{nvme, scsi};
use rustix::fs::{Mode, OFlags};
use std::path::Path;

/// The state of a drive with regard to the operations that erase it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Erasing {
    /// None is in progress.
    No,
    /// One is in progress: its share, if the drive reports it.
    Running(Option<f64>),
    /// The last one was not completed: the drive has no data until another one is.
    Failed,
}

/// Returns whether a drive is erasing itself. None: it cannot be queried.
pub fn erasing(device: &Path) -> Option<Erasing> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(device, flags, Mode::empty()).ok()?;
    if !nvme::is_nvme(device) {
        return scsi::erasing(&opened).ok();
    }
    Some(match nvme::sanitize_state(&opened).ok()? {
        nvme::SanitizeState::Running(share) => Erasing::Running(Some(f64::from(share) / 65_536.0)),
        nvme::SanitizeState::Failed => Erasing::Failed,
        _ => Erasing::No,
    })
}
