//! The failed state (C8), as clients and operators see it, and the ways out of it.

use crate::common::{
    Server, have_libnbd, image, is_root, other_disk, place, python, run, wait_until,
};
use crate::mounted::plain;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const HELD: [&str; 8] =
    ["--memory", "32M", "--write", "back-now", "--dirty-age", "1000s", "--retry-time", "300ms"];

pub(crate) fn held(more: &[&'static str]) -> Vec<&'static str> {
    [&HELD[..], more].concat()
}

pub(crate) fn state(server: &Server) -> String {
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    rows["volumes"][0]["state"].as_str().expect("a word").to_owned()
}

/// Common beginning of every client. The backing's old contents are zeros.
const TOLD: &str = r#"
import nbd, sys
def error_of(command, *arguments):
    try: command(*arguments)
    except nbd.Error as error: return error.errno
h = nbd.NBD(); h.connect_uri(sys.argv[1])
def block(n): return bytes([n % 251 + 1]) * 65536
"#;

pub(crate) fn client(server: &Server, program: &str) {
    python(&format!("{TOLD}{program}"), &[&server.uri]).well();
}

pub(crate) const FAIL: &str = r#"
for n in range(16): h.pwrite(block(n), n * 131072)
assert error_of(h.flush) == "EIO"
assert error_of(h.pwrite, block(0), 0) == "EIO"
for n in range(16): assert h.pread(65536, n * 131072) == block(n)
"#;

/// Checks the rescue of [`FAIL`].
pub(crate) fn is_rescued(path: &Path) {
    let bytes = fs::read(path).expect("the rescued image");
    assert_eq!(bytes.len(), 16 << 20, "of the volume's size");
    for n in 0..16u8 {
        let at = usize::from(n) * 131072;
        assert!(bytes[at..at + 65536].iter().all(|&byte| byte == n + 1), "block {n}");
        assert!(bytes[at + 65536..at + 131072].iter().all(|&byte| byte == 0), "after {n}");
    }
    let map = fs::read_to_string(format!("{}.map", path.display())).expect("beside it");
    assert_eq!(map.lines().filter(|line| line.ends_with(" +")).count(), 16, "{map}");
}

#[test]
fn every_error_of_what_goes_straight_to_the_backing_is_counted_logged_and_shown() {
    if !have_libnbd() {
        return;
    }
    // Before the first flush, FUA, by the mode, and without a cache; small and large.
    for (write, options) in [
        ("h.pwrite(block(n), n * 65536)", &["--memory", "32M"][..]),
        ("h.pwrite(block(n) * 32, 0)", &["--memory", "32M", "--write", "back-now"]),
        ("h.pwrite(block(n), n * 65536, nbd.CMD_FLAG_FUA)", &["--memory", "32M"]),
        ("h.pwrite(block(n), n * 65536)", &["--memory", "32M", "--write", "through"]),
        ("h.pwrite(block(n), n * 65536)", &["--memory", "0"]),
    ] {
        let place = place();
        let faults = ["--faults", "write=3,count=6", "--guard", "off"];
        let server = Server::start(image(&place, 16), &[options, &faults].concat());
        let program = format!(
            "got = [error_of(lambda: {write}) for n in range(8)]\n\
             assert got == [None] * 2 + ['EIO'] * 6, got\n"
        );
        client(&server, &program);
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        let backing = &stats["backing"];
        assert_eq!(
            (&backing["errors"], &backing["errors_by_kind"]["writes"]),
            (&6.into(), &6.into())
        );
        let said = server.volume(&["stats"]).well().stdout;
        let verdict = said.lines().nth(1).expect("a name and a verdict").trim_start();
        let first = "The backing has failed 6 requests (6 writes)";
        assert!(verdict.starts_with(first), "{options:?}: {said}");
        let listed = server.volume(&["list", "--noheadings", "-o", "state,errors"]).well().stdout;
        assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["serving", "6"]);
        let ended = server.end().well();
        assert!(
            ended.stderr.contains("errors: ") && ended.stderr.contains("6 in all"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_is_dirty_can_be_given_up_and_the_volume_serves_again() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &held(&["--faults", "write=1"]));
    client(&server, FAIL);
    assert_eq!(state(&server), "failed");
    server.volume(&["flush"]).refused(6, &["disk"]);
    server.volume(&["clear-error", "--retry"]).refused(6, &["failed again"]);
    let cleared = server.volume(&["clear-error", "--discard-dirty", "--json"]);
    let cleared = cleared.json("overdrive.volume-cleared/1");
    assert_eq!(cleared["done"]["discarded_bytes"], 16 * 65536);
    assert_eq!(state(&server), "serving");
    client(
        &server,
        r#"
for n in range(16): assert h.pread(65536, n * 131072) == bytes(65536), "discarded and still read"
assert error_of(h.flush) is None
assert error_of(h.pwrite, block(1), 0) is None
"#,
    );
    let ended = server.end();
    assert_eq!(ended.status, 6, "the backing still fails: {}", ended.stderr);
}

#[test]
fn what_is_dirty_can_be_saved_to_a_file() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &held(&["--faults", "write=1"]));
    client(&server, FAIL);
    let aside = other_disk();
    let file = aside.path().join("rescued");
    let rescue = ["clear-error", "disk", "--rescue", plain(&file)];
    let said = server.volume(&rescue).well().stdout;
    assert!(said.contains("1 MiB saved") && said.contains("ddrescue"), "{said}");
    is_rescued(&file);
    // This changes nothing.
    assert_eq!(state(&server), "failed");
    client(&server, "for n in range(16): assert h.pread(65536, n * 131072) == block(n)");
    let give_up = [&rescue[..], &["--discard-dirty"]].concat();
    let said = server.volume(&give_up).well().stdout;
    assert!(said.contains("1 MiB saved") && said.contains("discarded"), "{said}");
    is_rescued(&file);
    assert_eq!(state(&server), "serving");
    client(&server, "for n in range(16): assert h.pread(65536, n * 131072) == bytes(65536)");
    // An existing file is not overwritten: the next failure needs another name.
    client(&server, &FAIL.replace("block(n)", "block(n + 1)"));
    for words in [&rescue[..], &give_up] {
        server.volume(words).refused(2, &["choose another name"]);
    }
    is_rescued(&file);
    assert_eq!(state(&server), "failed", "what could not be saved is not discarded");
    server.volume(&["clear-error", "--discard-dirty"]).well();
    server.end().well();
}

#[test]
fn what_an_orphaned_holder_keeps_can_be_saved_or_served_again() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    // A stop that cannot drain leaves an orphan, as a kill does.
    for stop in [true, false] {
        let server = Server::start(&image, &held(&["--faults", "write=1"]));
        client(&server, FAIL);
        let home = server.home.clone();
        match stop {
            true => {
                let ended = server.end();
                assert_eq!(ended.status, 6);
                assert!(ended.stderr.contains("stay retained"), "{}", ended.stderr);
            }
            false => drop(server.kill()),
        }
        // The kernel takes a moment to close the descriptors of a dead process's ring.
        let orphaned = || home.holders().iter().all(|holder| holder.owner_pid.is_none());
        wait_until("the holder is an orphan", orphaned);
        let rows = home.overdrive(&["volume", "list", "--json"]).json("overdrive.volumes/1");
        assert_eq!(rows["volumes"][0]["state"], "orphaned");
        assert_eq!(rows["volumes"][0]["dirty_bytes"], 16 * 65536);
        let retry = ["volume", "clear-error", "disk", "--retry"];
        home.overdrive(&retry).refused(3, &["no daemon serves it", "overdrive serve"]);
        if stop {
            let aside = other_disk();
            let file = aside.path().join("rescued");
            let rescue = ["volume", "clear-error", "disk", "--rescue", plain(&file)];
            let said = home.overdrive(&rescue).well().stdout;
            assert!(said.contains("still retained"), "{said}");
            is_rescued(&file);
            assert_eq!(home.holders().len(), 1, "saved, and kept");
            home.overdrive(&[&rescue[..], &["--discard-dirty"]].concat()).well();
            is_rescued(&file);
            assert_eq!(home.holders().len(), 0, "what was saved is discarded");
            continue;
        }
        // Served with a backing that works again: the state outlives the restart until an operator
        // ends it, and no data is lost.
        let server = Server::start_in(&home, &image, &HELD);
        client(&server, "for n in range(16): assert h.pread(65536, n * 131072) == block(n)");
        let says = server.stderr();
        assert!(
            says.contains("stay retained") && !says.contains("are being written back"),
            "{says}"
        );
        if state(&server) == "failed" {
            server.volume(&["clear-error", "--retry"]).well();
        }
        client(
            &server,
            "assert error_of(h.pwrite, block(0), 0) is None; assert error_of(h.flush) is None",
        );
        server.end().well();
        let bytes = fs::read(&image).expect("ours");
        for n in 0..16u8 {
            assert!(bytes[usize::from(n) * 131072..][..65536].iter().all(|&byte| byte == n + 1));
        }
    }
}

