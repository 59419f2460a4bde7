//! Descriptors that stay open across an exec.
#![allow(unsafe_code)]

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Sets whether the descriptor stays open across exec, to pass it to the next program. Keep the
/// time until the exec short: children that are started in between inherit it too.
///
/// # Errors
/// The system's errors.
pub fn set_inherited(file: impl AsFd, inherited: bool) -> io::Result<()> {
    let flags = fcntl_getfd(file.as_fd())?;
    let wanted = if inherited { flags - FdFlags::CLOEXEC } else { flags | FdFlags::CLOEXEC };
    Ok(fcntl_setfd(file, wanted)?)
}

/// Takes ownership of the descriptor with this number, which the program that this process executed
/// before has left open; it will be closed on the next exec. Call it once per number, at start,
/// before this program could have opened a descriptor with that number.
///
/// # Errors
/// There is no such descriptor, or it is one of the three standard ones.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    let is_standard = (0..=2).contains(&number);
    if number < 0 || is_standard || !Path::new(&format!("/proc/self/fd/{number}")).exists() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such descriptor"));
    }
    // SAFETY: it is open, and by this function's contract it has no other owner in this program.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    set_inherited(&file, false)?;
    Ok(file)
}

/// Closes all descriptors except the standard ones. For a process that outlives its parent, which
/// may have left open a lock or the end of a pipe. Call it at start, before this program has opened
/// any descriptor.
pub fn close_inherited() {
    // SAFETY: by this function's contract nothing in this program owns a descriptor yet.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    #[test]
    fn a_child_sees_it_if_and_only_if_it_is_inherited() -> io::Result<()> {
        let file = tempfile::tempfile()?;
        let script = format!("test -e /proc/self/fd/{}", file.as_raw_fd());
        let seen = || Command::new("sh").args(["-c", &script]).status().map(|s| s.success());
        assert!(!seen()?);
        set_inherited(&file, true)?;
        assert!(seen()?);
        set_inherited(&file, false)?;
        assert!(!seen()?);
        Ok(())
    }
}
