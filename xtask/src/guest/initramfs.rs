//! The guest's initial root, which only mounts the real one.

use super::cpio::Archive;
use super::debian::Kernel;
use super::modules;
use anyhow::Context;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Modules that are required for the host's root and for messages to the host.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];

/// An initramfs in this process's memory: it leaves no file behind, however the process ends.
pub(super) struct Initramfs(File);

impl Initramfs {
    /// Creates an initramfs that then executes `program guest-init`, a path on the host.
    ///
    /// # Errors
    /// A file cannot be read, or memory is missing.
    pub(super) fn new(kernel: &Kernel, program: &Path) -> anyhow::Result<Self> {
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let mut archive = Archive::default();
        // Mount points of first.sh.
        for directory in ["bin", "modules", "host", "changes", "root"] {
            archive.directory(directory);
        }
        archive.file("bin/busybox", &read(&kernel.busybox)?);
        archive.file("init", include_bytes!("first.sh"));
        archive.file("program", program.as_os_str().as_bytes());
        for (number, file) in modules::in_order(&kernel.modules, &MODULES)?.iter().enumerate() {
            let name = file.file_name().context("a file has a name")?.to_string_lossy();
            archive.file(&format!("modules/{number:02}-{name}"), &read(file)?);
        }
        let memory = memfd_create("initramfs", MemfdFlags::CLOEXEC);
        let mut file = File::from(memory.context("no memory for an initramfs")?);
        file.write_all(&archive.finish()).context("no memory for an initramfs")?;
        Ok(Self(file))
    }

    /// Path for another process, valid while this object lives.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}
