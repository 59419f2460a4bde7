//! A daemon of several volumes, named by a config file.

use crate::common::{Server, have, have_libnbd, place, python, run, serve_in};
use crate::home::Home;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes two images, and a config file with both at one socket.
pub(crate) fn two_volumes(home: &Home, place: &Path, more: &str) -> PathBuf {
    for name in ["one", "two"] {
        let path = place.join(format!("{name}.img"));
        File::create(path).and_then(|file| file.set_len(8 << 20)).expect("room");
    }
    let path = place.join("overdrive.toml");
    let text = format!(
        "nbd = 'unix:{socket}'\n\
         [volume.one]\nbacking = '{place}/one.img'\nmemory = '4M'\nwrite = 'back-now'\n\
         dirty_age = '1000s'\n\
         [volume.two]\nbacking = '{place}/two.img'\nmemory = '2M'\n{more}",
        socket = home.socket().display(),
        place = place.display(),
    );
    fs::write(&path, text).expect("room");
    path
}

fn serve_config(home: &Arc<Home>, config: &Path) -> Server {
    let config = config.to_str().expect("plain");
    Server::run_in(home, home.command(&["serve", "--config", config]))
}

#[test]
fn two_volumes_at_one_socket_are_two_volumes() {
    if !have(&["nbdinfo"]) || !have_libnbd() {
        return;
    }
    const EACH: &str = r#"
import nbd, sys
one, two = sys.argv[1], sys.argv[2]
a, b = nbd.NBD(), nbd.NBD()
a.connect_uri(one); b.connect_uri(two)
assert a.can_multi_conn() and b.can_multi_conn()
a.pwrite(b"1" * 4096, 0); b.pwrite(b"2" * 4096, 0)
assert a.pread(4096, 0) == b"1" * 4096
b.flush()
"#;
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let mut server = serve_config(&home, &config);
    let socket = format!("nbd+unix:///?socket={}", server.socket.display());
    let listed = run("nbdinfo", &["--list", "--json", &socket]).well();
    let value: serde_json::Value = serde_json::from_str(&listed.stdout).expect("JSON");
    let exports = value["exports"].as_array().expect("a list");
    let mut names: Vec<_> = exports.iter().map(|export| export["export-name"].as_str()).collect();
    names.sort();
    assert_eq!(names, [Some("one"), Some("two")]);
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={}", home.socket().display());
    python(EACH, &[&uri("one"), &uri("two")]).well();
    // Both survive a kill, and both are listed as before.
    server = server.reborn();
    let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    assert_eq!(rows["volumes"].as_array().map(Vec::len), Some(2));
    server.end().well();
    assert!(fs::read(place.path().join("one.img")).expect("ours")[..4096] == [b'1'; 4096]);
    assert!(fs::read(place.path().join("two.img")).expect("ours")[..4096] == [b'2'; 4096]);
}

#[test]
fn one_volume_of_a_file_can_be_served_alone_and_a_name_that_is_not_there_is_refused() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let config = config.to_str().expect("plain");
    let alone = ["serve", "--config", config, "two"];
    let server = Server::run_in(&home, home.command(&alone));
    assert!(server.uri.contains("/two?"), "{}", server.uri);
    server.end().well();
    let refused = home.overdrive(&["serve", "--config", config, "three"]);
    refused.refused(1, &["has no [volume.three]"]);
}

#[test]
fn more_volumes_than_a_daemon_has_room_for_are_refused() {
    let (home, place) = (Home::new(), place());
    let config = place.path().join("many.toml");
    let mut text = format!("nbd = 'unix:{}'\n", home.socket().display());
    let volumes = |numbers: std::ops::Range<usize>| -> String {
        let volume = |number| format!("[volume.v{number}]\nbacking = 'ram:1M'\nmemory = '1M'\n");
        numbers.map(volume).collect()
    };
    text += &volumes(0..128);
    fs::write(&config, &text).expect("room");
    let file = config.to_str().expect("plain");
    let command = home.command(&["serve", "--config", file, "--threads", "2", "-q"]);
    Server::run_in(&home, command).end().well();
    fs::write(&config, text + &volumes(128..129)).expect("room");
    let refused = home.overdrive(&["serve", "--config", file]);
    refused.refused(2, &["129 volumes with a cache", "it serves 128", "another file"]);
}

