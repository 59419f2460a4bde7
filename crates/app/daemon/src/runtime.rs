//! The runtime directory of a user, in which daemons and holders are found.
//!
//! ```text
//!   <runtime>/NAME.PID.sock       NBD, by default
//!   <runtime>/daemons/PID.sock    control sockets, one per daemon
//!   <runtime>/holders/KEY.sock    holders, one per backing (crate `holder`)
//!   <runtime>/served/KEY          records of served backings, one per backing (crate `holder`)
//!   <runtime>/doubts/KEY          doubts about a flush without a memory (crate `holder`)
//! ```

use stack::{Exit, Failure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the directory that only this user can enter: `$XDG_RUNTIME_DIR/overdrive`; for root
/// without that variable `/run/overdrive`; otherwise one in the directory for temporary files.
pub fn runtime_directory() -> PathBuf {
    let user = rustix::process::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("overdrive"),
        None if user.is_root() => PathBuf::from("/run/overdrive"),
        None => std::env::temp_dir().join(format!("overdrive-{}", user.as_raw())),
    }
}

/// Refuses a runtime directory in which others can put sockets: a client that connects there could
/// not trust the answers.
///
/// # Errors
/// Exit status 4.
pub fn check(runtime: &Path) -> Result<(), Failure> {
    // A missing directory is created with the first socket, for this user alone.
    let Ok(found) = std::fs::symlink_metadata(runtime) else { return Ok(()) };
    let user = rustix::process::geteuid().as_raw();
    if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let message = format!(
        "{}: belongs to user {} or can be changed by others, so sockets in it are not safe; \
         remove it, or set XDG_RUNTIME_DIR to a private directory",
        runtime.display(),
        found.uid()
    );
    Err(Failure::new(Exit::Permission, message))
}

/// Removes the sockets that killed daemons have left. Sockets of living processes are not even
/// connected to. Of the others, only those without a listener are removed, because a process of
/// another container may be invisible here.
pub fn sweep(runtime: &Path) {
    if check(runtime).is_err() {
        return;
    }
    let is_dead = |name: &str| {
        process_of(name).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    ring::sweep(runtime, is_dead);
    ring::sweep(&runtime.join("daemons"), is_dead);
}

/// Returns the process in the name of a socket: `PID.sock`, `NAME.PID.sock`.
fn process_of(name: &str) -> Option<u32> {
    name.strip_suffix(".sock")?.rsplit('.').next()?.parse().ok()
}

/// Returns the path of the control socket of a process.
pub(crate) fn control_socket(runtime: &Path, pid: u32) -> PathBuf {
    runtime.join("daemons").join(format!("{pid}.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A number that no process has: above the kernel's largest.
    const NO_PROCESS: u32 = 5_000_000;

    #[test]
    fn sockets_of_the_dead_are_swept_and_no_others() {
        let runtime = tempfile::tempdir().expect("room");
        let daemons = runtime.path().join("daemons");
        std::fs::create_dir(&daemons).expect("room");
        let paths = |pid: u32| {
            [daemons.join(format!("{pid}.sock")), runtime.path().join(format!("a.b.{pid}.sock"))]
        };
        // A living process that does not listen just now, for any reason.
        let own = paths(std::process::id());
        let dead = paths(NO_PROCESS);
        let far = paths(NO_PROCESS + 1);
        let named = runtime.path().join("mine.sock");
        for path in own.iter().chain(&dead).chain([&named]) {
            drop(UnixListener::bind(path).expect("room"));
        }
        // Like a process in another container.
        let listening = far.each_ref().map(|path| UnixListener::bind(path).expect("room"));
        sweep(runtime.path());
        assert!(own.iter().chain(&far).chain([&named]).all(|path| path.exists()));
        assert!(!dead.iter().any(|path| path.exists()));
        drop(listening);
        sweep(runtime.path());
        assert!(!far.iter().any(|path| path.exists()));
    }
}
