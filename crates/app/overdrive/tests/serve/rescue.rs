//! `clear-error --rescue`: allowed targets, repetitions, and the remains of a failed attempt.

use crate::common::{Server, have, have_libnbd, image, is_root, other_disk, place, run};
use crate::failed::{FAIL, client, held, is_rescued, state};
use crate::home::Home;
use crate::mounted::plain;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Returns a failed volume, with 1 MiB dirty, in a directory with a directory for rescues.
fn failed(place: &tempfile::TempDir) -> Server {
    let server = Server::start(image(place, 16), &held(&["--faults", "write=1"]));
    client(&server, FAIL);
    server
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("ours").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().into_string().expect("plain")).collect();
    names.sort();
    names
}

#[test]
fn what_an_attempt_has_left_does_not_block_the_next() {
    if !have_libnbd() || !have(&["prlimit"]) {
        return;
    }
    let (place, aside) = (place(), other_disk());
    let server = failed(&place);
    let file = aside.path().join("saved");
    let rescue = ["clear-error", "--rescue", plain(&file)];
    // There is no space: no part of it stays.
    let variable = format!("XDG_RUNTIME_DIR={}", server.home.runtime().display());
    let limited = ["--fsize=65536", "env", &variable, crate::common::OVERDRIVE, "volume"];
    let limited = run("prlimit", &[&limited[..], &rescue].concat());
    limited.refused(6, &["saved", "cannot be written"]);
    assert_eq!(names(aside.path()), [""; 0]);
    // One was killed while it wrote.
    fs::write(aside.path().join("saved.partial"), "half").expect("room");
    fs::write(aside.path().join("saved.map.partial"), "half").expect("room");
    server.volume(&rescue).well();
    assert_eq!(names(aside.path()), ["saved", "saved.map"]);
    // One was killed before its last step.
    fs::remove_file(&file).expect("it is there");
    server.volume(&rescue).well();
    // Both files are complete.
    server.volume(&rescue).well();
    is_rescued(&file);
    assert_eq!(names(aside.path()), ["saved", "saved.map"]);
    // A map of another file is not accepted as this one's, nor is another file.
    let map = aside.path().join("saved.map");
    let text = fs::read_to_string(&map).expect("text");
    fs::write(&map, format!("{text}# by another hand\n")).expect("room");
    server.volume(&rescue).refused(2, &["choose another name"]);
    fs::write(&map, &text).expect("room");
    let saved = OpenOptions::new().write(true).open(&file).expect("ours");
    saved.write_all_at(b"x", 15 * 131072).expect("room");
    server.volume(&rescue).refused(2, &["choose another name"]);
    assert_eq!(state(&server), "failed");
    server.volume(&["clear-error", "--discard-dirty"]).well();
    server.end();
}

#[test]
fn a_rescue_is_not_saved_to_what_has_failed() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let server = failed(&place);
    let backing = place.path().join("disk.img");
    let link = place.path().join("link");
    fs::hard_link(&backing, &link).expect("the same file system");
    for name in [&backing, &link] {
        let rescue = ["clear-error", "--rescue", plain(name), "--discard-dirty"];
        server.volume(&rescue).refused(2, &["is the volume's backing", "another disk"]);
    }
    assert_eq!(state(&server), "failed");
    // Not next to it either: the disk has failed.
    let beside = place.path().join("saved");
    let beside = ["clear-error", "--rescue", plain(&beside), "--discard-dirty"];
    server.volume(&beside).refused(2, &["same disk", "another disk"]);
    assert_eq!(names(place.path()), ["disk.img", "link"]);
    // The same for an orphan, whose backing only its holder knows.
    let home = server.kill();
    home.overdrive(&[&["volume", "clear-error", "disk"], &beside[1..]].concat())
        .refused(2, &["same disk", "another disk"]);
    let rescue = ["volume", "clear-error", "disk", "--rescue", plain(&link)];
    home.overdrive(&rescue).refused(2, &["is the volume's backing"]);
    home.overdrive(&["volume", "clear-error", "disk", "--discard-dirty"]).well();
}

/// A file system in an image, mounted by a loop device.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: &Path) -> Mounted {
        fs::create_dir_all(at).expect("room");
        run("mount", &["-o", "loop", plain(image), plain(at)]).well();
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &["--lazy", plain(&self.0)]);
    }
}

#[test]
fn a_rescue_is_not_saved_to_a_file_system_on_what_has_failed() {
    if !is_root() || !have_libnbd() || !have(&["mkfs.ext4", "mount", "umount"]) {
        println!("skipped: mounting an image needs root");
        return;
    }
    let place = place();
    let backing = image(&place, 16);
    run("mkfs.ext4", &["-q", plain(&backing)]).well();
    // The failing part lies beyond the file system's own blocks: it stays consistent.
    let server = Server::start(&backing, &held(&["--faults", "write=1"]));
    client(&server, "h.pwrite(block(1), 8 << 20); assert error_of(h.flush) == 'EIO'");
    assert_eq!(state(&server), "failed");
    let outer = Mounted::new(&backing, &place.path().join("outer"));
    // Also in a file system in a file on it.
    let inner = outer.0.join("inner.img");
    fs::File::create(&inner).and_then(|file| file.set_len(4 << 20)).expect("sparse");
    run("mkfs.ext4", &["-q", plain(&inner)]).well();
    let inner = Mounted::new(&inner, &place.path().join("inner"));
    for directory in [&outer.0, &inner.0] {
        let file = directory.join("saved");
        let rescue = ["clear-error", "--rescue", plain(&file), "--discard-dirty"];
        server.volume(&rescue).refused(2, &["lies on the volume's backing", "another disk"]);
    }
    let aside = other_disk();
    let file = aside.path().join("saved");
    server.volume(&["clear-error", "--rescue", plain(&file), "--discard-dirty"]).well();
    server.end();
}