#[test]
fn mistakes_in_a_config_file_are_named_with_their_line_and_mend() {
    for (more, words) in [
        ("memroy = '1M'\n", &["overdrive.toml:10: ", "memroy", "did you mean 'memory'?"][..]),
        ("write = 'around'\n", &[":10: ", "back-now"]),
        ("nbd = 'tcp:127.0.0.1'\n", &["insecure_tcp"]),
        ("dirty_age = '5'\n", &[":10: ", "is not a time"]),
    ] {
        let (home, place) = (Home::new(), place());
        let config = two_volumes(&home, place.path(), more);
        let config = config.to_str().expect("plain");
        home.overdrive(&["serve", "--config", config]).refused(2, words);
    }
    let home = Home::new();
    home.overdrive(&["serve", "--config", "/no/such/file"]).refused(1, &["/no/such/file"]);
}

#[test]
fn tcp_is_served_only_to_who_has_said_so() {
    let home = Home::new();
    let tcp = ["-q", "--memory", "1M", "--nbd", "tcp:127.0.0.1:0", "--run", "true"];
    serve_in(&home, "ram:1M", &tcp).refused(2, &["--insecure-tcp", "ssh -L"]);
    if !have(&["nbdinfo"]) {
        return;
    }
    let arguments = ["serve", "ram:8M", "--memory", "1M", "--nbd", "tcp:127.0.0.1:0"];
    let server =
        Server::run_in(&home, home.command(&[&arguments[..], &["--insecure-tcp"]].concat()));
    assert!(server.uri.starts_with("nbd://127.0.0.1:"), "{}", server.uri);
    let size = run("nbdinfo", &["--size", &server.uri]).well();
    assert_eq!(size.stdout.trim(), "8388608");
    server.end().well();
}

/// Options on the command line apply to each volume that is served, and override the file.
#[test]
fn options_beside_a_config_file_hold_for_all_its_volumes_or_the_one_that_is_named() {
    if !have_libnbd() {
        return;
    }
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let config = config.to_str().expect("plain");
    let options = ["--memory", "1M", "--durability", "ordered", "--dirty-age", "7s", "--no-holder"];
    for (named, count) in [(&[][..], 2), (&["two"], 1)] {
        let command = [&["serve", "--config", config], named, &options].concat();
        let server = Server::run_in(&home, home.command(&command));
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        let rows = rows["volumes"].as_array().expect("a list");
        assert_eq!(rows.len(), count);
        for row in rows {
            let name = row["name"].as_str().expect("a name");
            let shown = server.volume(&["show", name, "--json"]).json("overdrive.volume/1");
            let cache = &shown["cache"];
            assert_eq!(cache["memory_bytes"], 1 << 20, "{name}");
            assert_eq!(cache["durability"], "ordered", "{name}");
            assert_eq!(cache["dirty_age_ns"], 7_000_000_000u64, "{name}");
            assert_eq!(shown["kept"], false, "{name}");
            // Settings without an option stay as in the file.
            let write = if name == "one" { "back-now" } else { "back" };
            assert_eq!(cache["write"], write, "{name}");
        }
        server.end().well();
    }
    for refused in [&["--nbd", "unix:/x"][..], &["--name", "x"], &["--insecure-tcp"]] {
        let command = [&["serve", "--config", config], refused].concat();
        home.overdrive(&command).refused(2, &[refused[0], "--config"]);
    }
}

