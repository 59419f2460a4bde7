//! Devices that cannot be attached or detached, and the messages.

use super::{Disk, have_devices, text};
use crate::common::{is_root, run};
use crate::home::Home;

#[test]
fn a_name_or_an_image_is_attached_once() {
    if !have_devices(&[]) {
        return;
    }
    let (disk, other) = (Disk::new(8), Disk::among_namespaces(8));
    disk.attach();
    let before = disk.log();
    disk.try_attach(&[]).refused(5, &["is already served by process"]);
    assert!(!before.is_empty() && disk.log() == before, "the log of the daemon that serves");
    // Another image by that name, by another user's daemon: the name belongs to the machine.
    let image = other.image.display().to_string();
    let taken = other.home.overdrive(&["attach", &image, "--name", &disk.name]);
    let said = taken.refused(5, &["is a device of", "choose another name"]).stderr;
    assert!(said.lines().any(|line| line.starts_with("overdrive: /dev/overdrive/")), "{said}");
    let left = other.home.overdrive(&["volume", "list", "-n"]).well().stdout;
    assert_eq!(left, "", "nothing is left of it");
    for name in ["a/b", "..", ".hidden"] {
        let refused = disk.home.overdrive(&["attach", &image, "--name", name]);
        refused.refused(2, &["another name"]);
    }
    disk.detach().well();
}

#[test]
fn what_cannot_be_attached_leaves_nothing() {
    let Some(disk) = Disk::with_tools(8, &[]) else { return };
    let missing = disk.home.overdrive(&["attach", "/no/such/image", "--name", &disk.name]);
    missing.refused(1, &["/no/such/image"]);
    disk.home.overdrive(&["detach", &disk.name]).refused(1, &["is not a device"]);
    disk.home.overdrive(&["detach", &disk.name, "--force"]).refused(1, &["is not a device"]);
    disk.home.overdrive(&["umount", text(disk.home.path())]).refused(1, &["use umount"]);
}

#[test]
fn only_root_attaches() {
    if !is_root() || !crate::common::have(&["setpriv"]) {
        return println!("skipped: not root");
    }
    let program = crate::common::OVERDRIVE;
    // If other users cannot even enter the build's directory, they cannot try.
    let tried = run("setpriv", &["--reuid=65534", "--clear-groups", program, "--version"]);
    if tried.status != 0 {
        return println!("skipped: the program is not to be reached by others");
    }
    let refused =
        run("setpriv", &["--reuid=65534", "--clear-groups", program, "attach", "/etc/hostname"]);
    refused.refused(4, &["only root", "sudo"]);
}

#[test]
fn a_failed_attach_says_why_in_one_line_and_changes_no_file() {
    if !is_root() {
        println!("skipped: needs root");
        return;
    }
    let home = Home::new();
    let file = |name: &str, bytes: &[u8]| {
        let path = home.path().join(name);
        std::fs::write(&path, bytes).expect("room");
        text(&path).to_owned()
    };
    let missing = text(&home.path().join("nope.img")).to_owned();
    let notes = file("host.toml", b"a = 1\n");
    let odd = file("odd.txt", &[7; 1000]);
    let qcow2 = file("disk.qcow2", &[b"QFI\xfb\0\0\0\x03".to_vec(), vec![0; 4088]].concat());
    for (backing, status, says) in [
        (&missing, 1, "no such file"),
        (&notes, 2, "too small for an image"),
        (&odd, 2, "pad a copy"),
        (&qcow2, 2, "is a qcow2 image"),
        (&"null:100".to_owned(), 2, "multiple of 512"),
        (&"model:850pro".to_owned(), 2, "did you mean samsung-850-pro-128"),
    ] {
        let attached = home.overdrive(&["attach", backing]);
        let said = &attached.stderr;
        assert_eq!((attached.status, said.lines().count()), (status, 1), "{backing}: {said}");
        assert!(said.contains(says) && !said.contains("--fuse"), "{backing}: {said}");
        let advice = format!("truncate -s 10G {backing}");
        assert!(!said.contains(&advice) || backing == &missing, "{backing}: {said}");
    }
    assert_eq!(std::fs::read(&notes).expect("it is there"), b"a = 1\n");
}
