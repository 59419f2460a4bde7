//! The page cache with a limited size: a control group whose memory is limited, for this process or
//! for QEMU.

use crate::program::pause_ms;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROOT: &str = "/run/overdrive-peers";
/// Between QEMU and the kernel's client; its default directory does not exist in a guest.
const SOCKET: &str = "/run/overdrive-peers.sock";
/// Attempts to find QEMU's device, 20 ms apart.
const TRIES: u32 = 500;

/// A control group. Memory that its processes had before they joined does not count.
pub(super) struct Group(PathBuf);

impl Group {
    /// Creates a group with this much memory.
    ///
    /// # Errors
    /// The kernel has no memory controller of version 2.
    pub(super) fn new(name: &str, bytes: u64) -> Result<Group> {
        let root = Path::new(ROOT);
        if !root.join("cgroup.procs").exists() {
            fs::create_dir_all(root)?;
            let mounted = Command::new("mount").args(["-t", "cgroup2", "none", ROOT]).status()?;
            ensure!(mounted.success(), "control groups cannot be mounted");
        }
        fs::write(root.join("cgroup.subtree_control"), "+memory")
            .context("the memory controller of control groups")?;
        let group = Group(root.join(name));
        fs::create_dir_all(&group.0)?;
        fs::write(group.0.join("memory.max"), bytes.to_string())?;
        Ok(group)
    }

    fn add(&self, process: u32) -> Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string())
            .with_context(|| self.0.display().to_string())
    }

    /// Moves this process into the group, until the result is dropped.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn join(&self) -> Result<Joined> {
        self.add(std::process::id())?;
        Ok(Joined)
    }
}

/// This process is in a group.
pub(super) struct Joined;

impl Drop for Joined {
    fn drop(&mut self) {
        let all = Path::new(ROOT).join("cgroup.procs");
        let _ = fs::write(all, std::process::id().to_string());
    }
}

/// qemu-nbd with `cache=writeback`, as a device of the kernel's NBD client.
pub(super) struct Qemu {
    child: Child,
    node: PathBuf,
}

impl Qemu {
    /// Connects it to the device `node`, with this much page cache.
    ///
    /// # Errors
    /// It is not installed, or the device does not appear.
    pub(super) fn connect(slow: &Path, node: &Path, bytes: u64) -> Result<Qemu> {
        let mut command = Command::new("qemu-nbd");
        command.arg(format!("--connect={}", node.display()));
        command.args(["--format=raw", "--cache=writeback", "--persistent"]);
        command.arg(format!("--socket={SOCKET}")).arg(slow);
        let child = command.stdout(Stdio::null()).spawn();
        let child = child.context("qemu-nbd (apt-get install qemu-utils)")?;
        let qemu = Qemu { child, node: node.to_owned() };
        let name = node.file_name().context("a device")?;
        let size = Path::new("/sys/block").join(name).join("size");
        let is_there = (0..TRIES).any(|_| {
            let sectors = fs::read_to_string(&size).unwrap_or_default();
            let is_there = sectors.trim().parse::<u64>().is_ok_and(|sectors| sectors > 0);
            if !is_there {
                pause_ms(20);
            }
            is_there
        });
        ensure!(is_there, "{} stays empty", node.display());
        Group::new("qemu", bytes)?.add(qemu.child.id())?;
        Ok(qemu)
    }

    pub(super) fn node(&self) -> &Path {
        &self.node
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let disconnect = Command::new("qemu-nbd").arg("--disconnect").arg(&self.node).status();
        if disconnect.is_ok_and(|status| status.success()) {
            let _ = self.child.wait();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
