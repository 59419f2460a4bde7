//! The captive command of `--run`: the daemon serves until it ends.

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

/// End of the captive command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captive {
    /// The status that a shell would report: the exit status, or 128 plus the signal's number.
    pub status: u8,
}

/// The environment of the command.
pub(crate) struct Environment {
    /// `uri`: the first volume's address; for a block device, its path.
    pub(crate) uri: String,
    /// `unixsocket`: the NBD address, if it is a unix socket.
    pub(crate) socket: PathBuf,
    /// `file`: the first volume as a file, if it is one.
    pub(crate) file: Option<PathBuf>,
}

/// Starts the command in the shell.
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

/// Waits for the command; a signal to this process is forwarded to it.
pub(crate) async fn wait_for(ring: &Ring, mut child: Child, signals: &File) -> Captive {
    use std::os::unix::process::ExitStatusExt;
    let pid = Pid::from_raw(child.id() as i32).expect("a child's number is not 0");
    if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) {
        let pidfd = Arc::new(pidfd);
        let ended = either(ring.readable(&pidfd), ring.readable(signals)).await;
        if ended == Which::Second {
            // The command may have ended just now; then there is no process to signal.
            let _ = kill_process(pid, Signal::TERM);
            let _ = ring.readable(&pidfd).await;
        }
    }
    let status = child.wait().ok();
    let code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal()).map(|signal| 128 + signal);
    Captive { status: code.or(signal).unwrap_or(1) as u8 }
}

/// The future that was ready first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    Second,
}

/// Waits for the first of two futures, and drops both. They must be safe to drop at any time, as
/// those of the ring, of events and of timers are.
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
