//! A daemon of a device is killed, stopped or upgraded: users of the device continue.

use super::lost::Direct;
use super::{Disk, have_devices, is_alive, loads, text};
use crate::common::{pause, run, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns fio's load, which verifies its writes, for this number of seconds.
fn verified_load(directory: &Path, seconds: u32) -> Vec<String> {
    let load = format!(
        "--name=t --directory={} --size=64M --rw=randwrite --bs=4k --iodepth=32 --ioengine=libaio --direct=1 \
         --fsync=64 --time_based --runtime={seconds} --verify=crc32c --verify_backlog=500 --output-format=terse",
        directory.display()
    );
    load.split(' ').map(str::to_owned).collect()
}

/// A file system is used by verifying loads for this time, while its daemon is killed three times,
/// and then checked.
pub(super) fn survives(attach: &[&str], mib: u64, seconds: u32, make: &[&str], check: &[&str]) {
    let disk = Disk::new(mib);
    let device = disk.attach_with(attach);
    run(make[0], &[&make[1..], &[text(&device)]].concat()).well();
    let mounted = disk.mount(&device);
    let load = verified_load(&mounted.0, seconds);
    let fio = std::thread::spawn(move || {
        run("fio", &load.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let ends = Arc::new(AtomicBool::new(false));
    let loads = loads::begin(&mounted.0, &ends);
    let mut daemon = disk.daemon();
    for _ in 0..3 {
        pause(Duration::from_millis(1300));
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("the supervisor has started another one", || {
            disk.find_daemon().is_some_and(|found| found != daemon)
        });
        daemon = disk.daemon();
    }
    fio.join().expect("it ran").well();
    ends.store(true, Ordering::Relaxed);
    for load in loads {
        assert!(load.join().expect("all is as it was made") > 0);
    }
    assert_eq!(disk.log().matches("; restart").count(), 3, "{}", disk.log());
    // 2026-11-25T23:01:09Z error overdrive: ...
    let is_stamped = |line: &str| {
        let mut words = line.split(' ');
        let time = words.next().unwrap_or_default();
        let severity = words.next().unwrap_or_default();
        time.len() == 20 && time.ends_with('Z') && ["notice", "error"].contains(&severity)
    };
    assert!(disk.log().lines().all(is_stamped), "{}", disk.log());
    let killed = format!("Z error overdrive: {}: its daemon was killed", disk.name);
    assert!(disk.log().contains(&killed), "{}", disk.log());
    run("fstrim", &[text(&mounted.0)]).well();
    mounted.unmount();
    run(check[0], &[&check[1..], &[text(&device)]].concat()).well();
    disk.detach().well();
    // The image alone is consistent, too.
    run(check[0], &[&check[1..], &[text(&disk.image)]].concat()).well();
}

#[test]
fn ext4_survives_killed_daemons() {
    if have_devices(&["fio", "fstrim", "mkfs.ext4"]) {
        survives(&[], 512, 6, &["mkfs.ext4", "-q"], &["fsck.ext4", "-fn"]);
    }
}

#[test]
fn xfs_survives_killed_daemons() {
    if have_devices(&["fio", "fstrim", "mkfs.xfs"]) {
        survives(&[], 512, 6, &["mkfs.xfs", "-q"], &["xfs_repair", "-n"]);
    }
}

#[test]
fn a_daemon_that_stops_under_a_mount_is_waited_for() {
    if have_devices(&["mkfs.ext4"]) {
        is_waited_for(&[]);
    }
}

/// A daemon stops under a mounted file system, which waits for the next one.
pub(super) fn is_waited_for(attach: &[&str]) {
    let disk = Disk::new(64);
    let device = disk.attach_with(attach);
    let mounted = disk.make_and_mount(&device);
    fs::write(mounted.path("before"), "before").expect("room");
    let daemon = disk.daemon();
    kill_process(daemon, Signal::TERM).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    assert!(disk.log().contains("is mounted at"), "{}", disk.log());
    disk.detach().refused(3, &["no daemon", "continues"]);
    let (path, text) = (mounted.path("after"), "x".repeat(1 << 20));
    let writer = std::thread::spawn(move || {
        fs::write(&path, text).and_then(|()| fs::File::open(&path)).and_then(|file| file.sync_all())
    });
    // Long enough for the holder to read the request: it is sent again to the next daemon.
    pause(Duration::from_millis(1500));
    assert!(!writer.is_finished(), "it waits");
    disk.attach_with(attach);
    writer.join().expect("no panic").expect("no error: it has only waited");
    assert_eq!(fs::read_to_string(mounted.path("before")).expect("it is there"), "before");
    mounted.unmount();
    disk.detach().well();
    run("fsck.ext4", &["-fn", super::text(&disk.image)]).well();
}

#[test]
fn a_device_whose_daemon_never_comes_back_is_given_up() {
    if have_devices(&["mkfs.ext4"]) {
        is_given_up(&[]);
    }
}

/// A daemon dies for good, and its device is removed by force.
pub(super) fn is_given_up(attach: &[&str]) {
    let disk = Disk::new(64);
    let device = disk.attach_with(attach);
    let mounted = disk.make_and_mount(&device);
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    let path = mounted.path("file");
    let writer = std::thread::spawn(move || {
        let file = fs::File::create(&path)?;
        file.sync_all()
    });
    disk.home.overdrive(&["detach", &disk.name]).refused(3, &["--force"]);
    disk.home.overdrive(&["detach", &disk.name, "--force"]).well();
    writer.join().expect("no panic").expect_err("nothing serves it any more");
    drop(mounted);
    assert!(!device.is_symlink());
    // The image is in the state after a power cut, and can be attached again.
    let device = disk.attach_with(attach);
    run("fsck.ext4", &["-fy", text(&device)]);
    run("fsck.ext4", &["-fn", text(&device)]).well();
    disk.detach().well();
}

#[test]
fn a_device_that_waits_does_not_become_another_disk_s() {
    if !have_devices(&["mkfs.ext4"]) {
        return;
    }
    let (disk, other) = (Disk::new(64), Disk::among_namespaces(64));
    let mounted = disk.make_and_mount(&disk.attach());
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    let image = other.image.display().to_string();
    let taken = disk.home.overdrive(&["attach", &image, "--name", &disk.name]);
    taken.refused(5, &["another backing", "--force"]);
    disk.attach();
    mounted.unmount();
    disk.detach().well();
    run("fsck.ext4", &["-fn", text(&disk.image)]).well();
}

#[test]
fn an_upgrade_is_not_noticed() {
    let Some(disk) = Disk::with_tools(256, &["mkfs.ext4", "fio"]) else { return };
    let mounted = disk.make_and_mount(&disk.attach());
    let load = verified_load(&mounted.0, 3);
    let fio = std::thread::spawn(move || {
        run("fio", &load.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let mut watching = disk.home.command(&["volume", "stats", "--watch", "100ms"]);
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped());
    let watching = watching.spawn().expect("started");
    pause(Duration::from_secs(1));
    let daemon = disk.daemon();
    let stdout = disk.home.overdrive(&["upgrade"]).well().stdout;
    let version = env!("CARGO_PKG_VERSION");
    assert!(stdout.contains(&format!("{} upgraded from {version} to", disk.name)), "{stdout}");
    assert_eq!(disk.daemon(), daemon, "the same process");
    fio.join().expect("it ran").well();
    // A holder that was orphaned for a moment would have reported it by now.
    pause(Duration::from_secs(3));
    assert!(!disk.log().contains("od-holder"), "a false alarm: {}", disk.log());
    let watcher = Pid::from_raw(watching.id().cast_signed()).expect("not 0");
    kill_process(watcher, Signal::TERM).expect("it still watches");
    let watched = watching.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&watched.stderr);
    assert!(!said.contains("does not answer"), "{said}");
    assert!(String::from_utf8_lossy(&watched.stdout).lines().count() > 20, "rates continue");
    mounted.unmount();
    disk.detach().well();
}

/// The next daemon serves a device with any contents: a guest may write an image format to its
/// disk.
#[test]
fn what_is_written_to_a_device_is_no_reason_to_refuse_the_next_daemon() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(64);
    let open = Direct::open(&disk.attach_with(&["--write", "through"]));
    open.write_header(0, b"QFI\xfb\0\0\0\x03").expect("it serves");
    open.sync().expect("it serves");
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("another one serves", || disk.find_daemon().is_some_and(|found| found != daemon));
    assert_eq!(open.read(0).expect("it serves"), b'Q');
    disk.home.overdrive(&["upgrade"]).well();
    assert_eq!(open.read(0).expect("it serves"), b'Q');
    // The daemon is stopped while the device is used, and the device waits for the next one.
    let daemon = disk.daemon();
    kill_process(daemon, Signal::TERM).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    disk.attach();
    assert_eq!(open.read(0).expect("it serves"), b'Q');
    drop(open);
    disk.detach().well();
    disk.try_attach(&[]).refused(2, &["qcow2", "--raw"]);
}

#[test]
fn a_device_that_nothing_keeps_is_made_anew() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    let device = disk.attach_with(&["--no-holder"]);
    let mounted = disk.make_and_mount(&device);
    run("sync", &["-f", text(&mounted.0)]).well();
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("another one serves", || disk.find_daemon().is_some_and(|found| found != daemon));
    // The mount fails as when a disk is unplugged, and cannot be mistaken for the new device.
    fs::write(mounted.path("file"), vec![1; 1 << 20])
        .and_then(|()| fs::File::open(mounted.path("file"))?.sync_all())
        .expect_err("its device is gone");
    drop(mounted);
    // The former device's last users may be ending.
    let answers = || fs::File::open(&device)?.read_exact(&mut [0; 4096]);
    wait_until("the new device answers", || answers().is_ok());
    run("fsck.ext4", &["-fy", text(&device)]);
    run("fsck.ext4", &["-fn", text(&device)]).well();
    disk.detach().well();
}

#[test]
fn a_holder_of_a_device_that_is_killed_is_replaced() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    let mounted = disk.make_and_mount(&disk.attach_with(&["--via", "fuse"]));
    fs::write(mounted.path("before"), "before").expect("room");
    let pids = || disk.all_holders();
    let before = pids();
    assert_eq!(before.len(), 2, "of the memory, and of the mount");
    for pid in &before {
        kill_process(rustix::process::Pid::from_raw(*pid).expect("not 0"), Signal::KILL)
            .expect("it runs");
    }
    wait_until("there are two others", || {
        let now = pids();
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    });
    // So a killed daemon does no harm.
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    fs::write(mounted.path("after"), "after").expect("it waits for the next daemon");
    run("sync", &["-f", text(&mounted.0)]).well();
    assert_eq!(fs::read_to_string(mounted.path("before")).expect("it is there"), "before");
    mounted.unmount();
    disk.detach().well();
}

#[test]
fn a_device_in_a_killed_daemon_s_memory_is_gone_and_not_empty() {
    let Some(disk) = Disk::with_tools(8, &["mkfs.ext4"]) else { return };
    let attach = ["attach", "ram:64M", "--name", &disk.name, "--memory", "0", "--via", "fuse"];
    disk.home.overdrive(&attach).well();
    let mounted = disk.make_and_mount(&std::path::Path::new("/dev/overdrive").join(&disk.name));
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    // Another one is started, and would show zeros in place of the file system.
    wait_until("it is refused", || disk.log().contains("waits for the daemon of another backing"));
    let path = mounted.path("file");
    let writer = std::thread::spawn(move || {
        fs::write(&path, "x").and_then(|()| fs::File::open(&path)?.sync_all())
    });
    let given_up = disk.home.overdrive(&["detach", &disk.name, "--force"]).well();
    assert!(given_up.stdout.contains("no holder retains writes of it"), "{}", given_up.stdout);
    writer.join().expect("no panic").expect_err("it is gone");
}
