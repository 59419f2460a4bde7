//! The backing of a device belongs to the device, with and without a daemon.

use super::{Disk, have_devices, is_alive, text};
use crate::backings::Loop;
use crate::common::{Ended, run, serve_in, wait_until};
use crate::home::Home;
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// Runs every command that would use the image in addition to its device.
fn others(home: &Arc<Home>, name: &str, image: &Path) -> Vec<(&'static str, Ended)> {
    let target = text(image);
    let other = home.path().join("other.img");
    File::create(&other).expect("room").set_len(64 << 20).expect("sparse");
    let pool = format!("stripe:{target},{}", text(&other));
    let another = format!("{name}-other");
    vec![
        ("attach", home.overdrive(&["attach", target, "--name", &another, "--memory", "8M"])),
        // By the name of the device, but not as the device.
        ("serve", serve_in(home, image, &["-q", "--name", name, "--run", "exit 99"])),
        ("serve a stripe", serve_in(home, &pool, &["-q", "--run", "exit 99"])),
        ("bench", home.overdrive(&["bench", "cdm", target, "--destroy", "--time", "1s"])),
        ("pool create", home.overdrive(&["pool", "create", "--overwrite", target, text(&other)])),
    ]
}

fn all_refused(home: &Arc<Home>, disk: &Disk, image: &Path) {
    let device = format!("/dev/overdrive/{}", disk.name);
    let words = [
        "is the backing of the device",
        &device,
        "continue with: overdrive attach",
        &format!("--name {}", disk.name),
        &format!("overdrive detach {}", disk.name),
    ];
    for (command, refused) in others(home, &disk.name, image) {
        println!("{command}: {} {}", refused.status, refused.stderr);
        refused.refused(5, &words);
    }
}

#[test]
fn an_image_whose_device_waits_is_that_device_s() {
    if have_devices(&["mkfs.ext4", "fsck.ext4"]) {
        is_claimed(&[]);
    }
}

/// Daemon and supervisor are killed under a mounted file system.
pub(super) fn is_claimed(attach: &[&str]) {
    let disk = Disk::new(64);
    let mounted = disk.make_and_mount(&disk.attach_with(attach));
    fs::write(mounted.path("one"), "one").expect("room");
    run("sync", &["-f", text(&mounted.0)]).well();
    let another = format!("{}-other", disk.name);
    let attach_other = |home: &Home, image: &Path| {
        let attach = ["attach", text(image), "--name", &another, "--memory", "8M"];
        home.overdrive(&attach).refused(5, &["is the backing of the device", &disk.name]);
    };
    attach_other(&disk.home, &disk.image);
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    let before = fs::read(&disk.image).expect("ours");
    all_refused(&disk.home, &disk, &disk.image);
    // Under any name, and by any daemon.
    let link = disk.home.path().join("another name");
    let linked = fs::hard_link(&disk.image, &link);
    linked.or_else(|_| std::os::unix::fs::symlink(&disk.image, &link)).expect("room");
    attach_other(&Home::new(), &link);
    if let Some(over) = Loop::attach(&disk.image) {
        let words = ["lies on", "is the backing of", &disk.name];
        disk.home.overdrive(&["attach", &over.0, "--name", &another]).refused(5, &words);
    }
    assert!(fs::read(&disk.image).expect("ours") == before, "nothing was written");
    disk.attach_with(attach);
    fs::write(mounted.path("two"), "two").expect("it goes on");
    mounted.unmount();
    disk.detach().well();
    run("fsck.ext4", &["-fn", text(&disk.image)]).well();
    // Without its device the image is free.
    serve_in(&disk.home, &disk.image, &["-q", "--memory", "4M", "--run", "true"]).well();
}

