//! Captive mode, signals, and two servers for one image.

use crate::common::{
    Server, captive, have, have_libnbd, image, place, python, run, serve, serve_in,
};
use rustix::process::Signal;
use std::fs;
use std::process::Command;

#[test]
fn the_commands_status_is_ours() {
    for (script, status) in [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 77", 77),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("no-such-command-here", 127),
    ] {
        let ended = serve("null:1M", &["--memory", "1M", "-q", "--run", script]);
        assert_eq!(ended.status, status, "{script}: {}", ended.stderr);
    }
}

#[test]
fn the_command_finds_the_volume_and_stdout_is_its_own() {
    let script = "echo \"$uri\"; test -S \"$unixsocket\"; echo \"$unixsocket\"";
    let ended = captive("null:1M", &["--memory", "1M", "--name", "a name/ü"], script).well();
    let mut lines = ended.stdout.lines();
    let uri = lines.next().unwrap_or_default();
    assert!(uri.starts_with("nbd+unix:///a%20name/%C3%BC?socket="), "{uri}");
    let socket = lines.next().expect("a second line");
    assert!(!fs::exists(socket).expect("its directory"), "the socket is taken away");
    assert_eq!(lines.next(), None);
}

#[test]
fn what_was_counted_is_one_object_on_stdout() {
    let ended = captive("ram:1M", &["--memory", "1M", "--json"], "true").well();
    let counted: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(counted["schema"], "overdrive.served/1");
    assert_eq!(counted["captive_status"], 0);
    assert_eq!(counted["counters"]["blocks_dirty"], 0);
}

/// (Writers whose data must still be absorbed stay below 3 of 32 parts of the memory: above that
/// the crew writes back early, and its first two runs may contain everything.) Arguments: URI,
/// first byte, blocks of 4 KiB, flush or not. Block n holds its number.
const STAMP: &str = r#"
import nbd, struct, sys
uri, first, count, flush = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "flush"
h = nbd.NBD(); h.connect_uri(uri)
for n in range(first, first + count): h.pwrite(struct.pack("<Q", n) * 512, n * 4096)
if flush: h.flush()
"#;

fn stamped(bytes: &[u8], first: u64, count: u64) -> bool {
    let mut blocks = bytes.chunks(4096).zip(0u64..).skip(first as usize);
    let is_stamped =
        |(block, number): (&[u8], u64)| block.chunks(8).all(|word| word == number.to_le_bytes());
    (0..count).all(|_| blocks.next().is_some_and(is_stamped))
}

#[test]
fn a_signal_drains_everything_first() {
    if !have_libnbd() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT] {
        let place = place();
        let image = image(&place, 16);
        let options = ["--memory", "16M", "--write", "back-now", "--dirty-age", "1000s"];
        let server = Server::start(&image, &options);
        python(STAMP, &[&server.uri, "0", "300", "no"]).well();
        let before = fs::read(&image).expect("served");
        assert!(!stamped(&before, 0, 300), "nothing was absorbed: this proves nothing");
        let socket = server.socket.clone();
        server.signal(signal);
        let ended = server.wait().well();
        assert!(
            ended
                .stderr
                .contains("every write acknowledged since its daemon began is on the backing"),
            "{}",
            ended.stderr
        );
        assert!(stamped(&fs::read(&image).expect("served"), 0, 300));
        assert!(!fs::exists(socket).expect("its directory"), "the socket is taken away");
    }
}

#[test]
fn a_signal_in_captive_mode_reaches_the_command_and_drains() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let stamp = place.path().join("stamp.py");
    fs::write(&stamp, STAMP).expect("room");
    // The server is the shell's parent: the script ends it from inside.
    let script = format!(
        "/usr/bin/python3 {} \"$uri\" 0 300 no; kill -TERM $PPID; exec sleep 100",
        stamp.display()
    );
    let options = ["--memory", "16M", "--write", "back-now", "--dirty-age", "1000s"];
    let ended = captive(&image, &options, &script);
    assert_eq!(ended.status, 143, "{}", ended.stderr);
    assert!(stamped(&fs::read(&image).expect("served"), 0, 300));
}

#[test]
fn a_client_that_stays_does_not_keep_the_server() {
    let server = Server::start("ram:1M", &["--memory", "1M"]);
    let idle = std::os::unix::net::UnixStream::connect(&server.socket).expect("it listens");
    server.end().well();
    drop(idle);
}

