//! Loop devices, processes that use them, and the command under test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const OVERDRIVE: &str = env!("CARGO_BIN_EXE_overdrive");

/// Whether this machine lets the tests make loop devices and mounts.
pub(crate) fn can_run() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let has_loops = Path::new("/dev/loop-control").exists();
    let works = is_root && has_loops && Command::new("losetup").arg("--version").output().is_ok();
    if !works {
        eprintln!("skipped: root, loop devices and losetup are needed");
    }
    works
}

pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().expect("a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A loop device over an image with data that is never zero.
pub(crate) struct Loop {
    pub(crate) place: TempDir,
    pub(crate) image: PathBuf,
    pub(crate) device: String,
}

impl Loop {
    pub(crate) fn new(mib: usize) -> Loop {
        Loop::with(mib, "")
    }

    pub(crate) fn with(mib: usize, options: &str) -> Loop {
        let place = tempfile::tempdir_in("/var/tmp").expect("room");
        let image = place.path().join("disk.img");
        let mut file = File::create(&image).expect("room");
        for block in 0..mib {
            file.write_all(&vec![(block % 251) as u8 + 1; MIB]).expect("room");
        }
        file.sync_all().expect("room");
        let device = sh(&format!("losetup --find --show {options} {}", image.display()));
        Loop { place, image, device }
    }

    pub(crate) fn name(&self) -> &str {
        self.device.rsplit('/').next().expect("a name")
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        let device = File::options().write(true).open(&self.device).expect("ours");
        device.write_all_at(bytes, at).expect("room");
        device.sync_all().expect("it answers");
    }

    pub(crate) fn contents(&self) -> Vec<u8> {
        sh(&format!("blockdev --flushbufs {}", self.device));
        fs::read(&self.image).expect("ours")
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let directory = self.place.path().join(name);
        fs::create_dir_all(&directory).expect("room");
        directory
    }

    /// Tries to erase and to trim it, with the right word, and checks that nothing has changed.
    pub(crate) fn is_refused(&self, named: &str, words: &str) {
        let before = self.contents();
        self.commands_are_refused(named, words);
        assert!(self.contents() == before, "a refused device has changed");
    }

    pub(crate) fn commands_are_refused(&self, named: &str, words: &str) {
        for arguments in [
            &["erase", named, "--confirm", self.name()][..],
            &["erase", named, "--confirm", self.name(), "--method", "zero"],
            &["erase", named, "--dry-run"],
            &["trim", named, "--whole", "--confirm", self.name()],
        ] {
            let output = drive(self.place.path(), arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{arguments:?} was not refused");
            assert!(said.contains(words), "{words}: {said}");
            assert!(output.stdout.is_empty(), "{arguments:?}");
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A device that is still swap would outlive its image.
        let _ = Command::new("swapoff").arg(&self.device).output();
        let _ = Command::new("losetup").args(["--detach", &self.device]).output();
    }
}

pub(crate) fn drive(home: &Path, arguments: &[&str]) -> Output {
    overdrive(home, &[&["drive"], arguments].concat())
}

pub(crate) fn overdrive(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(OVERDRIVE);
    command.args(arguments).stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", home).env("XDG_STATE_HOME", home);
    command.output().expect("the command runs")
}

/// A process that is ended with this value.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts a script, and waits until it prints a line.
    pub(crate) fn start(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).stdout(Stdio::piped()).stdin(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        assert_eq!(line.trim(), "ready", "{script}");
        Running(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The script waits for the end of its input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
