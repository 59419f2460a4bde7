//! Locates holders: `<runtime>/holders/<key>.sock`.

use crate::deadline::Deadline;
use crate::key;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Longest time that other processes may take to set up their sockets in the directory.
const SET_UP: Duration = Duration::from_secs(5);
const SUFFIX: &str = ".sock";

/// Result of an attempt to reach a holder.
pub(crate) enum Reached {
    Yes(OwnedFd),
    /// No process listens there.
    No,
    /// A process listens, but too many connections are already waiting.
    Crowded,
}

fn failed(path: &Path, kind: io::ErrorKind, what: &str) -> io::Error {
    io::Error::new(kind, format!("{}: {what}", path.display()))
}

pub(crate) fn holders(runtime: &Path) -> PathBuf {
    runtime.join("holders")
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        let what = "too long for a socket (at most 107 bytes); choose a shorter runtime directory";
        failed(path, io::ErrorKind::InvalidInput, what)
    })
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Whether the process at the other end belongs to the same user, or to root.
pub(crate) fn is_trusted(socket: impl AsFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    ring::peer(socket).is_ok_and(|peer| peer.user == own || peer.user == 0)
}

fn connect(path: &Path, address: &SocketAddrUnix) -> io::Result<Reached> {
    let socket = socket()?;
    match rustix::net::connect(&socket, address) {
        Ok(()) if is_trusted(&socket) => Ok(Reached::Yes(socket)),
        // Descriptors from another user are not trusted.
        Ok(()) | Err(Errno::ACCESS | Errno::PERM) => Err(failed(
            path,
            io::ErrorKind::PermissionDenied,
            "is the socket of another user; use a private runtime directory",
        )),
        Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => Ok(Reached::No),
        Err(Errno::AGAIN) => Ok(Reached::Crowded),
        Err(errno) => Err(failed(path, io::Error::from(errno).kind(), "cannot be reached")),
    }
}

/// Connects to the holder of a key.
pub(crate) fn reach(runtime: &Path, key: &str) -> io::Result<Reached> {
    key::check(key)?;
    let path = holders(runtime).join(format!("{key}{SUFFIX}"));
    connect(&path, &address(&path)?)
}

/// Returns the process that listens for a key. None: it has ended, or accepts no connection.
pub(crate) fn pid_at(runtime: &Path, key: &str) -> Option<i32> {
    match reach(runtime, key) {
        Ok(Reached::Yes(socket)) => ring::peer(&socket).ok().map(|peer| peer.process),
        _ => None,
    }
}

/// Returns the keys of all sockets in the directory, live or stale, in order.
pub(crate) fn keys(runtime: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(holders(runtime)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut keys: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(SUFFIX).map(str::to_owned))
        .filter(|key| key::check(key).is_ok())
        .collect();
    keys.sort_unstable();
    Ok(keys)
}

/// Opens the directory, and refuses one that other users can change.
fn open_private(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| failed(path, io::Error::from(errno).kind(), "cannot be opened"))?;
    let found = rustix::fs::fstat(&opened)?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        return Err(failed(
            path,
            io::ErrorKind::PermissionDenied,
            "is accessible to other users; remove it, or use a private runtime directory",
        ));
    }
    Ok(opened)
}

/// Locks the directory while the result lives: of two processes that find the same stale socket,
/// the second must not remove the socket that the first has just bound.
fn lock(path: &Path) -> io::Result<OwnedFd> {
    let opened = open_private(path)?;
    let deadline = Deadline::after(SET_UP);
    loop {
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) if deadline.pause() => (),
            Err(_) => {
                let what = "stays locked by another process; end that process, then try again";
                return Err(failed(path, io::ErrorKind::WouldBlock, what));
            }
        }
    }
}

/// Removes a socket on which no process listens; refuses to remove anything else.
fn clear_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !found.file_type().is_socket() {
        let what = "exists and is not a socket; remove it";
        return Err(failed(path, io::ErrorKind::AlreadyExists, what));
    }
    match connect(path, address)? {
        Reached::No => fs::remove_file(path),
        Reached::Yes(_) | Reached::Crowded => Err(failed(
            path,
            io::ErrorKind::AddrInUse,
            "there is already a holder of this backing; take over its data with `overdrive serve`",
        )),
    }
}

/// Removes the socket of a killed holder, if no process listens there.
pub(crate) fn sweep(runtime: &Path, key: &str) {
    let directory = holders(runtime);
    let path = directory.join(format!("{key}{SUFFIX}"));
    // The lock waits for a holder that has bound its socket and does not listen yet.
    if let (Ok(address), Ok(_locked)) = (address(&path), lock(&directory)) {
        let _ = clear_stale(&path, &address);
    }
}

