//! Block devices, on loop devices: needs root and a free loop device, otherwise reports that it
//! skips.

mod common;

use block::{Buf, Discard, Extent, Kind, Request, Stack, Stretch};
use common::{DEFAULT, filled, image, output_text, program, read, ring, run, stack, write, zero};
use host::{Direct, FileVolume, OpenErrorKind, OpenOptions};
use ring::FileBackend;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A loop device that is removed with the test.
struct Loop(PathBuf);

impl Loop {
    fn attach(path: &Path, options: &[&str]) -> Option<Loop> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: a loop device needs root");
            return None;
        }
        let name = path.display().to_string();
        let arguments = [options, &["--find", "--show", &name]].concat();
        let output = program("losetup", &arguments)?;
        if !output.status.success() {
            println!("skipped: no loop device: {}", output_text(&output));
            return None;
        }
        Some(Loop(output_text(&output).trim().into()))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        program("losetup", &["--detach", &self.0.display().to_string()]);
    }
}

/// A directory of a test that runs alone: a program that another test starts holds copies of all
/// locks for a moment, and `losetup` has every loop device open once.
struct Directory {
    directory: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Directory {
    fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn directory() -> Directory {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    Directory { directory, _turn }
}

#[test]
fn a_device_serves_every_request() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &["--direct-io=on", "--sector-size=512"]) else {
        return;
    };
    let ring = ring();
    let (volume, stack) = stack(device.path(), DEFAULT, &ring);
    println!("{:?} {:?}", volume.direct(), volume.limits());
    assert!(volume.is_device());
    assert_eq!(volume.direct(), &Direct::Yes);
    assert_eq!(volume.limits().bytes(), 8 << 20);
    assert_eq!(volume.limits().block_logical_bytes, 512);
    run(&ring, &stack, write(0, &filled(16384, 6), true)).expect("written");
    run(&ring, &stack, zero(16, 16, false)).expect("zeroed");
    run(&ring, &stack, zero(64, 32, true)).expect("unmapped");
    let at = Extent::new(256, 256);
    run(&ring, &stack, Request::Discard { at }).expect("discarded");
    run(&ring, &stack, Request::Flush).expect("flushed");
    let into = Buf::new(16384, 512);
    run(&ring, &stack, read(0, &into)).expect("read");
    let discarded = stack.limits().discard == Discard::Zeroes;
    for (sector, bytes) in into.to_vec().chunks(512).enumerate() {
        let expected = match sector {
            16..32 | 64..96 => 0,
            256..512 if discarded => 0,
            _ => 6,
        };
        assert!(bytes.iter().all(|byte| *byte == expected), "sector {sector}");
    }
}

#[test]
fn blocks_of_4096_bytes_are_the_smallest_request_there() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &["--sector-size=4096"]) else {
        return;
    };
    let ring = ring();
    let (_volume, stack) = stack(device.path(), DEFAULT, &ring);
    assert_eq!(stack.limits().block_logical_bytes, 4096);
    assert!(run(&ring, &stack, write(1, &filled(8, 1), false)).is_err());
    // Pieces smaller than a block need a bounce buffer.
    let pieces = common::in_pieces(16, 1);
    pieces.write(&[7; 16 * 512]);
    run(&ring, &stack, write(8, &pieces, false)).expect("written");
    let into = common::in_pieces(16, 1);
    run(&ring, &stack, read(8, &into)).expect("read");
    assert_eq!(into.to_vec(), [7; 16 * 512]);
}

#[test]
fn a_device_is_opened_once_and_its_file_not_at_all() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &[]) else {
        return;
    };
    let error = FileVolume::open(&path, DEFAULT).expect_err("behind a loop device");
    assert_eq!(error.kind, OpenErrorKind::Busy);
    let name = device.path().display().to_string();
    assert!(error.to_string().contains(&format!("attached to {name}")), "{error}");
    let first = FileVolume::open(device.path(), DEFAULT).expect("it is free");
    let error = FileVolume::open(device.path(), DEFAULT).expect_err("opened exclusively");
    assert_eq!(error.kind, OpenErrorKind::Busy, "{error}");
    drop(first);
    FileVolume::open(device.path(), DEFAULT).expect("it is free again");
}