#[test]
fn read_only_beside_a_config_file_refuses_changes_of_every_volume() {
    if !have_libnbd() {
        return;
    }
    const REFUSED: &str = r#"
import nbd, sys
for uri in sys.argv[1:]:
    h = nbd.NBD(); h.set_strict_mode(0); h.connect_uri(uri)
    assert h.is_read_only(), uri
    try: h.pwrite(b"1" * 4096, 0)
    except nbd.Error as error: assert error.errno == "EPERM", error
    else: sys.exit(f"{uri} was changed")
    assert h.pread(4096, 0) == bytes(4096)
"#;
    let (home, place) = (Home::new(), place());
    let more = "[volume.three]\nbacking = 'ram:1M'\nmemory = 0\n";
    let config = two_volumes(&home, place.path(), more);
    let config = config.to_str().expect("plain");
    let command = home.command(&["serve", "--config", config, "--read-only"]);
    let server = Server::run_in(&home, command);
    let uri = |name: &str| format!("nbd+unix:///{name}?socket={}", home.socket().display());
    python(REFUSED, &[&uri("one"), &uri("two"), &uri("three")]).well();
    server.end().well();
    for name in ["one", "two"] {
        let bytes = fs::read(place.path().join(format!("{name}.img"))).expect("ours");
        assert!(bytes.iter().all(|byte| *byte == 0), "{name}");
    }
}

#[test]
fn a_configuration_is_checked_and_shown_with_the_origin_of_each_value() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "format = 'raw'\n");
    let file = config.to_str().expect("plain");
    let drop_ins = place.path().join("conf.d");
    fs::create_dir(&drop_ins).expect("room");
    fs::write(drop_ins.join("10-site.toml"), "[volume.two]\nwrite = 'through'\n").expect("room");
    let checked = home.overdrive(&["config", "check", file]).well();
    assert!(checked.stdout.contains(": 2 volumes, 2 files"), "{}", checked.stdout);
    let shown = home.overdrive(&["config", "show", file]).well().stdout;
    assert!(shown.contains("[volume.two]\n") && shown.contains("10-site.toml:2"), "{shown}");
    assert!(!shown.contains("# default"), "{shown}");
    let all = home.overdrive(&["config", "show", "--effective", "--json", file]);
    let all = all.json("overdrive.config/1");
    let volumes = &all["configurations"][0]["volumes"];
    let value = |volume: usize, key: &str| {
        let values = volumes[volume]["values"].as_array().expect("a list");
        let found = values.iter().find(|value| value["key"] == key);
        found.expect(key).clone()
    };
    assert_eq!(
        (&value(0, "guard")["value"], &value(0, "guard")["file"]),
        (&"on".into(), &().into())
    );
    assert_eq!(
        (&value(1, "write")["value"], &value(1, "write")["line"]),
        (&"through".into(), &2.into())
    );
    // A volume without an address has the daemon's; only in this view is it shown.
    let address = format!("unix:{}", home.socket().display());
    assert_eq!((&value(1, "nbd")["value"], &value(1, "nbd")["line"]), (&address.into(), &1.into()));
    let own = shown.split_once("[volume.").map(|(_, volumes)| volumes.contains("nbd = "));
    assert_eq!(own, Some(false), "{shown}");
    // Each mistake has its file and line; nothing is served.
    fs::write(drop_ins.join("20-bad.toml"), "[volume.two]\n\nmemroy = '2M'\n").expect("room");
    let words = ["20-bad.toml:3:", "did you mean 'memory'?"];
    home.overdrive(&["config", "check", file]).refused(2, &words);
    home.overdrive(&["config", "reload", file]).refused(2, &words);
    home.overdrive(&["serve", "--config", file]).refused(2, &words);
    fs::write(drop_ins.join("20-bad.toml"), "[volume.two]\nformat = 'qcow2'\n").expect("room");
    home.overdrive(&["config", "check", file]).refused(2, &["20-bad.toml:2:", "qemu-img convert"]);
}