/// A small file system in memory, with an image on it.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new(mib: u32) -> SmallDisk {
        let disk = SmallDisk(tempfile::tempdir().expect("room"));
        let size = format!("size={mib}m");
        run("mount", &["-t", "tmpfs", "-o", &size, "none", plain(disk.0.path())]).well();
        disk
    }

    fn image(&self, mib: u64) -> PathBuf {
        image(&self.0, mib)
    }

    fn resize(&self, mib: u32) {
        let options = format!("remount,size={mib}m");
        run("mount", &["-o", &options, plain(self.0.path())]).well();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy", plain(self.0.path())]);
    }
}

#[test]
fn a_full_disk_fails_the_volume_through_a_kill_until_there_is_room_and_it_is_tried_again() {
    if !is_root() || !have_libnbd() {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let disk = SmallDisk::new(8);
    let image = disk.image(64);
    let options = ["--memory", "64M", "--write", "back-now", "--dirty-age", "1000s"];
    let options = [&options[..], &["--flush-target", "0", "--retry-time", "300ms"]].concat();
    let mut server = Server::start(&image, &options);
    client(
        &server,
        r#"
h.pwrite(block(0), 0)
assert error_of(h.flush) is None
for n in range(192): h.pwrite(block(n), n * 65536)
assert error_of(h.flush) == "ENOSPC"
"#,
    );
    assert_eq!(state(&server), "failed");
    server = server.reborn();
    client(
        &server,
        r#"
for n in range(192): assert h.pread(65536, n * 65536) == block(n), f"stretch {n}"
assert error_of(h.flush) is not None, "a restart made an error a success"
"#,
    );
    assert_eq!(state(&server), "failed");
    server.volume(&["clear-error", "--retry"]).refused(6, &["no space left", "failed again"]);
    disk.resize(64);
    let cleared = server.volume(&["clear-error", "--retry", "--json"]);
    assert!(cleared.json("overdrive.volume-cleared/1")["done"]["written_bytes"].as_u64() > Some(0));
    assert_eq!(state(&server), "serving");
    client(
        &server,
        "assert error_of(h.pwrite, block(9), 0) is None; assert error_of(h.flush) is None",
    );
    server.end().well();
    let bytes = fs::read(&image).expect("ours");
    for n in 1..192usize {
        let byte = (n % 251 + 1) as u8;
        assert!(bytes[n * 65536..][..65536].iter().all(|&found| found == byte), "stretch {n}");
    }
}