#[test]
fn a_file_behind_a_device_is_refused_by_its_other_name_too() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let other = directory.path().join("other name");
    std::fs::hard_link(&path, &other).expect("a second name");
    let Some(device) = Loop::attach(&path, &[]) else {
        return;
    };
    std::fs::remove_file(&path).expect("the first name goes");
    let error = FileVolume::open(&other, DEFAULT).expect_err("behind a loop device");
    let name = device.path().display().to_string();
    assert!(error.to_string().contains(&format!("attached to {name}")), "{error}");
}

fn refusal_of(path: &Path) -> String {
    let error = FileVolume::open(path, DEFAULT).expect_err("what lies below is in use");
    assert_eq!(error.kind, OpenErrorKind::Busy, "{error}");
    error.to_string()
}

#[test]
fn a_device_over_a_file_that_is_in_use_is_refused_by_whatever_name_the_file_has() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let owner = FileVolume::open(&path, DEFAULT).expect("it is free");
    let Some(device) = Loop::attach(&path, &[]) else {
        return;
    };
    let expected =
        format!("lies on {}, which is locked by process {}", path.display(), std::process::id());
    assert!(refusal_of(device.path()).contains(&expected));
    // A device on that device, and a partition of it, are refused too.
    let upper = Loop::attach(device.path(), &[]).expect("as the first");
    assert!(refusal_of(upper.path()).contains(&expected));
    drop(upper);
    let other = directory.path().join("other name");
    std::fs::rename(&path, &other).expect("the same directory");
    let renamed = refusal_of(device.path());
    assert!(renamed.contains("other name, which is locked by process"), "{renamed}");
    std::fs::remove_file(&other).expect("it is there");
    let nameless = refusal_of(device.path());
    assert!(nameless.contains("which is locked by process"), "{nameless}");
    drop(owner);
    FileVolume::open(device.path(), DEFAULT).expect("nothing else uses the file now");
}

#[test]
fn a_second_device_over_a_file_or_device_is_refused() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(first) = Loop::attach(&path, &["--sizelimit", "4194304"]) else {
        return;
    };
    // Other parts of a file are other disks.
    let second = Loop::attach(&path, &["--offset", "4194304"]).expect("as the first");
    FileVolume::open(first.path(), DEFAULT).expect("nothing else uses this part");
    let third = Loop::attach(&path, &["--offset", "2097152"]).expect("as the first");
    for device in [&first, &second] {
        let expected = format!("is attached to {}", third.path().display());
        assert!(refusal_of(device.path()).contains(&expected));
    }
    drop(third);
    let upper = Loop::attach(first.path(), &[]).expect("as the first");
    let expected = format!("{}: is attached to {}", first.path().display(), upper.path().display());
    assert!(refusal_of(first.path()).contains(&expected));
    // A device does not claim the devices below it.
    let lower = FileVolume::open(second.path(), DEFAULT).expect("nothing else uses this part");
    let above = Loop::attach(second.path(), &[]).expect("as the first");
    let expected = format!("lies on {}, which is open exclusively", second.path().display());
    assert!(refusal_of(above.path()).contains(&expected));
    drop(lower);
}

/// A mapped device; removed on drop.
struct Mapped(String);

impl Mapped {
    /// Maps these sectors of a device: the first and their number.
    fn attach(device: &Path, name: &str, [first, count]: [u32; 2]) -> Option<Mapped> {
        // The node may outlive the driver, or come before it.
        if std::fs::File::open("/dev/mapper/control").is_err() {
            println!("skipped: this kernel has no device mapper");
            return None;
        }
        let name = format!("uring-test-{}-{name}", std::process::id());
        let table = format!("0 {count} linear {} {first}", device.display());
        // Device nodes are created here, because udev may not run.
        let arguments = ["create", "--noudevsync", "--verifyudev", &name, "--table", &table];
        let output = program("dmsetup", &arguments)?;
        assert!(output.status.success(), "{}", output_text(&output));
        program("dmsetup", &["mknodes", &name]);
        Some(Mapped(name))
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(&self.0)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        program("dmsetup", &["remove", "--noudevsync", "--verifyudev", &self.0]);
    }
}

