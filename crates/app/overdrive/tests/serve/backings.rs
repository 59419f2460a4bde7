//! Backings that are missing, wrong, in use, full, or changed while they are served.

use crate::common::{
    OVERDRIVE, Server, captive, have, have_libnbd, have_mounts, image, is_root, no_mounts, pause,
    place, python, run, serve,
};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::Duration;

#[test]
fn what_cannot_be_served_is_refused_with_its_reason() {
    let place = place();
    let file = |name: &str, bytes: u64| {
        let path = place.path().join(name);
        File::create(&path).expect("room").set_len(bytes).expect("sparse");
        path
    };
    let missing = place.path().join("missing.img");
    for (path, status, words) in [
        (missing.clone(), 1, &["missing.img: no such file", "truncate"][..]),
        (file("empty.img", 0), 2, &["empty.img: holds 0 bytes", "truncate"]),
        (file("small.img", 300), 2, &["small.img: holds 300 bytes"]),
        (file("odd.img", 5000), 2, &["odd.img", "not a multiple of 512", "truncate -s %512"]),
        (place.path().to_owned(), 2, &["is a directory"]),
        ("/dev/null".into(), 2, &["/dev/null: is a character device"]),
        (file("disk.img", 4096).join("below"), 1, &["no such file"]),
    ] {
        let options = ["-q", "--run", "exit 99"];
        serve(&path, &options).refused(status, words);
    }
    assert!(!missing.exists(), "nothing is made by a mistake");
}

#[test]
fn a_file_without_permission_is_refused() {
    if is_root() {
        println!("skipped: root may open everything");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    let image = image(&place, 1);
    fs::set_permissions(&image, fs::Permissions::from_mode(0o444)).expect("ours");
    serve(&image, &["--run", "exit 99"]).refused(4, &["permission denied", "--read-only"]);
    captive(&image, &["--read-only"], "true").well();
}

/// Returns a server whose image lies on a separate file system, visible only to the server, which
/// disappears with it.
fn mounted(options: &str, prepare: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("set -e; mount -t tmpfs -o {options} none /mnt; {prepare}; exec \"$@\"");
    command.args(["-rm", "sh", "-c", &script, "sh", OVERDRIVE, "serve", "/mnt/disk.img"]);
    command.args(arguments);
    command
}

#[test]
fn a_read_only_file_system_is_refused_unless_that_is_asked_for() {
    if !have_mounts() {
        return;
    }
    let _alone = no_mounts();
    let prepare = "truncate -s 1M /mnt/disk.img; mount -o remount,ro /mnt";
    let run = |more: &[&str]| -> crate::common::Ended {
        let arguments = [&["-q", "--run", "exit 99"], more].concat();
        let output = mounted("size=2m", prepare, &arguments).output();
        output.expect("unshare is there").into()
    };
    run(&[]).refused(4, &["is read-only here", "--read-only"]);
    assert_eq!(run(&["--read-only"]).status, 99);
}

const FULL: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
def error_of(command, *arguments):
    try: command(*arguments)
    except nbd.Error as error: return error.errno
h.pwrite(b"0" * 4096, 0)
h.flush()
block = lambda n: bytes([n % 251]) * 65536
for n in range(192): h.pwrite(block(n), n * 65536)
assert error_of(h.flush) == "ENOSPC", "12 MiB flushed into 8 MiB"
for n in range(192):
    assert h.pread(65536, n * 65536) == block(n), f"stretch {n} is not what was written"
assert error_of(h.pwrite, b"x" * 4096, 0) is not None, "a volume that has failed takes writes"
assert h.pread(4096, 0) == block(0)[:4096]
"#;

#[test]
fn a_full_disk_under_a_sparse_image_fails_the_flush_and_loses_nothing() {
    if !have_mounts() || !have_libnbd() {
        return;
    }
    let _alone = no_mounts();
    let options = [
        "--memory",
        "64M",
        "--write",
        "back-now",
        "--dirty-age",
        "1000s",
        "--flush-target",
        "0",
        "--retry-time",
        "500ms",
    ];
    let server = Server::spawn(mounted("size=8m", "truncate -s 64M /mnt/disk.img", &options));
    python(FULL, &[&server.uri]).well();
    let ended = server.end();
    assert_eq!(ended.status, 6, "{}", ended.stderr);
    assert!(ended.stderr.contains("no space left"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("of acknowledged writes are not on the backing"),
        "{}",
        ended.stderr
    );
}

/// As above, but space is freed within `--retry-time`: the flush then succeeds.
#[test]
fn a_full_disk_that_gets_room_in_time_is_healed() {
    if !have_mounts() || !have_libnbd() {
        return;
    }
    let _alone = no_mounts();
    let options = ["--memory", "64M", "--write", "back-now", "--dirty-age", "1000s"];
    // The helper frees space, next to the server, while the flush is being retried.
    let prepare = "truncate -s 64M /mnt/disk.img; \
                   (sleep 3; mount -o remount,size=32m /mnt) </dev/null >/dev/null 2>&1 & true";
    let command = mounted("size=8m", prepare, &options);
    let server = Server::spawn(command);
    let program = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for n in range(192): h.pwrite(bytes([n]) * 65536, n * 65536)
h.flush()
for n in range(192): assert h.pread(65536, n * 65536) == bytes([n]) * 65536
"#;
    python(program, &[&server.uri]).well();
    server.end().well();
}

const SHRUNK: &str = r#"
import nbd, os, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
def error_of(command, *arguments):
    try: command(*arguments)
    except nbd.Error as error: return error.errno
h.pwrite(b"A" * 4096, 0)
h.flush()
assert h.pread(4096, 12 << 20) == bytes(4096)
os.truncate(sys.argv[2], 8 << 20)
assert h.pread(4096, 0) == b"A" * 4096
assert error_of(h.pread, 4096, 10 << 20) == "EIO", "data was read that is not there"
assert error_of(h.pread, 1 << 20, (8 << 20) - 4096) == "EIO", "a read across the end"
assert h.pread(4096, 4 << 20) == bytes(4096), "what is still there is served"
"#;

#[test]
fn a_backing_that_shrinks_is_reported_to_clients_and_to_the_operator() {
    if !have_libnbd() {
        return;
    }
    for memory in ["0", "4M"] {
        let place = place();
        let image = image(&place, 16);
        let server = Server::start(&image, &["--memory", memory]);
        python(SHRUNK, &[&server.uri, image.to_str().expect("plain")]).well();
        server.says("the backing has returned errors: ");
        let ended = server.end();
        assert_eq!(ended.status, 6, "{}", ended.stderr);
        assert!(ended.stderr.contains("has shrunk"), "{}", ended.stderr);
    }
}

/// A loop device, detached with the test.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn attach(image: &std::path::Path) -> Option<Loop> {
        if !is_root() || !have(&["losetup"]) {
            println!("skipped: loop devices need root");
            return None;
        }
        let image = image.to_str().expect("plain");
        let made = run("losetup", &["--find", "--show", image]);
        if made.status != 0 {
            println!("skipped: no loop device: {}", made.stderr);
            return None;
        }
        Some(Loop(made.stdout.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.0]);
        // While another program has it open, it stays until that closes it.
        let file = format!("/sys/block/{}/loop/backing_file", self.0.trim_start_matches("/dev/"));
        let is_attached = || std::path::Path::new(&file).exists();
        for _ in (0..500).take_while(|_| is_attached()) {
            pause(Duration::from_millis(10));
        }
    }
}

