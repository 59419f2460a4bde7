//! Events in the life of a device: other sizes, configuration, snapshots, layers above and below.

use super::{Disk, MIB, have_devices, is_alive, text};
use crate::common::{Server, run, wait_until};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

#[test]
fn a_device_grows_with_its_image_at_the_next_start() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    let device = disk.attach();
    let mounted = disk.make_and_mount(&device);
    let daemon = disk.daemon();
    let grown = File::options().write(true).open(&disk.image).expect("ours");
    grown.set_len(128 * MIB).expect("sparse");
    kill_process(daemon, Signal::TERM).expect("it runs");
    wait_until("it has ended", || !is_alive(daemon));
    disk.attach();
    assert_eq!(disk.says("size"), (128 * MIB / 512).to_string());
    fs::write(mounted.path("file"), "there").expect("room");
    mounted.unmount();
    disk.detach().well();
}

#[test]
fn a_config_file_attaches_its_volumes() {
    let Some(disk) = Disk::with_tools(16, &[]) else { return };
    let config = disk.home.path().join("host.toml");
    let nbd = disk.home.socket();
    let volume = format!(
        "[volume.{}]\nbacking = \"{}\"\nmemory = \"16M\"\nattach = true\nnbd = \"unix:{}\"\n",
        disk.name,
        disk.image.display(),
        nbd.display()
    );
    fs::write(&config, volume).expect("room");
    let mut command = Command::new(crate::common::OVERDRIVE);
    command.arg("serve").arg("--config").arg(&config);
    let server = Server::run_in(&disk.home, command);
    let device = Path::new("/dev/overdrive").join(&disk.name);
    // The device existed before the address was printed, and both ways lead to one disk.
    File::options()
        .write(true)
        .open(&device)
        .expect("there")
        .write_all_at(b"one disk", 0)
        .expect("room");
    run("sync", &[text(&device)]).well();
    let read = run("nbdcopy", &[&server.uri, "-"]);
    assert!(read.stdout.starts_with("one disk"));
    server.end().well();
    assert!(!device.is_symlink(), "an ordinary stop takes it away");
}

#[test]
fn a_frozen_volume_is_a_snapshot_of_a_quiet_file_system() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4", "fsfreeze", "cp"]) else { return };
    let mounted = disk.make_and_mount(&disk.attach());
    fs::write(mounted.path("file"), vec![5; 1 << 20]).expect("room");
    run("fsfreeze", &["-f", text(&mounted.0)]).well();
    disk.home.overdrive(&["volume", "freeze"]).well();
    let copy = disk.home.path().join("snapshot.img");
    run("cp", &["--sparse=always", text(&disk.image), text(&copy)]).well();
    disk.home.overdrive(&["volume", "resume"]).well();
    run("fsfreeze", &["-u", text(&mounted.0)]).well();
    fs::write(mounted.path("file"), "newer").expect("room");
    // A frozen file system needs no replay of its journal: the copy is clean as it is.
    run("fsck.ext4", &["-fn", text(&copy)]).well();
    let shown = run("debugfs", &["-R", "stat file", text(&copy)]).stdout;
    assert!(shown.contains("Size: 1048576"), "{shown}");
    mounted.unmount();
    disk.detach().well();
}

/// The daemon that takes over is not frozen: a copy in progress may be torn, and the command that
/// ends the freeze fails.
#[test]
fn a_frozen_volume_whose_daemon_is_killed_is_frozen_no_more_and_says_so() {
    if !have_devices(&[]) {
        return;
    }
    let disk = Disk::among_namespaces(16);
    disk.attach();
    let daemon = disk.daemon();
    disk.home.overdrive(&["volume", "freeze", &disk.name]).well();
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("another one serves", || disk.find_daemon().is_some_and(|found| found != daemon));
    disk.home
        .overdrive(&["volume", "resume", &disk.name])
        .refused(1, &["neither paused nor frozen"]);
    disk.detach().well();
}

#[test]
fn swap_on_a_device_is_noticed() {
    let Some(disk) = Disk::with_tools(64, &["mkswap", "swapon"]) else { return };
    let device = disk.attach();
    run("mkswap", &[text(&device)]).well();
    let swapon = run("swapon", &[text(&device)]);
    if swapon.status != 0 {
        println!("skipped: no swap here: {}", swapon.stderr);
        return disk.detach().well().into_nothing();
    }
    disk.detach().refused(5, &["is used as swap"]);
    run("swapoff", &[text(&device)]).well();
    disk.detach().well();
}

impl crate::common::Ended {
    fn into_nothing(self) {}
}

#[test]
fn a_recording_onto_its_own_device_is_refused() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    let device = disk.attach();
    let mounted = disk.make_and_mount(&device);
    let output = mounted.path("trace");
    let refused = disk.home.overdrive(&["trace", "record", &disk.name, text(&output)]);
    refused.refused(2, &["its own writes would be recorded"]);
    assert!(!output.exists());
    mounted.unmount();
    disk.detach().well();
}