/// A holder's listening socket. Dropping it removes the path, if the path is still its own.
#[derive(Debug)]
pub(crate) struct HolderSocket {
    socket: OwnedFd,
    directory: PathBuf,
    name: String,
    identity: (u64, u64),
}

impl HolderSocket {
    /// Listens for a key; creates the directory (0700) if it is missing.
    pub(crate) fn bind(runtime: &Path, key: &str) -> io::Result<HolderSocket> {
        key::check(key)?;
        let directory = holders(runtime);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| failed(&directory, error.kind(), "the directory cannot be made"))?;
        let name = format!("{key}{SUFFIX}");
        let path = directory.join(&name);
        let address = address(&path)?;
        let _locked = lock(&directory)?;
        clear_stale(&path, &address)?;
        let socket = socket()?;
        // The mode of the socket is the mode of the file that bind creates.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &address)
            .map_err(|errno| failed(&path, io::Error::from(errno).kind(), "cannot be bound"))?;
        let bound = fs::symlink_metadata(&path)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(HolderSocket { socket, directory, name, identity: (bound.dev(), bound.ino()) })
    }

    /// Whether the socket can still be found by its path. (A runtime directory is removed when its
    /// user logs out, and is empty after the next login.)
    pub(crate) fn is_reachable(&self) -> bool {
        let found = fs::symlink_metadata(self.directory.join(&self.name));
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    /// Returns the runtime directory of the socket.
    pub(crate) fn runtime(&self) -> &Path {
        self.directory.parent().unwrap_or(Path::new("/"))
    }

    /// Listens again at the same path, which was removed.
    pub(crate) fn rebind(&self) -> io::Result<HolderSocket> {
        HolderSocket::bind(self.runtime(), self.name.strip_suffix(SUFFIX).unwrap_or(&self.name))
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the next connection that waits to be accepted; `AGAIN` if there is none.
    pub(crate) fn accept(&self) -> Result<OwnedFd, Errno> {
        rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }
}

impl Drop for HolderSocket {
    fn drop(&mut self) {
        // If this fails, the socket is stale, and the next process that binds removes it.
        let Ok(directory) = lock(&self.directory) else { return };
        let name = self.name.as_str();
        let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == self.identity) {
            let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_is_private_and_is_removed_with_its_owner() -> io::Result<()> {
        let runtime = tempfile::tempdir()?;
        let listener = HolderSocket::bind(runtime.path(), "file-1-2")?;
        let directory = holders(runtime.path());
        let mode = |path: &Path| fs::metadata(path).map(|found| found.permissions().mode() & 0o777);
        assert_eq!(mode(&directory)?, 0o700);
        assert_eq!(mode(&directory.join("file-1-2.sock"))?, 0o600);
        assert_eq!(keys(runtime.path())?, ["file-1-2"]);
        assert!(matches!(reach(runtime.path(), "file-1-2")?, Reached::Yes(_)));
        drop(listener);
        assert_eq!(keys(runtime.path())?, [""; 0]);
        assert!(matches!(reach(runtime.path(), "file-1-2")?, Reached::No));
        Ok(())
    }

    #[test]
    fn a_live_socket_is_left_alone_and_a_stale_one_is_replaced() -> io::Result<()> {
        let runtime = tempfile::tempdir()?;
        let live = HolderSocket::bind(runtime.path(), "a")?;
        let refused = HolderSocket::bind(runtime.path(), "a").expect_err("a process listens");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        // As after a kill: the path stays, and no process listens.
        let stale = live.socket.try_clone()?;
        let path = holders(runtime.path()).join("a.sock");
        fs::rename(&path, runtime.path().join("aside"))?;
        drop((live, stale));
        fs::rename(runtime.path().join("aside"), &path)?;
        let next = HolderSocket::bind(runtime.path(), "a")?;
        // A socket that another process has bound since is not removed.
        fs::remove_file(&path)?;
        let other = std::os::unix::net::UnixListener::bind(&path)?;
        drop(next);
        assert!(path.exists());
        drop(other);
        Ok(())
    }

    #[test]
    fn directories_of_others_and_strange_files_are_refused() -> io::Result<()> {
        let runtime = tempfile::tempdir()?;
        let directory = holders(runtime.path());
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
        let refused = HolderSocket::bind(runtime.path(), "a").expect_err("others can look in");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        fs::write(directory.join("a.sock"), "data")?;
        assert!(HolderSocket::bind(runtime.path(), "a").is_err());
        assert_eq!(fs::read(directory.join("a.sock"))?, b"data");
        let long =
            HolderSocket::bind(&runtime.path().join("x".repeat(100)), "a").expect_err("too long");
        assert!(long.to_string().contains("shorter"), "{long}");
        Ok(())
    }
}
