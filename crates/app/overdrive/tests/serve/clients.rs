//! Other clients: libnbd, qemu, nbdkit.

use crate::common::{Server, captive, have, have_libnbd, image, place, python};
use std::fs;
use std::path::Path;

/// Writes bytes that do not repeat, so that files and blocks all differ.
fn noise(path: &Path, mib: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let bytes: Vec<u8> = (0..mib << 17)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect();
    fs::write(path, &bytes).expect("room for a test image");
    bytes
}

#[test]
fn nbdinfo_finds_size_flags_and_block_sizes() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let place = place();
    let image = image(&place, 64);
    let ended = captive(&image, &["--memory", "4M", "-q"], "nbdinfo --json \"$uri\"").well();
    let info: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], 64 << 20);
    for flag in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero", "can_cache"] {
        assert_eq!(export[flag], true, "{flag}");
    }
    assert_eq!(export["is_read_only"], false);
    // Requests for parts of blocks are served, and libnbd itself refuses smaller ones.
    assert_eq!(export["block_size_minimum"], 1);
    assert_eq!(export["block_size_preferred"], 4096);
    assert_eq!(export["export-name"], "disk");
    let read_only = ["--memory", "4M", "-q", "--read-only"];
    let ended = captive(&image, &read_only, "nbdinfo --is read-only \"$uri\"");
    ended.well();
}

#[test]
fn nbdcopy_carries_an_image_in_and_out() {
    if !have(&["nbdcopy", "cmp"]) {
        return;
    }
    let place = place();
    let image = image(&place, 48);
    let source = place.path().join("source");
    noise(&source, 48);
    let script = format!(
        "nbdcopy --flush {source} \"$uri\"
         nbdcopy \"$uri\" {copy}
         cmp {source} {copy}
         nbdcopy --synchronous --connections=1 \"$uri\" - | cmp - {source}",
        source = source.display(),
        copy = place.path().join("copy").display(),
    );
    captive(&image, &["--memory", "8M"], &script).well();
    assert!(fs::read(&image).expect("served") == fs::read(&source).expect("ours"));
}

#[test]
fn qemu_converts_compares_and_measures() {
    if !have(&["qemu-img", "nbdcopy"]) {
        return;
    }
    let place = place();
    let image = image(&place, 32);
    let source = place.path().join("source");
    noise(&source, 32);
    let script = format!(
        "qemu-img convert -n -f raw -O raw {source} \"$uri\"
         qemu-img compare -f raw -F raw {source} \"$uri\"
         qemu-img convert -f raw -O qcow2 \"$uri\" {copy}
         qemu-img compare -f raw -F qcow2 \"$uri\" {copy}
         qemu-img bench -q -f raw -t none -c 2000 -d 32 -s 4096 \"$uri\"
         qemu-img bench -q -f raw -t none -c 500 -d 16 -s 65536 -w --flush-interval 50 \"$uri\"",
        source = source.display(),
        copy = place.path().join("copy.qcow2").display(),
    );
    captive(&image, &["--memory", "8M"], &script).well();
    let written = fs::read(&image).expect("served");
    let expected = fs::read(&source).expect("ours");
    let benched = 500 * 65536;
    assert!(written[benched..] == expected[benched..], "only the bench wrote");
}

