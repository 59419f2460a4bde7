//! Exports of NBD servers that are written: by real servers, over kills of either side.

use crate::common::{Server, have, have_libnbd, image, place, python, run, serve, wait_until};
use crate::dice::scaled;
use crate::exporter::Remote;
use crate::tls::Trust;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::thread;

const MIB: u64 = 16;

/// Requests that a server accepts.
const SMALL: [&str; 3] =
    ["blocksize-minimum=512", "blocksize-preferred=4K", "blocksize-maximum=64K"];

/// Arguments: URI, a file, the path whose existence ends the writes, the largest number of blocks,
/// and any other one if zeros are short and without FUA. Writes numbered blocks, and keeps their
/// numbers in the file: one of 8 bytes for each block, with the highest bit if the last change of
/// the block was not answered.
const WRITES: &str = r#"
import nbd, os, random, struct, sys, time
uri, path, over, most, *short_zeros = sys.argv[1:]
count = (16 << 20) // 4096
numbers = list(struct.unpack(f"<{count}Q", open(path, "rb").read()))
h = nbd.NBD(); h.connect_uri(uri)
number = max(value & ~(1 << 63) for value in numbers)
done = 0
try:
    while not os.path.exists(over) or done < 100:
        is_zero = done % 29 == 28
        blocks = random.choice([1, 1, 1, 1, 16, 16 if is_zero and short_zeros else int(most)])
        first, number = random.randrange(count - blocks), number + 1
        span = range(first, first + blocks)
        for block in span: numbers[block] |= 1 << 63
        fua = nbd.CMD_FLAG_FUA if done % 13 == 0 and not (is_zero and short_zeros) else 0
        if is_zero:
            h.zero(blocks * 4096, first * 4096, fua)
            for block in span: numbers[block] = 0
        else:
            h.pwrite(struct.pack("<Q", number) * 512 * blocks, first * 4096, fua)
            for block in span: numbers[block] = number
        done += 1
        if done % 41 == 0: h.flush()
    h.flush()
    h.shutdown()
except nbd.Error as error:
    if over != "/killed": raise
open(path, "wb").write(struct.pack(f"<{count}Q", *numbers))
"#;

/// Arguments: URI, the file of the numbers. Blocks whose last change was not answered are written
/// again.
const READS: &str = r#"
import nbd, struct, sys
count = (16 << 20) // 4096
numbers = list(struct.unpack(f"<{count}Q", open(sys.argv[2], "rb").read()))
h = nbd.NBD(); h.connect_uri(sys.argv[1])
top = 1 << 63
number = max(value & ~top for value in numbers)
for block, value in enumerate(numbers):
    if value & top:
        number += 1
        numbers[block] = number
        h.pwrite(struct.pack("<Q", number) * 512, block * 4096)
    else:
        found = h.pread(4096, block * 4096)
        assert found == struct.pack("<Q", value) * 512, (block, value, found[:8])
h.flush()
open(sys.argv[2], "wb").write(struct.pack(f"<{count}Q", *numbers))
"#;

/// The numbers of the blocks, at first all 0.
fn numbers(place: &Path) -> String {
    let path = place.join("numbers");
    fs::write(&path, vec![0; (MIB << 20) as usize / 512]).expect("room");
    path.to_str().expect("text").to_owned()
}

/// Asserts that a raw image has the numbers.
fn has_numbers(image: &Path, numbers: &str) {
    let (bytes, numbers) = (fs::read(image).expect("ours"), fs::read(numbers).expect("ours"));
    for (block, (bytes, number)) in bytes.chunks(4096).zip(numbers.chunks(8)).enumerate() {
        assert!(bytes.chunks(8).all(|word| word == number), "block {block}");
    }
}

