//! The map of a volume's files: made by a process of the daemon, shown by class and by file, and
//! made again when the volume or the rules have changed.

use crate::common::{Server, have, image, place, run, wait_until};
use crate::home::Home;
use rustix::process::{Pid, Signal, kill_process};
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

/// The process that maps files for a server.
struct Mapper {
    number: Pid,
}

impl Mapper {
    /// Waits until it runs and has confined itself, and stops it.
    fn stop(server: &Server) -> Mapper {
        let mut found = None;
        wait_until("the process is confined", || {
            found = Mapper::find(server).filter(Mapper::is_confined);
            found.as_ref().is_some_and(|it| kill_process(it.number, Signal::STOP).is_ok())
        });
        found.expect("it was found")
    }

    fn find(server: &Server) -> Option<Mapper> {
        let parent = server.pid().as_raw_nonzero();
        let children = format!("/proc/{parent}/task");
        let threads = fs::read_dir(children).into_iter().flatten().flatten();
        let lists =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let all = lists.collect::<Vec<_>>().join(" ");
        let numbers = all.split_whitespace().filter_map(|number| number.parse().ok());
        let mappers = numbers.filter_map(Pid::from_raw).map(|number| Mapper { number });
        mappers.into_iter().find(|it| it.read("cmdline").contains("map-files"))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.number)).unwrap_or_default()
    }

    /// The filter of system calls is the last part of its confinement.
    fn is_confined(&self) -> bool {
        let (limits, status) = (self.read("limits"), self.read("status"));
        let memory = limits.lines().find(|line| line.starts_with("Max data size"));
        let is_limited = memory.is_some_and(|line| !line.contains("unlimited"));
        let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let rights = value("CapEff:").unwrap_or_default().trim_matches(['\t', '0']);
        is_limited && value("Seccomp:").is_some_and(|mode| mode.trim() == "2") && rights.is_empty()
    }

    /// Whether nothing is left of it, not even its status.
    fn is_gone(&self) -> bool {
        !Path::new(&format!("/proc/{}", self.number)).exists()
    }
}

#[test]
fn a_process_that_is_stopped_or_killed_costs_the_map_only() {
    if !have(&["mkfs.ext4"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let server = serve(&home, &make(&place, &FILES), &["--delay", "read=20ms"]);
    let stopped = Mapper::stop(&server);
    server.volume(&["set", "files=off"]).well();
    wait_until("a map that is not wanted has no process", || stopped.is_gone());

    server.volume(&["set", "files=auto"]).well();
    let killed = Mapper::stop(&server);
    kill_process(killed.number, Signal::KILL).expect("it is stopped");
    server.says("its files cannot be mapped: its process has ended with signal: 9");
    assert!(killed.is_gone());
    assert!(!server.stderr().contains("no map is wanted"), "{}", server.stderr());

    // The next program of this process does not wait for it.
    server.volume(&["set", "rules=documents=4"]).well();
    let stopped = Mapper::stop(&server);
    home.overdrive(&["upgrade"]).well();
    assert!(stopped.is_gone(), "{}", stopped.read("status"));
    wait_for_files(&server, 4);

    server.volume(&["set", "rules=documents=3"]).well();
    let stopped = Mapper::stop(&server);
    assert_eq!(server.end().status, 0);
    assert!(stopped.is_gone());
}

#[test]
fn a_last_block_that_is_not_whole_has_a_class() {
    if !have(&["sfdisk"]) {
        return;
    }
    let (home, place) = (Home::new(), place());
    let path = image(&place, 8);
    let file = fs::OpenOptions::new().write(true).open(&path).expect("ours");
    file.set_len(8 * MIB as u64 + 512).expect("room");
    let script = place.path().join("table");
    fs::write(&script, "label: gpt\nstart=2048, size=8192\n").expect("room");
    let partition = "sfdisk --quiet \"$0\" < \"$1\"";
    run("sh", &["-c", partition, path.to_str().expect("text"), script.to_str().expect("text")])
        .well();
    // The last sector has the second table.
    let server = serve(&home, &path, &["--raw"]);
    wait_for_files(&server, 0);
    let classes = map(&server)["classes"].clone();
    let bytes = |class: &Value| class["bytes"].as_u64().expect("a number");
    let sum: u64 = classes.as_array().expect("a list").iter().map(bytes).sum();
    assert_eq!(sum, 8 * MIB as u64 + 4096, "in whole blocks: {classes}");
    assert!(bytes(find(&classes, "class", "metadata")) > 8192, "both tables: {classes}");
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
