//! Devices by routes that not every kernel supports. `cargo xtask nightly` runs these in a guest
//! that supports them.

use super::absent::fails_and_goes_on;
use super::claimed::is_claimed;
use super::killed::{is_given_up, is_waited_for, survives};
use super::lost::is_lost_with_its_memory;
use super::{Disk, MIB, text};
use crate::common::{have, is_root, run};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Arguments to attach over the kernel's NBD client. Its requests are sent again 10 s after retries
/// would have ended.
const NBD: [&str; 4] = ["--via", "nbd", "--retry-time", "5s"];

/// Arguments to attach over ublk, with a queue on each of two lanes.
const UBLK: [&str; 4] = ["--via", "ublk", "--threads", "2"];

/// Whether we may make devices by a route that needs this path, with these programs. Prints the
/// reason if not.
fn have_way(path: &str, tools: &[&str]) -> bool {
    let may = is_root() && Path::new(path).exists();
    if !may {
        println!("skipped: not root, or this kernel has no {path}");
    }
    may && have(tools)
}

fn have_nbd() -> bool {
    have_way("/sys/module/nbd", &["mkfs.ext4", "fsck.ext4", "fio", "fstrim", "blkdiscard"])
}

/// A device is a disk with a volatile cache; a sync reaches the volume as a flush, discarded ranges
/// read as zeros, and after a detach the image has all data.
fn is_a_disk(attach: &[&str], route: &str) {
    let disk = Disk::new(64);
    let device = disk.attach_with(attach);
    let row = disk.row();
    assert_eq!(row["route"], route);
    let node = fs::canonicalize(&device).expect("a link");
    assert_eq!(node, Path::new(row["device"].as_str().expect("text")));
    assert_eq!(disk.says("queue/write_cache"), "write back");
    assert_eq!(disk.says("size"), (64 * MIB / 512).to_string());
    let file = File::options().read(true).write(true).open(&device).expect("root may");
    let data: Vec<u8> = (0..2 * MIB).map(|at| (at % 251) as u8).collect();
    file.write_all_at(&data, MIB).expect("room");
    let before = disk.counted("flushes");
    file.sync_all().expect("a flush");
    assert!(disk.counted("flushes") > before, "the engine has heard of it");
    run("blkdiscard", &["--offset", "1M", "--length", "1M", text(&node)]).well();
    disk.detach().refused(5, &["is open in process"]);
    drop(file);
    disk.detach().well();
    assert!(!device.exists() && !device.is_symlink());
    let mut found = vec![7; 3 << 20];
    File::open(&disk.image).expect("it is there").read_exact_at(&mut found, 0).expect("inside");
    assert!(found[..2 << 20].iter().all(|byte| *byte == 0), "never written, then discarded");
    assert_eq!(found[2 << 20..], data[1 << 20..]);
}

/// Detaching a mounted device is refused, with the mount in the message, and so is a second device
/// of the volume.
fn is_refused_in_use(attach: &[&str]) {
    let disk = Disk::new(64);
    let device = disk.attach_with(attach);
    let mounted = disk.make_and_mount(&device);
    fs::write(mounted.path("file"), "mounted").expect("room");
    disk.detach().refused(5, &[&format!("is mounted at {}", mounted.0.display())]);
    assert_eq!(fs::read_to_string(mounted.path("file")).expect("it is there"), "mounted");
    disk.try_attach(attach).refused(5, &["is already served by process"]);
    mounted.unmount();
    disk.detach().well();
}

/// The partitions of a table are found.
fn has_partitions(attach: &[&str]) {
    if !have(&["sfdisk"]) {
        return;
    }
    let disk = Disk::new(64);
    let image = disk.image.display();
    let table = format!("printf 'label: gpt\\nsize=16M\\nsize=32M\\n' | sfdisk -q {image}");
    run("sh", &["-c", &table]).well();
    disk.attach_with(attach);
    let second = format!("{}p2", disk.row()["device"].as_str().expect("text"));
    let mounted = disk.make_and_mount(Path::new(&second));
    fs::write(mounted.path("file"), "on a partition").expect("room");
    disk.detach().refused(5, &["has the partition", text(&mounted.0)]);
    mounted.unmount();
    disk.detach().well();
}

#[test]
fn nbd_has_partitions() {
    if have_nbd() {
        has_partitions(&NBD);
    }
}

#[test]
fn ublk_has_partitions() {
    if have_ublk() {
        has_partitions(&UBLK);
    }
}

#[test]
fn nbd_is_a_disk_with_a_volatile_cache() {
    if have_nbd() {
        is_a_disk(&NBD, "nbd");
    }
}

#[test]
fn nbd_is_refused_in_use() {
    if have_nbd() {
        is_refused_in_use(&NBD);
    }
}

#[test]
fn nbd_is_lost_with_its_memory() {
    if have_nbd() {
        is_lost_with_its_memory(&NBD);
    }
}

#[test]
fn ublk_is_lost_with_its_memory() {
    if have_ublk() {
        is_lost_with_its_memory(&UBLK);
    }
}

