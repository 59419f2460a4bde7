//! The captive command of `--run`: it lives as long as it likes, and we as long as it.

use super::{Listening, Mounting};
use crate::front::Place;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use stack::{Exit, Failure};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::process::{Child, Command};
use std::sync::Arc;
use std::task::Poll;
use uring::{File, Ring};

/// How the captive command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captive {
    /// What a shell would report: the status, or 128 and the signal's number.
    pub status: u8,
}

/// Starts the command by the shell, with `uri`, the first volume's address, and where there is one `unixsocket` and
/// `file` in its environment.
pub(crate) fn start(
    command: &str,
    uri: &str,
    listeners: &[Listening],
    mounts: &[Mounting],
) -> Result<Child, Failure> {
    let mut shell = Command::new("/bin/sh");
    let socket = match listeners.first().map(|listening| &listening.place) {
        Some(Place::Unix(path)) => path.as_path(),
        _ => Path::new(""),
    };
    shell.arg("-c").arg(command).env("uri", uri).env("unixsocket", socket);
    if let Some(mounting) = mounts.first()
        && let Some(name) = mounting.exports.first()
    {
        shell.env("file", mounting.directory.join(name));
    }
    uring::unblock_signals_in(&mut shell);
    shell
        .spawn()
        .map_err(|error| Failure::new(Exit::Usage, format!("--run: cannot start a shell: {error}")))
}

/// Waits for the command; a signal to us is passed on to it.
pub(crate) async fn wait_for(ring: &Ring, mut child: Child, signals: &File) -> Captive {
    use std::os::unix::process::ExitStatusExt;
    let pid = Pid::from_raw(child.id() as i32).expect("a child's number is not 0");
    if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) {
        let pidfd = Arc::new(pidfd);
        let ended = either(ring.readable(&pidfd), ring.readable(signals)).await;
        if ended == Which::Second {
            // It may have ended in this moment; then there is nothing to tell.
            let _ = kill_process(pid, Signal::TERM);
            let _ = ring.readable(&pidfd).await;
        }
    }
    let status = child.wait().ok();
    let code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal()).map(|signal| 128 + signal);
    Captive { status: code.or(signal).unwrap_or(1) as u8 }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    Second,
}

/// Waits for one of two waits that may be dropped at any time (of the ring, of events, of time).
pub(crate) async fn either<A, B>(
    one: impl Future<Output = A>,
    two: impl Future<Output = B>,
) -> Which {
    let (mut one, mut two) = (pin!(one), pin!(two));
    std::future::poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() {
            return Poll::Ready(Which::First);
        }
        two.as_mut().poll(context).map(|_| Which::Second)
    })
    .await
}