#[test]
fn an_image_is_its_device_s_between_a_kill_and_the_restart() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    let mounted = disk.make_and_mount(&disk.attach());
    let another = format!("{}-other", disk.name);
    let mut daemon = disk.daemon();
    for round in 0..3 {
        kill_process(daemon, Signal::KILL).expect("it runs");
        let image = text(&disk.image);
        let refused = disk.home.overdrive(&["attach", image, "--name", &another]);
        refused.refused(5, &["is the backing of the device", &disk.name]);
        wait_until("the supervisor has started another one", || {
            disk.find_daemon().is_some_and(|found| found != daemon)
        });
        daemon = disk.daemon();
        fs::write(mounted.path(&format!("{round}")), "it goes on").expect("room");
    }
    mounted.unmount();
    disk.detach().well();
}

#[test]
fn an_image_whose_device_was_given_up_is_free() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    let mounted = disk.make_and_mount(&disk.attach());
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    disk.home.overdrive(&["detach", &disk.name, "--force"]).well();
    drop(mounted);
    let another = format!("{}-other", disk.name);
    disk.home.overdrive(&["attach", text(&disk.image), "--name", &another]).well();
    disk.home.overdrive(&["detach", &another]).well();
}

#[test]
fn every_member_below_a_device_is_claimed() {
    if !have_devices(&[]) {
        return;
    }
    let (disk, second) = (Disk::new(64), Disk::among_namespaces(64));
    let (one, two) = (text(&disk.image), text(&second.image));
    run(crate::common::OVERDRIVE, &["pool", "create", one, two]).well();
    let pool = format!("pool:{one},{two}");
    let attach = ["attach", &pool, "--name", &disk.name, "--memory", "8M"];
    disk.home.overdrive(&attach).well();
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    for member in [&disk.image, &second.image] {
        let refused = serve_in(&Home::new(), member, &["-q", "--run", "exit 99"]);
        refused.refused(5, &["is the backing of", &disk.name, "overdrive attach BACKING"]);
    }
    disk.home.overdrive(&attach).well();
    // Writes that a pool has answered and not committed were lost with its daemon.
    disk.detach().refused(7, &["memory was lost"]);
}

#[test]
fn an_image_that_is_only_read_may_have_several_devices() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let image = text(&disk.image);
    disk.attach_with(&["--read-only"]);
    let home = Home::new();
    let another = format!("{}-other", disk.name);
    home.overdrive(&["attach", image, "--name", &another, "--read-only"]).well();
    let writing = serve_in(&home, &disk.image, &["-q", "--run", "exit 99"]);
    writing.refused(5, &["is the backing of the device"]);
    home.overdrive(&["detach", &another]).well();
    disk.detach().well();
}

/// Whether the kernel's name of a device has a record of its backing next to it.
fn has_record(disk: &Disk) -> bool {
    let records = Path::new("/dev/overdrive/.backings").join(&disk.name);
    fs::read_dir(records).is_ok_and(|entries| entries.count() > 0)
}

/// A daemon may be killed at any moment, so a device has its record before it has its name.
#[test]
fn an_image_is_claimed_before_its_device_has_its_name() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(8);
    let link = Path::new("/dev/overdrive").join(&disk.name);
    for _ in 0..5 {
        let is_claimed = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                wait_until("it has its name", || link.is_symlink());
                has_record(&disk)
            });
            // The watch must see the first moment.
            disk.try_attach(&[]).well();
            watch.join().expect("no panic")
        });
        assert!(is_claimed, "a name without a record");
        disk.detach().well();
        assert!(!has_record(&disk), "the record goes with the device");
    }
}

#[test]
fn a_claim_outlives_others_that_have_its_device_s_name() {
    if !have_devices(&[]) {
        return;
    }
    let (disk, other) = (Disk::among_namespaces(8), Disk::among_namespaces(8));
    let open = File::open(disk.attach()).expect("root may");
    let image = text(&other.image).to_owned();
    let taken = other.home.overdrive(&["attach", &image, "--name", &disk.name]);
    taken.refused(5, &["is a device of"]);
    assert!(has_record(&disk), "by a device that could not be made");
    let options = ["-q", "--name", &disk.name, "--memory", "4M", "--run", "true"];
    serve_in(&other.home, &other.image, &options).well();
    assert!(has_record(&disk), "by a volume that is no device");
    other.attach();
    other.detach().well();
    assert!(has_record(&disk), "by another device");
    drop(open);
    disk.detach().well();
}
