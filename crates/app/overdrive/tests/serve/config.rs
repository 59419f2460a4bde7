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
    for number in 0..120 {
        text += &format!("[volume.v{number}]\nbacking = 'ram:1M'\nmemory = '1M'\n");
    }
    fs::write(&config, text).expect("room");
    let config = config.to_str().expect("plain");
    let refused = home.overdrive(&["serve", "--config", config]);
    refused.refused(2, &["too many volumes", "another"]);
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