#[test]
fn qemu_io_writes_zeroes_discards_and_forces() {
    if !have(&["qemu-io"]) {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let commands = [
        "write -P 1 0 2M",
        "write -f -P 2 512 512",
        "write -P 3 6144 1024",
        "read -P 1 0 512",
        "read -P 2 512 512",
        "write -z 4096 8192",
        "read -P 0 4096 8192",
        "write -z -u 64k 64k",
        "read -P 0 64k 64k",
        "write -f -z 130k 3k",
        "read -P 1 128k 2k",
        "read -P 0 130k 3k",
        "read -P 1 133k 3k",
        "discard 256k 64k",
        "flush",
        "write -P 4 1M 64k",
        "write -P 5 1028k 4k",
        "flush",
        "read -P 4 1M 4k",
        "read -P 5 1028k 4k",
    ];
    let script = commands.map(|command| format!("-c '{command}'")).join(" ");
    for mode in ["back", "back-now", "through", "none"] {
        let options = ["--memory", "2M", "--write", mode];
        let ended = captive(&image, &options, &format!("qemu-io -f raw {script} \"$uri\"")).well();
        assert!(!ended.stdout.contains("verification failed"), "{}", ended.stdout);
        let bytes = fs::read(&image).expect("served");
        let all = |from: usize, to: usize, value| bytes[from..to].iter().all(|&b| b == value);
        assert!(all(512, 1024, 2) && all(4096, 12288, 0) && all(64 << 10, 128 << 10, 0));
        assert!(all(130 << 10, 133 << 10, 0) && all(133 << 10, 256 << 10, 1));
        assert!(all(1028 << 10, 1032 << 10, 5) && all(1032 << 10, 1088 << 10, 4));
    }
}

#[test]
fn nbdkit_stands_in_front() {
    if !have(&["nbdkit", "nbdcopy", "fio"]) {
        return;
    }
    let place = place();
    let image = image(&place, 32);
    let source = place.path().join("source");
    noise(&source, 32);
    let script = format!(
        "nbdkit -U - --filter=checkwrite null 1M --run true
         nbdkit -U - nbd uri=\"$uri\" --run 'nbdcopy --flush {source} \"$uri\"'
         nbdkit -U - --filter=checkwrite nbd uri=\"$uri\" --run 'nbdcopy --flush \"$uri\" null:'",
        source = source.display(),
    );
    captive(&image, &["--memory", "6M"], &script).well();
    assert!(fs::read(&image).expect("served") == fs::read(&source).expect("ours"));
}

/// Arguments: URI, connections, commands in flight on each, rounds. Every connection owns every
/// n-th stretch of 64 KiB; within a round its commands do not overlap, so that a plain bytearray
/// gives the expected result of each read.
const IN_FLIGHT: &str = r#"
import nbd, random, sys
uri, connections, depth, rounds = sys.argv[1], *map(int, sys.argv[2:])
random.seed(7)
STRETCH = 65536
handles = [nbd.NBD() for _ in range(connections)]
for h in handles: h.connect_uri(uri)
size = handles[0].get_size()
model = bytearray(size)
for number in range(rounds):
    started, reads = [], []
    for c, h in enumerate(handles):
        mine = random.sample(range(c, size // STRETCH, connections), depth)
        for stretch in mine:
            first = random.randrange(0, 127)
            count = random.randrange(1, 129 - first)
            offset, length = stretch * STRETCH + first * 512, count * 512
            kind = random.choice("rrrwwwfzt")
            if kind == "r":
                buffer = nbd.Buffer(length)
                started.append((h, h.aio_pread(buffer, offset)))
                reads.append((buffer, offset, length))
            elif kind in "wf":
                data = random.randbytes(length)
                flags = nbd.CMD_FLAG_FUA if kind == "f" else 0
                started.append((h, h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), offset, flags=flags)))
                model[offset:offset + length] = data
            elif kind == "z":
                started.append((h, h.aio_zero(length, offset)))
                model[offset:offset + length] = bytes(length)
            else:
                started.append((h, h.aio_flush()))
    pending = started
    while pending:
        for h in handles: h.poll(0)
        pending = [(h, cookie) for h, cookie in pending if not h.aio_command_completed(cookie)]
    for buffer, offset, length in reads:
        if buffer.to_bytearray() != model[offset:offset + length]:
            sys.exit(f"round {number}: {length} bytes at {offset} are not what was written last")
got = bytearray()
for at in range(0, size, 1 << 20): got += handles[0].pread(1 << 20, at)
if got != model: sys.exit("the volume is not what was written")
for h in handles: h.shutdown()
"#;

#[test]
fn many_commands_in_flight_return_what_was_written_last() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 64);
    let server = Server::start(&image, &["--memory", "4M"]);
    python(IN_FLIGHT, &[&server.uri, "4", "100", "25"]).well();
    server.end().well();
}