fn counter(server: &Server, name: &str) -> u64 {
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    stats["counters"][name].as_u64().expect("a counter")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn what_is_flushed_is_on_exports_of_other_servers() {
    if !have(&["nbdkit", "qemu-nbd", "qemu-img"]) || !have_libnbd() {
        return;
    }
    let place = place();
    let raw = image(&place, MIB);
    let qcow2 = place.path().join("disk.qcow2");
    run("qemu-img", &["create", "-q", "-f", "qcow2", text(&qcow2), &format!("{MIB}M")]).well();
    let file = format!("file={}", text(&raw));
    let shared = ["-t", "-e", "8", "-k", "@", "-f"];
    let trust = Trust::new();
    let cases: [(&str, Vec<&str>, &[&str]); 6] = [
        ("nbdkit", vec!["-f", "-U", "@", "file", &file], &["--write", "back-now"]),
        // Requests of 64 KiB at most.
        (
            "nbdkit",
            [&["-f", "-U", "@", "--filter=blocksize-policy", "file", &file][..], &SMALL].concat(),
            &["--write", "through", "--threads", "2"],
        ),
        ("qemu-nbd", [&shared[..], &["raw", text(&raw)]].concat(), &["--threads", "2"]),
        ("qemu-nbd", [&shared[..], &["qcow2", text(&qcow2)]].concat(), &["--write", "through"]),
        ("nbdkit over TLS", vec!["file", &file], &["--write", "through"]),
        ("qemu-nbd over TLS", vec!["-f", "raw", text(&raw)], &["--threads", "2"]),
    ];
    for (program, arguments, options) in cases {
        run("truncate", &["-s", "0", text(&raw)]).well();
        run("truncate", &["-s", &format!("{MIB}M"), text(&raw)]).well();
        let numbers = numbers(place.path());
        let is_qcow2 = arguments.contains(&"qcow2");
        let encrypted = |remote| {
            let uri = trust.export(&remote, "localhost");
            (remote, uri)
        };
        let (remote, uri) = match program {
            "nbdkit over TLS" => encrypted(trust.nbdkit(&arguments)),
            "qemu-nbd over TLS" => encrypted(trust.qemu_nbd(&arguments)),
            _ => {
                let remote = Remote::start(program, &arguments);
                let uri = remote.uri();
                (remote, uri)
            }
        };
        let server = Server::start(uri, &[&["--memory", "8M"], options].concat());
        python(WRITES, &[&server.uri, &numbers, "/", "128"]).well();
        if !is_qcow2 {
            has_numbers(&raw, &numbers);
        }
        python(READS, &[&server.uri, &numbers]).well();
        server.end().well();
        drop(remote);
        if is_qcow2 {
            let options = ["convert", "-f", "qcow2", "-O", "raw", text(&qcow2), text(&raw)];
            run("qemu-img", &options).well();
            has_numbers(&raw, &numbers);
        }
    }
}

/// A server of another program, and its URI.
type Export = (Remote, String);

#[test]
fn a_killed_and_upgraded_daemon_goes_on_with_its_export() {
    a_daemon_is_killed(&["nbdkit"], |file| {
        let remote = Remote::nbdkit(&["--filter=delay", "file", file, "wdelay=5ms"]);
        let uri = remote.uri();
        (remote, uri)
    });
}

/// The next daemon cannot read the answers that the killed one has left.
#[test]
fn over_tls_a_killed_and_upgraded_daemon_goes_on_with_its_export() {
    let trust = Trust::new();
    a_daemon_is_killed(&["nbdkit"], |file| {
        let remote = trust.nbdkit(&["--filter=delay", "file", file, "wdelay=5ms"]);
        let uri = trust.export(&remote, "localhost");
        (remote, uri)
    });
}

#[test]
fn over_tls_so_it_does_with_one_of_qemu_nbd() {
    let trust = Trust::new();
    a_daemon_is_killed(&["qemu-nbd"], |file| {
        let remote = trust.qemu_nbd(&["-f", "raw", file.trim_start_matches("file=")]);
        let uri = trust.export(&remote, "localhost");
        (remote, uri)
    });
}

fn a_daemon_is_killed(programs: &[&str], export: impl Fn(&str) -> Export) {
    if !have(programs) || !have_libnbd() {
        return;
    }
    let place = place();
    let raw = image(&place, MIB);
    let (file, numbers) = (format!("file={}", text(&raw)), numbers(place.path()));
    let (_remote, uri) = export(&file);
    let options = ["--memory", "8M", "--write", "through", "--threads", "2"];
    let server = Server::start(uri, &options);
    thread::scope(|scope| {
        let client = scope.spawn(|| python(WRITES, &[&server.uri, &numbers, "/killed", "128"]));
        wait_until("the client writes", || counter(&server, "changes") > 30);
        server.signal(Signal::KILL);
        client.join().expect("no panic").well();
    });
    let server = server.reborn();
    // Changes of ranges that the killed daemon has left unanswered wait for half a minute.
    python(READS, &[&server.uri, &numbers]).well();
    server.home.overdrive(&["upgrade"]).well();
    python(READS, &[&server.uri, &numbers]).well();
    python(WRITES, &[&server.uri, &numbers, "/", "128"]).well();
    server.end().well();
    has_numbers(&raw, &numbers);
}

/// The holder has each connection before a change is sent on it, so the next daemon can flush.
#[test]
fn daemons_that_are_killed_right_after_their_first_change_lose_no_connection() {
    const WRITE: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
h.pwrite(b"A" * 4096, int(sys.argv[2]) * 4096)
if sys.argv[2] == "9": h.flush()
"#;
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    // Without FUA, a change that no flush covers is lost with its connection. Over TLS it is lost
    // for the next daemon, which writes its copy again.
    let trust = Trust::new();
    let arguments = ["--filter=fua", "memory", "16M"];
    let (plain, encrypted) = (Remote::nbdkit(&arguments), trust.nbdkit(&arguments));
    for uri in [plain.uri(), trust.export(&encrypted, "localhost")] {
        let options = ["--memory", "8M", "--write", "through", "--dirty-age", "1000s"];
        let mut server = Server::start(uri, &options);
        for block in ["1", "2", "3"] {
            python(WRITE, &[&server.uri, block]).well();
            server = server.reborn();
        }
        python(WRITE, &[&server.uri, "9"]).well();
        server.end().well();
    }
}

/// Memory has no copy of zeros that were written through.
#[test]
fn over_tls_a_flush_fails_if_a_killed_daemon_may_have_lost_written_data() {
    const ZERO: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
h.zero(4096, 0)
"#;
    const FAILS: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
try: h.flush()
except nbd.Error as error: assert error.errno == "EIO", error
else: raise AssertionError("the flush succeeds")
h.flush()
"#;
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    let trust = Trust::new();
    let remote = trust.nbdkit(&["--filter=fua", "memory", "16M"]);
    let options = ["--memory", "8M", "--write", "through", "--dirty-age", "1000s"];
    let server = Server::start(trust.export(&remote, "localhost"), &options);
    python(ZERO, &[&server.uri]).well();
    let server = server.reborn();
    python(FAILS, &[&server.uri]).well();
    server.end().well();
}

/// Changes that were written back, and that no flush covers, are written again. The memory has room
/// for a copy of each; it has none of zeros that were written through, after which a flush would
/// rightly fail.
#[test]
fn over_tls_daemons_that_are_killed_amid_writeback_lose_nothing() {
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    let (place, trust) = (place(), Trust::new());
    let raw = image(&place, MIB);
    let (file, numbers) = (format!("file={}", text(&raw)), numbers(place.path()));
    let delay = ["--filter=fua", "--filter=delay", "file", &file, "wdelay=5ms"];
    let remote = trust.nbdkit(&delay);
    let options = ["--memory", "64M", "--dirty-bytes", "32M", "--write", "back-now"];
    let more = ["--dirty-age", "2s", "--guard", "off", "--retry-time", "300s"];
    let uri = trust.export(&remote, "localhost");
    let mut server = Server::start(uri, &[&options[..], &more].concat());
    for _ in 0..scaled(2) {
        // A next daemon writes what the killed one has left, before there is a client.
        let counted = || ["blocks_absorbed", "blocks_written"].map(|name| counter(&server, name));
        let before = counted();
        thread::scope(|scope| {
            let arguments = [&server.uri, &numbers, "/killed", "64", "short zeros"];
            let client = scope.spawn(move || python(WRITES, &arguments));
            wait_until("its blocks are written back", || {
                counted().iter().zip(before).all(|(now, before)| *now > before + 50)
            });
            server.signal(Signal::KILL);
            client.join().expect("no panic").well();
        });
        server = server.reborn();
        python(READS, &[&server.uri, &numbers]).well();
    }
    let shown = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
    assert_eq!(shown["volumes"][0]["state"], "serving");
    server.end().well();
    has_numbers(&raw, &numbers);
}

/// Absorbed changes are written again if no flush covers them.
#[test]
fn clients_do_not_notice_that_a_server_is_killed_and_returns() {
    a_server_is_killed(&["--write", "back-now", "--guard", "off"], plain);
}

#[test]
fn over_tls_clients_do_not_notice_it_either() {
    let trust = Trust::new();
    a_server_is_killed(&["--write", "back-now", "--guard", "off"], |arguments| {
        let remote = trust.nbdkit(arguments);
        let uri = trust.export(&remote, "localhost");
        (remote, uri)
    });
}

/// Other changes are durable when they are answered.
#[test]
fn clients_that_write_through_do_not_notice_it_either() {
    a_server_is_killed(&["--write", "through"], plain);
}

fn plain(arguments: &[&str]) -> Export {
    let remote = Remote::nbdkit(arguments);
    let uri = remote.uri();
    (remote, uri)
}

fn a_server_is_killed(options: &[&str], export: impl Fn(&[&str]) -> Export) {
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    let place = place();
    let raw = image(&place, MIB);
    let (file, numbers) = (format!("file={}", text(&raw)), numbers(place.path()));
    let (mut remote, uri) = export(&["--filter=delay", "file", &file, "wdelay=5ms"]);
    let more = ["--memory", "64M", "--dirty-bytes", "32M", "--retry-time", "300s"];
    let options = [options, &more].concat();
    let server = Server::start(uri, &options);
    let over = place.path().join("over");
    thread::scope(|scope| {
        let client = scope.spawn(|| python(WRITES, &[&server.uri, &numbers, text(&over), "16"]));
        wait_until("flushes reach the server", || counter(&server, "flushes") > 2);
        remote.kill();
        remote.revive();
        fs::write(&over, "").expect("room");
        client.join().expect("no panic").well();
    });
    python(READS, &[&server.uri, &numbers]).well();
    server.end().well();
    has_numbers(&raw, &numbers);
}

#[test]
fn a_flush_fails_if_a_server_may_have_lost_written_data() {
    const LOSES: &str = r#"
import nbd, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
if sys.argv[2] == "write":
    h.flush()
    h.pwrite(b"A" * 4096, 0)
else:
    try: h.flush()
    except nbd.Error as error: assert error.errno == "EIO", error
    else: raise AssertionError("the flush succeeds")
"#;
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    let mut remote = Remote::nbdkit(&["--filter=fua", "memory", "16M"]);
    let options = ["--memory", "8M", "--write", "through", "--dirty-age", "1000s"];
    let server = Server::start(remote.uri(), &options);
    python(LOSES, &[&server.uri, "write"]).well();
    let stats = server.volume(&["stats", "--json"]).json("overdrive.volume-stats/1");
    assert_eq!(
        (&stats["export"]["unanswered"], &stats["export"]["fences"]),
        (&0.into(), &0.into())
    );
    remote.kill();
    remote.revive();
    python(LOSES, &[&server.uri, "flush"]).well();
    server.end().refused(6, &["may have lost changes"]);
}

#[test]
fn exports_that_cannot_be_written_are_refused() {
    if !have(&["nbdkit", "qemu-nbd"]) {
        return;
    }
    let place = place();
    let raw = image(&place, MIB);
    let remote = Remote::nbdkit(&["memory", "16M"]);
    for options in [&["--memory", "0"][..], &["--memory", "8M", "--no-holder"]] {
        serve(remote.uri(), &[options, &["--run", "exit 99"]].concat())
            .refused(2, &["a cache and its holder", "--read-only"]);
    }
    let single = ["-t", "-k", "@", "-f", "raw", text(&raw)];
    let remote = Remote::start("qemu-nbd", &single);
    serve(remote.uri(), &["--memory", "8M", "--run", "exit 99"])
        .refused(2, &["multi-conn", "--shared=8", "--read-only"]);
}

/// Arguments: URI. Writes 5 MiB of numbered blocks.
const WRITE_BLOCKS: &str = r#"
import nbd, struct, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for first in range(0, 5 << 8, 16):
    h.pwrite(b"".join(struct.pack("<Q", n) * 512 for n in range(first, first + 16)), first * 4096)
"#;

/// Arguments: URI. Reads these blocks.
const READ_BLOCKS: &str = r#"
import nbd, struct, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
for n in range(5 << 8): assert h.pread(4096, n * 4096) == struct.pack("<Q", n) * 512, n
"#;

/// More than the next memory has room for: the server, which is slow, gets all of it first.
#[test]
fn a_long_writeback_before_an_export_is_served_is_reported() {
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    let remote = Remote::nbdkit(&["--filter=delay", "memory", "16M", "wdelay=3"]);
    let written = ["--write", "back-now", "--dirty-bytes", "15M", "--dirty-age", "1000s"];
    let server = Server::start(remote.uri(), &[&["--memory", "16M"], &written[..]].concat());
    python(WRITE_BLOCKS, &[&server.uri]).well();
    let home = server.kill();
    let server = Server::start_in(&home, remote.uri(), &["--memory", "2M"]);
    server.says("will be served once the writes of the earlier process are on it");
    server.says("they are on the backing now");
    python(READ_BLOCKS, &[&server.uri]).well();
    server.end().well();
}
