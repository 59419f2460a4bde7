//! Where daemons and holders are found: the runtime directory of a user.
//!
//! ```text
//!   <runtime>/NAME.PID.sock       NBD, unless it is told where
//!   <runtime>/daemons/PID.sock    control sockets, one a daemon
//!   <runtime>/holders/KEY.sock    holders, one a backing (crate `holder`)
//! ```

use std::path::PathBuf;

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

/// Where the control socket of a process is.
pub(crate) fn control_socket(runtime: &std::path::Path, pid: u32) -> PathBuf {
    runtime.join("daemons").join(format!("{pid}.sock"))
}
