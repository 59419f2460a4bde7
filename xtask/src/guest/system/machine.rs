//! The machine of a whole system, QEMU's process.

use super::super::debian::Kernel;
use super::image::{DISKS, disk};
use crate::packages::find;
use anyhow::Context;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Arguments of the kernel, without the part of the trial.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 panic=-1 oops=panic mitigations=off";

/// A running machine. It ends when this is dropped, or this process ends.
pub(super) struct Machine {
    child: Child,
    lines: Receiver<String>,
}

/// Output of a machine.
pub(super) enum Output {
    Line(String),
    /// It is off, and all output was read.
    Off,
    /// No more output within the time limit.
    Late,
}

/// File of the messages of a machine's kernel and service manager.
pub(super) fn console(place: &Path, part: &str) -> PathBuf {
    place.join(format!("console.{part}"))
}

impl Machine {
    /// Boots this part of the trial. `root` is the location of the disk with that name, for QEMU's
    /// `-blockdev`.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub(super) fn boot(
        place: &Path,
        kernel: &Kernel,
        part: &str,
        root: &str,
    ) -> anyhow::Result<Self> {
        Machine::start(arguments(place, kernel, part, root))
    }

    /// Starts QEMU with these arguments.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub(super) fn start(arguments: Vec<OsString>) -> anyhow::Result<Self> {
        let program = find("qemu-system-x86_64").context("qemu-system-x86_64 is missing")?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start setpriv, which is part of util-linux")?;
        let output = child.stdout.take().context("a pipe")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            let all = BufReader::new(output).split(b'\n').map_while(Result::ok);
            let texts = all.map(|line| String::from_utf8_lossy(&line).trim_end().to_owned());
            texts.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Self { child, lines })
    }

    /// Returns its next output.
    pub(super) fn next_output(&self, time: Duration) -> Output {
        match self.lines.recv_timeout(time) {
            Ok(line) => Output::Line(line),
            Err(RecvTimeoutError::Timeout) => Output::Late,
            Err(RecvTimeoutError::Disconnected) => Output::Off,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// QEMU's arguments. The trial's output is standard output.
fn arguments(place: &Path, kernel: &Kernel, part: &str, root: &str) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    let mut add = |words: &str| all.extend(words.split(' ').map(OsString::from));
    add(
        "-machine q35 -accel tcg,thread=multi -cpu max -nodefaults -no-user-config -display none -no-reboot -smp 2 -m 1024",
    );
    for name in DISKS {
        add(&format!("-device virtio-blk-pci,drive={name},serial={name}"));
    }
    let mut file = |option: &str, value: OsString| all.extend([option.into(), value]);
    file("-blockdev", root.into());
    for name in &DISKS[1..] {
        file("-blockdev", local(place, name).into());
    }
    let serial = |path: &Path| OsString::from(format!("file:{}", path.display()));
    file("-serial", serial(&console(place, part)));
    file("-serial", "file:/dev/stdout".into());
    file("-kernel", kernel.image.clone().into());
    file("-initrd", place.join("initramfs").into());
    file("-append", format!("{KERNEL_ARGUMENTS} overdrive.part={part}").into());
    all
}

/// Returns QEMU's arguments for a measured boot from a disk that is served at this socket.
pub(super) fn booted(
    place: &Path,
    kernel: &Kernel,
    accelerator: &str,
    socket: &Path,
) -> Vec<OsString> {
    let machine =
        "-machine q35 -nodefaults -no-user-config -display none -no-reboot -smp 2 -m 1024";
    let cpu = format!("-accel {accelerator} -cpu max");
    let words = [&cpu, machine, "-device virtio-blk-pci,drive=root,serial=root"].join(" ");
    let mut all: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    let mut add = |option: &str, value: OsString| all.extend([option.into(), value]);
    let socket = socket.display().to_string().replace(',', ",,");
    let server = format!("server.type=unix,server.path={socket},export=root");
    let root = format!("driver=nbd,node-name=root,cache.direct=on,{server}");
    add("-blockdev", root.into());
    add("-serial", format!("file:{}", console(place, "boot").display()).into());
    add("-serial", "file:/dev/stdout".into());
    add("-kernel", kernel.image.clone().into());
    add("-initrd", place.join("initramfs").into());
    add("-append", format!("{KERNEL_ARGUMENTS} overdrive.boot").into());
    all
}

/// Returns the `-blockdev` of a disk in a file.
pub(super) fn local(place: &Path, name: &str) -> String {
    let path = disk(place, name).display().to_string().replace(',', ",,");
    format!("driver=file,node-name={name},filename={path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_first_disk_and_lies_where_it_is_said() {
        let kernel = Kernel { image: "/k".into(), modules: "/m".into(), busybox: "/b".into() };
        let all = arguments(Path::new("/p,q"), &kernel, "first", "driver=nbd,node-name=root");
        let all = all.join(" ".as_ref()).to_string_lossy().into_owned();
        let first = all.find("virtio-blk-pci,drive=root").expect("it is a disk");
        assert!(first < all.find("drive=disk,serial=disk").expect("so is this"), "{all}");
        assert!(all.contains("-blockdev driver=nbd,node-name=root "), "{all}");
        assert!(all.contains("driver=file,node-name=disk,filename=/p,,q/disk.img"), "{all}");
        assert!(all.ends_with("overdrive.part=first"), "{all}");
    }
}
