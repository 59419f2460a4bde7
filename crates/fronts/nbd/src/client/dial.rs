//! Connecting to a server from a lane. Attempts are rare, so a timer checks the socket. Each
//! attempt ends at a deadline, whatever the server does.

use super::{Agreed, Fault, Negotiation, Wish};
use lane::Lane;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Usual time limit of an attempt, for the connection and the handshake.
pub const ATTEMPT_NS: u64 = 5_000_000_000;
/// Shortest and longest interval between two checks of a socket.
const CHECK_MIN_NS: u64 = 500_000;
const CHECK_MAX_NS: u64 = 10_000_000;
/// Bytes of the buffer for the handshake.
const BUFFER_BYTES: usize = 4096;
/// A server that acknowledges nothing for this long, or answers no probe, is gone.
const SILENCE: Duration = Duration::from_secs(20);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_TRIES: u32 = 3;

/// The address of a server, found by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// The path of a unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

/// Connects to a server, and enters transmission, within `limit_ns`. The socket blocks, as a ring
/// requires.
///
/// # Errors
/// The system's errors; `TimedOut`. With a [`Fault`] as the inner error: the server violates the
/// protocol, or refuses the export.
pub async fn dial(
    lane: &Lane,
    address: &Resolved,
    wish: Wish,
    limit_ns: u64,
) -> io::Result<(OwnedFd, Agreed)> {
    let until_ns = lane.now() + limit_ns;
    let socket = match address {
        Resolved::Unix(path) => connect_unix(lane, path, until_ns).await?,
        Resolved::Tcp(address) => connect_tcp(lane, address, until_ns).await?,
    };
    let agreed = agree(lane, &socket, wish, until_ns).await?;
    let flags = fcntl_getfl(&socket)?;
    fcntl_setfl(&socket, flags - OFlags::NONBLOCK)?;
    Ok((socket, agreed))
}

fn open(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

async fn connect_unix(lane: &Lane, path: &PathBuf, until_ns: u64) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = open(AddressFamily::UNIX)?;
    let mut checks = Checks::new(lane, until_ns);
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            // The server's queue of connections is full.
            Err(Errno::AGAIN) => checks.next().await?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

async fn connect_tcp(lane: &Lane, address: &SocketAddr, until_ns: u64) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = open(family)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_TRIES)?;
    sockopt::set_tcp_user_timeout(&socket, SILENCE.as_millis() as u32)?;
    match connect(&socket, address) {
        Ok(()) => return Ok(socket),
        Err(Errno::INPROGRESS | Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut checks = Checks::new(lane, until_ns);
    while !is_ready(&socket, PollFlags::OUT)? {
        checks.next().await?;
    }
    sockopt::socket_error(&socket)??;
    Ok(socket)
}

/// Completes the handshake.
async fn agree(lane: &Lane, socket: &OwnedFd, wish: Wish, until_ns: u64) -> io::Result<Agreed> {
    let (mut negotiation, mut checks) = (Negotiation::new(wish), Checks::new(lane, until_ns));
    let (mut buffer, mut out) = ([0; BUFFER_BYTES], Vec::new());
    loop {
        let count = match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => {
                checks.next().await?;
                continue;
            }
            Err(errno) => return Err(errno.into()),
        };
        let mut input = &buffer[..count];
        let agreed = negotiation.take(&mut input, &mut out)?;
        send_all(socket, &out, &mut checks).await?;
        out.clear();
        if let Some(agreed) = agreed {
            let nothing_more = input.is_empty();
            let more = Fault::Nonsense("a reply to a request that was not sent");
            return if nothing_more { Ok(agreed) } else { Err(more.into()) };
        }
    }
}

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

fn is_ready(socket: &OwnedFd, wanted: PollFlags) -> io::Result<bool> {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut [PollFd::new(socket, wanted)], Some(&none)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

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