/// 64 connections, each with 128 reads and writes in flight: twice as many requests as the lane has
/// task slots. Every command must be answered, and succeed.
#[test]
fn an_overload_of_the_lane_answers_every_request() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 640);
    let delay = "read=2ms,write=2ms,flush=2ms,servers=64";
    let options = ["--memory", "2M", "--delay", delay, "--write", "through"];
    let server = Server::start(&image, &options);
    python(IN_FLIGHT, &[&server.uri, "64", "128", "2"]).well();
    let ended = server.end().well();
    assert!(!ended.stderr.contains("refused"), "{}", ended.stderr);
}

#[test]
fn the_connection_after_the_last_is_refused_and_the_others_go_on() {
    if !have_libnbd() {
        return;
    }
    const CROWD: &str = r#"
import nbd, sys
uri = sys.argv[1]
handles = []
for _ in range(128):
    h = nbd.NBD(); h.connect_uri(uri); handles.append(h)
try:
    h = nbd.NBD(); h.connect_uri(uri)
    sys.exit("one too many was let in")
except nbd.Error: pass
for h in handles: h.pread(4096, 0)
handles.pop().shutdown()
for attempt in range(100):
    try:
        h = nbd.NBD(); h.connect_uri(uri); break
    except nbd.Error: pass
else: sys.exit("a place that became free stays taken")
h.pread(4096, 0)
"#;
    let server = Server::start("ram:8M", &["--memory", "1M"]);
    python(CROWD, &[&server.uri]).well();
    let ended = server.end().well();
    assert!(ended.stderr.contains("128 connections are open; refused so far"), "{}", ended.stderr);
}

/// Multi-conn: a flush on one connection makes writes of another durable. Observed from outside, in
/// the file, by a read that bypasses the page cache, while the server holds everything else back.
#[test]
fn a_flush_on_one_connection_covers_writes_on_another() {
    if !have_libnbd() {
        return;
    }
    const OTHER: &str = r#"
import mmap, nbd, os, sys
uri, image = sys.argv[1:]
one, two = nbd.NBD(), nbd.NBD()
one.connect_uri(uri); two.connect_uri(uri)
assert one.can_multi_conn()
# Shorter than a ready run, which would be written while the device idles.
size = 32768
page = mmap.mmap(-1, size)
def on_disk():
    file = os.open(image, os.O_RDONLY | os.O_DIRECT)
    os.preadv(file, [page], 1 << 20)
    os.close(file)
    return bytes(page)
data = os.urandom(size)
one.pwrite(data, 1 << 20)
if on_disk() == data: sys.exit("nothing was absorbed: this proves nothing")
if two.pread(size, 1 << 20) != data: sys.exit("the other connection reads old data")
two.flush()
if on_disk() != data: sys.exit("flushed, and not in the file")
two.pwrite(b"f" * 4096, 1 << 20, nbd.CMD_FLAG_FUA)
if on_disk()[:4096] != b"f" * 4096: sys.exit("forced, and not in the file")
"#;
    let place = place();
    let image = image(&place, 16);
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    let server = Server::start(&image, &options);
    python(OTHER, &[&server.uri, image.to_str().expect("plain")]).well();
    server.end().well();
}

/// Arguments: URI. Requests that libnbd would not send: for libnbd, a reply to a write that it is
/// still sending shows a broken server, and it hangs up.
const REFUSED: &str = r#"
import nbd, sys
h = nbd.NBD(); h.set_strict_mode(0); h.connect_uri(sys.argv[1])
def errno(command, *arguments):
    try: command(*arguments)
    except nbd.Error as error: return error.errno
large = b"w" * (16 << 20)
assert errno(h.pwrite, large, h.get_size()) == "ENOSPC"
assert errno(h.pwrite, large, h.get_size() - 512) == "ENOSPC"
assert errno(h.pwrite, large, h.get_size() - 511) == "ENOSPC"
assert errno(h.pwrite, large[1:], h.get_size() - 1) == "ENOSPC"
assert h.pread(16 << 20, 0) == bytes(16 << 20), "a refused write has changed something"
h.pwrite(large, 0); h.flush()
"#;

#[test]
fn libnbd_keeps_its_connection_when_a_large_write_is_refused() {
    if have_libnbd() {
        let server = Server::start("ram:32M", &["--memory", "4M"]);
        python(REFUSED, &[&server.uri]).well();
        server.end().well();
    }
}
