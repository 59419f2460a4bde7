//! A mounted ext4 in a volume: over a server's export, or over an image itself.
//!
//! ```text
//!   ext4 -- loop device, direct I/O -- nbdfuse -- a server -- image
//!   ext4 -- loop device, the image's page cache below it -- image
//! ```

use crate::program::{TemporaryPath, pause_ms};
use crate::sides::wall_ns;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Maximum time until nbdfuse's file exists.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Number of attempts to unmount, 20 ms apart.
const UNMOUNT_TRIES: u32 = 100;

/// Runs a program that must succeed; returns its output.
///
/// # Errors
/// With the program's error output.
pub(crate) fn well<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Checks that mounting is possible here.
///
/// # Errors
/// The reason why it is not.
pub(crate) fn can_mount() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "mounting needs root");
    for node in ["/dev/fuse", "/dev/loop-control"] {
        ensure!(Path::new(node).exists(), "mounting needs {node}, which is not there");
    }
    Ok(())
}

/// A loop device.
pub(crate) struct Loop(String);

impl Loop {
    /// Attaches a file, with direct I/O or without.
    ///
    /// # Errors
    /// That is not possible, or only the other way.
    pub(crate) fn attach(file: &Path, direct: bool) -> Result<Loop> {
        let direct = if direct { "on" } else { "off" };
        let file = file.display().to_string();
        let option = format!("--direct-io={direct}");
        let device = Loop(well("losetup", &["--find", "--show", &option, &file])?);
        let number = device.0.trim_start_matches("/dev/");
        // If direct I/O is not possible, the kernel does without it and reports no error.
        let flag = fs::read_to_string(format!("/sys/block/{number}/loop/dio")).unwrap_or_default();
        let is_direct = if flag.trim() == "1" { "on" } else { "off" };
        ensure!(is_direct == direct, "{file}: a loop device here has direct I/O {is_direct}");
        Ok(device)
    }

    /// Returns its node.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It may be in use after a failure: then it is detached with the unmount.
        let _ = well("losetup", &["--detach", &self.0]);
    }
}

/// nbdfuse: an export as a file.
pub(crate) struct Fuse {
    child: Child,
    directory: PathBuf,
}

impl Fuse {
    /// Mounts an export in a new directory.
    ///
    /// # Errors
    /// nbdfuse does not start, or its file does not appear.
    pub(crate) fn attach(uri: &str, directory: PathBuf) -> Result<Fuse> {
        fs::create_dir_all(&directory)?;
        let child = Command::new("nbdfuse").arg(directory.join("disk")).arg(uri).spawn();
        let child = child.context("cannot start nbdfuse (apt-get install libnbd-bin)")?;
        let mut fuse = Fuse { child, directory };
        let end = wall_ns() + PATIENCE_NS;
        while !fuse.file().exists() {
            ensure!(fuse.child.try_wait()?.is_none() && wall_ns() < end, "nbdfuse shows no file");
            pause_ms(5);
        }
        Ok(fuse)
    }

    /// Returns the path of the file.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("disk")
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // nbdfuse ends after the unmount, once all data is written. The loop device closes its file
        // a moment after it is detached.
        let unmounted = (0..UNMOUNT_TRIES).any(|_| {
            let done = well("umount", &[&self.directory]).is_ok();
            if !done {
                pause_ms(20);
            }
            done
        });
        if !unmounted {
            let _ = self.child.kill();
            let _ = well("umount", &["--lazy", &self.directory.display().to_string()]);
        }
        let _ = self.child.wait();
    }
}

/// A mounted file system. The fields are dropped from top to bottom.
pub(crate) struct Mounted {
    point: PathBuf,
    is_mounted: bool,
    _device: Option<Loop>,
    _fuse: Option<Fuse>,
    _directory: TemporaryPath,
}

impl Mounted {
    /// Mounts a server's export.
    ///
    /// # Errors
    /// Those of a program.
    pub(crate) fn mount_export(uri: &str) -> Result<Mounted> {
        let directory = TemporaryPath::directory("mounted")?;
        let fuse = Fuse::attach(uri, directory.path().join("fuse"))?;
        let device = Loop::attach(&fuse.file(), true)?;
        Mounted::mount(directory, device, Some(fuse))
    }

    /// Mounts an image itself, with the page cache below the loop device.
    ///
    /// # Errors
    /// Those of a program.
    pub(crate) fn mount_image(image: &Path) -> Result<Mounted> {
        let directory = TemporaryPath::directory("mounted")?;
        let device = Loop::attach(image, false)?;
        Mounted::mount(directory, device, None)
    }

    /// Mounts an existing device.
    ///
    /// # Errors
    /// Those of mount.
    pub(crate) fn on(device: &Path) -> Result<Mounted> {
        Mounted::of(TemporaryPath::directory("mounted")?, device, None, None)
    }

    fn mount(directory: TemporaryPath, device: Loop, fuse: Option<Fuse>) -> Result<Mounted> {
        let node = device.path();
        Mounted::of(directory, &node, Some(device), fuse)
    }

    fn of(
        directory: TemporaryPath,
        node: &Path,
        device: Option<Loop>,
        fuse: Option<Fuse>,
    ) -> Result<Mounted> {
        let point = directory.path().join("mount");
        fs::create_dir_all(&point)?;
        let is_mounted = false;
        let mut mounted =
            Mounted { point, is_mounted, _device: device, _fuse: fuse, _directory: directory };
        well("mount", &[node, &mounted.point])?;
        mounted.is_mounted = true;
        Ok(mounted)
    }

    /// Returns the mount point.
    pub(crate) fn point(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted && well("umount", &[&self.point]).is_err() {
            // A file in it is still open, after a failure.
            let _ = well("umount", &["--lazy", &self.point.display().to_string()]);
        }
    }
}
