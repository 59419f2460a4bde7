//! The supervisors of devices: RUNTIME/supervisors/NAME, a file that the supervisor keeps locked,
//! with its process number.

use daemon::control::pause;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Attempts to get the lock of a supervisor that is to end, 50 ms apart.
const TRIES: u32 = 40;

fn path_of(runtime: &Path, name: &str) -> PathBuf {
    runtime.join("supervisors").join(name)
}

fn is_locked(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// Returns the process that supervises the daemon of a device.
pub(super) fn find(runtime: &Path, name: &str) -> Option<Pid> {
    let path = path_of(runtime, name);
    let file = File::open(&path).ok()?;
    if !is_locked(&file) {
        return None;
    }
    Pid::from_raw(fs::read_to_string(&path).ok()?.trim().parse().ok()?)
}

/// Ends the supervisor of a device, if it has one, so that its daemon is not restarted.
pub(super) fn end(runtime: &Path, name: &str) {
    for _ in 0..TRIES {
        let Some(supervisor) = find(runtime, name) else { return };
        let _ = kill_process(supervisor, Signal::TERM);
        pause();
    }
}

/// This process as the supervisor of a device, until this is dropped.
pub(super) struct Registered {
    path: PathBuf,
    _locked: File,
}

impl Registered {
    /// Registers this process, whose daemon serves the device by now. A supervisor that only waits
    /// for a restart ends.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new(runtime: &Path, name: &str) -> io::Result<Registered> {
        end(runtime, name);
        let path = path_of(runtime, name);
        let directory = path.parent().expect("it lies in one");
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut file = File::options().write(true).create(true).truncate(false).open(&path)?;
        // A command that searches for a supervisor has the lock for a moment.
        let mut tries = 0;
        while is_locked(&file) {
            if tries == TRIES {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
            tries += 1;
            pause();
        }
        file.set_len(0)?;
        write!(file, "{}", std::process::id())?;
        Ok(Registered { path, _locked: file })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // A file that stays is not locked, and so has no effect.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the process that restarts a device's daemon.
pub(crate) fn supervisor_of(name: &str) -> Option<i32> {
    find(&daemon::runtime_directory(), name).map(|pid| pid.as_raw_nonzero().get())
}

/// Removes the log of a daemon that has written everything back. The log of one that has failed
/// stays until the next 'attach'.
pub(crate) fn forget_log(name: &str) {
    let _ = fs::remove_file(daemon::runtime_directory().join("logs").join(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_is_found_while_it_lives() {
        let runtime = tempfile::tempdir().expect("room");
        assert_eq!(find(runtime.path(), "db"), None);
        let registered = Registered::new(runtime.path(), "db").expect("room");
        let own = Pid::from_raw(std::process::id().cast_signed());
        assert_eq!(find(runtime.path(), "db"), own);
        assert_eq!(find(runtime.path(), "other"), None);
        drop(registered);
        assert_eq!(find(runtime.path(), "db"), None);
        // As a killed supervisor has left it.
        fs::write(path_of(runtime.path(), "db"), "1").expect("room");
        assert_eq!(find(runtime.path(), "db"), None);
    }
}
