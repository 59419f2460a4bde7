//! Suites that only read their target.

use crate::common::{json_and_errors, run, target};
use std::path::Path;
use std::process::Command;

/// Makes a file without zero bytes.
fn full(path: &Path, mib: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..mib << 20).map(|at| (at / 512 % 251) as u8 + 1).collect();
    std::fs::write(path, &bytes).expect("room");
    bytes
}

/// A loop device over a file, mounted, until it is dropped.
struct Disk {
    node: String,
    directory: std::path::PathBuf,
}

impl Disk {
    fn mount(home: &Path) -> Disk {
        let (image, directory) = (home.join("mounted.img"), home.join("mounted"));
        std::fs::File::create(&image).and_then(|it| it.set_len(64 << 20)).expect("room");
        std::fs::create_dir(&directory).expect("room");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().expect("it is there");
            assert!(output.status.success(), "{program}: {output:?}");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        run("mkfs.ext4", &["-q", image.to_str().expect("plain")]);
        let node = run("losetup", &["--find", "--show", image.to_str().expect("plain")]);
        let disk = Disk { node, directory };
        run("mount", &[&disk.node, disk.directory.to_str().expect("plain")]);
        disk
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.directory).status();
        let _ = Command::new("losetup").args(["--detach", &self.node]).status();
    }
}

/// A mounted device is measured only by reads, as hdparm does.
#[test]
fn a_mounted_device_is_only_read_and_that_is_said() {
    let may = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    if !may {
        println!("skipped: not root, or no loop devices");
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let disk = Disk::mount(home.path());
    let directory = disk.directory.to_str().expect("plain");
    for arguments in [&["qd1", &disk.node, "--read-only"][..], &["hdtune", &disk.node]] {
        let output = run(home.path(), &[arguments, &["--time", "20ms", "--json"]].concat());
        let (object, errors) = json_and_errors(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        let users = object["facts"]["in_use"].as_str().expect("a fact");
        assert!(users.ends_with(&format!("is mounted at {directory}")), "{users}");
        assert!(errors.contains("the results include the load of other users"), "{errors}");
        assert!(object["method"].to_string().contains("the load of other users"), "{object}");
    }
    let output = run(home.path(), &["qd1", &disk.node, "--destroy", "--time", "20ms"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    assert!(errors.contains("is mounted at"), "{errors}");
}

#[test]
fn reads_alone_leave_a_target_as_it_is() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("disk.img");
    let bytes = full(&file, 64);
    // Root can write even a file that it may only read: the time of the last change shows that
    // nothing was written.
    let changed = || std::fs::metadata(&file).and_then(|it| it.modified()).expect("it is there");
    let before = changed();
    let path = file.to_str().expect("plain");
    let tests = |arguments: &[&str]| {
        let output = run(home.path(), &[arguments, &["--time", "20ms", "--json"]].concat());
        let (object, errors) = json_and_errors(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        assert_eq!(object["read_only"], true, "{arguments:?}");
        let rows = object["rows"].as_array().expect("a list").iter();
        rows.map(|row| row["test"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    // Suites of these names only read unless they may write.
    for arguments in [
        &["qd1", path, "--read-only"][..],
        &["cdm", path],
        &["hdtune", path],
        &["custom", path, "--reads", "100"],
        &["cdm", path, "--read-only", "--cache", "16M", "--prepare", "idle:0s"],
    ] {
        let names = tests(arguments);
        assert!(!names.is_empty() && names.iter().all(|name| !name.contains("write")), "{names:?}");
    }
    assert!(tests(&["as-ssd", path]).contains(&"Score read".to_owned()), "a score of reads alone");
    assert_eq!(std::fs::read(&file).expect("it is there"), bytes);
    assert_eq!(changed(), before, "it was opened for reading");
    let qcow2 = home.path().join("disk.qcow2");
    let header = [b"QFI\xfb\0\0\0\x03".to_vec(), vec![0; 4088]].concat();
    std::fs::write(&qcow2, header).expect("room");
    let qcow2 = qcow2.to_str().expect("plain");
    for (arguments, says) in [
        (vec!["consistency", path, "--read-only"], "consistency writes; choose one of corners"),
        (vec!["qd1", path, "--read-only", "--prepare", "fill"], "--prepare: writes to the target"),
        (vec!["custom", path, "--read-only", "--reads", "70"], "--reads 100"),
        (vec!["qd1", path, "--read-only", "--destroy"], "cannot be used with"),
        (vec!["qd1", &target(), "--read-only"], "a modelled drive is new"),
        (vec!["filebench", home.path().to_str().expect("plain"), "--read-only"], "--read-only"),
        (vec!["qd1", path], "or --read-only for reads only"),
        (
            vec!["qd1", qcow2, "--destroy"],
            "is a qcow2 image, not a raw disk; its bytes are not those",
        ),
        (vec!["hdtune", qcow2], "is a qcow2 image"),
    ] {
        let output = run(home.path(), &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(says), "{arguments:?}: {errors}");
    }
    assert_eq!(std::fs::read(&file).expect("it is there"), bytes);
}
