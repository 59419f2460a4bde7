//! A device without a daemon: other programs continue, and its requests wait for a limited time.

use super::lost::Direct;
use super::{Disk, MIB, have_devices, is_alive, parent_of, text};
use crate::common::{Ended, pause, run, wait_until};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

impl Disk {
    /// Kills its daemon, so that no other one is started.
    fn die(&self) {
        let daemon = self.daemon();
        self.without_supervisor(daemon);
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("it has ended", || !is_alive(daemon));
    }
}

/// Runs a program that does not use the device, and so must not wait for it.
fn ends_soon(program: &str, arguments: &[&str]) -> Ended {
    #[allow(clippy::disallowed_methods, reason = "a test of processes")]
    let begun = Instant::now();
    let ended = run(program, arguments);
    assert!(begun.elapsed() < Duration::from_secs(8), "{program} {arguments:?} waits");
    ended
}

/// Runs a program that neither waits for the device nor fails.
fn goes_on(program: &str, arguments: &[&str]) {
    let ended = ends_soon(program, arguments);
    assert_eq!(ended.status, 0, "{program} {arguments:?}: {}{}", ended.stdout, ended.stderr);
}

/// Lists the free space of all mounts. Those of tests beside this one may be dead at the moment,
/// and then `df` fails with a line for each of them.
fn free_space_is_listed(disk: &Disk) {
    let ended = ends_soon("df", &[]);
    let home = text(disk.home.path());
    assert!(!ended.stderr.contains(home), "df: {}", ended.stderr);
    let are_of_others = ended.stderr.lines().all(|line| line.starts_with("df: /"));
    assert!(are_of_others && ended.stdout.contains(home), "df: {}{}", ended.stdout, ended.stderr);
}

#[test]
fn programs_about_other_things_do_not_wait_for_a_device_without_a_daemon() {
    let tools = ["losetup", "df", "findmnt", "lsblk", "mkfs.ext4", "e2fsck"];
    let Some(disk) = Disk::with_tools(64, &tools) else { return };
    // A minute is longer than the programs may take.
    let device = disk.attach_with(&["--via", "fuse", "--wait-time", "60s"]);
    let mounted = disk.make_and_mount(&device);
    run("sync", &["-f", text(&mounted.0)]).well();
    let other = disk.home.path().join("other.img");
    File::create(&other).and_then(|file| file.set_len(16 * MIB)).expect("room");
    disk.die();
    goes_on("losetup", &["-a"]);
    goes_on("losetup", &["-j", "/etc/passwd"]);
    free_space_is_listed(&disk);
    goes_on("findmnt", &[]);
    goes_on("lsblk", &[]);
    goes_on("mkfs.ext4", &["-qF", text(&other)]);
    goes_on("e2fsck", &["-fn", text(&other)]);
    let directory = disk.home.path().join("other");
    fs::create_dir(&directory).expect("room");
    goes_on("mount", &["-o", "loop", text(&other), text(&directory)]);
    goes_on("umount", &[text(&directory)]);
    let file = disk.home.runtime().join("overdrive/devices").join(&disk.name).join(&disk.name);
    goes_on("stat", &[text(&file)]);
    goes_on("ls", &["-l", text(file.parent().expect("it lies in one"))]);
    // The users of the device notice nothing of all this.
    disk.attach();
    fs::write(mounted.path("after"), "after").expect("no error: it has only waited");
    mounted.unmount();
    disk.detach().well();
    run("fsck.ext4", &["-fn", text(&disk.image)]).well();
}

#[test]
fn requests_fail_after_the_time_without_a_daemon_and_a_later_one_goes_on() {
    if have_devices(&["blkid"]) {
        fails_and_goes_on(&["--via", "fuse", "--wait-time", "2s"]);
    }
}