#[test]
fn mapped_devices_share_a_member_and_inherit_the_users_of_its_file() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &[]) else {
        return;
    };
    let Some(one) = Mapped::attach(device.path(), "one", [0, 8192]) else {
        return;
    };
    let two = Mapped::attach(device.path(), "two", [8192, 8192]).expect("as the first");
    let first = FileVolume::open(&one.path(), DEFAULT).expect("nothing else uses it");
    FileVolume::open(&two.path(), DEFAULT).expect("they share a member, as volumes of LVM do");
    assert!(refusal_of(&one.path()).contains("opened it exclusively"));
    assert!(refusal_of(device.path()).contains("is used by dm-"));
    // A loop device over a mapped one is the same disk a second time.
    let over = Loop::attach(&one.path(), &[]).expect("as the first");
    let refused = refusal_of(over.path());
    assert!(refused.contains("which is open exclusively in another program"), "{refused}");
    drop((over, first));
    // Same for a second loop device over the member's file.
    let second = Loop::attach(&path, &[]).expect("as the first");
    let refused = refusal_of(&two.path());
    let expected = format!("which is attached to {}", second.path().display());
    assert!(refused.contains("lies on") && refused.contains(&expected), "{refused}");
}

#[test]
fn a_mounted_device_is_refused_by_name() {
    let directory = directory();
    let path = image(directory.path(), 64 << 20);
    let Some(device) = Loop::attach(&path, &[]) else {
        return;
    };
    let name = device.path().display().to_string();
    let place = directory.path().join("mount point");
    std::fs::create_dir(&place).expect("a directory");
    let place_name = place.display().to_string();
    for (tool, arguments) in [("mkfs.ext4", vec!["-q", &name]), ("mount", vec![&name, &place_name])]
    {
        match program(tool, &arguments) {
            Some(output) if output.status.success() => (),
            Some(output) => return println!("skipped: {tool}: {}", output_text(&output)),
            None => return,
        }
    }
    let options = OpenOptions { read_only: true, buffered: false, is_shared: false };
    let refused = [DEFAULT, options].map(|options| FileVolume::open(device.path(), options));
    let unmounted = program("umount", &[&place_name]);
    assert!(unmounted.is_some_and(|output| output.status.success()));
    for result in refused {
        let error = result.expect_err("it is mounted");
        assert_eq!(error.kind, OpenErrorKind::Busy);
        let text = error.to_string();
        assert!(text.contains("is mounted at") && text.contains("mount point"), "{text}");
    }
    FileVolume::open(device.path(), DEFAULT).expect("it is not mounted any more");
}

#[test]
fn a_read_only_device_says_so() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &["--read-only"]) else {
        return;
    };
    let error = FileVolume::open(device.path(), DEFAULT).expect_err("read-only");
    assert_eq!(error.kind, OpenErrorKind::ReadOnly);
    assert!(error.to_string().contains("--read-only"), "{error}");
}

#[test]
fn a_device_that_was_kept_is_a_volume_again_and_shrinking_is_noticed() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &["--direct-io=on"]) else {
        return;
    };
    let first = FileVolume::open(device.path(), DEFAULT).expect("a free device");
    let kept = first.file().try_clone().expect("a descriptor");
    let (identity, key) = (first.identity(), first.key());
    assert!(key.starts_with("device-7-"), "{key}");
    drop(first);
    let busy = FileVolume::open_waiting(device.path(), DEFAULT, 20).expect_err("it is kept");
    assert_eq!(busy.kind, OpenErrorKind::Busy);
    let again = FileVolume::from_file(device.path(), kept, DEFAULT).expect("as it was");
    assert_eq!((again.identity(), again.key(), again.is_device()), (identity, key, true));
    let ring = ring();
    let stack = Stack::new(ring.lane(), FileBackend::attach(&again, &ring));
    assert_eq!(run(&ring, &stack, write(0, &filled(8, 1), false)), Ok(()));
    assert_eq!(run(&ring, &stack, Request::Flush), Ok(()));
    let whole = ring.block_on(stack.status(Extent::new(0, 64))).expect("the loop runs");
    assert_eq!(whole.expect("it answers"), [Stretch::data(64u32)]);

    std::fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(4 << 20))
        .expect("it is ours");
    let resized = program("losetup", &["--set-capacity", &device.path().display().to_string()]);
    assert!(resized.is_some_and(|output| output.status.success()));
    let beyond = [
        Request::Flush,
        write(8192, &filled(8, 1), false),
        write(8188, &filled(8, 1), true),
        read(8192, &filled(8, 1)),
    ];
    for request in beyond {
        let error = run(&ring, &stack, request.clone()).expect_err("it has shrunk");
        assert_eq!(error.kind, Kind::Io, "{request:?}: {error}");
        assert!(error.doing.contains("has shrunk"), "{request:?}: {error}");
    }
    assert_eq!(run(&ring, &stack, read(0, &filled(8, 0))), Ok(()));
}