#[test]
fn one_check_prints_all_mistakes() {
    let (home, place) = (Home::new(), place());
    let file = place.path().join("host.toml");
    let text = "threads = 'many'\npol = 'off'\n[volume.a]\nbacking = 'ram:1G'\nwrite = 'fast'\n\
                memory = '1Q'\n[volume.b]\nattach = 1\n";
    fs::write(&file, text).expect("room");
    let file = file.to_str().expect("plain");
    let expected = [
        ":1: threads",
        ":2: unknown key pol;",
        ":5: write in [volume.a]",
        ":6: memory in [volume.a]",
        ":7: [volume.b] has no backing",
        ":8: attach in [volume.b]",
    ];
    home.overdrive(&["config", "check", file]).refused(2, &expected);
    let checked = home.overdrive(&["config", "check", file, "--json"]);
    assert_eq!(checked.status, 2);
    let object: serde_json::Value = serde_json::from_str(&checked.stdout).expect("an object");
    let mistakes = object["mistakes"].as_array().expect("a list");
    assert_eq!(mistakes.len(), expected.len(), "{object}");
    let pairs = mistakes.iter().zip(expected);
    pairs.for_each(|(found, word)| assert!(found.to_string().contains(word), "{found}"));
    // Where the text is no TOML, only that is reported, also for each line.
    fs::write(file, "threads = \n[volume.b]\nbacking = x\nwrite = 'fast'\n").expect("room");
    let ended = home.overdrive(&["config", "check", file]).refused(2, &[":1: ", ":3: "]);
    assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
    // Values that are good, but not together.
    let text = "[volume.a]\nbacking = 'ram:1G'\nmemory = '64M'\ndirty_bytes = '64M'\n\
                [volume.b]\nbacking = 'ram:1G'\nmemory = '64M'\ndirty_bytes = '60M'\n";
    fs::write(file, text).expect("room");
    let expected = [":4: --dirty-bytes 64 MiB", "fifteen sixteenths of --memory"];
    let ended = home.overdrive(&["config", "check", file]).refused(2, &expected);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn a_setting_that_the_command_line_replaces_is_saved_with_a_note() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let mut command = home.command(&["serve", "--config"]);
    command.arg(&config).args(["--dirty-age", "3s"]);
    let server = Server::run_in(&home, command);
    let set = ["set", "two", "dirty-age=8s", "write=through", "--save"];
    let said = server.volume(&set).well();
    assert!(said.stdout.contains("and saved in"), "{}", said.stdout);
    let notes: Vec<&str> = said.stderr.lines().filter(|line| line.contains("saved")).collect();
    let [note] = notes.as_slice() else { panic!("{}", said.stderr) };
    assert!(note.contains("dirty_age is saved, but") && note.contains("--dirty-age"), "{note}");
    assert!(fs::read_to_string(&config).expect("there").contains("dirty_age = \"8s\""));
    server.end().well();
}

#[test]
fn settings_are_saved_in_the_configuration_of_the_daemon() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let server = serve_config(&home, &config);
    let said = server.volume(&["set", "two", "dirty_age=8s", "log_level=debug", "--save"]).well();
    assert!(said.stdout.contains(&format!("saved in {}", config.display())), "{}", said.stdout);
    let saved = fs::read_to_string(&config).expect("there");
    assert!(saved.contains("dirty_age = \"8s\"") && saved.contains("log_level = \"debug\""));
    server.end().well();
}

