//! `clear-error --rescue`: where it may save to, how often, and what a failed attempt leaves.

use crate::common::{Server, have, have_libnbd, image, is_root, place, run};
use crate::failed::{FAIL, client, held, is_rescued, state};
use crate::home::Home;
use crate::mounted::plain;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A volume that has failed, with 1 MiB dirty, in a place with a place for rescues.
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
    let (place, aside) = (place(), place());
    let server = failed(&place);
    let file = aside.path().join("saved");
    let rescue = ["clear-error", "--rescue", plain(&file)];
    // It has no room: nothing stays of it.
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
    // All is there.
    server.volume(&rescue).well();
    is_rescued(&file);
    assert_eq!(names(aside.path()), ["saved", "saved.map"]);
    // A map of something else is not taken for this one's, nor is another file.
    let map = aside.path().join("saved.map");
    let text = fs::read_to_string(&map).expect("text");
    fs::write(&map, format!("{text}# by another hand\n")).expect("room");
    server.volume(&rescue).refused(2, &["choose a name that is free"]);
    fs::write(&map, &text).expect("room");
    let saved = OpenOptions::new().write(true).open(&file).expect("ours");
    saved.write_all_at(b"x", 15 * 131072).expect("room");
    server.volume(&rescue).refused(2, &["choose a name that is free"]);
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
    // The same of an orphan, of which only its holder knows what its backing is.
    let home = server.kill();
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
    // What fails is only seen beyond the file system's own blocks: it stays whole.
    let server = Server::start(&backing, &held(&["--faults", "write=1"]));
    client(&server, "h.pwrite(block(1), 8 << 20); assert told(h.flush) == 'EIO'");
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
    // Beside it is not on it.
    let file = place.path().join("saved");
    server.volume(&["clear-error", "--rescue", plain(&file), "--discard-dirty"]).well();
    server.end();
}

#[test]
fn a_rescue_right_after_a_failed_detach_waits_for_the_process_that_ends() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    for attempt in 0..4 {
        let server = failed(&place);
        server.volume(&["detach"]).refused(6, &["they stay kept"]);
        let file = place.path().join(format!("saved-{attempt}"));
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
    server.volume(&["detach", "disk"]).refused(6, &["they stay kept"]);
    let file = place.path().join("saved");
    let rescue = ["clear-error", "disk", "--rescue", plain(&file), "--discard-dirty"];
    server.volume(&rescue).well();
    is_rescued(&file);
    server.volume(&["flush", "other"]).well();
    assert_eq!(server.end().status, 6, "the detach has failed");
}