#[test]
fn the_image_is_fenced_while_it_is_served_and_as_long_as_something_is_kept_for_it() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let options = ["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    let server = Server::start(&image, &options);
    python(STAMP, &[&server.uri, "100", "200", "flush"]).well();
    python(STAMP, &[&server.uri, "1000", "150", "no"]).well();
    let qemu_is_kept_out = || {
        if have(&["qemu-io"]) {
            let image = image.to_str().expect("plain");
            let qemu = run("qemu-io", &["-f", "raw", "-c", "write 0 4k", image]);
            assert!(qemu.stderr.contains("lock"), "qemu is let in: {}", qemu.stderr);
        }
    };
    let second = ["--run", "true", "-q"];
    // From another home its daemon is invisible, but its lock is not.
    serve(&image, &second).refused(5, &["disk.img", "locked by another program"]);
    let served = "disk.img: is already served by process";
    serve_in(&server.home, &image, &second).refused(5, &[served, "volume list"]);
    qemu_is_kept_out();
    let home = server.kill();
    serve(&image, &second).refused(5, &["disk.img", "locked by another program"]);
    qemu_is_kept_out();
    // C5: data that was not flushed is not on the backing yet, but retained.
    let bytes = fs::read(&image).expect("served");
    assert!(stamped(&bytes, 100, 200), "flushed data is gone");
    assert!(!stamped(&bytes, 1000, 150), "nothing was absorbed: this proves nothing");
    let again = Server::start_in(&home, &image, &options);
    python(STAMP, &[&again.uri, "2000", "10", "flush"]).well();
    again.end().well();
    let bytes = fs::read(&image).expect("served");
    assert!(stamped(&bytes, 100, 200) && stamped(&bytes, 1000, 150) && stamped(&bytes, 2000, 10));
    serve(&image, &second).well();
}

/// Without a holder, a kill affects unflushed data as a power cut affects a disk with a volatile
/// cache: it may be lost, but all data that is left is whole (C1, C4).
#[test]
fn without_a_holder_a_kill_loses_what_was_not_flushed_and_nothing_else() {
    if !have_libnbd() {
        return;
    }
    let place = place();
    let image = image(&place, 16);
    let mut options = vec!["--memory", "8M", "--write", "back-now", "--dirty-age", "1000s"];
    options.push("--no-holder");
    let server = Server::start(&image, &options);
    python(STAMP, &[&server.uri, "100", "200", "flush"]).well();
    python(STAMP, &[&server.uri, "1000", "150", "no"]).well();
    let home = server.kill();
    assert_eq!(home.holders().len(), 0);
    let again = Server::start_in(&home, &image, &options);
    again.end().well();
    let bytes = fs::read(&image).expect("served");
    assert!(stamped(&bytes, 100, 200), "flushed data is gone");
    for number in 1000..1200 {
        let block = &bytes[number * 4096..][..4096];
        let whole = stamped(&bytes, number as u64, 1) || block.iter().all(|&byte| byte == 0);
        assert!(whole, "block {number} is torn");
    }
}

#[test]
fn a_socket_in_use_is_refused_and_a_stale_one_replaced() {
    let server = Server::start("ram:1M", &["--memory", "1M"]);
    let place = format!("unix:{}", server.socket.display());
    let options = ["--memory", "1M", "-q", "--nbd", &place, "--run", "true"];
    serve("ram:1M", &options).refused(5, &["another process listens there"]);
    server.signal(Signal::KILL);
    // When killed, it leaves its socket behind.
    crate::common::wait_until("the first is gone", || serve("ram:1M", &options).status == 0);
}

#[test]
fn kill_9_under_writers_keeps_whatever_was_flushed() {
    if !have_libnbd() {
        return;
    }
    // Each round: a writer that notes after each flush up to which block all data is durable.
    const WRITER: &str = r#"
import nbd, os, struct, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
note = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
try:
    for n in range(4096):
        h.pwrite(struct.pack("<Q", n) * 512, n * 4096)
        if n % 16 == 15:
            h.flush()
            os.pwrite(note, struct.pack("<Q", n + 1), 0)
except nbd.Error: pass
"#;
    for round in 0..3u64 {
        let place = place();
        let image = image(&place, 16);
        let note = place.path().join("note");
        let options = ["--memory", "4M", "--write", "back-now", "--no-holder"];
        let server = Server::start(&image, &options);
        let mut writer = Command::new("/usr/bin/python3")
            .args(["-c", WRITER, &server.uri])
            .arg(&note)
            .spawn()
            .expect("Debian's Python");
        let count_flushes = || {
            let bytes = fs::read(&note).unwrap_or_default();
            let bytes = bytes.try_into().unwrap_or_default();
            u64::from_le_bytes(bytes)
        };
        crate::common::wait_until("flushes", || count_flushes() > 100 + 500 * round);
        server.kill();
        writer.wait().expect("our child");
        let durable = count_flushes();
        assert!(durable < 4096, "it was killed under way");
        assert!(stamped(&fs::read(&image).expect("served"), 0, durable), "of {durable} blocks");
    }
}
