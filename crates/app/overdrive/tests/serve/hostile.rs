//! Bytes that are not NBD, sent to a live server. While one client sends them, another is served.

use crate::common::{Server, wait_until};
use nbd::client::{Connection, Wish};
use nbd::codec::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const SIZE: u64 = 8 << 20;
const COOKIE: u64 = 77;

/// A client that can break any rule: the codec writes well-formed messages, all else is bytes.
struct Rude(UnixStream);

impl Rude {
    fn dial(server: &Server) -> Rude {
        let stream = UnixStream::connect(&server.socket).expect("it listens");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a valid time");
        Rude(stream)
    }

    /// Connects and performs the handshake up to the options.
    fn connect(server: &Server) -> Rude {
        let mut rude = Rude::dial(server);
        let greeting = rude.receive().expect("a greeting");
        assert!(Greeting::parse(&greeting).is_some(), "{greeting:?}");
        rude
    }

    /// Connects and performs the whole handshake correctly.
    fn inside(server: &Server) -> Rude {
        let rude = Rude::dial(server);
        let inside = Connection::from_stream(&rude.0, Wish::default()).expect("both agree");
        assert_eq!(inside.agreed().export.bytes, SIZE);
        drop(inside);
        rude
    }

    /// Sends; the other side may have closed already.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    fn flags(&mut self) {
        self.send(&(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES).to_be_bytes());
    }

    fn header(flags: u16, command: u16, offset: u64, length: u32) -> [u8; REQUEST_BYTES] {
        RequestHeader { flags, command, cookie: COOKIE, offset, length }.encode()
    }

    fn request(&mut self, flags: u16, command: u16, offset: u64, length: u32) {
        self.send(&Rude::header(flags, command, offset, length));
    }

    fn receive<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let mut got = [0; BYTES];
        self.0.read_exact(&mut got).ok()?;
        Some(got)
    }

    /// Returns the error of the next reply; None: there is none, the connection has ended.
    fn error(&mut self) -> Option<u32> {
        let reply = SimpleReply::parse(&self.receive()?).expect("a reply");
        assert_eq!(reply.cookie, COOKIE);
        Some(reply.error)
    }

    /// Whether the server has closed the connection (and not only stopped answering).
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Reads the first block and expects these bytes.
    fn reads(&mut self, byte: u8) {
        self.request(0, NBD_CMD_READ, 0, 4096);
        assert_eq!(self.error(), Some(0));
        assert_eq!(self.receive(), Some([byte; 4096]));
    }
}

/// Starts a server, and a correct client of it that has stored data.
fn scene() -> (Server, Rude) {
    let server = Server::start("ram:8M", &["--memory", "2M", "--write", "back-now"]);
    let mut good = Rude::inside(&server);
    good.request(0, NBD_CMD_WRITE, 0, 4096);
    good.send(&[9; 4096]);
    assert_eq!(good.error(), Some(0));
    (server, good)
}

