//! Volumes as block devices of this machine: attach, detach, mount, umount.
//!
//! ```text
//!   overdrive attach      starts a supervisor, waits for the device, prints it
//!     overdrive supervise   restarts the daemon when a signal has ended it
//!       overdrive attach --foreground   the daemon: serves the volume, makes the device
//! ```

mod attach;
mod backoff;
mod detach;
mod mount;
mod new_config;
mod program;
mod supervise;

pub(crate) use attach::Arguments as AttachArguments;
pub(crate) use detach::Arguments as DetachArguments;
pub(crate) use mount::{MountArguments, UmountArguments};
pub(crate) use supervise::Arguments as SuperviseArguments;

pub(crate) use attach::run as attach;
pub(crate) use detach::run as detach;
pub(crate) use mount::{run as mount, umount};
pub(crate) use supervise::{LOG, run as supervise};

use stack::{Exit, Failure};

/// Checks for root, which devices and mounts require.
fn need_root(what: &str) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let message = format!(
        "{what}: only root may make devices; run it with sudo. Without root, use 'overdrive \
         serve', and programs reach the volume over NBD"
    );
    Err(Failure::new(Exit::Permission, message))
}

/// Returns a failure of the system around a daemon.
fn broken(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("{what}: {error}"))
}
