//! The emulated machine: QEMU's process.

use super::debian::Kernel;
use super::wire::{Message, Request, WRITTEN};
use crate::packages::find;
use anyhow::{Context, bail};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Number of lines of the kernel that are kept: a panic has fewer.
const LINES_MAX: usize = 80;

/// Arguments of the kernel. A kernel fault ends it immediately, and with it the machine
/// (`-no-reboot`).
const KERNEL_ARGUMENTS: &str =
    "console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off random.trust_cpu=on";

/// Parts of a machine.
pub(super) struct Parts<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) initramfs: &'a Path,
    /// A directory of the host that the guest may change.
    pub(super) write_to: Option<&'a Path>,
    pub(super) processors: u32,
    pub(super) memory_mib: u32,
    /// The image of an NVMe drive, if there is one.
    pub(super) nvme: Option<&'a Path>,
}

/// A running machine. It ends when this is dropped, or this process ends.
pub(super) struct Machine {
    child: Child,
    /// Sends the request, and then keeps the connection to the guest: closing it would close the
    /// guest's port.
    _sender: JoinHandle<ChildStdin>,
    /// Messages of the guest.
    pub(super) messages: Receiver<Message>,
    console: Arc<Mutex<VecDeque<String>>>,
    console_reader: Option<JoinHandle<()>>,
}

impl Machine {
    /// Starts a machine with this request for the guest. `shows`: prints the kernel's messages.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub(super) fn start(parts: &Parts<'_>, request: &Request, shows: bool) -> anyhow::Result<Self> {
        let line = request.line()?;
        let mut child = spawn(parts)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut requests), Some(output), Some(errors)) = pipes else {
            bail!("they are pipes")
        };
        // A pipe may not have room for the whole request before the guest reads it. If the guest
        // never does, its last lines show why.
        let sender = thread::spawn(move || {
            let _ = requests.write_all(&line);
            requests
        });
        let console = Arc::<Mutex<VecDeque<String>>>::default();
        let lines = console.clone();
        let reader = thread::spawn(move || keep(errors, &lines, shows));
        let (received, messages) = channel();
        thread::spawn(move || {
            let mut from = BufReader::new(output);
            while let Ok(Some(message)) = Message::receive(&mut from)
                && received.send(message).is_ok()
            {}
        });
        Ok(Self { child, _sender: sender, messages, console, console_reader: Some(reader) })
    }

    /// Ends the machine. Returns the last lines of the kernel or of QEMU: enough for a whole panic.
    pub(super) fn end(mut self) -> String {
        self.kill();
        if let Some(reader) = self.console_reader.take() {
            let _ = reader.join();
        }
        let lines = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        let panic = lines.iter().position(|line| line.contains("Kernel panic"));
        let skipped = panic.unwrap_or(lines.len().saturating_sub(20));
        let last: Vec<&str> = lines.iter().skip(skipped).map(String::as_str).collect();
        last.join("\n")
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts QEMU. If this process is killed, the kernel kills QEMU too.
fn spawn(parts: &Parts<'_>) -> anyhow::Result<Child> {
    let program = find("qemu-system-x86_64").context("qemu-system-x86_64 is missing")?;
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args(arguments(parts))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start setpriv, which is part of util-linux")
}

/// Keeps the last lines of the output.
fn keep(from: impl Read, lines: &Mutex<VecDeque<String>>, shows: bool) {
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if shows {
            eprintln!("{line}");
        }
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// QEMU's arguments. The kernel's console is standard error, the port to the guest is standard
/// input and output.
fn arguments(parts: &Parts<'_>) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    let mut add = |words: &str| all.extend(words.split(' ').map(OsString::from));
    add(
        "-machine q35 -accel tcg,thread=multi -cpu max -nodefaults -no-user-config -display none -no-reboot",
    );
    add(&format!("-smp {} -m {}", parts.processors, parts.memory_mib));
    add("-serial file:/dev/stderr -chardev stdio,id=port,signal=off");
    add("-device virtio-serial-pci -device virtserialport,chardev=port,nr=1");
    add("-device virtio-9p-pci,fsdev=host,mount_tag=host");
    if parts.write_to.is_some() {
        add(&format!("-device virtio-9p-pci,fsdev={WRITTEN},mount_tag={WRITTEN}"));
    }
    if let Some(image) = parts.nvme {
        let image = image.display().to_string().replace(',', ",,");
        let drive = format!("if=none,id=nvme,format=raw,cache=unsafe,discard=unmap,file={image}");
        all.extend(["-drive".into(), drive.into()]);
        all.extend(["-device".into(), "nvme,drive=nvme,serial=OVERDRIVE-TEST".into()]);
    }
    let mut share = |id: &str, path: &Path, more: &str| {
        all.extend(["-fsdev".into(), shared(id, path, more)]);
    };
    share("host", Path::new("/"), ",readonly=on,multidevs=remap");
    if let Some(path) = parts.write_to {
        share(WRITTEN, path, "");
    }
    all.extend(["-kernel".into(), parts.kernel.image.clone().into()]);
    all.extend(["-initrd".into(), parts.initramfs.into()]);
    all.extend(["-append".into(), KERNEL_ARGUMENTS.into()]);
    all
}

/// Returns QEMU's option for a directory of the host: a comma in a path is doubled.
fn shared(id: &str, path: &Path, more: &str) -> OsString {
    let path = path.display().to_string().replace(',', ",,");
    format!("local,id={id},path={path},security_model=none{more}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_shared_to_be_read_and_one_directory_to_be_written() {
        let (kernel, initramfs) = (Path::new("/k"), Path::new("/i"));
        let kernel = Kernel { image: kernel.into(), modules: "/m".into(), busybox: "/b".into() };
        let written = Path::new("/tmp/a,b");
        let mut parts = Parts {
            nvme: None,
            kernel: &kernel,
            initramfs,
            write_to: Some(written),
            processors: 3,
            memory_mib: 99,
        };
        let shares = |parts: &Parts<'_>| -> Vec<String> {
            let all = arguments(parts).into_iter().map(|it| it.to_string_lossy().into_owned());
            all.filter(|argument| argument.starts_with("local,")).collect()
        };
        let host = "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap";
        let other = "local,id=written,path=/tmp/a,,b,security_model=none";
        assert_eq!(shares(&parts), [host, other]);
        parts.write_to = None;
        assert_eq!(shares(&parts), [host]);
        let all = arguments(&parts).join(" ".as_ref()).to_string_lossy().into_owned();
        assert!(all.contains("-smp 3 -m 99"), "{all}");
        assert!(all.contains(" -kernel /k -initrd /i "), "{all}");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let lines = Mutex::default();
        let said: String = (0..200).map(|number| format!("{number}\r\n")).collect();
        keep(said.as_bytes(), &lines, false);
        let lines = lines.into_inner().unwrap_or_default();
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(lines.back().map(String::as_str), Some("199"));
    }
}
