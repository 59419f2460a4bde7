//! The captive command of `--run`: it lives as long as it likes, and we as long as it.

use host::File;
use ring::Ring;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use stack::{Exit, Failure};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command};
use std::sync::Arc;
use std::task::Poll;

/// How the captive command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captive {
    /// What a shell would report: the status, or 128 and the signal's number.
    pub status: u8,
}

/// What the command finds in its environment.
pub(crate) struct Environment {
    /// `uri`: the first volume's address; of a block device, its path.
    pub(crate) uri: String,
    /// `unixsocket`: where NBD listens, if that is a socket of this kind.
    pub(crate) socket: PathBuf,
    /// `file`: the first volume as a file, where it is one.
    pub(crate) file: Option<PathBuf>,
}

/// Starts the command by the shell.
pub(crate) fn start(command: &str, environment: &Environment) -> Result<Child, Failure> {
    let Environment { uri, socket, file } = environment;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).env("uri", uri).env("unixsocket", socket);
    if let Some(file) = file {
        shell.env("file", file);
    }
    host::make_ordinary(&mut shell);
    let child = shell.spawn().map_err(|error| {
        Failure::new(Exit::Usage, format!("--run: cannot start a shell: {error}"))
    })?;
    crate::protect::expose(child.id());
    Ok(child)
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
