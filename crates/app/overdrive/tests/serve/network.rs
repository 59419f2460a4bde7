//! Exports of NBD servers as backings: real servers, which are killed and return.

use crate::common::{
    Server, captive, have, have_libnbd, image, place, python, run, serve, wait_until,
};
use crate::dice::scaled;
use crate::exporter::Remote;
use crate::home::Home;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MIB: u64 = 24;

/// Makes an image whose blocks differ, with a hole in its second half.
pub(crate) fn filled(place: &TempDir) -> PathBuf {
    let path = image(place, MIB);
    let file = fs::File::options().write(true).open(&path).expect("ours");
    let block = |number: u64| -> Vec<u8> {
        (0..4096u64).map(|at| (number.wrapping_mul(2_654_435_761) >> (at % 24)) as u8).collect()
    };
    for number in (0..MIB << 7).chain([(MIB << 8) - 1]) {
        file.write_all_at(&block(number), number << 12).expect("room");
    }
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

/// Serves the export, and compares all of its bytes with the image, twice.
pub(crate) fn is_same(uri: &str, image: &Path, options: &[&str]) {
    let script = format!(
        "for round in 1 2; do nbdcopy \"$uri\" - | cmp - {}; done; nbdinfo --is read-only \"$uri\"",
        text(image)
    );
    captive(uri, &[&["--read-only"], options].concat(), &script).well();
}

#[test]
fn exports_of_other_servers_are_served_byte_for_byte() {
    if !have(&["nbdkit", "qemu-nbd", "qemu-img", "nbdcopy", "nbdinfo"]) {
        return;
    }
    let place = place();
    let image = filled(&place);
    let file = format!("file={}", text(&image));
    for options in [&["--memory", "8M"][..], &["--memory", "64M", "--threads", "3"]] {
        let remote = Remote::nbdkit(&["file", &file]);
        is_same(&remote.uri(), &image, options);
    }
    // Replies that come late and in another order; a server that is read-only itself, with blocks
    // of 4 KiB and small requests.
    let slow = Remote::nbdkit(&["-r", "--filter=delay", "file", &file, "rdelay=2ms"]);
    captive(
        slow.uri(),
        &["--memory", "0"],
        &format!("nbdcopy \"$uri\" - | cmp - {}", text(&image)),
    )
    .well();
    let sizes = ["blocksize-minimum=4096", "blocksize-maximum=64K"];
    let policy = ["--filter=blocksize-policy", "file", &file, "blocksize-error-policy=error"];
    let strict = Remote::nbdkit(&[&policy[..], &sizes].concat());
    is_same(&strict.uri(), &image, &["--memory", "8M"]);
    let raw = ["-t", "-e", "8", "-k", "@", "-f", "raw", text(&image)];
    is_same(&Remote::start("qemu-nbd", &raw).uri(), &image, &["--memory", "8M"]);
    let qcow2 = place.path().join("disk.qcow2");
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", text(&image), text(&qcow2)]).well();
    // One connection at a time, which is its default.
    let remote = Remote::start("qemu-nbd", &["-t", "-k", "@", "-f", "qcow2", text(&qcow2)]);
    is_same(&remote.uri(), &image, &["--memory", "8M", "--threads", "1"]);
}

#[test]
fn a_volume_of_another_daemon_is_a_backing_over_tcp_and_keeps_its_holes() {
    if !have(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    let place = place();
    let image = filled(&place);
    let home = Home::new();
    let mut command = home.command(&["serve", text(&image), "--nbd", "tcp:127.0.0.1:0"]);
    command.args(["--insecure-tcp", "--name", "a disk", "--memory", "8M"]);
    let origin = Server::run_in(&home, command);
    assert!(origin.uri.starts_with("nbd://127.0.0.1:"), "{}", origin.uri);
    is_same(&origin.uri, &image, &["--memory", "8M"]);
    let map = |uri: &str| run("nbdinfo", &["--map", "--totals", uri]).well().stdout;
    let server = Server::start(&origin.uri, &["--read-only", "--memory", "0"]);
    assert_eq!(map(&server.uri), map(&origin.uri));
    assert!(map(&server.uri).contains("hole,zero"), "{}", map(&server.uri));
    // After its own kill it goes on, and it is upgraded.
    let server = server.reborn();
    let copied = || run("nbdcopy", &[&server.uri, "null:"]).well();
    copied();
    server.home.overdrive(&["upgrade"]).well();
    copied();
    server.end().well();
    origin.end().well();
}

/// Arguments: URI, the image, a file whose existence ends the test.
const READS: &str = r#"
import nbd, os, random, sys
h = nbd.NBD(); h.connect_uri(sys.argv[1])
image = open(sys.argv[2], "rb").read()
count = 0
while not os.path.exists(sys.argv[3]) or count < 1000:
    at = random.randrange(len(image) - 65536)
    length = random.randrange(1, 65536)
    assert h.pread(length, at) == image[at:at + length], at
    count += 1
"#;

#[test]
fn clients_of_a_server_that_is_killed_and_returns_see_no_error() {
    if !have(&["nbdkit"]) || !have_libnbd() {
        return;
    }
    let place = place();
    let image = filled(&place);
    let file = format!("file={}", text(&image));
    let mut remote = Remote::nbdkit(&["--filter=delay", "file", &file, "rdelay=1ms"]);
    let options = ["--read-only", "--memory", "8M", "--threads", "2"];
    let server = Server::start(remote.uri(), &options);
    let over = place.path().join("over");
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| python(READS, &[&server.uri, text(&image), text(&over)])))
            .collect();
        for _ in 0..scaled(8) {
            // Until reads have arrived at it.
            let misses = || {
                let stats = server.volume(&["stats", "--json"]);
                stats.json("overdrive.volume-stats/1")["counters"]["read_misses"].as_u64()
            };
            let before = misses().expect("a counter");
            wait_until("reads reach the server", || misses() > Some(before));
            remote.kill();
            remote.revive();
        }
        fs::write(&over, "").expect("room");
        for client in clients {
            client.join().expect("no panic").well();
        }
    });
    server.end().well();
}

