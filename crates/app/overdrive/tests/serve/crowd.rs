//! Thousands of connections, and endless handshakes.

use crate::common::{Server, have_libnbd, python};
use crate::dice::scaled;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

/// Returns the resident memory of the server.
pub(crate) fn resident_kib(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    kibibytes.and_then(|number| number.parse().ok()).expect("a number")
}

/// Arguments: URI, socket, number of strangers, the URI of a server without a crowd. While
/// strangers come, stay for a moment and leave, an earlier client is served without long waits,
/// except those that a busy machine also causes for clients of the other server.
const CROWD: &str = r#"
import collections, nbd, socket, sys, time
uri, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
h = nbd.NBD(); h.connect_uri(uri)
h.pwrite(b"c" * 4096, 0)
calm = nbd.NBD(); calm.connect_uri(sys.argv[4])
def time_of(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start
def read(): assert h.pread(4096, 0) == b"c" * 4096
strangers, worst, usual = collections.deque(), 0, 0
for number in range(count):
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(20)
    stranger.connect(path)
    try:
        if number % 3 == 0: stranger.send(b"\0\0\0\1")
        if number % 3 == 1: stranger.send(b"\xff" * 200)
    except OSError: pass
    strangers.append(stranger)
    if len(strangers) > 300: strangers.popleft().close()
    if number % 10 == 0:
        worst = max(worst, time_of(read))
        usual = max(usual, time_of(lambda: calm.pread(4096, 0)))
assert worst < 2 + 2 * usual, f"a read took {worst:.1f} s, and {usual:.1f} s without a crowd"
for stranger in strangers: stranger.close()
for attempt in range(200):
    try:
        other = nbd.NBD(); other.connect_uri(uri)
        break
    except nbd.Error: time.sleep(0.05)
else: sys.exit("no new client is let in after the crowd")
assert other.pread(4096, 0) == b"c" * 4096
"#;

#[test]
fn a_crowd_at_the_door_keeps_nobody_inside_waiting_and_takes_no_memory() {
    if !have_libnbd() {
        return;
    }
    let server = Server::start("ram:8M", &["--memory", "2M", "--write", "back-now"]);
    let calm = Server::start("ram:8M", &["--memory", "2M"]);
    let socket = server.socket.to_str().expect("plain").to_owned();
    let crowd = |count: u64| {
        python(CROWD, &[&server.uri, &socket, &count.to_string(), &calm.uri]).well();
        resident_kib(&server)
    };
    let after_some = crowd(500);
    let after_many = crowd(scaled(4000));
    assert!(after_many < after_some + 16_384, "{after_some} KiB, then {after_many} KiB");
    calm.end().well();
    server.end().well();
}

#[test]
fn a_handshake_that_takes_for_ever_is_ended() {
    let server = Server::start("ram:8M", &["--memory", "2M"]);
    let mut slow = UnixStream::connect(&server.socket).expect("it listens");
    let mut silent = UnixStream::connect(&server.socket).expect("it listens");
    slow.set_read_timeout(Some(Duration::from_millis(500))).expect("a valid time");
    silent.set_read_timeout(Some(Duration::from_secs(20))).expect("a valid time");
    let mut greeting = [0; 18];
    slow.read_exact(&mut greeting).expect("a greeting");
    // An option whose data comes a byte at a time, for ever.
    let mut bytes = b"\0\0\0\x01IHAVEOPT\0\0\0\x07\0\0\x10\0".to_vec();
    bytes.extend([0; 4096]);
    let mut sent = 0;
    for byte in bytes {
        let rest = slow.read(&mut greeting);
        let over = slow.write_all(&[byte]).is_err() || rest.is_ok_and(|bytes| bytes == 0);
        if over {
            break;
        }
        sent += 1;
    }
    assert!(sent < 60, "half a minute, and it is still listened to");
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).expect("hung up, not gone silent");
    server.end().well();
}