/// Without a daemon requests fail after a while; the next daemon continues with the device.
pub(super) fn fails_and_goes_on(attach: &[&str]) {
    let disk = Disk::new(16);
    let device = disk.attach_with(attach);
    let file = File::options().read(true).write(true).open(&device).expect("root may");
    file.write_all_at(&[1; 4096], 0).and_then(|()| file.sync_all()).expect("it serves");
    disk.die();
    #[allow(clippy::disallowed_methods, reason = "a test of processes")]
    let begun = Instant::now();
    let write = file.write_all_at(&[2; 4096], 8192).and_then(|()| file.sync_all());
    write.expect_err("no daemon has written it");
    let waited = begun.elapsed();
    assert!(waited > Duration::from_millis(1000), "it waits for a while: {waited:?}");
    assert!(waited < Duration::from_secs(60), "but not for good: {waited:?}");
    let is_by_file = attach.contains(&"fuse");
    assert!(!is_by_file || disk.log().contains("requests fail from now on"), "{}", disk.log());
    // A program that searches for file systems reads it, and gets an error. (Other tests have
    // devices that wait longer.)
    let node = fs::canonicalize(&device).expect("a link");
    let found = run("timeout", &["8", "blkid", "-p", text(&node)]);
    assert_ne!(found.status, 124, "blkid waits");
    drop(file);
    assert!(read(&device).is_err(), "nothing serves it");
    disk.attach_with(attach);
    assert_eq!(read(&device).expect("it serves again"), [1; 4096]);
    let file = File::options().write(true).open(&device).expect("root may");
    file.write_all_at(&[3; 4096], 8192).and_then(|()| file.sync_all()).expect("it serves again");
    drop(file);
    disk.detach().well();
    let mut found = [0; 4096];
    File::open(&disk.image).expect("ours").read_exact_at(&mut found, 8192).expect("inside");
    assert_eq!(found, [3; 4096]);
}

/// Reads the first block from the device itself, not from the kernel's cache.
fn read(device: &Path) -> std::io::Result<[u8; 4096]> {
    run("blockdev", &["--flushbufs", text(device)]);
    let mut found = [0; 4096];
    File::open(device)?.read_exact_at(&mut found, 0)?;
    Ok(found)
}

/// A daemon that has to wait for the I/O of an earlier one does not count as absent: requests wait
/// for it beyond the time without a daemon.
#[test]
fn a_daemon_that_takes_over_is_waited_for() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let options = ["--via", "fuse", "--wait-time", "2s", "--write", "back-now"];
    let device = disk.attach_with(&[&options[..], &["--dirty-age", "1000s"]].concat());
    let open = Direct::open(&device);
    open.write(0, b'D').expect("it serves");
    let holder = disk.home.holders().pop().expect("something is dirty");
    let (daemon, supervisor) = (disk.daemon(), parent_of(disk.daemon()));
    kill_process(supervisor, Signal::STOP).expect("it supervises");
    kill_process(daemon, Signal::KILL).expect("it runs");
    // The lock that the I/O of a dead daemon would hold.
    let runtime = disk.home.runtime().join("overdrive");
    let looked = holder::Keeper::look(&runtime, &holder.key).expect("it answers");
    let arena = looked.expect("it is there").arena;
    let fence = ring::Fence::take(arena.as_fd(), 10_000).expect("the daemon is dead");
    kill_process(supervisor, Signal::CONT).expect("it supervises");
    let reader = std::thread::spawn(move || open.read(0));
    pause(Duration::from_secs(5));
    assert!(!reader.is_finished(), "it waits: {}", disk.log());
    drop(fence);
    assert_eq!(reader.join().expect("no panic").expect("no error: it has only waited"), b'D');
    disk.detach().well();
}

#[test]
fn requests_wait_for_good_where_that_is_asked_for() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let device = disk.attach_with(&["--via", "fuse", "--wait-time", "forever"]);
    disk.die();
    let reader = std::thread::spawn(move || read(&device));
    pause(Duration::from_secs(3));
    assert!(!reader.is_finished(), "it waits");
    disk.attach();
    reader.join().expect("no panic").expect("it has only waited");
    disk.detach().well();
}

#[test]
fn kills_never_end_the_restarts() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    disk.attach();
    for _ in 0..7 {
        let daemon = disk.daemon();
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("the supervisor has started another one", || {
            disk.find_daemon().is_some_and(|found| found != daemon)
        });
    }
    assert!(disk.log().contains("restarting in 1600 ms"), "{}", disk.log());
    disk.detach().well();
    assert!(!disk.log().contains("not restarted"), "{}", disk.log());
}

#[test]
fn a_device_that_is_given_up_between_two_restarts_stays_away() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let device = disk.attach();
    // After several kills, the next start is some time away.
    for _ in 0..6 {
        let daemon = disk.daemon();
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("another one serves, or is to", || {
            disk.log().contains("in 1600 ms") || disk.find_daemon().is_some_and(|it| it != daemon)
        });
    }
    disk.home.overdrive(&["detach", &disk.name, "--force"]).well();
    pause(Duration::from_secs(3));
    assert!(disk.find_daemon().is_none(), "{}", disk.log());
    assert!(!device.is_symlink());
}

