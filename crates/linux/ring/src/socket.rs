//! Listening sockets for exports and control: unix sockets, which are private and never taken from
//! a live owner, and TCP sockets on request.

use host::File;
use host::Patience;
use host::set_inherited;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of connections that wait for an accept.
const BACKLOG: i32 = 128;
/// Idle time after which a silent TCP peer is probed; interval and number of the probes follow.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_TRIES: u32 = 4;

/// A listening socket, unix or TCP. Dropping it removes its path (if the path still belongs to it).
#[derive(Debug)]
pub struct Listener {
    file: File,
    address: Address,
}

#[derive(Debug)]
enum Address {
    /// The path, and the identity of the file that bind created there.
    Unix {
        path: PathBuf,
        identity: Option<(u64, u64)>,
    },
    Tcp(SocketAddr),
}

/// The process at the other end of a unix socket, as of its connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The process; it may have ended since.
    pub process: i32,
    /// Its effective user.
    pub user: u32,
    /// Its effective group.
    pub group: u32,
}

/// Returns the process at the other end of a unix socket.
///
/// # Errors
/// It is not a connected unix socket.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let found = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(Peer {
        process: found.pid.as_raw_nonzero().get(),
        user: found.uid.as_raw(),
        group: found.gid.as_raw(),
    })
}

fn failed(path: &Path, kind: io::ErrorKind, what: &str) -> io::Error {
    io::Error::new(kind, format!("{}: {what}", path.display()))
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes a socket on which no process listens; refuses to remove anything else.
fn clear_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !found.file_type().is_socket() {
        return Err(failed(
            path,
            io::ErrorKind::AlreadyExists,
            "exists and is not a socket; choose another path, or remove it",
        ));
    }
    // Non-blocking: a live owner with a full queue returns EAGAIN instead of blocking.
    match rustix::net::connect(&socket(SocketFlags::NONBLOCK)?, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path),
        Err(Errno::ACCESS | Errno::PERM) => Err(failed(
            path,
            io::ErrorKind::PermissionDenied,
            "is a socket of another user; choose another path",
        )),
        _ => Err(failed(
            path,
            io::ErrorKind::AddrInUse,
            "another process listens there; end that, or choose another path",
        )),
    }
}

/// Removes the sockets of a directory on which no process listens any more, if `is_ours` accepts
/// their names. A socket with a listening process stays, even if that process is stopped. Returns
/// the number of removed sockets.
///
/// Skips a directory in which a process is setting up a socket at the moment.
pub fn sweep(directory: &Path, is_ours: impl Fn(&str) -> bool) -> usize {
    let Ok(_locked) = lock_directory(directory, 0) else { return 0 };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_ours));
    ours.filter(|entry| {
        let path = entry.path();
        let address = SocketAddrUnix::new(&path);
        address.is_ok_and(|address| path.exists() && clear_stale(&path, &address).is_ok())
    })
    .count()
}

fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Maximum wait for another process that sets up its socket, in milliseconds.
const DIRECTORY_WAIT_MS: u64 = 5_000;

/// Locks the directory as long as the result lives: of two processes that find the same stale
/// socket, the second must not remove the socket that the first has just bound.
fn lock_directory(directory: &Path, wait_ms: u64) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| {
        let what = match errno {
            Errno::NOENT => "there is no such directory; make it, or choose another path",
            Errno::NOTDIR => "is not a directory; choose another path",
            _ => "cannot be opened",
        };
        failed(directory, io::Error::from(errno).kind(), what)
    })?;
    let patience = Patience::new(wait_ms);
    while rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).is_err() {
        if !patience.pause() {
            return Err(failed(
                directory,
                io::ErrorKind::WouldBlock,
                "another process keeps setting up a socket in this directory; end that",
            ));
        }
    }
    Ok(opened)
}

impl Listener {
    /// Listens at `path` like [`Listener::bind`], in a directory of this program, which is created
    /// if it is missing, for its owner only (0700).
    ///
    /// # Errors
    /// As [`Listener::bind`], or the directory cannot be created.
    pub fn bind_private(path: &Path) -> io::Result<Listener> {
        let directory = directory_of(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| failed(directory, error.kind(), "the directory cannot be made"))?;
        Listener::bind(path)
    }

