//! `overdrive volume set`: settings that change while clients continue.

use crate::common::{Server, have_libnbd, image, place, python};
use crate::mounted::plain;
use serde_json::Value;

const HELD: [&str; 6] = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];

/// Arguments: URI, image, a byte to write, whether it is on the backing after a flush.
const WRITE_AND_FLUSH: &str = r#"
import mmap, nbd, os, sys
uri, image, byte, expected = sys.argv[1:]
h = nbd.NBD(); h.connect_uri(uri)
data = byte.encode() * 4096
h.pwrite(data, 0)
h.flush()
assert h.pread(4096, 0) == data
page = mmap.mmap(-1, 4096)
file = os.open(image, os.O_RDONLY | os.O_DIRECT)
os.preadv(file, [page], 0)
found = "there" if bytes(page) == data else "not yet"
assert found == expected, f"{byte} is {found}"
"#;

fn settings(server: &Server) -> Value {
    server.volume(&["show", "--json"]).json("overdrive.volume/1")["cache"].clone()
}

pub(crate) fn counter(server: &Server, name: &str) -> u64 {
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    stats["counters"][name].as_u64().expect("a number")
}

#[test]
fn a_flush_after_set_has_the_new_meaning_and_everything_before_is_durable() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let server = Server::start(&image, &[&HELD[..], &["--durability", "scratch"]].concat());
    let write = |byte: &str, expected: &str| {
        python(WRITE_AND_FLUSH, &[&server.uri, plain(&image), byte, expected]).well();
    };
    write("1", "not yet");
    server.volume(&["set", "durability=flush"]).well();
    assert_eq!(counter(&server, "blocks_dirty"), 0, "what was answered before is durable");
    assert_eq!(settings(&server)["durability"], "flush");
    write("2", "there");
    let set = server.volume(&["set", "disk", "durability=scratch", "--json"]);
    assert!(set.stderr.contains("must be discarded"), "{}", set.stderr);
    let set = set.json("overdrive.volume-done/1");
    assert_eq!((&set["done"], &set["changes"][0]), (&"set".into(), &"durability=scratch".into()));
    write("3", "not yet");
    let said = server.volume(&["set", "durability=ordered", "dirty_age=100ms"]).well().stdout;
    assert!(said.contains("until its daemon ends"), "{said}");
    assert_eq!(counter(&server, "blocks_dirty"), 0);
    assert_eq!(settings(&server)["dirty_age_ns"], 100_000_000);
    server.volume(&["set", "write=through", "durability=flush"]).well();
    write("4", "there");
    let shown = settings(&server);
    assert_eq!((&shown["write"], &shown["durability"]), (&"through".into(), &"flush".into()));
    server.end().well();
}

#[test]
fn what_cannot_be_set_is_refused_whole() {
    let server = Server::start("ram:16M", &HELD);
    let before = settings(&server);
    let refused = |changes: &[&str], words: &[&str]| {
        server.volume(&[&["set"], changes].concat()).refused(2, words);
    };
    refused(&["dirty_age=1s", "durability=scr"], &["durability", "flush, ordered or scratch"]);
    refused(&["dirty_age=1s", "dirty_bytes=8M"], &["fifteen sixteenths", "7.5 MiB"]);
    refused(&["dirtyage=1s"], &["did you mean 'dirty_age'"]);
    refused(&["ram-16M"], &["nothing to set"]);
    refused(&[], &["KEY=VALUE"]);
    server.volume(&["set", "other", "guard=off"]).refused(1, &["other", "volume list"]);
    server.volume(&["freeze"]).well();
    server.volume(&["set", "guard=off"]).refused(5, &["frozen or paused", "resume"]);
    server.volume(&["resume"]).well();
    assert_eq!(settings(&server), before, "all or nothing");
    server.volume(&["set", "guard=off", "dirty_bytes=1M", "flush_target=0"]).well();
    let after = settings(&server);
    assert_eq!((&after["guard"], &after["dirty_bytes_max"]), (&false.into(), &(1 << 20).into()));
    let people = server.volume(&["stats"]).well().stdout;
    assert!(people.contains("guard     off"), "{people}");
    server.end().well();
    let bare = Server::start("ram:16M", &["--memory", "0"]);
    bare.volume(&["set", "write=none"]).refused(1, &["has no cache"]);
    bare.end().well();
}

