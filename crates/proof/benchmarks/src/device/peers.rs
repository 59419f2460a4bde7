//! Other servers of a file under a loop device, over an image in the host's page cache.

use crate::mounted::{Fuse, Loop};
use crate::program::{TemporaryPath, pause_ms};
use crate::sides::wall_ns;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Maximum time until a server's file exists.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A process, killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A device over another server's file. The fields are dropped from top to bottom.
pub(super) struct Peer {
    device: Loop,
    _file: Shown,
    _directory: TemporaryPath,
}

/// The processes that provide the file; they live until the device is gone.
enum Shown {
    ByItself { _process: Process },
    ByNbdfuse { _fuse: Fuse, _process: Process },
}

impl Peer {
    pub(super) fn node(&self) -> PathBuf {
        self.device.path()
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let end = wall_ns() + PATIENCE_NS;
    while !is_so() {
        ensure!(wall_ns() < end, "{what} shows nothing");
        pause_ms(5);
    }
    Ok(())
}

/// Starts qemu-storage-daemon's FUSE export, over the page cache.
///
/// # Errors
/// It is not installed, or does not start.
pub(super) fn qemu(image: &Path) -> Result<Peer> {
    let directory = TemporaryPath::directory("qemu-fuse")?;
    let file = directory.path().join("disk");
    File::create(&file)?;
    let before = std::fs::metadata(&file)?.dev();
    let node = format!("driver=file,node-name=disk,filename={}", image.display());
    let export = format!(
        "type=fuse,id=disk,node-name=disk,mountpoint={},writable=on,growable=off",
        file.display()
    );
    let child = Command::new("qemu-storage-daemon")
        .args(["--blockdev", &node, "--export", &export])
        .spawn()
        .context("cannot start qemu-storage-daemon (apt-get install qemu-system-common)")?;
    let process = Process(child);
    wait_until("qemu-storage-daemon", || {
        std::fs::metadata(&file).is_ok_and(|found| found.dev() != before)
    })?;
    let device = Loop::attach(&file, true)?;
    Ok(Peer { device, _file: Shown::ByItself { _process: process }, _directory: directory })
}

/// Starts nbdfuse over nbdkit's file plugin, over the page cache.
///
/// # Errors
/// One of them is not installed, or does not start.
pub(super) fn nbdfuse(image: &Path) -> Result<Peer> {
    let directory = TemporaryPath::directory("nbdfuse")?;
    let socket = directory.path().join("socket");
    let child = Command::new("nbdkit")
        .args(["--foreground", "--unix"])
        .arg(&socket)
        .arg("file")
        .arg(image)
        .spawn()
        .context("cannot start nbdkit (apt-get install nbdkit)")?;
    let process = Process(child);
    wait_until("nbdkit", || socket.exists())?;
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let fuse = Fuse::attach(&uri, directory.path().join("fuse"))?;
    let device = Loop::attach(&fuse.file(), true)?;
    let shown = Shown::ByNbdfuse { _fuse: fuse, _process: process };
    Ok(Peer { device, _file: shown, _directory: directory })
}
