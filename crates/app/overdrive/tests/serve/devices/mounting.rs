//! `overdrive mount` and `umount`: one step each.

use super::{Disk, have_devices, is_mounted, kernel_knows_tables, text};
use crate::common::run;
use std::fs;
use std::path::Path;

impl Disk {
    fn mount_in_one_step(&self, options: &[&str]) -> crate::common::Ended {
        let (image, directory) = (self.image.display().to_string(), self.directory());
        let fixed = ["mount", &image, text(&directory), "--name", &self.name, "--memory", "64M"];
        self.home.overdrive(&[&fixed, options].concat())
    }
}

#[test]
fn an_image_is_mounted_and_unmounted_in_one_step_each() {
    let Some(disk) = Disk::with_tools(64, &["mkfs.ext4"]) else { return };
    run("mkfs.ext4", &["-q", text(&disk.image)]).well();
    let stdout = disk.mount_in_one_step(&["-o", "noatime"]).well().stdout;
    let directory = disk.directory();
    assert_eq!(stdout.trim(), format!("/dev/overdrive/{} on {}", disk.name, directory.display()));
    fs::write(directory.join("file"), "there").expect("room");
    assert_eq!(disk.row()["mounted"], serde_json::json!([directory]));
    disk.home.overdrive(&["umount", text(&directory)]).well();
    assert!(!is_mounted(&directory));
    // Once more: the file is present.
    disk.mount_in_one_step(&["-t", "ext4"]).well();
    assert_eq!(fs::read_to_string(directory.join("file")).expect("there"), "there");
    disk.home.overdrive(&["umount", text(&directory)]).well();
    run("fsck.ext4", &["-fn", text(&disk.image)]).well();
}

#[test]
fn a_partition_can_be_mounted() {
    if !have_devices(&["mkfs.ext4", "sfdisk"]) {
        return;
    }
    if !kernel_knows_tables() {
        return println!("skipped: this kernel knows no table of partitions");
    }
    let disk = Disk::new(64);
    run("sh", &["-c", &format!("echo 'start=2048' | sfdisk -q {}", disk.image.display())]).well();
    let device = disk.attach();
    let node = fs::canonicalize(&device).expect("a link");
    run("mkfs.ext4", &["-q", &format!("{}p1", node.display())]).well();
    disk.detach().well();
    disk.mount_in_one_step(&["--partition", "1"]).well();
    fs::write(disk.directory().join("file"), "there").expect("room");
    disk.home.overdrive(&["umount", text(&disk.directory())]).well();
}

#[test]
fn what_cannot_be_mounted_is_detached_again() {
    let Some(disk) = Disk::with_tools(8, &[]) else { return };
    // There is no file system on it.
    let failed = disk.mount_in_one_step(&[]);
    assert_eq!(failed.status, 1, "{}{}", failed.stdout, failed.stderr);
    assert!(failed.stderr.contains("is not mounted"), "{}", failed.stderr);
    assert!(!Path::new("/dev/overdrive").join(&disk.name).is_symlink());
    let nowhere = disk.home.path().join("nowhere").display().to_string();
    let image = disk.image.display().to_string();
    disk.home.overdrive(&["mount", &image, &nowhere]).refused(2, &["is not a directory"]);
}
