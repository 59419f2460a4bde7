//! The directory that a mount covers.

use super::fusermount;
use crate::broker;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use stack::{Exit, Failure};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Type of our mounts in the list of mounts; the part before the dot is that of any FUSE file
/// system.
const KIND: &str = "fuse.overdrive";

/// A directory to mount on, resolved without access to a mount that may be there already.
///
/// A process that renames directories or makes links leads no call elsewhere: they begin at the
/// parent as it was found, and follow no link.
#[derive(Clone, Debug)]
pub(crate) struct Mountpoint {
    /// Its path without links.
    path: PathBuf,
    parent: Arc<OwnedFd>,
}

impl PartialEq for Mountpoint {
    fn eq(&self, other: &Mountpoint) -> bool {
        self.path == other.path
    }
}

fn usage(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {what}", path.display()))
}

impl Mountpoint {
    /// Returns the directory with this name.
    ///
    /// # Errors
    /// Usage: its parent directory cannot be found, or the path has no last name.
    pub(crate) fn find(path: &Path) -> Result<Mountpoint, Failure> {
        let absolute = std::path::absolute(path).map_err(|error| usage(path, error))?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(usage(path, "is not a directory to mount on; name an empty directory"));
        };
        let parent = fs::canonicalize(parent).map_err(|error| usage(path, error))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&parent, flags, Mode::empty());
        let opened = opened.map_err(|errno| usage(path, errno))?;
        Ok(Mountpoint { path: parent.join(name), parent: Arc::new(opened) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().expect("found with one")
    }

    /// Returns a path to it that begins at its parent, wherever that is now.
    fn place_in_parent(&self) -> PathBuf {
        by_descriptor(&*self.parent).join(self.name())
    }

    /// Returns the kind of file system that is mounted there. None: nothing is.
    fn kind_mounted(&self) -> Option<String> {
        let parent = fs::read_link(by_descriptor(&*self.parent)).ok()?;
        kind_mounted(&parent.join(self.name()))
    }

    /// Opens the directory, which is made if it is missing.
    fn open_empty(&self) -> Result<OwnedFd, Failure> {
        let path = &self.path;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.parent, self.name(), flags, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) => {
                let all = Mode::RWXU | Mode::RWXG | Mode::RWXO;
                rustix::fs::mkdirat(&self.parent, self.name(), all).and_then(|()| open())
            }
            opened => opened,
        };
        let directory = opened.map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => usage(path, "is not a directory; name an empty one"),
            _ => usage(path, errno),
        })?;
        let mut entries = fs::read_dir(by_descriptor(&directory));
        if entries.as_mut().is_ok_and(|entries| entries.next().is_some()) {
            return Err(usage(
                path,
                "is not empty, and its files would be hidden; name an empty directory",
            ));
        }
        Ok(directory)
    }

    /// Mounts there; returns the connection. If this process is confined, its broker mounts.
    ///
    /// # Errors
    /// FUSE is missing, mounting is not permitted, or there is no such directory: a
    /// sentence with a correction.
    pub(super) fn mount(&self) -> Result<OwnedFd, Failure> {
        match broker::present() {
            Some(broker) => broker.mount(&self.path),
            None => self.mount_directly(),
        }
    }

    /// Mounts in this process, which is not confined; returns the connection.
    ///
    /// # Errors
    /// As [`Mountpoint::mount`].
    pub(crate) fn mount_directly(&self) -> Result<OwnedFd, Failure> {
        if self.kind_mounted().is_some_and(|kind| kind == KIND) {
            // The server has died without a holder: all users of the mount get errors already.
            let _ = self.unmount_directly(true);
        }
        let directory = self.open_empty()?;
        if !rustix::process::geteuid().is_root() {
            return self.mount_as_user();
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|errno| {
            let exit = if errno == Errno::ACCESS { Exit::Permission } else { Exit::Usage };
            let mend = "load the kernel's module (modprobe fuse), or use NBD";
            Failure::new(exit, format!("/dev/fuse cannot be opened ({errno}); {mend}"))
        })?;
        self.attach(&device, &directory)?;
        Ok(device)
    }

    fn mount_as_user(&self) -> Result<OwnedFd, Failure> {
        fusermount::mount(&self.path).map_err(|error| {
            let path = self.path.display();
            let why = match error.kind() {
                io::ErrorKind::NotFound => {
                    "only root may mount, or fusermount3 (apt-get install fuse3)".to_owned()
                }
                _ => error.to_string(),
            };
            Failure::new(Exit::Permission, format!("{path}: {why}; or use NBD"))
        })
    }

    fn attach(&self, device: &OwnedFd, directory: &OwnedFd) -> Result<(), Failure> {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let options = format!(
            "fd={},rootmode=40500,user_id={},group_id={}",
            device.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        let options = CString::new(options).expect("numbers have no zero byte");
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
        let place = by_descriptor(directory);
        rustix::mount::mount("overdrive", &place, KIND, flags, options.as_c_str()).map_err(
            |errno| {
                let path = self.path.display();
                match errno {
                    Errno::PERM => {
                        let message =
                            format!("{path}: only root may mount; run this as root, or use NBD");
                        Failure::new(Exit::Permission, message)
                    }
                    Errno::NODEV => {
                        let message = "this kernel has no FUSE; use NBD";
                        Failure::new(Exit::Usage, format!("{path}: {message}"))
                    }
                    _ => Failure::new(Exit::Usage, format!("{path}: cannot be mounted: {errno}")),
                }
            },
        )
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// It is in use, or something else is mounted there.
    pub(super) fn unmount(&self) -> io::Result<()> {
        self.unmount_by(false)
    }

    /// Removes its name. Processes that have its files open keep them, and get errors once the
    /// server has ended.
    pub(super) fn detach(&self) -> io::Result<()> {
        self.unmount_by(true)
    }

    fn unmount_by(&self, lazily: bool) -> io::Result<()> {
        match broker::present() {
            Some(broker) => broker
                .unmount(&self.path, lazily)
                .map_err(|failure| io::Error::other(failure.message)),
            None => self.unmount_directly(lazily),
        }
    }

    /// Unmounts it in this process, which is not confined. If `lazily`, the mount's name is removed
    /// even if it is in use.
    ///
    /// # Errors
    /// It is in use, or something else is mounted there.
    pub(crate) fn unmount_directly(&self, lazily: bool) -> io::Result<()> {
        if let Some(other) = self.kind_mounted().filter(|kind| kind != KIND) {
            return Err(io::Error::other(format!(
                "a file system of type {other} is mounted there"
            )));
        }
        let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        match rustix::mount::unmount(self.place_in_parent(), UnmountFlags::NOFOLLOW | flags) {
            Err(Errno::PERM) => fusermount::unmount(&self.path, lazily),
            done => Ok(done?),
        }
    }

    /// Removes the directory, which is empty.
    pub(super) fn remove(&self) {
        // Only the name is left.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Returns the directory of a mount as its mountpoint is known: its path without links. None: there
/// can be no mount.
pub(crate) fn mountpoint(path: &Path) -> Option<PathBuf> {
    Mountpoint::find(path).ok().map(|found| found.path)
}

/// Returns the path of an open file in this process's directory in /proc.
fn by_descriptor(file: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// Returns the kind of the uppermost file system that is mounted there. None: nothing is.
fn kind_mounted(path: &Path) -> Option<String> {
    let mounts = host::mounts();
    mounts.iter().rfind(|mount| mount.point == path).map(|mount| mount.kind.clone())
}

/// Whether a file system of ours is mounted there, by the list of mounts: access to the mount would
/// send a request to its server.
pub(crate) fn is_mounted(path: &Path) -> bool {
    kind_mounted(path).is_some_and(|kind| kind == KIND)
}

/// Unmounts a directory whose server has ended: waiting requests fail. A directory where nothing of
/// ours is mounted is left unchanged.
///
/// # Errors
/// Those of the system.
pub(crate) fn abort(path: &Path) -> io::Result<()> {
    if !is_mounted(path) {
        return Ok(());
    }
    // The first call ends the waiting requests, and may find the mount in use by them.
    let _ = rustix::mount::unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::FORCE);
    match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        // The first call has unmounted it.
        Err(Errno::INVAL) => Ok(()),
        done => Ok(done?),
    }
}

/// Creates the directories that lead to a directory of ours, for this user alone.
///
/// # Errors
/// Those of the system.
pub(super) fn make_private(path: &Path) -> Result<(), Failure> {
    let above = path.parent().unwrap_or(path);
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
    made.map_err(|error| {
        Failure::new(Exit::Io, format!("{}: cannot be made: {error}", above.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountpoint_is_resolved_without_access_to_it() {
        let directory = tempfile::tempdir().expect("room");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).expect("room");
        let found = Mountpoint::find(&link.join("there")).expect("its directory is there");
        let real = fs::canonicalize(directory.path()).expect("it is there");
        assert_eq!(found.path(), real.join("there"));
        assert_eq!(Mountpoint::find(Path::new("/")).expect_err("no name").exit, Exit::Usage);
    }

    #[test]
    fn a_renamed_parent_and_a_link_lead_nowhere_else() {
        let place = tempfile::tempdir().expect("room");
        let (parent, moved) = (place.path().join("parent"), place.path().join("moved"));
        fs::create_dir(&parent).expect("room");
        let found = Mountpoint::find(&parent.join("disk")).expect("its parent is there");
        fs::rename(&parent, &moved).expect("both are on one file system");
        std::os::unix::fs::symlink("/", &parent).expect("room");
        let opened = found.open_empty().expect("it is made");
        let real = fs::read_link(by_descriptor(&opened)).expect("it is open");
        assert_eq!(real, fs::canonicalize(moved.join("disk")).expect("it was made there"));
        fs::remove_dir(moved.join("disk")).expect("it is empty");
        std::os::unix::fs::symlink("/proc", moved.join("disk")).expect("room");
        let refused = found.open_empty().expect_err("it is a link");
        assert!(refused.message.contains("is not a directory"), "{}", refused.message);
    }
}
