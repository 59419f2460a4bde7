//! The process of a broker (see `broker/`).

use crate::broker::{
    Answer, Numbered, PROTOCOL, Request, USER_CHARACTERS, USERS_MAX, receive, send,
};
use crate::front::{mount_directly, unmount_directly};
use crate::rights;
use host::{device_number, device_users_except};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use serde_json::Value;
use stack::{Exit, Failure};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Runs a broker, whose daemon is at the other end of stdin, for mounts on these directories (a
/// JSON array). Without directories, prints the version of the requests.
///
/// # Errors
/// No daemon has started this process.
pub fn run_broker(directories: Option<&str>) -> Result<(), Failure> {
    let Some(text) = directories else {
        crate::say!("{PROTOCOL}");
        return Ok(());
    };
    let wrong = || Failure::new(Exit::Usage, "broker: only a daemon starts this");
    let directories: Vec<PathBuf> = serde_json::from_str(text).map_err(|_| wrong())?;
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(|_| wrong())?;
    // Ctrl-C in the daemon's terminal is the daemon's; this process ends after it.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"od-broker");
    // Where this is not permitted, the broker has the rights of its daemon's start.
    let _ = rights::restrict_broker();
    serve(&socket, &directories);
    Ok(())
}

/// Answers requests until the connection ends.
fn serve(socket: &OwnedFd, directories: &[PathBuf]) {
    loop {
        let bytes = match receive(socket) {
            Ok((bytes, _)) if !bytes.is_empty() => bytes,
            Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => continue,
            Ok(_) | Err(_) => return,
        };
        let (number, body) = match serde_json::from_slice::<Numbered<Value>>(&bytes) {
            Ok(Numbered { number, body }) => (number, body),
            Err(_) => return,
        };
        let request = serde_json::from_value(body)
            .map_err(|error| Failure::new(Exit::Usage, format!("unknown request: {error}")));
        let answered = request.and_then(|request| answer(request, directories));
        let (body, descriptor) = answered.unwrap_or_else(|failure| {
            (Answer::Refused { exit: failure.exit as u8, message: failure.message }, None)
        });
        let descriptor = descriptor.as_ref().map(OwnedFd::as_fd);
        if send(socket, &Numbered { number, body }, descriptor).is_err() {
            return;
        }
    }
}

fn answer(request: Request, directories: &[PathBuf]) -> Result<(Answer, Option<OwnedFd>), Failure> {
    match request {
        Request::Users { node } => Ok((Answer::Users(users_of(&node)), None)),
        Request::Mount { directory } => {
            check(&directory, directories)?;
            Ok((Answer::Done, Some(mount_directly(&directory)?)))
        }
        Request::Unmount { directory, lazily } => {
            check(&directory, directories)?;
            unmount_directly(&directory, lazily).map_err(|error| {
                Failure::new(Exit::Busy, format!("{}: {error}", directory.display()))
            })?;
            Ok((Answer::Done, None))
        }
    }
}

fn check(directory: &Path, directories: &[PathBuf]) -> Result<(), Failure> {
    if directories.iter().any(|own| own == directory) {
        return Ok(());
    }
    let message = format!("{}: is no mount of this daemon", directory.display());
    Err(Failure::new(Exit::Permission, message))
}

/// Returns descriptions of a device's users other than the daemon, as many as fit in a packet.
fn users_of(node: &Path) -> Vec<String> {
    let daemon = getppid().map_or(0, Pid::as_raw_pid).unsigned_abs();
    let number = device_number(node);
    let found = number.map_or(Vec::new(), |number| device_users_except(number, node, daemon));
    let words = found.iter().map(|user| user.to_string().chars().take(USER_CHARACTERS).collect());
    words.take(USERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_of_the_daemon_are_mounted_and_unmounted() {
        let own = [PathBuf::from("/run/overdrive/devices/disk")];
        for directory in ["/", "/run", "/run/overdrive/devices/disk/..", "/run/overdrive/devices"] {
            let directory = PathBuf::from(directory);
            let mount = Request::Mount { directory: directory.clone() };
            let unmount = Request::Unmount { directory, lazily: true };
            for request in [mount, unmount] {
                let refused = answer(request, &own).expect_err("another directory");
                assert_eq!(refused.exit, Exit::Permission);
            }
        }
    }
}
