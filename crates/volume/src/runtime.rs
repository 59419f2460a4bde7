//! Where daemons and holders are found: the runtime directory of a user.
//!
//! ```text
//!   <runtime>/NAME.PID.sock       NBD, unless it is told where
//!   <runtime>/daemons/PID.sock    control sockets, one a daemon
//!   <runtime>/holders/KEY.sock    holders, one a backing (crate `holder`)
//! ```

use crate::failure::{Exit, Failure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory that only this user can enter: `$XDG_RUNTIME_DIR/overdrive`, for root without one
/// `/run/overdrive`, else one in the directory for temporary files.
pub fn runtime_directory() -> PathBuf {
    let user = rustix::process::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("overdrive"),
        None if user.is_root() => PathBuf::from("/run/overdrive"),
        None => std::env::temp_dir().join(format!("overdrive-{}", user.as_raw())),
    }
}

/// Refuses a runtime directory that others can put sockets into: whoever connects there could not know
/// whom they talk to.
///
/// # Errors
/// Exit status 4.
pub(crate) fn check(runtime: &Path) -> Result<(), Failure> {
    // One that is missing is made with the first socket, for us alone.
    let Ok(found) = std::fs::symlink_metadata(runtime) else { return Ok(()) };
    let user = rustix::process::geteuid().as_raw();
    if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let message = format!(
        "{}: belongs to user {} or can be changed by others, so sockets there are not safe; remove \
         it, or set XDG_RUNTIME_DIR to a directory of your own",
        runtime.display(),
        found.uid()
    );
    Err(Failure::new(Exit::Permission, message))
}

/// Where the control socket of a process is.
pub(crate) fn control_socket(runtime: &Path, pid: u32) -> PathBuf {
    runtime.join("daemons").join(format!("{pid}.sock"))
}
