//! A device that is in use stays, also if another mount namespace uses it, and the message names
//! its users.
//!
//! While this test waits until no other test has a device, no other test gets one. So its name is
//! behind those of all others with devices: the harness starts tests in the order of their names.

use super::{Disk, have_devices, is_alive, text};
use crate::common::{no_mounts, wait_until};
use std::fs::File;
use std::process::{Child, Command};

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_device_that_is_in_use_is_not_detached() {
    if !have_devices(&["mkfs.ext4", "unshare"]) {
        return;
    }
    let _alone = no_mounts();
    let disk = Disk::among_namespaces(64);
    let device = disk.attach();
    let mounted = disk.make_and_mount(&device);
    let refused = format!("is mounted at {}; release it there first", mounted.0.display());
    disk.detach().refused(5, &[&refused]);
    // Also if only another mount namespace has it mounted.
    let place = mounted.0.clone();
    let other =
        Command::new("unshare").args(["-m", "--propagation", "private", "sleep", "1000"]).spawn();
    let other = Running(other.expect("util-linux"));
    let list = format!("/proc/{}/mountinfo", other.0.id());
    let is_apart = || {
        std::fs::read_to_string(&list).is_ok_and(|text| text.contains(" - ext4 /dev/loop"))
            && std::fs::read_link(format!("/proc/{}/ns/mnt", other.0.id())).ok()
                != std::fs::read_link("/proc/self/ns/mnt").ok()
    };
    wait_until("it has a namespace of its own", is_apart);
    mounted.unmount();
    disk.detach().refused(5, &["in the mount namespace of process", "(sleep)", text(&place)]);
    drop(other);
    // Also if a program has it open.
    let open = File::open(&device).expect("root may");
    disk.detach().refused(5, &["is open in process", &std::process::id().to_string()]);
    drop(open);
    assert!(is_alive(disk.daemon()), "it serves all the time");
    disk.detach().well();
}
