//! Descriptors that are to be there after an exec.
#![allow(unsafe_code)]

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// Whether the descriptor stays open across exec. For handing it to the next program: keep the time
/// between this and the exec short, since children started meanwhile inherit it, too.
///
/// # Errors
/// What the system says.
pub fn set_inherited(file: impl AsFd, inherited: bool) -> io::Result<()> {
    let flags = fcntl_getfd(file.as_fd())?;
    let wanted = if inherited { flags - FdFlags::CLOEXEC } else { flags | FdFlags::CLOEXEC };
    Ok(fcntl_setfd(file, wanted)?)
}

/// The descriptor of this number, left open by the program that this process executed before: owned
/// from now on, and closed on the next exec. To be called once for a number, at start, before
/// anything of our own could have it.
///
/// # Errors
/// If there is no such descriptor, or it is one of the three standard ones.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    let is_standard = (0..=2).contains(&number);
    if number < 0 || is_standard || !Path::new(&format!("/proc/self/fd/{number}")).exists() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such descriptor"));
    }
    // SAFETY: it is open, and by this function's contract nothing else in this program has it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    set_inherited(&file, false)?;
    Ok(file)
}

/// Closes all descriptors but the standard ones. For a process that outlives the one that started it, which may have left
/// open a lock or the end of a pipe: to be called at start, before anything of our own has any.
pub fn close_inherited() {
    // SAFETY: nothing in this program owns a descriptor yet, by this function's contract.
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