#[test]
fn a_reload_applies_what_can_change_now_and_names_the_rest() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "");
    let file = config.to_str().expect("plain");
    let server = serve_config(&home, &config);
    let settings = |name: &str| {
        let shown = server.volume(&["show", name, "--json"]).json("overdrive.volume/1");
        (shown["cache"]["write"].clone(), shown["cache"]["dirty_age_ns"].clone())
    };
    let reload = || home.overdrive(&["config", "reload", file]);
    assert_eq!(reload().well().stdout, "one: unchanged\ntwo: unchanged\n");
    let text = fs::read_to_string(&config).expect("there");
    let changed = text.replace("'4M'", "'3M'").replace("'back-now'", "'through'");
    fs::write(&config, &changed).expect("room");
    let said = reload().well().stdout;
    assert!(said.contains("one: set write=through; at its next start: memory=3M\n"), "{said}");
    assert_eq!(settings("one").0, "through");
    // One volume refuses: the other one keeps its values.
    let more = changed.replace("'through'", "'back'") + "dirty_age = '9s'\n";
    fs::write(&config, more).expect("room");
    server.volume(&["freeze", "two"]).well();
    reload().refused(5, &["two: is frozen or paused", "no volume was changed"]);
    assert_eq!(settings("one").0, "through");
    server.volume(&["resume", "two"]).well();
    let said = reload().well().stdout;
    assert!(said.contains("two: set dirty_age=9s\n"), "{said}");
    assert_eq!(settings("two").1, 9_000_000_000u64);
    // A setting that is saved stays over a start, as do comments.
    let commented = fs::read_to_string(&config).expect("there") + "# the end\n";
    fs::write(&config, commented).expect("room");
    let save = format!("--save={file}");
    let said = server.volume(&["set", "two", "dirty_age=8s", &save]).well().stdout;
    assert!(said.contains(&format!("two set, and saved in {file}")), "{said}");
    server.volume(&["set", "two", "dirty_age=7", &save]).refused(2, &["write it like"]);
    let saved = fs::read_to_string(&config).expect("there");
    assert!(saved.contains("dirty_age = \"8s\"") && saved.ends_with("# the end\n"), "{saved}");
    assert_eq!(settings("two").1, 8_000_000_000u64);
    assert!(reload().well().stdout.contains("two: unchanged\n"));
    server.end().well();
}

#[test]
fn a_reload_names_keys_that_are_read_only_at_a_start() {
    let (home, place) = (Home::new(), place());
    let config = two_volumes(&home, place.path(), "read_only = true\n");
    let file = config.to_str().expect("plain");
    let command = home.command(&["serve", "--config", file, "--poll", "off"]);
    let server = Server::run_in(&home, command);
    let reload = || home.overdrive(&["config", "reload", file]).well().stdout;
    assert_eq!(reload(), "one: unchanged\ntwo: unchanged\n");
    let text = fs::read_to_string(&config).expect("there");
    let socket = place.path().join("other.sock");
    let more = format!(
        "threads = 2\npoll = '20ms'\nmetrics = '127.0.0.1:9469'\nfuse = '/run/files'\n\
         nbd = 'unix:{}'\n",
        socket.display()
    );
    let (_, rest) = text.split_once('\n').expect("it begins with the socket");
    let changed = more + &rest.replace("read_only = true\n", "wait_time = 'forever'\n");
    fs::write(&config, changed.replace("'1000s'", "'900s'")).expect("room");
    // The command line has replaced `poll`, at the next start as well.
    let nbd = socket.display();
    let daemon = format!("fuse=/run/files metrics=127.0.0.1:9469 nbd=unix:{nbd}");
    let expected = format!(
        "one: set dirty_age=900s; at its next start: {daemon} threads=2\n\
         two: at its next start: {daemon} read_only=default threads=2 wait_time=forever\n"
    );
    assert_eq!(reload(), expected);
    let object = home.overdrive(&["config", "reload", file, "--json"]);
    let object = object.json("overdrive.config-reload/1");
    assert_eq!(object["volumes"][1]["start_compared"], true);
    assert_eq!(object["volumes"][1]["at_next_start"].as_array().map(Vec::len), Some(6));
    assert_eq!(object["volumes"][0]["set"], serde_json::json!([]), "it is set already");
    server.end().well();
}
