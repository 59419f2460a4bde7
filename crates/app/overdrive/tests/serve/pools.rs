//! Several images as one.

use crate::common::{Ended, OVERDRIVE, Server, captive, have_libnbd, place, python, run, serve};
use std::fs::{self, File};
use tempfile::TempDir;

/// Makes images of these sizes in MiB; returns their names, and the names separated by commas.
fn images(place: &TempDir, sizes: &[u64]) -> (Vec<String>, String) {
    let make = |(number, mib): (usize, &u64)| {
        let path = place.path().join(format!("{number}.img"));
        File::create(&path).expect("room").set_len(mib << 20).expect("sparse");
        path.to_str().expect("a plain name").to_owned()
    };
    let names: Vec<String> = sizes.iter().enumerate().map(make).collect();
    let list = names.join(",");
    (names, list)
}

fn create(names: &[String], more: &[&str]) -> Ended {
    let names = names.iter().map(String::as_str);
    let arguments: Vec<&str> = ["pool", "create"].into_iter().chain(names).collect();
    run(OVERDRIVE, &[&arguments[..], more].concat())
}

/// Writes all over a volume, flushes, discards some; then reads it back.
const USE: &str = r#"
import nbd, random, sys
uri, seed, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
h = nbd.NBD(); h.connect_uri(uri)
random.seed(seed)
size = h.get_size() // 4096
expected = {}
for number in range(800):
    at = random.randrange(size - 32)
    count = random.choice([1, 1, 1, 2, 32])
    kind = random.choice("wwwwwwtz")
    if what == "write":
        if kind == "w":
            h.pwrite(b"".join(bytes([number % 255 + 1, (at + i) % 256]) * 2048 for i in range(count)), at * 4096)
        elif kind == "t": h.trim(count * 4096, at * 4096)
        else: h.zero(count * 4096, at * 4096)
        if number % 50 == 0: h.flush()
    for i in range(count):
        expected[at + i] = bytes([number % 255 + 1, (at + i) % 256]) * 2048 if kind == "w" else bytes(4096)
if what == "write": h.flush()
for at, data in expected.items():
    if bytes(h.pread(4096, at * 4096)) != data: sys.exit(f"slot {at} is wrong")
"#;

#[test]
fn a_pool_is_served_with_and_without_a_cache_and_is_there_the_next_time() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let (names, list) = images(&place, &[64, 64, 96]);
    let made = create(&names, &[]).well();
    assert!(made.stdout.contains(&list), "{}", made.stdout);
    let pool = format!("pool:{list}");
    let use_it = |uri: &str, seed: &str, what: &str| python(USE, &[uri, seed, what]).well();
    for (seed, memory) in [("1", "0"), ("2", "16M")] {
        let server = Server::start(&pool, &["--memory", memory]);
        use_it(&server.uri, seed, "write");
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        let members = stats["members"].as_array().expect("a pool has members");
        assert_eq!(members.len(), 3);
        assert!(members.iter().all(|it| it["state"] != "failed" && it["errors"] == 0), "{stats}");
        assert!(members.iter().all(|it| it["written_bytes"].as_u64() > Some(1 << 20)), "{stats}");
        let busy = serve(&names[1], &["--run", "exit 99"]);
        busy.refused(5, &["1.img"]);
        assert_eq!(server.end().status, 0);
        let server = Server::start(&pool, &["--memory", memory]);
        use_it(&server.uri, seed, "read");
        assert_eq!(server.end().status, 0);
    }
}

#[test]
fn what_was_flushed_survives_a_kill() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let (names, list) = images(&place, &[64, 64]);
    create(&names, &[]).well();
    let server = Server::start(format!("pool:{list}"), &["--memory", "16M"]);
    server.says("no holder retains the memory");
    python(USE, &[&server.uri, "3", "write"]).well();
    let server = server.reborn();
    python(USE, &[&server.uri, "3", "read"]).well();
    assert_eq!(server.end().status, 0);
}

#[test]
fn members_are_refused_with_their_names() {
    let place = place();
    let (names, list) = images(&place, &[64, 64, 64]);
    let serve = |list: &str| serve(format!("pool:{list}"), &["-q", "--run", "exit 99"]);
    serve(&list).refused(2, &["0.img: is not a member of a pool", "overdrive pool create"]);
    create(&names[..1], &[]).refused(2, &[]);
    create(&names, &[]).well();
    create(&names, &[]).refused(2, &["0.img: is not blank", "--overwrite"]);
    serve(&[&names[1][..], &names[0], &names[2]].join(","))
        .refused(2, &["is member 2 of its pool"]);
    serve(&names[..2].join(",")).refused(2, &["its pool has 3 members", "missing"]);
    assert_eq!(serve(&format!("{},missing,{}", names[0], names[2])).status, 99);
    fs::OpenOptions::new()
        .write(true)
        .open(&names[2])
        .and_then(|file| file.set_len(32 << 20))
        .expect("shrunk");
    serve(&list).refused(7, &["2.img: is smaller than when the pool was made"]);
    serve("a.img,").refused(2, &["separated by commas"]);
    create(&names, &["--overwrite"]).well();
    assert_eq!(serve(&list).status, 99);
}

#[test]
fn a_stripe_is_served() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let (_, list) = images(&place, &[16, 16]);
    let script = format!("/usr/bin/python3 -c '{USE}' \"$uri\" 4 write");
    captive(format!("stripe:{list}"), &["-q", "--memory", "4M"], &script).well();
}

#[test]
fn the_health_of_a_pool_is_that_of_its_members() {
    let place = place();
    let (names, list) = images(&place, &[64, 64]);
    create(&names, &[]).well();
    for (list, status) in [(list, 0), (format!("{},missing", names[0]), 1)] {
        let server = Server::start(format!("pool:{list}"), &["--memory", "0"]);
        let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
        let ask = ["drive", "health", stats["volume"].as_str().expect("it has a name")];
        let answer = server.home.overdrive(&ask);
        assert_eq!(answer.status, status, "{}{}", answer.stdout, answer.stderr);
        assert!(
            answer.stdout.contains(&format!("{}: is not a device", names[0])),
            "{}",
            answer.stdout
        );
        let json = server.home.overdrive(&[&ask[..], &["--json"]].concat());
        assert_eq!(json.status, status, "{}", json.stderr);
        let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("one JSON object");
        assert_eq!(json["schema"], "overdrive.drive.health-members/1");
        let members = json["members"].as_array().expect("a list");
        assert_eq!((members.len(), &members[0]["state"]), (2, &"good".into()), "{json}");
        assert!(members[0]["health"].is_null() && members[0]["why"].is_string(), "{json}");
        assert_eq!(members[1]["fails"], status == 1, "{json}");
        server.end().well();
    }
}
