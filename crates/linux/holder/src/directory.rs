//! Where holders are found: `<runtime>/holders/<key>.sock`.

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

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// How long others may take to set up their sockets in the directory.
const SET_UP: Duration = Duration::from_secs(5);
const SUFFIX: &str = ".sock";

/// What came of an attempt to reach a holder.
pub(crate) enum Reached {
    Yes(OwnedFd),
    /// No process listens there.
    No,
    /// A process listens, and too many connections wait already.
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
        let what = "too long for a socket (107 bytes at most); choose a shorter runtime directory";
        failed(path, io::ErrorKind::InvalidInput, what)
    })
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Whether the other end is the same user, or root.
pub(crate) fn is_trusted(socket: impl AsFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    ring::peer(socket).is_ok_and(|peer| peer.user == own || peer.user == 0)
}

fn connect(path: &Path, address: &SocketAddrUnix) -> io::Result<Reached> {
    let socket = socket()?;
    match rustix::net::connect(&socket, address) {
        Ok(()) if is_trusted(&socket) => Ok(Reached::Yes(socket)),
        // The descriptors that another user would give are not ours.
        Ok(()) | Err(Errno::ACCESS | Errno::PERM) => Err(failed(
            path,
            io::ErrorKind::PermissionDenied,
            "is the socket of another user; use a runtime directory of your own",
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

/// The process that listens for a key. None: it has gone, or lets no connection in.
pub(crate) fn pid_at(runtime: &Path, key: &str) -> Option<i32> {
    match reach(runtime, key) {
        Ok(Reached::Yes(socket)) => ring::peer(&socket).ok().map(|peer| peer.process),
        _ => None,
    }
}

/// The keys of all sockets in the directory, live or stale, in order.
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

/// Opens the directory, and refuses one that others can change.
fn open_private(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| failed(path, io::Error::from(errno).kind(), "cannot be opened"))?;
    let found = rustix::fs::fstat(&opened)?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        return Err(failed(
            path,
            io::ErrorKind::PermissionDenied,
            "is not for its owner alone; remove it, or use a runtime directory of your own",
        ));
    }
    Ok(opened)
}

/// Locks the directory as long as the result lives: of two that find the same stale socket, the
/// second must not remove what the first has just bound.
fn lock(path: &Path) -> io::Result<OwnedFd> {
    let opened = open_private(path)?;
    let deadline = Deadline::after(SET_UP);
    loop {
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) if deadline.pause() => (),
            Err(_) => {
                let what = "stays locked by another process; end that, then try again";
                return Err(failed(path, io::ErrorKind::WouldBlock, what));
            }
        }
    }
}

/// Takes a path that no process listens on out of the way; refuses to touch anything else.
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
            "a holder of this backing is there already; take its data with `overdrive serve`",
        )),
    }
}

/// Takes the socket of a killed holder away, if nothing listens there.
pub(crate) fn sweep(runtime: &Path, key: &str) {
    let directory = holders(runtime);
    let path = directory.join(format!("{key}{SUFFIX}"));
    // A holder that binds just now has it locked until it listens.
    if let (Ok(address), Ok(_locked)) = (address(&path), lock(&directory)) {
        let _ = clear_stale(&path, &address);
    }
}

/// A holder's listening socket. Dropped, it takes the path away (if that is still its own).
#[derive(Debug)]
pub(crate) struct Seat {
    socket: OwnedFd,
    directory: PathBuf,
    name: String,
    identity: (u64, u64),
}

impl Seat {
    /// Listens for a key; makes the directory (0700) where it is missing.
    pub(crate) fn bind(runtime: &Path, key: &str) -> io::Result<Seat> {
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
        // The mode of the socket is the mode of the file that bind makes.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &address)
            .map_err(|errno| failed(&path, io::Error::from(errno).kind(), "cannot be bound"))?;
        let bound = fs::symlink_metadata(&path)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Seat { socket, directory, name, identity: (bound.dev(), bound.ino()) })
    }

    /// Whether the socket can still be found by its path. (A runtime directory goes when its user logs
    /// out, and comes back empty.)
    pub(crate) fn is_there(&self) -> bool {
        let found = fs::symlink_metadata(self.directory.join(&self.name));
        found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    /// The runtime directory that it is in.
    pub(crate) fn runtime(&self) -> &Path {
        self.directory.parent().unwrap_or(Path::new("/"))
    }

    /// Listens anew at the same path, which was taken away.
    pub(crate) fn again(&self) -> io::Result<Seat> {
        Seat::bind(self.runtime(), self.name.strip_suffix(SUFFIX).unwrap_or(&self.name))
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next connection that waits to be accepted; `AGAIN` if none does.
    pub(crate) fn accept(&self) -> Result<OwnedFd, Errno> {
        rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Should this not work, the socket is stale, which the next one to bind deals with.
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
    fn it_is_private_and_goes_with_its_owner() -> io::Result<()> {
        let runtime = tempfile::tempdir()?;
        let seat = Seat::bind(runtime.path(), "file-1-2")?;
        let directory = holders(runtime.path());
        let mode = |path: &Path| fs::metadata(path).map(|found| found.permissions().mode() & 0o777);
        assert_eq!(mode(&directory)?, 0o700);
        assert_eq!(mode(&directory.join("file-1-2.sock"))?, 0o600);
        assert_eq!(keys(runtime.path())?, ["file-1-2"]);
        assert!(matches!(reach(runtime.path(), "file-1-2")?, Reached::Yes(_)));
        drop(seat);
        assert_eq!(keys(runtime.path())?, [""; 0]);
        assert!(matches!(reach(runtime.path(), "file-1-2")?, Reached::No));
        Ok(())
    }

    #[test]
    fn a_live_one_is_left_alone_and_a_stale_one_replaced() -> io::Result<()> {
        let runtime = tempfile::tempdir()?;
        let live = Seat::bind(runtime.path(), "a")?;
        let refused = Seat::bind(runtime.path(), "a").expect_err("a process listens");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        // As after a kill: the path stays, no process listens.
        let stale = live.socket.try_clone()?;
        let path = holders(runtime.path()).join("a.sock");
        fs::rename(&path, runtime.path().join("aside"))?;
        drop((live, stale));
        fs::rename(runtime.path().join("aside"), &path)?;
        let next = Seat::bind(runtime.path(), "a")?;
        // Another process's socket by now is not removed.
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
        let refused = Seat::bind(runtime.path(), "a").expect_err("others can look in");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        fs::write(directory.join("a.sock"), "data")?;
        assert!(Seat::bind(runtime.path(), "a").is_err());
        assert_eq!(fs::read(directory.join("a.sock"))?, b"data");
        let long = Seat::bind(&runtime.path().join("x".repeat(100)), "a").expect_err("too long");
        assert!(long.to_string().contains("shorter"), "{long}");
        Ok(())
    }
}
