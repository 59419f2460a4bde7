//! Connecting to a server from a lane. Attempts are rare, so a timer checks the socket. Each
//! attempt ends at a deadline, whatever the server does.

use super::channel::Channel;
use super::checks::Checks;
use super::{Agreed, Fault, Negotiation, Wish};
use lane::Lane;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use tls::{ClientTls, Session};

/// Time limits of an attempt to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// For the connection of the socket.
    connect_ns: u64,
    /// For that and the handshake.
    total_ns: u64,
}

impl Attempt {
    /// The first attempt, which reports an error if it fails.
    pub const FIRST: Attempt = Attempt::within(5_000_000_000);
    /// One of many attempts. Over TCP each begins with a packet, so a server that can be reached
    /// again is found within a second.
    pub const AGAIN: Attempt = Attempt { connect_ns: 1_000_000_000, ..Attempt::FIRST };

    /// An attempt that takes this time at most.
    pub const fn within(total_ns: u64) -> Attempt {
        Attempt { connect_ns: total_ns, total_ns }
    }
}
/// Bytes of the buffer for the handshake.
const BUFFER_BYTES: usize = 4096;
/// A server that acknowledges nothing for this long, or answers no probe, is gone.
const SILENCE: Duration = Duration::from_secs(20);
/// Time after which the end of a connection is noticed at the latest, while requests are in flight.
const NOTICE_NS: u64 = SILENCE.as_nanos() as u64 + 1_000_000_000;
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

impl Resolved {
    /// Returns the time in which a cut is noticed while requests are in flight. A unix socket ends
    /// with its server.
    pub fn notice_ns(&self) -> u64 {
        match self {
            Resolved::Unix(_) => 0,
            Resolved::Tcp(_) => NOTICE_NS,
        }
    }
}

/// A connection in transmission.
pub struct Dialled {
    /// Its socket, which blocks, as a ring requires.
    pub socket: OwnedFd,
    /// Its TLS session. None: it is not encrypted.
    pub session: Option<Session>,
    /// The result of the handshake.
    pub agreed: Agreed,
}

/// Connects to a server, and enters transmission; over TLS if there is some.
///
/// # Errors
/// The system's errors; `TimedOut`. With a [`Fault`] as the inner error: the server violates the
/// protocol, or refuses the export or TLS, or is not trusted.
pub async fn dial(
    lane: &Lane,
    address: &Resolved,
    wish: Wish,
    tls: Option<&ClientTls>,
    attempt: Attempt,
) -> io::Result<Dialled> {
    let (connected_ns, agreed_ns) =
        (lane.now() + attempt.connect_ns, lane.now() + attempt.total_ns);
    let socket = match address {
        Resolved::Unix(path) => connect_unix(lane, path, connected_ns).await?,
        Resolved::Tcp(address) => connect_tcp(lane, address, connected_ns).await?,
    };
    let (session, agreed) = agree(lane, &socket, wish, tls, agreed_ns).await?;
    let flags = fcntl_getfl(&socket)?;
    fcntl_setfl(&socket, flags - OFlags::NONBLOCK)?;
    Ok(Dialled { socket, session, agreed })
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
async fn agree(
    lane: &Lane,
    socket: &OwnedFd,
    wish: Wish,
    tls: Option<&ClientTls>,
    until_ns: u64,
) -> io::Result<(Option<Session>, Agreed)> {
    let new = if tls.is_some() { Negotiation::over_tls } else { Negotiation::new };
    let (mut negotiation, mut out) = (new(wish), Vec::new());
    let mut channel = Channel::new(socket, Checks::new(lane, until_ns));
    let mut buffer = [0; BUFFER_BYTES];
    loop {
        let count = channel.receive(&mut buffer).await?;
        let mut input = &buffer[..count];
        let agreed = negotiation.take(&mut input, &mut out)?;
        channel.send(&out).await?;
        out.clear();
        if let Some(agreed) = agreed {
            let nothing_more = input.is_empty();
            let more = Fault::Nonsense("a reply to a request that was not sent");
            return if nothing_more {
                Ok((channel.into_session(), agreed))
            } else {
                Err(more.into())
            };
        }
        if let Some(tls) = tls.filter(|_| negotiation.starts_tls()) {
            channel.protect(tls.session()).await?;
            negotiation.protect(&mut out);
            channel.send(&out).await?;
            out.clear();
        }
    }
}

fn is_ready(socket: &OwnedFd, wanted: PollFlags) -> io::Result<bool> {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut [PollFd::new(socket, wanted)], Some(&none)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