#[test]
fn an_image_behind_a_loop_device_and_a_mounted_device_are_refused() {
    let place = place();
    let image = image(&place, 16);
    let Some(device) = Loop::attach(&image) else {
        return;
    };
    let options = ["-q", "--run", "exit 99"];
    serve(&image, &options).refused(5, &["disk.img: is attached to /dev/loop"]);
    captive(&device.0, &["-q", "--memory", "4M"], "true").well();
    if !have(&["mkfs.ext4"]) {
        return;
    }
    run("mkfs.ext4", &["-q", &device.0]).well();
    let mount = place.path().join("mount");
    fs::create_dir(&mount).expect("room");
    let mount = mount.to_str().expect("plain");
    if run("mount", &[&device.0, mount]).status != 0 {
        println!("skipped: no mounts here");
        return;
    }
    let refused = serve(&device.0, &options);
    run("umount", &[mount]).well();
    refused.refused(5, &[&format!("{}: is mounted at", device.0)]);
}

#[test]
fn image_formats_are_refused_with_the_line_that_works_and_raw_serves_them() {
    if !have(&["qemu-img", "nbdinfo"]) {
        return;
    }
    for (format, name) in
        [("qcow2", "qcow2"), ("vmdk", "VMDK"), ("vhdx", "VHDX"), ("vdi", "VDI"), ("vpc", "VHD")]
    {
        let place = place();
        let path = place.path().join("disk.image");
        let image = path.to_str().expect("plain");
        run("qemu-img", &["create", "-q", "-f", format, image, "8M"]).well();
        let before = fs::read(&path).expect("just made");
        serve(image, &["-q", "--run", "exit 99"])
            .refused(2, &[name, "not a raw disk", "qemu-storage-daemon", "--raw"]);
        assert!(fs::read(&path).expect("ours") == before, "no setting was changed");
        let size = format!("test $(nbdinfo --size \"$uri\") = {}", before.len());
        if before.len().is_multiple_of(512) {
            captive(image, &["--raw", "--memory", "4M"], &size).well();
        }
        assert!(fs::read(&path).expect("ours") == before, "no setting was changed");
    }
}

#[test]
fn file_systems_of_clusters_are_refused_unless_this_is_the_only_host() {
    let place = place();
    let path = image(&place, 16);
    let file = path.to_str().expect("plain");
    let opened = fs::File::options().write(true).open(&path).expect("ours");
    // Data that a client had written before the daemon was killed still reaches the backing.
    let server =
        Server::start(&path, &["--memory", "4M", "--write", "back-now", "--dirty-age", "600s"]);
    let write = format!("h.connect_uri('{}'); h.pwrite(b'OCFSV2', 0x800)", server.uri);
    python(&format!("import nbd; h = nbd.NBD(); {write}"), &[]).well();
    let home = server.kill();
    opened.write_all_at(b"OCFSV2", 0x1000).expect("room");
    let server = Server::start_in(&home, &path, &["--memory", "4M"]);
    assert!(server.stderr().contains("OCFS2 on it"), "{}", server.stderr());
    server.end().well();
    serve(file, &["-q", "--run", "exit 99"]).refused(2, &["OCFS2", "only host", "--raw"]);
    captive(file, &["--raw", "--memory", "4M"], "true").well();
}

#[test]
fn more_memory_than_the_machine_has_is_refused() {
    for (backing, memory) in [("null:1T", "1T"), ("null:4000T", "60000T"), ("ram:4T", "1M")] {
        let options = ["-q", "--memory", memory, "--run", "exit 99"];
        serve(backing, &options).refused(2, &["MiB", "available", "request less"]);
    }
}