#[test]
fn a_device_without_a_daemon_is_listed_and_explained() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    let device = disk.attach_with(&["--via", "fuse", "--wait-time", "60s"]);
    let mounted = disk.make_and_mount(&device);
    let node = disk.row()["device"].clone();
    disk.die();
    wait_until("its holder has seen it", || disk.row()["state"] == "waiting");
    let row = disk.row();
    assert_eq!((&row["device"], &row["route"]), (&node, &"fuse".into()), "{row}");
    assert_eq!(row["mounted"], serde_json::json!([mounted.0]));
    assert_eq!((&row["size_bytes"], &row["name"]), (&(64 * MIB).into(), &disk.name.clone().into()));
    assert_eq!(row["backing"], disk.image.display().to_string());
    let since_s = row["since_unix_s"].as_u64().expect("a number");
    assert_eq!(row["fails_unix_s"], since_s + 60);
    let again = row["again"].as_str().expect("text");
    assert!(again.starts_with("overdrive attach /") && again.contains(&disk.name), "{again}");
    let listed = disk.home.overdrive(&["volume", "list"]).well();
    assert!(listed.stdout.contains("waiting"), "{}", listed.stdout);
    let words = ["has had no daemon for", "get errors in", again, "--force' gives it up"];
    for word in words {
        assert!(listed.stderr.contains(word), "no {word} in {}", listed.stderr);
    }
    disk.detach().refused(3, &words);
    disk.home.overdrive(&["umount", text(&mounted.0)]).refused(3, &words);
    // The printed command continues with the device.
    let runtime = disk.home.runtime();
    let line = format!("XDG_RUNTIME_DIR={} {again}", runtime.display());
    let line = line.replace("overdrive attach", &format!("{} attach", crate::common::OVERDRIVE));
    run("sh", &["-c", &line]).well();
    assert_eq!(disk.row()["state"], "serving");
    mounted.unmount();
    disk.detach().well();
}

#[test]
fn what_overdrive_has_mounted_goes_on_with_the_same_command() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    run("mkfs.ext4", &["-q", text(&disk.image)]).well();
    let (image, directory) = (disk.image.display().to_string(), disk.directory());
    let mount = ["mount", &image, text(&directory), "--name", &disk.name, "--memory", "64M"];
    disk.home.overdrive(&mount).well();
    disk.die();
    wait_until("its holder has seen it", || disk.row()["state"] == "waiting");
    disk.home.overdrive(&mount).well();
    fs::write(directory.join("file"), "there").expect("it is served");
    disk.home.overdrive(&["umount", text(&directory)]).well();
    run("fsck.ext4", &["-fn", text(&disk.image)]).well();
}

#[test]
fn a_device_goes_on_without_its_supervisor_and_gets_another_one() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let open = Direct::open(&disk.attach_with(&["--write", "back-now"]));
    let works = |byte| {
        open.write(0, byte).expect("no error");
        assert_eq!(open.read(0).expect("no error"), byte);
    };
    disk.without_supervisor(disk.daemon());
    works(b'1');
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    disk.attach_with(&["--write", "back-now"]);
    assert_eq!(open.read(0).expect("no error"), b'1');
    // A stopped supervisor starts no daemon, and ends as soon as it runs again.
    let (daemon, supervisor) = (disk.daemon(), parent_of(disk.daemon()));
    kill_process(supervisor, Signal::STOP).expect("it supervises");
    works(b'2');
    kill_process(daemon, Signal::KILL).expect("it runs");
    disk.attach_with(&["--write", "back-now"]);
    kill_process(supervisor, Signal::CONT).expect("it is stopped");
    wait_until("it has ended", || !is_alive(supervisor));
    assert_eq!(open.read(0).expect("no error"), b'2');
    let daemon = disk.daemon();
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("another one serves", || disk.find_daemon().is_some_and(|found| found != daemon));
    assert_eq!(open.read(0).expect("no error"), b'2');
    drop(open);
    disk.detach().well();
}

#[test]
fn a_device_that_is_attached_between_two_restarts_has_one_supervisor() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    disk.attach();
    let first = parent_of(disk.daemon());
    for _ in 0..6 {
        let daemon = disk.daemon();
        kill_process(daemon, Signal::KILL).expect("it runs");
        wait_until("another one serves, or is to", || {
            disk.log().contains("in 1600 ms") || disk.find_daemon().is_some_and(|it| it != daemon)
        });
    }
    // The former supervisor may be faster; then it continues.
    let attached = disk.try_attach(&[]);
    assert!([0, 5].contains(&attached.status), "{}", attached.stderr);
    let daemon = disk.daemon();
    let is_new = parent_of(daemon) != first;
    assert_eq!(is_new, attached.status == 0);
    assert!(!is_new || !is_alive(first), "two supervisors");
    pause(Duration::from_secs(3));
    assert_eq!(disk.daemon(), daemon, "{}", disk.log());
    disk.detach().well();
}