    /// Listens at `path`, in an existing directory. The socket is for its owner only (0600); a
    /// stale socket is replaced.
    ///
    /// # Errors
    /// A sentence that names the path: a process listens there, it is not a socket, it is too long,
    /// ...
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let address = SocketAddrUnix::new(path).map_err(|_| {
            failed(
                path,
                io::ErrorKind::InvalidInput,
                "too long for a socket (107 bytes at most); choose a shorter path",
            )
        })?;
        let _locked = lock_directory(directory_of(path), DIRECTORY_WAIT_MS)?;
        clear_stale(path, &address)?;
        let socket = socket(SocketFlags::NONBLOCK)?;
        // The socket's mode becomes the mode of the file that bind creates (less the umask, which
        // belongs to the whole process and is not changed).
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &address)
            .map_err(|errno| failed(path, io::Error::from(errno).kind(), "cannot be bound"))?;
        let bound = fs::symlink_metadata(path)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let identity = Some((bound.dev(), bound.ino()));
        Ok(Listener {
            file: Arc::new(socket),
            address: Address::Unix { path: path.to_owned(), identity },
        })
    }

    /// Listens on TCP, without any protection: every peer that reaches the address may connect.
    /// Accepted sockets send without delay (TCP_NODELAY) and detect a vanished peer after two
    /// minutes (keepalive): Linux copies both options from the listening socket.
    ///
    /// # Errors
    /// A sentence that names the address: it is in use, it does not belong to this machine, its
    /// port is below 1024, ...
    pub fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // Otherwise the address stays in use for a minute after the process has ended with open
        // connections.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_TRIES)?;
        rustix::net::bind(&socket, &address)
            .and_then(|()| rustix::net::listen(&socket, BACKLOG))
            .map_err(|errno| {
            let kind = io::Error::from(errno).kind();
            let mend = "choose another address or port";
            io::Error::new(kind, format!("{address}: cannot listen there ({errno}); {mend}"))
        })?;
        let bound = rustix::net::getsockname(&socket)?;
        let address = Address::Tcp(bound.try_into().unwrap_or(address));
        Ok(Listener { file: Arc::new(socket), address })
    }

    /// Creates a listener from a descriptor that is already listening, inherited across an exec
    /// ([`host::set_inherited`]) or received. Takes ownership of it and of its path.
    ///
    /// # Errors
    /// It is not a listening stream socket of unix or TCP.
    pub fn from_file(file: OwnedFd) -> io::Result<Listener> {
        let refuse = || {
            let message = "the received descriptor is not a listening unix or TCP socket";
            io::Error::new(io::ErrorKind::InvalidInput, message)
        };
        let is_stream = sockopt::socket_type(&file).is_ok_and(|kind| kind == SocketType::STREAM);
        if !is_stream || !sockopt::socket_acceptconn(&file)? {
            return Err(refuse());
        }
        let bound = rustix::net::getsockname(&file)?;
        let address = match bound.address_family() {
            AddressFamily::INET | AddressFamily::INET6 => {
                Address::Tcp(bound.try_into().map_err(|_| refuse())?)
            }
            AddressFamily::UNIX => {
                let unix: SocketAddrUnix = bound.try_into().map_err(|_| refuse())?;
                let path = unix.path_bytes().ok_or_else(refuse)?;
                let path = PathBuf::from(OsStr::from_bytes(path));
                let found = fs::symlink_metadata(&path).ok();
                let found = found.filter(|found| found.file_type().is_socket());
                let identity = found.map(|found| (found.dev(), found.ino()));
                Address::Unix { path, identity }
            }
            _ => return Err(refuse()),
        };
        set_inherited(&file, false)?;
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags | OFlags::NONBLOCK)?;
        Ok(Listener { file: Arc::new(file), address })
    }

    /// Returns the socket, for another process. Its path stays, for that process to continue
    /// listening.
    pub fn into_file(mut self) -> File {
        if let Address::Unix { identity, .. } = &mut self.address {
            *identity = None;
        }
        self.file.clone()
    }

    /// Returns the socket, for [`crate::Ring::accept`].
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path of a unix socket; empty for TCP.
    pub fn path(&self) -> &Path {
        match &self.address {
            Address::Unix { path, .. } => path,
            Address::Tcp(_) => Path::new(""),
        }
    }

    /// Returns the address of a TCP socket, with the actual port. None: it is a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.address {
            Address::Unix { .. } => None,
            Address::Tcp(address) => Some(address),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Address::Unix { path, identity: Some(identity) } = &self.address else { return };
        let found = fs::symlink_metadata(path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == *identity) {
            // If this fails, the next bind replaces the stale socket.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).map_or(0, |found| found.permissions().mode() & 0o777)
    }

    #[test]
    fn a_socket_is_private_and_is_removed_with_its_owner() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("new/deep/socket");
        let missing = Listener::bind(&path).expect_err("its directory is not there").to_string();
        assert!(missing.contains("no such directory; make it"), "{missing}");
        assert!(!path.parent().expect("it has one").exists(), "and is not made");
        let listener = Listener::bind_private(&path)?;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().expect("it has one")), 0o700);
        let client = UnixStream::connect(&path)?;
        let here = peer(&client)?;
        assert_eq!(here.process as u32, std::process::id());
        assert_eq!(here.user, rustix::process::geteuid().as_raw());
        drop(listener);
        assert!(!path.exists());
        Ok(())
    }

    #[test]
    fn a_live_socket_is_left_alone_and_a_stale_one_replaced() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("socket");
        let live = UnixListener::bind(&path)?;
        let refused = Listener::bind(&path).expect_err("a process listens");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(path.exists());
        drop(live);
        let listener = Listener::bind(&path)?;
        fs::remove_file(&path)?;
        let other = UnixListener::bind(&path)?;
        drop(listener);
        assert!(path.exists(), "another process's socket by now");
        drop(other);
        Ok(())
    }

    #[test]
    fn only_sockets_without_a_listener_are_swept() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name);
        let live = UnixListener::bind(path("live.sock"))?;
        drop((UnixListener::bind(path("stale.sock"))?, UnixListener::bind(path("theirs"))?));
        fs::write(path("data.sock"), "data")?;
        let is_ours = |name: &str| name.ends_with(".sock");
        let busy = lock_directory(directory.path(), 0)?;
        assert_eq!(sweep(directory.path(), is_ours), 0, "a socket is being set up");
        drop(busy);
        assert_eq!(sweep(directory.path(), is_ours), 1);
        let left = ["live.sock", "theirs", "data.sock"].map(|name| path(name).exists());
        assert_eq!((left, path("stale.sock").exists()), ([true; 3], false));
        drop(live);
        assert_eq!(sweep(&path("no such directory"), is_ours), 0);
        Ok(())
    }

    #[test]
    fn other_files_and_long_paths_are_refused() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        fs::write(&path, "data")?;
        assert!(Listener::bind(&path).is_err());
        assert_eq!(fs::read(&path)?, b"data");
        let long = directory.path().join("x".repeat(120));
        let message = Listener::bind(&long).expect_err("too long").to_string();
        assert!(message.contains("shorter"), "{message}");
        Ok(())
    }
}