/// Arguments: URI, socket. The maximum number of clients send half a request each; a new client is
/// admitted in place of one of them.
const HALVES: &str = r#"
import nbd, socket, struct, sys, time
uri, path = sys.argv[1:]
def enters():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(path)
    def hears(count):
        data = b""
        while len(data) < count:
            piece = s.recv(count - len(data))
            assert piece, "hung up on"
            data += piece
        return data
    hears(18)
    s.send(b"\0\0\0\3IHAVEOPT\0\0\0\1\0\0\0\0")
    hears(10)
    return s
halves = [enters() for number in range(128)]
for number, half in enumerate(halves):
    if number % 2 == 0: half.send(b"\x25\x60\x95\x13\0\0")
    else: half.send(struct.pack(">IHHQQI", 0x25609513, 0, 1, number, 0, 1 << 20) + b"x" * 100000)
start = time.monotonic()
while True:
    try:
        h = nbd.NBD(); h.connect_uri(uri); break
    except nbd.Error: time.sleep(0.1)
    assert time.monotonic() < start + 25, "no new client is let in"
assert h.pread(4096, 0) == bytes(4096), "half a write was done"
"#;

#[test]
fn clients_that_send_half_a_request_do_not_keep_new_ones_out() {
    if have_libnbd() {
        let server = Server::start("ram:8M", &["--memory", "2M"]);
        let socket = server.socket.to_str().expect("plain").to_owned();
        python(HALVES, &[&server.uri, &socket]).well();
        server.end().well();
    }
}

#[test]
fn stalled_operators_lock_no_other_out() {
    let server = Server::start("ram:8M", &["--memory", "2M"]);
    let daemons = server.home.runtime().join("overdrive/daemons");
    let control = daemons.join(format!("{}.sock", server.pid().as_raw_nonzero()));
    let mut watch = server.home.command(&["volume", "stats", "--watch", "200ms", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("started");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    lines.next().expect("a line").expect("text");
    // They send nothing, half a request, or requests whose answers they do not read.
    let stalled: Vec<UnixStream> = (0..300)
        .map(|number| {
            let mut stream = UnixStream::connect(&control).expect("it listens");
            stream.set_nonblocking(true).expect("a socket");
            let (word, times) = match number % 3 {
                0 => (&b""[..], 0),
                1 => (&b"{\"ask\":"[..], 1),
                _ => (&b"{\"ask\":\"list\"}\n"[..], 10_000),
            };
            let sent = (0..times).take_while(|_| stream.write_all(word).is_ok()).count();
            assert!(sent > 0 || times == 0);
            stream
        })
        .collect();
    for _ in 0..3 {
        server.volume(&["list"]).well();
        // The connection of this client was closed, and it has made another.
        for _ in 0..3 {
            lines.next().expect("it goes on").expect("text");
        }
    }
    watch.kill().expect("our child");
    watch.wait().expect("our child");
    drop(stalled);
    server.end().well();
}

#[test]
fn half_a_request_of_an_operator_has_an_end() {
    let server = Server::start("ram:8M", &["--memory", "2M"]);
    let daemons = server.home.runtime().join("overdrive/daemons");
    let control = daemons.join(format!("{}.sock", server.pid().as_raw_nonzero()));
    let connect = || {
        let stream = UnixStream::connect(&control).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a valid time");
        stream
    };
    let (mut half, mut unread, mut quiet) = (connect(), connect(), connect());
    half.write_all(b"{\"ask\":").expect("sent");
    unread.set_nonblocking(true).expect("a socket");
    while unread.write_all(b"{\"ask\":\"list\"}\n").is_ok() {}
    assert_eq!(half.read(&mut [0]).expect("closed"), 0);
    unread.set_nonblocking(false).expect("a socket");
    // It receives the data sent before, and the end.
    let mut answers = Vec::new();
    if let Err(error) = unread.read_to_end(&mut answers) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    // A connection without a request may stay.
    quiet.write_all(b"{\"ask\":\"list\"}\n").expect("sent");
    assert!(quiet.read(&mut [0; 100]).expect("an answer") > 2);
    server.end().well();
}