#[test]
fn nbd_survives_killed_daemons() {
    if have_nbd() {
        // Requests in flight at a kill wait for 15 s.
        survives(&NBD, 192, 40, &["mkfs.ext4", "-q"], &["fsck.ext4", "-fn"]);
    }
}

#[test]
fn nbd_waits_for_a_daemon_that_was_stopped() {
    if have_nbd() {
        is_waited_for(&NBD);
    }
}

#[test]
fn nbd_claims_its_image() {
    if have_nbd() {
        is_claimed(&NBD);
    }
}

#[test]
fn nbd_fails_after_a_time_without_a_daemon() {
    if have_nbd() {
        fails_and_goes_on(&["--via", "nbd", "--retry-time", "1s", "--wait-time", "2s"]);
    }
}

#[test]
fn nbd_is_listed_without_a_daemon() {
    if !have_nbd() {
        return;
    }
    let disk = Disk::new(16);
    disk.attach_with(&NBD);
    die(&disk);
    let row = disk.row();
    assert_eq!((&row["state"], &row["route"]), (&"waiting".into(), &"nbd".into()), "{row}");
    disk.detach().refused(3, &["no daemon", "--force"]);
    disk.attach();
    disk.detach().well();
}

#[test]
fn nbd_is_given_up() {
    if have_nbd() {
        is_given_up(&NBD);
    }
}

#[test]
fn nbd_grows_with_its_image() {
    if !have_nbd() {
        return;
    }
    let disk = Disk::new(16);
    disk.attach_with(&NBD);
    die(&disk);
    File::options().write(true).open(&disk.image).expect("ours").set_len(32 * MIB).expect("room");
    disk.attach_with(&NBD);
    assert_eq!(disk.says("size"), (32 * MIB / 512).to_string());
    disk.detach().well();
}

#[test]
fn nbd_goes_on_after_an_upgrade() {
    if !have_nbd() {
        return;
    }
    let disk = Disk::new(64);
    let mounted = disk.make_and_mount(&disk.attach_with(&NBD));
    fs::write(mounted.path("before"), "before").expect("room");
    let daemon = disk.daemon();
    disk.home.overdrive(&["upgrade"]).well();
    let file = File::create(mounted.path("after")).expect("room");
    file.write_all_at(&[7; 1 << 20], 0).expect("room");
    file.sync_all().expect("it has only waited");
    drop(file);
    assert_eq!(disk.daemon(), daemon, "the same process");
    mounted.unmount();
    disk.detach().well();
    run("fsck.ext4", &["-fn", text(&disk.image)]).well();
}

/// Kills its daemon, so that no other one is started.
fn die(disk: &Disk) {
    use rustix::process::{Signal, kill_process};
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    crate::common::wait_until("it has ended", || !super::is_alive(daemon));
}

fn have_ublk() -> bool {
    have_way("/dev/ublk-control", &["mkfs.ext4", "fsck.ext4", "fio", "fstrim", "blkdiscard"])
}

#[test]
fn ublk_is_a_disk_with_a_volatile_cache() {
    if have_ublk() {
        // It is the best route of this kernel.
        is_a_disk(&["--threads", "2"], "ublk");
    }
}

#[test]
fn ublk_is_refused_in_use() {
    if have_ublk() {
        is_refused_in_use(&UBLK);
    }
}

#[test]
fn ublk_survives_killed_daemons() {
    if have_ublk() {
        survives(&UBLK, 192, 12, &["mkfs.ext4", "-q"], &["fsck.ext4", "-fn"]);
    }
}

#[test]
fn ublk_waits_for_a_daemon_that_was_stopped() {
    if have_ublk() {
        is_waited_for(&UBLK);
    }
}

#[test]
fn ublk_claims_its_image() {
    if have_ublk() {
        is_claimed(&UBLK);
    }
}

#[test]
fn ublk_is_given_up() {
    if have_ublk() {
        is_given_up(&UBLK);
    }
}

#[test]
fn ublk_is_not_upgraded() {
    if !have_ublk() {
        return;
    }
    let disk = Disk::new(16);
    disk.attach_with(&UBLK);
    disk.home.overdrive(&["upgrade"]).refused(2, &["restart the daemon"]);
    disk.detach().well();
}

#[test]
fn a_device_that_waits_is_not_made_by_another_way() {
    if !have_nbd() {
        return;
    }
    let disk = Disk::new(16);
    disk.attach_with(&NBD);
    die(&disk);
    disk.try_attach(&["--via", "fuse"]).refused(5, &["waits for its daemon", "--via nbd"]);
    // The device does not become another disk's.
    let other = Disk::among_namespaces(16);
    let image = other.image.display().to_string();
    let taken = disk.home.overdrive(&["attach", &image, "--name", &disk.name, "--via", "nbd"]);
    taken.refused(5, &["another backing", "--force"]);
    // Without an option, the route stays the same.
    disk.attach();
    assert_eq!(disk.row()["route"], "nbd");
    disk.detach().well();
}
