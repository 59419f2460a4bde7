//! Signals as something to wait for on the ring.
#![allow(unsafe_code)]

use crate::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

fn stopping() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset makes the set valid; the signals are valid numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGHUP);
        set.assume_init()
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP do not end the process but make this descriptor readable.
/// To be called before other threads are started: they inherit it.
///
/// # Errors
/// What the system says.
pub fn signals() -> io::Result<File> {
    let set = stopping();
    // SAFETY: the set is valid for both calls; a null pointer asks for no old mask.
    let descriptor = unsafe {
        if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor of our own.
    Ok(Arc::new(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// From now on a write beyond the limit of file sizes (`ulimit -f`) gets an error (EFBIG) instead of ending
/// the process by SIGXFSZ.
pub fn ignore_file_size_signal() {
    // SAFETY: SIGXFSZ can be ignored, and no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Gives a command back what this process has changed of itself: the signals that [`signals`] and
/// [`ignore_file_size_signal`] have taken, and the ordinary way to wait for memory.
pub fn make_ordinary(command: &mut Command) {
    let set = stopping();
    let unblock = move || {
        // It fails where it was not permitted before, and so not set.
        let _ = rustix::process::configure_io_flusher_behavior(false);
        // SAFETY: async-signal-safe, and the default is valid for every signal.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        // SAFETY: async-signal-safe, and the set is valid.
        match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    };
    // SAFETY: the closure only makes async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(unblock) };
}
