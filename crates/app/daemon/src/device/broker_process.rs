//! The process of a broker (see `broker/`).

use crate::broker::{
    Answer, Numbered, PROTOCOL, Request, USER_CHARACTERS, USERS_MAX, receive, send,
};
use crate::front::Mountpoint;
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
    let mountpoints = directories.iter().map(|directory| Mountpoint::find(directory));
    let mountpoints: Vec<Mountpoint> = mountpoints.filter_map(Result::ok).collect();
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(|_| wrong())?;
    // Ctrl-C in the daemon's terminal is the daemon's; this process ends after it.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"od-broker");
    // Where this is not permitted, the broker has the rights of its daemon's start.
    let _ = rights::restrict_broker();
    serve(&socket, &mountpoints);
    Ok(())
}

/// Answers requests until the connection ends.
fn serve(socket: &OwnedFd, mountpoints: &[Mountpoint]) {
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
        let answered = request.and_then(|request| answer(request, mountpoints));
        let (body, descriptor) = answered.unwrap_or_else(|failure| {
            (Answer::Refused { exit: failure.exit as u8, message: failure.message }, None)
        });
        let descriptor = descriptor.as_ref().map(OwnedFd::as_fd);
        if send(socket, &Numbered { number, body }, descriptor).is_err() {
            return;
        }
    }
}

fn answer(
    request: Request,
    mountpoints: &[Mountpoint],
) -> Result<(Answer, Option<OwnedFd>), Failure> {
    match request {
        Request::Users { node } => Ok((Answer::Users(users_of(&node)), None)),
        Request::Mount { directory } => {
            let mountpoint = own(&directory, mountpoints)?;
            Ok((Answer::Done, Some(mountpoint.mount_directly()?)))
        }
        Request::Unmount { directory, lazily } => {
            let mountpoint = own(&directory, mountpoints)?;
            mountpoint.unmount_directly(lazily).map_err(|error| {
                Failure::new(Exit::Busy, format!("{}: {error}", directory.display()))
            })?;
            Ok((Answer::Done, None))
        }
    }
}

/// Returns the daemon's mountpoint with this path.
fn own<'a>(directory: &Path, all: &'a [Mountpoint]) -> Result<&'a Mountpoint, Failure> {
    all.iter().find(|mountpoint| mountpoint.path() == directory).ok_or_else(|| {
        let message = format!("{}: is no mount of this daemon", directory.display());
        Failure::new(Exit::Permission, message)
    })
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
        let place = tempfile::tempdir().expect("room");
        let own = place.path().join("disk");
        let own = [Mountpoint::find(&own).expect("its directory is there")];
        for directory in ["/", "/run", "other", "disk/.."] {
            let directory = place.path().join(directory);
            let mount = Request::Mount { directory: directory.clone() };
            let unmount = Request::Unmount { directory, lazily: true };
            for request in [mount, unmount] {
                let refused = answer(request, &own).map(|_| "answered");
                assert_eq!(refused.map_err(|failure| failure.exit), Err(Exit::Permission));
            }
        }
    }
}