#[test]
fn a_rescue_right_after_a_failed_detach_waits_for_the_process_that_ends() {
    if !have_libnbd() {
        return;
    }
    let (place, aside) = (place(), other_disk());
    for attempt in 0..4 {
        let server = failed(&place);
        server.volume(&["detach"]).refused(6, &["stay retained"]);
        let file = aside.path().join(format!("saved-{attempt}"));
        let rescue = ["clear-error", "disk", "--rescue", plain(&file), "--discard-dirty"];
        server.volume(&rescue).well();
        is_rescued(&file);
        let home = server.home.clone();
        assert_eq!(server.wait().status, 6);
        assert_eq!(home.holders().len(), 0);
    }
}

#[test]
fn a_volume_whose_detach_failed_is_rescued_while_its_daemon_serves_others() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let backing = image(&place, 16);
    let home = Home::new();
    let config = place.path().join("two.toml");
    let text = format!(
        "nbd = 'unix:{}'\n[volume.disk]\nbacking = '{}'\nmemory = '32M'\nwrite = 'back-now'\n\
         dirty_age = '1000s'\nretry_time = '300ms'\nfaults = 'write=1'\n\
         [volume.other]\nbacking = 'ram:4M'\nmemory = 0\n",
        home.socket().display(),
        backing.display()
    );
    fs::write(&config, text).expect("room");
    let server = Server::run_in(&home, home.command(&["serve", "--config", plain(&config)]));
    client(&server, FAIL);
    server.volume(&["detach", "disk"]).refused(6, &["stay retained"]);
    let aside = other_disk();
    let file = aside.path().join("saved");
    let rescue = ["clear-error", "disk", "--rescue", plain(&file), "--discard-dirty"];
    server.volume(&rescue).well();
    is_rescued(&file);
    server.volume(&["flush", "other"]).well();
    assert_eq!(server.end().status, 6, "the detach has failed");
}

/// Returns the end of a volume of [`failed`] after its operator has ended the failure in this way.
fn ended_after(clear: &[&str], detach: &[&str]) -> (String, String) {
    let place = place();
    let server = failed(&place);
    server.volume(&[&["clear-error"], clear].concat()).well();
    let stats = server.volume(&["stats"]).well().stdout;
    assert!(stats.contains("1 MiB of acknowledged writes was discarded"), "{stats}");
    let detached = server.volume(detach).well().stdout;
    (detached, server.wait().well().stderr)
}

#[test]
fn what_was_given_up_is_said_at_the_end_and_where_it_is_saved() {
    if !have_libnbd() {
        return;
    }
    let aside = other_disk();
    let file = aside.path().join("saved");
    let clear = ["--rescue", plain(&file), "--discard-dirty"];
    let (detached, log) = ended_after(&clear, &["detach"]);
    let given_up =
        format!("1 MiB of acknowledged writes was discarded, and is saved in {}", plain(&file));
    assert!(detached.contains(&given_up), "{detached}");
    assert!(log.contains(&format!("{given_up}; every other write acknowledged")), "{log}");
    // Discarded, and not saved.
    let (detached, log) = ended_after(&["--discard-dirty"], &["detach", "--json"]);
    let detached: serde_json::Value = serde_json::from_str(&detached).expect("JSON");
    let losses = &detached["losses"];
    assert_eq!(losses["given_up"][0]["bytes"], 1 << 20, "{detached}");
    assert!(
        losses["given_up"][0]["saved_to"].is_null() && losses["unflushed"] == false,
        "{losses}"
    );
    assert!(log.contains("was discarded; every other write acknowledged"), "{log}");
}

#[test]
fn a_failed_flush_is_said_of_writes_that_went_straight_to_the_backing() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let options = ["--memory", "8M", "--write", "through", "--retry-time", "300ms"];
    let faults = ["--faults", "flush=2,count=1"];
    let server = Server::start(image(&place, 16), &[&options[..], &faults].concat());
    client(
        &server,
        "h.pwrite(block(1), 0); h.flush(); h.pwrite(block(2), 0); assert error_of(h.flush) == 'EIO'",
    );
    assert_eq!(state(&server), "failed");
    let cleared = server.volume(&["clear-error", "--retry"]).well().stdout;
    assert!(cleared.contains("may be missing"), "{cleared}");
    let detached = server.volume(&["detach"]).well().stdout;
    assert!(detached.contains("a flush of the backing has failed"), "{detached}");
    let log = server.wait().well().stderr;
    assert!(log.contains("may be missing; every other write acknowledged"), "{log}");
}
