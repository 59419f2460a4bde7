//! The map of a volume's files: made by a process of the daemon, shown by class and by file, and
//! made again when the volume or the rules have changed.

use crate::common::{Server, have, image, place, run, wait_until};
use crate::home::Home;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// Makes an image with an ext4 file system that has these files.
fn make(place: &TempDir, files: &[(&str, usize)]) -> PathBuf {
    let contents = place.path().join("contents");
    let _ = fs::remove_dir_all(&contents);
    for (number, (path, bytes)) in files.iter().enumerate() {
        let path = contents.join(path);
        fs::create_dir_all(path.parent().expect("a name")).expect("room");
        fs::write(path, vec![number as u8 + 1; *bytes]).expect("room");
    }
    let path = image(place, 48);
    let options = ["-q", "-F", "-b", "4096", "-d", contents.to_str().expect("text")];
    run("mkfs.ext4", &[&options[..], &[path.to_str().expect("text")]].concat()).well();
    path
}

fn serve(home: &Arc<Home>, image: &Path, options: &[&str]) -> Server {
    let usual = ["--memory", "64M", "--files", "auto", "--guard", "off", "--dirty-age", "1h"];
    Server::start_in(home, image, &[&usual[..], options].concat())
}

/// Waits until the daemon has a map of this number of files.
fn wait_for_files(server: &Server, files: u64) {
    wait_until("the files are mapped", || {
        let shown = server.volume(&["show", "--json"]).json("overdrive.volume/1");
        shown["files"]["files"] == files
    });
}

fn map(server: &Server) -> Value {
    server.volume(&["map", "--json"]).json("overdrive.map/1")
}

/// Returns the element of a list whose field `key` has this value.
fn find<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let all = list.as_array().expect("a list");
    let found = all.iter().find(|one| one[key] == value);
    found.unwrap_or_else(|| panic!("no {key} {value} in {list}"))
}

const FILES: [(&str, usize); 4] = [
    ("mail/box.mbox", 2 * MIB),
    ("films/a.mp4", 12 * MIB),
    ("films/b.bin", MIB),
    ("readme.txt", 100),
];

#[test]
fn the_files_in_the_cache_are_shown_by_class_directory_and_name() {
    if !have(&["mkfs.ext4", "nbdcopy"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let path = make(&place, &FILES);
    let server = serve(&home, &path, &["--rules", "*.mp4=big-media,/films=archives"]);
    wait_for_files(&server, 4);
    let empty = map(&server);
    assert_eq!((&empty["files"], &empty["followed"]), (&Value::Array(Vec::new()), &true.into()));
    let class = |class: &str| find(&empty["classes"], "class", class)["bytes"].clone();
    // The directory counts before the ending.
    assert_eq!((class("databases"), class("archives")), ((2 * MIB).into(), (13 * MIB).into()));
    let before = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    assert_eq!(before["counters"]["blocks_held"], 0, "the map leaves no trace");

    run("nbdcopy", &[&server.uri, "null:"]).well();
    let full = map(&server);
    for (path, bytes) in [("/mail/box.mbox", 2 * MIB), ("/readme.txt", 4096)] {
        let file = find(&full["files"], "path", path);
        assert_eq!((&file["bytes"], &file["cached_bytes"]), (&bytes.into(), &bytes.into()));
        assert_eq!(file["uncached_bytes"], 0);
    }
    assert_eq!(find(&full["files"], "path", "/mail/box.mbox")["class"], "databases");
    let mail = find(&full["directories"], "path", "/mail");
    assert!(mail["cached_bytes"].as_u64() >= Some(2 << 20), "{mail}");
    let metadata = find(&full["classes"], "class", "metadata");
    assert!(metadata["misses"].as_u64() > Some(0), "{metadata}");
    let page = place.path().join("page.html");
    let text = server.volume(&["map", "--report", page.to_str().expect("text")]).well().stdout;
    let mode = fs::metadata(&page).expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "names of files are private");
    let page = fs::read_to_string(&page).expect("ours");
    assert!(page.contains("title=\"/mail/box.mbox: 2 MiB of 2 MiB in the cache, databases\""));
    for words in ["4 files in 4 directories (ext4)", "/mail/box.mbox", "databases"] {
        assert!(text.contains(words), "no '{words}' in {text}");
    }
}

#[test]
fn a_volume_that_is_formatted_again_has_another_map() {
    if !have(&["mkfs.ext4", "nbdcopy"]) {
        return;
    }
    let (home, place, other) = (Home::new(), place(), place());
    let server = serve(&home, &make(&place, &FILES), &[]);
    wait_for_files(&server, 4);
    let new = make(&other, &[("only.pdf", 300_000)]);
    run("nbdcopy", &[new.to_str().expect("text"), &server.uri]).well();
    // Data that is only in the cache counts.
    let changed = map(&server);
    let file = find(&changed["files"], "path", "/only.pdf");
    assert_eq!(file["cached_bytes"], 303_104);
    // The daemon's own map is due, because the rules have changed.
    server.volume(&["set", "rules=documents=4"]).well();
    wait_for_files(&server, 1);
    server.volume(&["set", "rules=films=4"]).refused(2, &["'films' is no class of files"]);
    server.volume(&["set", "files=off"]).well();
    wait_until("the cache has no map", || {
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        stats["files"].is_null()
    });
}

#[test]
fn classes_are_saved_and_a_damaged_list_is_named() {
    if !have(&["mkfs.ext4"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let path = make(&place, &FILES);
    let saved = || {
        let entries = fs::read_dir(home.state().join("overdrive/hot")).into_iter().flatten();
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|suffix| suffix == "classes"))
    };
    let server = serve(&home, &path, &[]);
    wait_until("the classes are saved", || saved().is_some());
    assert_eq!(server.end().status, 0);
    let list = saved().expect("it was there");
    let mut bytes = fs::read(&list).expect("ours");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&list, bytes).expect("ours");
    let server = serve(&home, &path, &[]);
    wait_for_files(&server, 4);
    let messages = server.stderr();
    assert!(messages.contains("list of the classes of blocks"), "{messages}");
    assert!(messages.contains("is damaged; there are no hints until"), "{messages}");
}

#[test]
fn contents_that_no_reader_knows_are_unknown() {
    let (home, place) = (Home::new(), place());
    let path = image(&place, 8);
    fs::write(&path, vec![7; 8 * MIB]).expect("room");
    let server = serve(&home, &path, &["--raw"]);
    wait_for_files(&server, 0);
    let map = map(&server);
    assert_eq!(map["map"]["systems"][0]["kind"], "unknown");
    let classes = map["classes"].as_array().expect("a list");
    assert_eq!((classes.len(), &classes[0]["class"]), (1, &"unknown".into()));
    assert_eq!(classes[0]["bytes"], 8 * MIB);
    let text = server.volume(&["map"]).well().stdout;
    let words = "No file system that can be read was found, only: unknown.";
    assert!(text.contains(words), "{text}");
}

#[test]
fn a_volume_without_a_cache_has_a_map_that_says_so() {
    if !have(&["mkfs.ext4"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let server = Server::start_in(&home, make(&place, &FILES), &["--memory", "0"]);
    let text = server.volume(&["map"]).well().stdout;
    assert!(text.contains("has no cache (memory 0), so nothing of it is in memory"), "{text}");
    assert!(text.contains("4 files in 4 directories (ext4)."), "{text}");
    let map = map(&server);
    assert_eq!((&map["files"], &map["memory_bytes"]), (&Value::Array(Vec::new()), &0.into()));
    assert_eq!(map["classes"][0]["cached_bytes"], 0);
}
