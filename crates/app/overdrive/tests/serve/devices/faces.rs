//! Distinguishes two devices with the same UUIDs, the volume and the one below it, by the files
//! that udev's rules read. The rules themselves are tested where udev runs, by
//! `cargo xtask system`.

use super::{Disk, text};
use crate::common::{run, wait_until};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A device over a file, as another disk of this machine.
struct Below(String);

impl Below {
    fn new(image: &Path) -> Below {
        let printed = run("losetup", &["--find", "--show", text(image)]).well().stdout;
        Below(printed.trim().to_owned())
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.0]);
    }
}

/// Returns the entry for the device of this node.
fn said_of(disk: &Disk, node: &Path) -> Option<String> {
    let number = fs::metadata(node).expect("a device").rdev();
    let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    fs::read_to_string(disk.home.runtime().join("overdrive/faces").join(name)).ok()
}

#[test]
fn udev_can_distinguish_a_volume_from_the_device_that_it_lies_on() {
    let Some(mut disk) = Disk::with_tools(16, &["losetup"]) else { return };
    let below = Below::new(&disk.image);
    let node = Path::new(&below.0).to_owned();
    disk.image.clone_from(&node);
    let device = disk.attach();
    let volume = Some(format!("OVERDRIVE_VOLUME={}\n", disk.name));
    let backing = Some(format!("OVERDRIVE_BACKING_OF={}\n", disk.name));
    assert_eq!(said_of(&disk, &device), volume);
    assert_eq!(said_of(&disk, &node), backing);
    // The data of a killed daemon is with its holder; it is no disk to mount.
    let daemon = disk.daemon();
    disk.without_supervisor(daemon);
    kill_process(daemon, Signal::KILL).expect("it runs");
    wait_until("it is gone", || disk.find_daemon().is_none());
    assert_eq!(said_of(&disk, &node), backing);
    disk.attach();
    let old = fs::canonicalize(&device).expect("a link");
    disk.detach().well();
    assert_eq!(said_of(&disk, &node), None);
    assert_eq!(said_of(&disk, &old), None);
}
