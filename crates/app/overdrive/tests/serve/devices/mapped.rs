//! A suite on the files of an attached volume reports what the volume's map shows.

use super::{Disk, MIB, text};
use crate::common::{run, wait_until};
use std::fs;

#[test]
fn a_suite_on_files_reports_the_classes_of_the_cached_blocks() {
    let Some(disk) = Disk::with_tools(32, &["mkfs.ext4", "mount"]) else { return };
    let contents = disk.home.path().join("contents");
    fs::create_dir(&contents).expect("room");
    fs::write(contents.join("box.mbox"), vec![7; 2 * MIB as usize]).expect("room");
    run("mkfs.ext4", &["-q", "-F", "-d", text(&contents), text(&disk.image)]).well();
    let device = disk.attach_with(&["--files", "auto", "--guard", "off"]);
    wait_until("the files are mapped", || {
        let shown = disk.home.overdrive(&["volume", "show", "--json"]);
        shown.json("overdrive.volume/1")["files"]["files"] == 1
    });
    let mounted = disk.mount(&device);
    let arguments = ["bench", "loadtime", text(&mounted.0), "--json", "--no-history"];
    let outcome = disk.home.overdrive(&arguments).well().stdout;
    let name = format!("The files lie on the volume {}, whose cache uses a map", disk.name);
    assert!(outcome.contains(&name), "{outcome}");
    assert!(outcome.contains("databases 2 MiB, "), "{outcome}");
    drop(mounted);
    disk.detach().well();
}
