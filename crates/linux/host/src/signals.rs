//! Signals as a file that the ring can wait for.
#![allow(unsafe_code)]

use crate::File;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

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

/// Makes SIGINT, SIGTERM and SIGHUP readable from the returned descriptor, instead of ending the
/// process. Call it before other threads are started: they inherit the signal mask.
///
/// # Errors
/// The system's errors.
pub fn signals() -> io::Result<File> {
    let set = stopping();
    // SAFETY: the set is valid for both calls; with a null pointer no old mask is returned.
    let descriptor = unsafe {
        if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor without another owner.
    Ok(Arc::new(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// Waits for this time. True: one of the [`signals`] has requested the end, and can be read.
pub fn is_stopped_within(signals: &File, pause: Duration) -> bool {
    let mut polled = [PollFd::new(signals, PollFlags::IN)];
    let timeout =
        Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: pause.subsec_nanos().into() };
    matches!(poll(&mut polled, Some(&timeout)), Ok(1..))
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail (EFBIG), instead of ending the
/// process with SIGXFSZ.
pub fn ignore_file_size_signal() {
    // SAFETY: SIGXFSZ can be ignored, and no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Undoes this process's own settings in a child command: those of [`signals`] and
/// [`ignore_file_size_signal`], and PR_SET_IO_FLUSHER.
pub fn make_ordinary(command: &mut Command) {
    let set = stopping();
    let unblock = move || {
        // Fails only if it could not be set either.
        let _ = rustix::process::configure_io_flusher_behavior(false);
        // SAFETY: async-signal-safe, and the default is valid for every signal.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        // SAFETY: async-signal-safe, and the set is valid.
        match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    };
    // SAFETY: the closure makes only async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(unblock) };
}
