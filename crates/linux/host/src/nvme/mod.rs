//! NVMe drives by the kernel's pass-through of admin commands: identity, health, and erasing.
//!
//! Sources: NVM Express Base Specification 2.0 (5.16 Get Log Page, 5.17 Identify, 5.14 Format NVM,
//! 5.24 Sanitize), include/uapi/linux/nvme_ioctl.h.

mod command;
mod erase;
mod identify;
mod smart;

pub use erase::{
    FormatErase, SanitizeAction, SanitizeError, SanitizeState, format, sanitize, sanitize_state,
};
pub use identify::{Controller, Namespace, all_namespaces, controller, namespace};

use crate::smartctl::{Nothing, Report, TIME_MAX};
use rustix::io::Errno;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// An error of an admin command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NvmeError {
    /// The system has refused the command.
    System(Errno),
    /// The drive has answered with this status (the status field of the completion).
    Drive(u16),
}

impl std::fmt::Display for NvmeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NvmeError::System(error) => write!(f, "{error}"),
            NvmeError::Drive(status) => {
                let words = match status & 0x7ff {
                    0x001 => "invalid command",
                    0x002 => "not supported, or an invalid value",
                    0x00b => "invalid namespace",
                    0x01c => "a sanitize operation has failed; another one must succeed first",
                    0x01d => "a sanitize operation is in progress",
                    0x020 => "the namespace is write protected",
                    0x10a => "invalid format",
                    _ => "an error",
                };
                write!(f, "the drive has answered: {words} (status {status:#x})")
            }
        }
    }
}

impl std::error::Error for NvmeError {}

/// Whether this is the device of an NVMe drive: a namespace or a controller.
pub fn is_nvme(device: &Path) -> bool {
    let node = device.canonicalize().unwrap_or_else(|_| device.to_owned());
    let name = node.file_name().unwrap_or_default().to_string_lossy();
    let number = name.strip_prefix("nvme").unwrap_or_default();
    node.parent() == Some(Path::new("/dev"))
        && number.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Reads a drive's health.
///
/// # Errors
/// The device cannot be opened, the drive does not answer in time, or has no health log.
pub fn ask(device: &Path) -> Result<Report, Nothing> {
    ask_within(device, TIME_MAX)
}

/// Reads a drive's health, for at most this time.
///
/// # Errors
/// As [`ask`].
pub fn ask_within(device: &Path, max_time: Duration) -> Result<Report, Nothing> {
    let (sender, receiver) = channel();
    let device = device.to_owned();
    // The kernel ends a command after a minute, by a reset of the drive: that is not waited for.
    let work = move || {
        // The receiver has gone if it took too long.
        _ = sender.send(smart::read(&device));
    };
    let started = std::thread::Builder::new().spawn(work);
    started.map_err(|error| Nothing::Unstarted(error.to_string()))?;
    receiver.recv_timeout(max_time).unwrap_or(Err(Nothing::Late(max_time)))
}
