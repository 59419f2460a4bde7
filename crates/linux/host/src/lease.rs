//! Detects whether other programs have a file open, by a lease that is released immediately.
//!
//! The kernel grants a write lease (`F_SETLEASE`, fcntl(2)) only if the open file description that
//! requests it is the only one of its file. A shared mapping holds its description, so a program
//! that has closed the file, but still has it mapped, is found, too. Another program's `open` waits
//! during the few instructions between the two calls; one with `O_NONBLOCK` fails.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// The command that chooses the signal of a descriptor (asm-generic/fcntl.h). libc lacks it.
const F_SETSIG: i32 = 10;
/// Signal for a program that opens the file during a lease: by default it is ignored. The usual
/// one, SIGIO, would end this process.
const IGNORED: i32 = libc::SIGURG;

/// Whether this open file description, which is open for writing, is the only one of its file.
///
/// # Errors
/// The file system has no leases, or this process may not request one: the file belongs to another
/// user, and the capability `CAP_LEASE` is missing.
pub fn is_opened_once(file: impl AsFd) -> Result<bool, Errno> {
    call(&file, F_SETSIG, IGNORED)?;
    match call(&file, libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(()) => call(&file, libc::F_SETLEASE, libc::F_UNLCK).map(|()| true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn call(file: impl AsFd, command: i32, argument: i32) -> Result<(), Errno> {
    // SAFETY: the commands take a number, and access no memory of this process.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, argument) };
    if result == -1 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};

    #[test]
    fn each_other_description_is_found_until_it_is_closed() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("image");
        let file = File::create_new(&path)?;
        let copy = file.try_clone()?;
        assert_eq!(is_opened_once(&file), Ok(true), "a copy is the same description");
        assert_eq!(is_opened_once(&copy), Ok(true));
        for options in [OpenOptions::new().read(true), OpenOptions::new().append(true)] {
            let other = options.open(&path)?;
            assert_eq!(is_opened_once(&file), Ok(false), "{options:?}");
            drop(other);
            assert_eq!(is_opened_once(&file), Ok(true), "{options:?}");
        }
        Ok(())
    }

    #[test]
    fn a_device_has_no_leases() -> std::io::Result<()> {
        assert!(is_opened_once(OpenOptions::new().write(true).open("/dev/null")?).is_err());
        Ok(())
    }
}
