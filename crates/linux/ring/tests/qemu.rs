//! Tests with the installed qemu: locks in both directions, image formats, the suggested command.

mod common;

use common::{DEFAULT, image, output_text, program};
use host::{FileVolume, ImageFormat, OpenErrorKind, OpenOptions, detect, reason};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const READ_ONLY: OpenOptions = OpenOptions { read_only: true, buffered: false, is_shared: false };

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// A child that is ended when the test ends, however it ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Not SIGKILL: that would leave a FUSE mount behind. Repeatedly: qemu-nbd ignores a signal
        // that arrives before it has started to serve.
        wait_until(|| {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&self.0),
                rustix::process::Signal::TERM,
            );
            !matches!(self.0.try_wait(), Ok(None))
        });
    }
}

fn start(command: &mut Command) -> Option<Ended> {
    match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => Some(Ended(child)),
        Err(error) => {
            println!("skipped: {command:?} cannot be run: {error}");
            None
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a test waits for another program")]
fn wait_until(mut there: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !there() {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn qemu_io(path: &Path, read_only: bool, command: &str) -> Option<(bool, String)> {
    let path = path.display().to_string();
    let mut arguments = vec!["-f", "raw", "-c", command, &path];
    if read_only {
        arguments.insert(0, "-r");
    }
    let output = program("qemu-io", &arguments)?;
    Some((output.status.success(), output_text(&output)))
}

#[test]
fn qemu_is_kept_out_while_we_write() {
    let directory = directory();
    let path = image(directory.path(), 1 << 20);
    let volume = FileVolume::open(&path, DEFAULT).expect("it is free");
    for read_only in [false, true] {
        let Some((_, text)) = qemu_io(&path, read_only, "read 0 4k") else {
            return;
        };
        assert!(text.contains("Failed to get \"consistent read\" lock"), "{text}");
    }
    drop(volume);
    let (done, text) = qemu_io(&path, false, "write 0 4k").expect("as before");
    assert!(done && text.contains("wrote 4096"), "{text}");
}

#[test]
fn qemu_may_read_and_not_write_while_we_read() {
    let directory = directory();
    let path = image(directory.path(), 1 << 20);
    let _volume = FileVolume::open(&path, READ_ONLY).expect("it is free");
    let Some((done, text)) = qemu_io(&path, true, "read 0 4k") else {
        return;
    };
    assert!(done && text.contains("read 4096"), "{text}");
    let (_, text) = qemu_io(&path, false, "write 0 4k").expect("as before");
    assert!(text.contains("Failed to get \"write\" lock"), "{text}");
}

fn nbd(path: &Path, socket: &Path, read_only: bool) -> Option<Ended> {
    let mut command = Command::new("qemu-nbd");
    command.args(["-t", "-f", "raw", "-k"]).arg(socket);
    if read_only {
        command.arg("-r");
    }
    let child = start(command.arg(path))?;
    // It greets once it has opened the image, some time after it has made the socket.
    let greets = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.read_exact(&mut [0; 8])
    };
    assert!(wait_until(|| greets().is_ok()), "qemu-nbd does not start");
    Some(child)
}

#[test]
fn we_are_kept_out_while_qemu_writes() {
    let directory = directory();
    let path = image(directory.path(), 1 << 20);
    let socket = directory.path().join("nbd");
    let Some(server) = nbd(&path, &socket, false) else {
        return;
    };
    for options in [DEFAULT, READ_ONLY] {
        let error = FileVolume::open(&path, options).expect_err("qemu-nbd holds it");
        assert_eq!(error.kind, OpenErrorKind::Busy);
        println!("{error}");
    }
    drop(server);
    FileVolume::open(&path, DEFAULT).expect("qemu-nbd is gone");
}

#[test]
fn both_may_read() {
    let directory = directory();
    let path = image(directory.path(), 1 << 20);
    let Some(_server) = nbd(&path, &directory.path().join("nbd"), true) else {
        return;
    };
    FileVolume::open(&path, READ_ONLY).expect("two readers");
}

#[test]
fn images_made_by_qemu_are_recognized() {
    let directory = directory();
    let formats = [
        ("qcow", "", Some(ImageFormat::Qcow1)),
        ("qcow2", "", Some(ImageFormat::Qcow2)),
        ("qcow2", "compat=0.10", Some(ImageFormat::Qcow2)),
        ("vmdk", "", Some(ImageFormat::Vmdk)),
        ("vmdk", "subformat=monolithicFlat", Some(ImageFormat::Vmdk)),
        ("vhdx", "", Some(ImageFormat::Vhdx)),
        ("vpc", "", Some(ImageFormat::Vhd)),
        ("vdi", "", Some(ImageFormat::Vdi)),
        ("qed", "", Some(ImageFormat::Qed)),
        ("parallels", "", Some(ImageFormat::Parallels)),
        ("raw", "", None),
    ];
    for (index, (format, options, expected)) in formats.into_iter().enumerate() {
        let path = directory.path().join(format!("{index}.{format}"));
        let name = path.display().to_string();
        let mut arguments = vec!["create", "-f", format, &name, "4M"];
        if !options.is_empty() {
            arguments.extend(["-o", options]);
        }
        let Some(output) = program("qemu-img", &arguments) else {
            return;
        };
        assert!(output.status.success(), "{}", output_text(&output));
        let first = std::fs::read(&path).expect("it was made");
        let found = detect(&first[..first.len().min(4096)]);
        assert_eq!(found, expected, "{format} {options}");
        if let Some(found) = found {
            assert_eq!(found.driver(), format);
        }
    }
}

/// The command in the refusal presents the contents of a qcow2 image as a raw file that can be
/// served.
#[test]
fn the_mend_for_qcow2_works() {
    let directory = directory();
    let path = directory.path().join("a.qcow2");
    let name = path.display().to_string();
    let Some(made) = program("qemu-img", &["create", "-f", "qcow2", &name, "4M"]) else {
        return;
    };
    assert!(made.status.success(), "{}", output_text(&made));
    let filled = program("qemu-io", &["-f", "qcow2", "-c", "write -P 0x5a 0 64k", &name]);
    assert!(filled.is_some_and(|output| output.status.success()));
    let text = reason(ImageFormat::Qcow2, &path);
    let (_, command) = text.split_once("with: ").expect("a command");
    let (command, _) = command.split_once(" and then").expect("its end");
    let (touch, daemon) = command.split_once(" && ").expect("two commands");
    let touched = program("sh", &["-c", touch]).expect("a shell");
    assert!(touched.status.success(), "{}", output_text(&touched));
    let mut words = daemon.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    let Some(_daemon) = start(command.args(words)) else {
        return;
    };
    let view = directory.path().join("a.qcow2.raw");
    let shown = || std::fs::metadata(&view).is_ok_and(|found| found.len() == 4 << 20);
    if !wait_until(shown) {
        println!("skipped: qemu-storage-daemon cannot mount by FUSE here");
        return;
    }
    let ring = common::ring();
    let (volume, stack) = common::stack(&view, DEFAULT, &ring);
    // Dropped before the daemon ends, which unmounts only unused mounts.
    println!("{:?} {:?} {:?}", volume.direct(), volume.lock(), volume.limits());
    let into = common::filled(128, 0);
    common::run(&ring, &stack, common::read(0, &into)).expect("read");
    assert!(into.to_vec().iter().all(|byte| *byte == 0x5a));
    let from = common::filled(8, 0x11);
    common::run(&ring, &stack, common::write(8, &from, true)).expect("written");
    common::run(&ring, &stack, common::read(0, &into)).expect("read");
    assert!(into.to_vec()[4096..8192].iter().all(|byte| *byte == 0x11));
}
