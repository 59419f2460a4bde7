//! The directory that a mount covers.

use super::fusermount;
use crate::broker;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use stack::{Exit, Failure};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Type of our mounts in the list of mounts; the part before the dot is that of any FUSE file
/// system.
const KIND: &str = "fuse.overdrive";

/// A directory to mount on: its path without links, resolved without access to a mount that may be
/// there already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mountpoint(PathBuf);

fn usage(path: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("{}: {what}", path.display()))
}

impl Mountpoint {
    /// Returns the directory with this name.
    ///
    /// # Errors
    /// Usage: its parent directory cannot be found, or the path has no last name.
    pub(super) fn find(path: &Path) -> Result<Mountpoint, Failure> {
        let absolute = std::path::absolute(path).map_err(|error| usage(path, error))?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(usage(path, "is not a directory to mount on; name an empty directory"));
        };
        let parent = fs::canonicalize(parent).map_err(|error| usage(path, error))?;
        Ok(Mountpoint(parent.join(name)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Mounts there; returns the connection. If this process is confined, its broker mounts.
    ///
    /// # Errors
    /// FUSE is missing, mounting is not permitted, or there is no such directory: a
    /// sentence with a correction.
    pub(super) fn mount(&self) -> Result<OwnedFd, Failure> {
        match broker::present() {
            Some(broker) => broker.mount(&self.0),
            None => self.mount_directly(),
        }
    }

    fn mount_directly(&self) -> Result<OwnedFd, Failure> {
        if is_mounted(&self.0) {
            // The server has died without a holder: all users of the mount get errors already.
            let _ = self.unmount_directly(true);
        }
        let path = &self.0;
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(usage(path, "is not a directory; name an empty one")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir(path).map_err(|error| usage(path, error))?;
            }
            Err(error) => return Err(usage(path, error)),
        }
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(usage(
                path,
                "is not empty, and its files would be hidden; name an empty directory",
            ));
        }
        if !rustix::process::geteuid().is_root() {
            return self.mount_as_user();
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|errno| {
            let exit = if errno == Errno::ACCESS { Exit::Permission } else { Exit::Usage };
            let mend = "load the kernel's module (modprobe fuse), or use NBD";
            Failure::new(exit, format!("/dev/fuse cannot be opened ({errno}); {mend}"))
        })?;
        self.attach(&device)?;
        Ok(device)
    }

    fn mount_as_user(&self) -> Result<OwnedFd, Failure> {
        fusermount::mount(&self.0).map_err(|error| {
            let path = self.0.display();
            let why = match error.kind() {
                io::ErrorKind::NotFound => {
                    "only root may mount, or fusermount3 (apt-get install fuse3)".to_owned()
                }
                _ => error.to_string(),
            };
            Failure::new(Exit::Permission, format!("{path}: {why}; or use NBD"))
        })
    }

    fn attach(&self, device: &OwnedFd) -> Result<(), Failure> {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let options = format!(
            "fd={},rootmode=40500,user_id={},group_id={}",
            device.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        let options = CString::new(options).expect("numbers have no zero byte");
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
        rustix::mount::mount("overdrive", &self.0, KIND, flags, options.as_c_str()).map_err(
            |errno| {
                let path = self.0.display();
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
            Some(broker) => {
                broker.unmount(&self.0, lazily).map_err(|failure| io::Error::other(failure.message))
            }
            None => self.unmount_directly(lazily),
        }
    }

    fn unmount_directly(&self, lazily: bool) -> io::Result<()> {
        let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        match rustix::mount::unmount(&self.0, UnmountFlags::NOFOLLOW | flags) {
            Err(Errno::PERM) => fusermount::unmount(&self.0, lazily),
            done => Ok(done?),
        }
    }

    /// Removes the directory, which is empty.
    pub(super) fn remove(&self) {
        // Only the name is left.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Returns the directory of a mount as its mountpoint is known: its path without links. None: there
/// can be no mount.
pub(crate) fn mountpoint(path: &Path) -> Option<PathBuf> {
    Mountpoint::find(path).ok().map(|found| found.0)
}

/// Mounts on a directory in this process, which is not confined; returns the connection.
///
/// # Errors
/// As [`Mountpoint::mount`].
pub(crate) fn mount_directly(path: &Path) -> Result<OwnedFd, Failure> {
    Mountpoint::find(path)?.mount_directly()
}

/// Unmounts a directory in this process, which is not confined. If `lazily`, the mount's name is
/// removed even if it is in use.
///
/// # Errors
/// It is in use, or something else is mounted there.
pub(crate) fn unmount_directly(path: &Path, lazily: bool) -> io::Result<()> {
    let found = Mountpoint::find(path).map_err(|failure| io::Error::other(failure.message))?;
    found.unmount_directly(lazily)
}

/// Whether a file system of ours is mounted there, by the list of mounts: access to the mount would
/// send a request to its server.
pub(crate) fn is_mounted(path: &Path) -> bool {
    let mounts = host::mounts();
    let uppermost = mounts.iter().rfind(|mount| mount.point == path);
    uppermost.is_some_and(|mount| mount.kind == KIND)
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
}