#[test]
fn an_export_that_has_changed_meanwhile_is_not_read() {
    if !have(&["nbdkit", "qemu-io"]) {
        return;
    }
    let mut remote = Remote::nbdkit(&["memory", "16M"]);
    let server = Server::start(remote.uri(), &["--read-only", "--memory", "8M"]);
    let read = |at: &str| {
        let command = format!("read {at} 4k");
        run("qemu-io", &["-r", "-f", "raw", "-c", &command, &server.uri])
    };
    assert!(read("0").stdout.contains("read 4096/4096 bytes"));
    remote.kill();
    remote.arguments.pop();
    remote.arguments.push("32M".to_owned());
    remote.revive();
    let refused = read("8M");
    assert!(!refused.stdout.contains("read 4096/4096 bytes"), "{}", refused.stdout);
    // Cached data is still that of the export as it was.
    assert!(read("0").stdout.contains("read 4096/4096 bytes"));
    server.end().refused(6, &["33554432 bytes, which had 16777216 bytes before"]);
}

#[test]
fn while_a_server_hangs_cached_data_is_read_and_the_rest_gets_errors() {
    if !have(&["nbdkit", "qemu-io"]) {
        return;
    }
    let remote = Remote::nbdkit(&["memory", "16M"]);
    let options = ["--read-only", "--memory", "8M", "--retry-time", "1s", "--warm", "off"];
    let server = Server::start(remote.uri(), &options);
    let is_read = |at: &str| {
        let command = format!("read {at} 4k");
        let io = run("qemu-io", &["-r", "-f", "raw", "-c", &command, &server.uri]);
        io.stdout.contains("read 4096/4096 bytes")
    };
    assert!(is_read("0"));
    let hangs = |signal| {
        let process = Pid::from_child(remote.child.as_ref().expect("it runs"));
        kill_process(process, signal).expect("ours");
    };
    hangs(Signal::STOP);
    assert!(!is_read("8M"), "it waits for the server");
    assert!(is_read("0"), "it is cached");
    hangs(Signal::CONT);
    wait_until("the server answers again", || is_read("8M"));
    server.says("the backing answers again");
    // Nothing is written to it, so a stop does not need it.
    hangs(Signal::STOP);
    server.end().well();
}

#[test]
fn exports_that_cannot_be_served_are_named() {
    let nowhere = "nbd+unix:///?socket=/tmp/no/such/socket";
    serve(nowhere, &["--read-only", "--run", "exit 99"])
        .refused(3, &[nowhere, "check the URI, and that its server is running"]);
    serve("nbd://127.0.0.1:1/", &["--read-only", "--run", "exit 99"]).refused(3, &["refused"]);
    serve("nbds://host/", &["--read-only", "--run", "exit 99"])
        .refused(2, &["tls-certificates=DIR"]);
    serve("nbd+unix:///disk", &["--run", "exit 99"]).refused(2, &["?socket=PATH"]);
    if !have(&["nbdkit"]) {
        return;
    }
    let odd = Remote::nbdkit(&["memory", "1000"]);
    serve(odd.uri(), &["--read-only", "--run", "exit 99"]).refused(2, &["no multiple of 512"]);
    let origin = Server::start("ram:1M", &["--name", "disk"]);
    let other = format!("nbd+unix:///other?socket={}", origin.socket.display());
    serve(other, &["--read-only", "--run", "exit 99"]).refused(1, &["refuses the export"]);
    origin.end().well();
}
