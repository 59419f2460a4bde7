//! A served volume with a file system on it, mounted.
//!
//! ```text
//!   ext4 -- loop device -- nbdfuse -- nbdkit, which reconnects -- overdrive serve -- image
//! ```
//!
//! nbdfuse does not reconnect to a server that was killed; nbdkit's retry filter does.

use crate::common::{Server, have, is_root, pause, run, wait_until};
use crate::dice::{Dice, scaled};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Whether volumes can be mounted here; if not, prints why the test skips.
pub(crate) fn can_mount() -> bool {
    if !is_root() || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        // Privileges, not programs: build servers may lack them, too.
        println!("skipped: mounting needs root, /dev/fuse and loop devices");
        return false;
    }
    have(&["nbdkit", "nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "fstrim", "mount", "umount"])
}

/// The programs between a server and a mounted file system.
pub(crate) struct Mounted {
    nbdkit: Child,
    nbdfuse: Child,
    device: Option<String>,
    directory: TempDir,
}

impl Mounted {
    /// Connects a device to the server, and makes a file system.
    pub(crate) fn new(server: &Server) -> Mounted {
        let mounted = Mounted::attach(server);
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0", mounted.device()]).well();
        mounted.mount();
        mounted
    }

    /// Connects a device to the server.
    pub(crate) fn attach(server: &Server) -> Mounted {
        let directory = tempfile::Builder::new().prefix("od").tempdir_in("/tmp").expect("room");
        open_to_others(directory.path());
        let path = |name: &str| directory.path().join(name);
        for name in ["fuse", "mount"] {
            fs::create_dir(path(name)).expect("a fresh directory");
        }
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.args(["-f", "-U"]).arg(path("nbdkit")).arg("--filter=retry").arg("nbd");
        nbdkit.arg(format!("socket={}", server.socket.display())).arg("export=disk");
        nbdkit.args(["retries=60", "retry-delay=1", "retry-exponential=no"]);
        // It prints a message on every reconnect.
        nbdkit.stderr(Stdio::null());
        let nbdkit = nbdkit.spawn().expect("it was there");
        // The socket is there before it listens.
        wait_until("nbdkit listens", || UnixStream::connect(path("nbdkit")).is_ok());
        let mut nbdfuse = Command::new("nbdfuse");
        nbdfuse.args(["--connections", "2"]).arg(path("fuse/nbd"));
        nbdfuse.arg(format!("nbd+unix:///?socket={}", path("nbdkit").display()));
        let log = path("nbdfuse.log");
        nbdfuse.stderr(fs::File::create(&log).expect("room"));
        let nbdfuse = nbdfuse.spawn().expect("it was there");
        let mut mounted = Mounted { nbdkit, nbdfuse, device: None, directory };
        wait_until("nbdfuse shows the volume", || {
            let ended = mounted.nbdfuse.try_wait().expect("its status");
            assert!(ended.is_none(), "nbdfuse: {}", fs::read_to_string(&log).unwrap_or_default());
            mounted.path("fuse/nbd").exists()
        });
        let file = mounted.path("fuse/nbd");
        let made = run("losetup", &["--find", "--show", plain(&file)]).well();
        mounted.device = Some(made.stdout.trim().to_owned());
        mounted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn device(&self) -> &str {
        self.device.as_deref().expect("attached")
    }

    /// Returns the mount point.
    pub(crate) fn mount_point(&self) -> PathBuf {
        self.path("mount")
    }

    pub(crate) fn mount(&self) {
        run("mount", &[self.device(), plain(&self.mount_point())]).well();
    }

    pub(crate) fn unmount(&self) {
        run("umount", &[plain(&self.mount_point())]).well();
    }

    /// Makes an XFS, and mounts it.
    pub(crate) fn new_xfs(server: &Server) -> Mounted {
        let mounted = Mounted::attach(server);
        run("mkfs.xfs", &["-q", mounted.device()]).well();
        mounted.mount_xfs();
        mounted
    }

    pub(crate) fn mount_xfs(&self) {
        // The kernel may still have the same file system, whose power was cut.
        run("mount", &["-o", "nouuid", self.device(), plain(&self.mount_point())]).well();
    }

    /// Unmounts, and runs xfs_repair, which must find nothing.
    pub(crate) fn check_xfs(&self) {
        self.unmount();
        run("xfs_repair", &["-n", self.device()]).well();
    }

    /// Unmounts, and runs e2fsck, which must find nothing.
    pub(crate) fn check(&self) {
        self.unmount();
        run("e2fsck", &["-fn", self.device()]).well();
    }

    pub(crate) fn trim(&self) {
        run("fstrim", &[plain(&self.mount_point())]).well();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Without nbdkit all waiting requests fail and end, even if the server is dead.
        let _ = self.nbdkit.kill();
        let _ = self.nbdkit.wait();
        run("umount", &["--lazy", plain(&self.mount_point())]);
        if let Some(device) = &self.device {
            run("losetup", &["--detach", device]);
        }
        run("umount", &["--lazy", plain(&self.path("fuse"))]);
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
    }
}

/// Lets other users pass through this directory.
pub(crate) fn open_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
}

pub(crate) fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Kills the server and restarts it, many times, with pauses in which others can work.
pub(crate) fn kill_and_restart(mut server: Server, kills: u64, dice: &mut Dice) -> Server {
    for _ in 0..scaled(kills) {
        pause(Duration::from_millis(dice.between(100, 1500)));
        server = server.reborn();
    }
    server
}
