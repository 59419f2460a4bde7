//! The third side: the same memory used as host page cache.
//!
//! The bare, slow export becomes a block device (nbdfuse makes a file of it, a loop device with
//! direct I/O makes a disk of the file), and the client uses the device as programs do, through the
//! kernel's page cache. The client runs in a control group that limits that cache to the size of
//! Overdrive's cache.

use super::cgroup::Cgroup;
use super::children::{Children, Running};
use crate::tools;
use stack::{Exit, Failure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest time until nbdfuse shows its file, in milliseconds.
const MOUNT_MS: i64 = 5_000;
const STEP_MS: i64 = 10;

/// Programs and control group for this side.
pub(super) struct PageCache {
    pub(super) cgroup: Cgroup,
    nbdfuse: PathBuf,
    losetup: PathBuf,
}

/// An export as a block device; it is removed when this is dropped.
pub(super) struct Disk {
    losetup: PathBuf,
    /// None once it is detached.
    device: Option<PathBuf>,
    fuse: Running,
    directory: PathBuf,
}

impl PageCache {
    /// Finds the programs for this side.
    ///
    /// # Errors
    /// The reason why it is not available here, as half a sentence.
    pub(super) fn find(memory_bytes: u64) -> Result<PageCache, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("it requires root, for a block device and a memory limit".into());
        }
        for node in ["/dev/fuse", "/dev/loop-control"] {
            if !Path::new(node).exists() {
                return Err(format!("there is no {node} here"));
            }
        }
        let find = |name| tools::find(name).ok_or(format!("{name} is not installed"));
        let (nbdfuse, losetup) = (find("nbdfuse")?, find("losetup")?);
        let cgroup = Cgroup::make(memory_bytes)?;
        Ok(PageCache { cgroup, nbdfuse, losetup })
    }

    /// Makes a block device of an export.
    ///
    /// # Errors
    /// Interrupted, or the failed step.
    pub(super) fn attach(
        &self,
        children: &Children,
        directory: &Path,
        uri: &str,
        bytes: u64,
    ) -> Result<Disk, Failure> {
        let mount = directory.join("mount");
        let negative = |message: String| Failure::new(Exit::Negative, message);
        fs::create_dir_all(&mount).map_err(|error| negative(error.to_string()))?;
        let file = mount.join("disk");
        let mut command = Command::new(&self.nbdfuse);
        let fuse = children.start("nbdfuse", command.arg(&file).arg(uri), Stdio::null())?;
        let mut disk = Disk { losetup: self.losetup.clone(), device: None, fuse, directory: mount };
        let mut waited = 0;
        while fs::metadata(&file).map_or(0, |data| data.len()) != bytes {
            if waited > MOUNT_MS || disk.fuse.has_ended() {
                return Err(disk.fuse.failure("no file appeared"));
            }
            children.pause(STEP_MS)?;
            waited += STEP_MS;
        }
        let output = Command::new(&self.losetup)
            .args(["--direct-io=on", "--show", "--find"])
            .arg(&file)
            .output()
            .map_err(|error| negative(format!("losetup: {error}")))?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || name.is_empty() {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(negative(format!("losetup failed: {words}")));
        }
        disk.device = Some(PathBuf::from(&name));
        // Without direct I/O the file would have its own page cache below the device's.
        let attribute = format!("/sys/block/{}/loop/dio", name.trim_start_matches("/dev/"));
        if fs::read_to_string(attribute).is_ok_and(|text| text.trim() == "1") {
            Ok(disk)
        } else {
            Err(negative("this kernel has no loop devices with direct I/O over FUSE".into()))
        }
    }
}

impl Disk {
    /// Returns the block device.
    pub(super) fn device(&self) -> &Path {
        self.device.as_deref().unwrap_or(Path::new("/dev/null"))
    }

    /// Removes it, from top to bottom; all writes have reached the export by then.
    pub(super) fn detach(mut self, children: &Children) -> Result<(), Failure> {
        self.detach_device();
        self.fuse.terminate();
        children.wait(&mut self.fuse, &mut || ()).map(|_| ())
    }

    fn detach_device(&mut self) {
        if let Some(device) = self.device.take() {
            // This fails only if the device is gone.
            let _ = Command::new(&self.losetup).arg("--detach").arg(device).output();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.detach_device();
        // Something is left only after a failure: a killed nbdfuse leaves its mount.
        if !self.fuse.has_ended() {
            self.fuse.terminate();
            let _ = Command::new("umount").arg("--lazy").arg(&self.directory).output();
        }
    }
}