/// A program that has a device open; ended on drop.
struct Holder(Child);

impl Holder {
    fn of(node: &Path) -> Holder {
        let device = File::open(node).expect("it opens");
        Holder(Command::new("sleep").arg("600").stdin(device).spawn().expect("sleep starts"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it ends");
    }
}

/// A second device node besides the one in /dev; removed on drop.
struct Alias(PathBuf);

impl Drop for Alias {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("it is there");
    }
}

/// A partition without a partition table; removed on drop.
struct Partition(String);

impl Partition {
    /// Creates one of these sectors: the first and their number.
    fn of(device: &Path, [first, count]: [&str; 2]) -> Option<Partition> {
        let name = device.display().to_string();
        let output = program("addpart", &[&name, "1", first, count])?;
        if !output.status.success() {
            println!("skipped: no partition: {}", output_text(&output));
            return None;
        }
        Some(Partition(name))
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        program("delpart", &[&self.0, "1"]);
    }
}

/// Waits until the users of a device are these: other programs of this machine may open it for a
/// moment.
#[allow(clippy::disallowed_methods, reason = "other processes are waited for")]
fn users_become(device: u64, node: &Path, expected: &[String]) {
    let mut users = Vec::new();
    for _ in 0..100 {
        let found = host::device_users(device, node);
        users = found.iter().map(ToString::to_string).collect();
        if users == expected {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(users, expected);
}

#[test]
fn a_device_that_is_open_by_another_name_in_dev_is_in_use() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &[]) else {
        return;
    };
    let number = host::device_number(device.path()).expect("a device");
    let alias = Alias(format!("/dev/overdrive-test-{}", std::process::id()).into());
    let made = mknodat(CWD, &alias.0, FileType::BlockDevice, Mode::RUSR, number);
    made.expect("a second node");
    users_become(number, device.path(), &[]);
    let holder = Holder::of(&alias.0);
    let expected = [format!("is open in process {} (sleep)", holder.0.id())];
    users_become(number, device.path(), &expected);
}

#[test]
fn a_partition_of_a_device_that_is_open_is_in_use() {
    let directory = directory();
    let path = image(directory.path(), 8 << 20);
    let Some(device) = Loop::attach(&path, &[]) else {
        return;
    };
    let Some(_partition) = Partition::of(device.path(), ["2048", "2048"]) else {
        return;
    };
    let whole = device.path().display();
    let name = device.path().file_name().and_then(|name| name.to_str()).expect("loopN");
    let number = std::fs::read_to_string(format!("/sys/block/{name}/{name}p1/dev"));
    let number = number.expect("a partition's number");
    let (major, minor) = number.trim().split_once(':').expect("MAJOR:MINOR");
    let number = makedev(major.parse().expect("a number"), minor.parse().expect("a number"));
    // Without udev there is no device node of it yet.
    let part = directory.path().join("partition");
    let made = mknodat(CWD, &part, FileType::BlockDevice, Mode::RUSR, number);
    made.expect("a node");
    users_become(number, &part, &[]);
    let holder = Holder::of(device.path());
    let expected =
        [format!("is part of {whole}, which is open in process {} (sleep)", holder.0.id())];
    users_become(number, &part, &expected);
}