#[test]
fn the_stack_that_is_shown_has_the_settings_in_force() {
    let server = Server::start("ram:16M", &HELD);
    let stack = |server: &Server| {
        server.volume(&["show", "--json"]).json("overdrive.volume/1")["stack"]["cache"].clone()
    };
    let before = stack(&server);
    assert_eq!((&before["dirty_bytes"], &before["write"]), (&Value::Null, &"back-now".into()));
    let changes = ["write=through", "durability=scratch", "dirty-bytes=1M", "dirty-age=2s"];
    let more = [
        "flush_target=3s",
        "retry-time=4s",
        "link-down=wait",
        "absorb-bytes-max=16K",
        "readahead=off",
        "warm=off",
        "warm-save=5s",
        "compress=auto",
        "files=auto",
        "rules=big-media=never,*.iso=archives",
        "guard=off",
    ];
    server.volume(&[&["set"], &changes[..], &more].concat()).well();
    let expected = serde_json::json!({
        "memory": before["memory"], "policy": "adaptive", "write": "through", "durability": "scratch",
        "dirty_bytes": 1 << 20, "dirty_age_ms": 2_000, "flush_target_ms": 3_000,
        "retry_time_ms": 4_000, "link_down": "wait", "absorb_bytes_max": 16_384,
        "readahead": false, "warm": "off", "warm_save_ms": 5_000,
        "compress": "auto", "files": "auto", "rules": "big-media=never,*.iso=archives",
        "guard": false,
    });
    assert_eq!(stack(&server), expected);
    server.volume(&["pause"]).well();
    assert_eq!(stack(&server)["write"], "through", "a pause is no setting");
    let table = server.volume(&["show"]).well().stdout;
    for line in [
        "name ram-16M",
        "layers cache over ram",
        "dirty_age 2.0 s",
        "absorb_bytes_max 16 KiB",
        "guard off",
    ] {
        let is_line = |text: &str| text.split_whitespace().eq(line.split(' '));
        assert!(table.lines().any(is_line), "no '{line}' in {table}");
    }
    server.volume(&["set", "memory=1G"]).refused(2, &["serve it with another --memory"]);
    server.end().well();
}

/// Arguments: URI, offset. Writes 64 KiB and reads them, twice.
const WRITE_AND_READ: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
offset = int(sys.argv[2])
h.pwrite(b'1' * 65536, offset)
for _ in range(2): assert h.pread(65536, offset) == b'1' * 65536
"#;

#[test]
fn how_large_a_write_is_cached_is_set_at_the_start_and_while_it_is_served() {
    if !have_libnbd() {
        return;
    }
    let server = Server::start("ram:16M", &[&HELD[..], &["--absorb-bytes-max", "64K"]].concat());
    let used = |offset: &str| {
        python(WRITE_AND_READ, &[&server.uri, offset]).well();
        ["blocks_absorbed", "writes_through_large", "read_hits"].map(|name| counter(&server, name))
    };
    assert_eq!(used("0"), [16, 0, 2], "it is not too large");
    server.volume(&["set", "absorb_bytes_max=32K"]).well();
    assert_eq!(used("1048576"), [16, 1, 3], "past the cache, and read from the backing once");
    assert_eq!(used("0"), [16, 2, 4], "also over what is dirty, which it replaces");
    server.volume(&["set", "absorb_bytes_max=128K"]).well();
    assert_eq!(used("2097152"), [32, 2, 6], "as at the start");
    let refused = ["'1M' is out of range", "4K to 512K"];
    server.volume(&["set", "absorb_bytes_max=1M"]).refused(2, &refused);
    server.end().well();
}

#[test]
fn a_backing_that_does_not_take_what_is_dirty_changes_nothing() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let faulty = ["--faults", "write=1,count=0", "--retry-time", "200ms"];
    let server = Server::start(&image, &[&HELD[..], &faulty].concat());
    python(
        "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b'1' * 65536, 0)",
        &[&server.uri],
    )
    .well();
    let before = settings(&server);
    let set = ["set", "write=through", "durability=ordered", "dirty_age=1s"];
    server.volume(&set).refused(6, &["no setting was changed"]);
    assert_eq!(settings(&server), before);
    assert_eq!(counter(&server, "blocks_dirty"), 16, "nothing is given up");
    assert_eq!(server.end().status, 6);
}

#[test]
fn writes_that_a_volume_begins_to_absorb_outlive_its_daemon() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let through = ["--memory", "8M", "--write", "through", "--dirty-age", "1000s"];
    let server = Server::start(&image, &through);
    let kept = |server: &Server| {
        server.volume(&["show", "--json"]).json("overdrive.volume/1")["kept"].clone()
    };
    assert_eq!(kept(&server), true, "a successor must know of its flushes");
    server.volume(&["set", "write=back-now"]).well();
    assert_eq!(kept(&server), true);
    python(
        "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1]); h.pwrite(b'7' * 65536, 0)",
        &[&server.uri],
    )
    .well();
    assert_eq!(counter(&server, "blocks_dirty"), 16);
    let server = server.reborn();
    python(
        "import nbd, sys\nh = nbd.NBD(); h.connect_uri(sys.argv[1])\n\
         assert h.pread(65536, 0) == b'7' * 65536, 'an acknowledged write is lost'",
        &[&server.uri],
    )
    .well();
    assert_eq!(settings(&server)["write"], "through", "it is not remembered over a restart");
    server.end().well();
}
