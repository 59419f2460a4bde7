//! Processes by their numbers.

use std::fs;

/// Returns the number of this process.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Whether a process has ended or is ending: it has no memory any more, but may still have
/// descriptors.
pub(crate) fn is_ending(pid: i32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => !status.lines().any(|line| line.starts_with("VmSize:")),
        Err(_) => true,
    }
}