fn end(server: Server, mut good: Rude) {
    good.reads(9);
    good.request(0, NBD_CMD_FLUSH, 0, 0);
    assert_eq!(good.error(), Some(0));
    good.request(0, NBD_CMD_DISC, 0, 0);
    let ended = server.end().well();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn handshakes_that_are_none_end_their_connection_only() {
    let (server, mut good) = scene();
    // It claims four gigabytes.
    let mut huge = Vec::new();
    put_option(&mut huge, NBD_OPT_GO, b"");
    huge[OPTION_HEADER_BYTES - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
    let garbage: Vec<u8> = (0..100_000u32).map(|n| (n * 7919) as u8).collect();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n padded to sixteen"[..], &garbage, &[0xff; 64], &huge] {
        let mut rude = Rude::connect(&server);
        rude.flags();
        rude.send(bytes);
        good.reads(9);
        assert!(rude.is_closed(), "{} bytes", bytes.len());
    }
    let mut flags = Rude::connect(&server);
    flags.send(&0xffff_ffffu32.to_be_bytes());
    assert!(flags.is_closed(), "unknown client flags");
    let mut unknown = Rude::connect(&server);
    unknown.flags();
    let mut option = Vec::new();
    put_option(&mut option, NBD_OPT_EXPORT_NAME, b"no such export");
    unknown.send(&option);
    assert!(unknown.is_closed(), "an export that does not exist");
    // Half a handshake, and silence: others are served in between.
    let mut half = Rude::connect(&server);
    half.send(&[0, 0]);
    good.reads(9);
    drop(half);
    end(server, good);
}

#[test]
fn requests_that_are_wrong_are_refused_and_the_connection_goes_on() {
    let (server, mut good) = scene();
    let mut rude = Rude::inside(&server);
    for (flags, command, offset, length, error) in [
        (0, NBD_CMD_READ, SIZE, 512, NBD_EINVAL),
        (0, NBD_CMD_READ, u64::MAX - 511, 512, NBD_EINVAL),
        (0, NBD_CMD_READ, u64::MAX, u32::MAX, NBD_EINVAL),
        (0, NBD_CMD_READ, 0, 0, NBD_EINVAL),
        (0, NBD_CMD_READ, SIZE - 511, 512, NBD_EINVAL),
        (0, NBD_CMD_READ, SIZE + 1, 511, NBD_EINVAL),
        (0, NBD_CMD_READ, 1, (32 << 20) + 1, NBD_EINVAL),
        (0, NBD_CMD_READ, 0, 512 << 20, NBD_EINVAL),
        (0xfff0, NBD_CMD_READ, 0, 512, NBD_EINVAL),
        (0, NBD_CMD_FLUSH, 512, 512, NBD_EINVAL),
        (0, NBD_CMD_TRIM, SIZE - 512, 1024, NBD_EINVAL),
        (0, NBD_CMD_TRIM, u64::MAX - 511, 1024, NBD_EINVAL),
        (0, NBD_CMD_WRITE_ZEROES, 0, 0x8000_0000, NBD_ENOSPC),
        (0, NBD_CMD_WRITE_ZEROES, SIZE - 509, 512, NBD_ENOSPC),
        (0, NBD_CMD_TRIM, u64::MAX - 510, 510, NBD_EINVAL),
        (NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_WRITE_ZEROES, 3, 512, NBD_ENOTSUP),
        (0, NBD_CMD_FLUSH, 1, 0, NBD_EINVAL),
        (0, NBD_CMD_BLOCK_STATUS, 0, 512, NBD_EINVAL),
        (0, 99, 0, 512, NBD_EINVAL),
        (0, 0xffff, 0, 0, NBD_EINVAL),
    ] {
        rude.request(flags, command, offset, length);
        assert_eq!(rude.error(), Some(error), "{flags} {command} {offset} {length}");
    }
    // A write's payload follows it even if the write is wrong.
    for (offset, length) in [(SIZE, 512), (SIZE - 511, 512), (SIZE - 1, 100)] {
        rude.request(0, NBD_CMD_WRITE, offset, length);
        rude.send(&vec![1; length as usize]);
        assert_eq!(rude.error(), Some(NBD_ENOSPC), "{offset} {length}");
    }
    rude.reads(9);
    good.reads(9);
    end(server, good);
}

#[test]
fn a_wrong_magic_or_half_a_request_ends_the_connection_and_changes_nothing() {
    let (server, mut good) = scene();
    let mut magic = Rude::inside(&server);
    magic.send(&[0x42; 28]);
    assert!(magic.is_closed());
    let mut half = Rude::inside(&server);
    half.send(&NBD_REQUEST_MAGIC.to_be_bytes());
    good.reads(9);
    drop(half);
    // Half a write: no part of it may be seen.
    for sent in [1, 512, 4095] {
        let mut half = Rude::inside(&server);
        half.request(0, NBD_CMD_WRITE, 0, 4096);
        half.send(&vec![1; sent]);
        good.reads(9);
        drop(half);
        good.reads(9);
    }
    let mut large = Rude::inside(&server);
    large.request(0, NBD_CMD_WRITE, 0, 4 << 20);
    large.send(&vec![1; 3 << 20]);
    drop(large);
    good.reads(9);
    end(server, good);
}

#[test]
fn a_client_that_never_reads_is_bounded_and_does_not_stop_the_server() {
    let (server, mut good) = scene();
    let mut deaf = Rude::inside(&server);
    let patience = Some(Duration::from_millis(300));
    deaf.0.set_write_timeout(patience).expect("a valid time");
    // Replies of 1 MiB that are not read: at some point the server must stop reading requests.
    let request = Rude::header(0, NBD_CMD_READ, 0, 1 << 20);
    let taken = (0..1_000_000).take_while(|_| deaf.0.write_all(&request).is_ok());
    let taken = taken.count();
    assert!(taken < 1_000_000, "the server takes requests without end");
    good.reads(9);
    assert!(resident_mib(&server) < 400, "{} MiB", resident_mib(&server));
    good.reads(9);
    good.request(0, NBD_CMD_DISC, 0, 0);
    // The stop waits for it for a limited time (10 s).
    let ended = server.end().well();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

fn resident_mib(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    kibibytes.and_then(|number| number.parse::<u64>().ok()).expect("a number") / 1024
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let (server, mut good) = scene();
    let descriptors = |server: &Server| {
        let path = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
        std::fs::read_dir(path).expect("it runs").count()
    };
    let before = descriptors(&server);
    for round in 0..300 {
        let mut rude = Rude::connect(&server);
        match round % 3 {
            0 => rude.send(&[0xff; 40]),
            1 => drop(rude),
            _ => rude.request(0, NBD_CMD_READ, 0, 4096),
        }
    }
    good.reads(9);
    wait_until("their descriptors are closed", || descriptors(&server) == before);
    end(server, good);
}

#[test]
fn reads_of_a_client_that_has_gone_keep_the_backing_busy_no_longer() {
    // All of them would take 200 s.
    let options = ["--memory", "0", "--delay", "read=100ms,servers=4"];
    let server = Server::start("ram:8M", &options);
    let mut rude = Rude::inside(&server);
    rude.send(&Rude::header(0, NBD_CMD_READ, 0, 4096).repeat(8000));
    let clients = || {
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        rows["volumes"][0]["clients"].as_u64().expect("a number")
    };
    assert_eq!(clients(), 1);
    drop(rude);
    wait_until("what it asked for is forgotten", || clients() == 0);
    server.end().well();
}
