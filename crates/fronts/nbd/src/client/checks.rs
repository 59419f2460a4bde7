//! Waiting for a socket that does not block: a timer checks it, up to a deadline.

use lane::Lane;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

/// Shortest and longest interval between two checks of a socket.
const CHECK_MIN_NS: u64 = 500_000;
const CHECK_MAX_NS: u64 = 10_000_000;

/// Pauses between checks of a socket, up to a deadline.
pub(super) struct Checks<'a> {
    lane: &'a Lane,
    until_ns: u64,
    pause_ns: u64,
}

impl Checks<'_> {
    pub(super) fn new(lane: &Lane, until_ns: u64) -> Checks<'_> {
        Checks { lane, until_ns, pause_ns: CHECK_MIN_NS }
    }

    /// Waits for the next check.
    ///
    /// # Errors
    /// `TimedOut`.
    pub(super) async fn next(&mut self) -> io::Result<()> {
        let now = self.lane.now();
        if now >= self.until_ns {
            return Err(ErrorKind::TimedOut.into());
        }
        self.lane.sleep_until((now + self.pause_ns).min(self.until_ns)).await;
        self.pause_ns = (self.pause_ns * 2).min(CHECK_MAX_NS);
        Ok(())
    }
}

/// Sends all bytes.
///
/// # Errors
/// The system's errors; `TimedOut`.
pub(super) async fn send_all(
    socket: &OwnedFd,
    mut bytes: &[u8],
    checks: &mut Checks<'_>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN | Errno::INTR) => checks.next().await?,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
