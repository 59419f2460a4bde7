//! Bytes that are no NBD, sent to a live server. Whatever one client sends, another is served.

use crate::common::{Server, wait_until};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const OPTION: u64 = 0x4948_4156_454f_5054;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
const SIZE: u64 = 8 << 20;

/// A client that can be as rude as it likes.
struct Rude(UnixStream);

impl Rude {
    fn connect(server: &Server) -> Rude {
        let stream = UnixStream::connect(&server.socket).expect("it listens");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a valid time");
        let mut rude = Rude(stream);
        let greeting = rude.receive(18).expect("a greeting");
        assert_eq!(&greeting[..8], b"NBDMAGIC");
        rude
    }

    /// Past the handshake, by the oldest option.
    fn inside(server: &Server) -> Rude {
        let mut rude = Rude::connect(server);
        rude.send(&3u32.to_be_bytes());
        rude.option(1, b"");
        let export = rude.receive(10).expect("the export");
        assert_eq!(export[..8], SIZE.to_be_bytes());
        rude
    }

    /// Sends; that the other side has closed already is fine.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    fn option(&mut self, number: u32, data: &[u8]) {
        self.send(&OPTION.to_be_bytes());
        self.send(&number.to_be_bytes());
        self.send(&(data.len() as u32).to_be_bytes());
        self.send(data);
    }

    fn header(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = REQUEST.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(77u64.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes
    }

    fn request(&mut self, flags: u16, command: u16, offset: u64, length: u32) {
        self.send(&Rude::header(flags, command, offset, length));
    }

    fn receive(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut got = vec![0; bytes];
        self.0.read_exact(&mut got).ok()?;
        Some(got)
    }

    /// The error of the next reply; None: there is none, the connection has ended.
    fn error(&mut self) -> Option<u32> {
        let reply = self.receive(16)?;
        assert_eq!(reply[..4], REPLY.to_be_bytes());
        assert_eq!(reply[8..], 77u64.to_be_bytes());
        Some(u32::from_be_bytes(reply[4..8].try_into().expect("four bytes")))
    }

    /// Whether the server has closed the connection (and not merely gone silent).
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Reads the first block and expects these bytes.
    fn reads(&mut self, byte: u8) {
        self.request(0, 0, 0, 4096);
        assert_eq!(self.error(), Some(0));
        assert_eq!(self.receive(4096), Some(vec![byte; 4096]));
    }
}

/// A server, and a well-behaved client of it that has stored something.
fn scene() -> (Server, Rude) {
    let server = Server::start("ram:8M", &["--memory", "2M", "--write", "back-now"]);
    let mut good = Rude::inside(&server);
    good.request(0, 1, 0, 4096);
    good.send(&[9; 4096]);
    assert_eq!(good.error(), Some(0));
    (server, good)
}

fn end(server: Server, mut good: Rude) {
    good.reads(9);
    good.request(0, 3, 0, 0);
    assert_eq!(good.error(), Some(0));
    good.request(0, 2, 0, 0);
    let ended = server.end().well();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn handshakes_that_are_none_end_their_connection_only() {
    let (server, mut good) = scene();
    let huge = [&OPTION.to_be_bytes()[..], &7u32.to_be_bytes(), &u32::MAX.to_be_bytes()].concat();
    let garbage: Vec<u8> = (0..100_000u32).map(|n| (n * 7919) as u8).collect();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n padded to sixteen"[..], &garbage, &[0xff; 64], &huge] {
        let mut rude = Rude::connect(&server);
        rude.send(&3u32.to_be_bytes());
        rude.send(bytes);
        good.reads(9);
        assert!(rude.is_closed(), "{} bytes", bytes.len());
    }
    let mut flags = Rude::connect(&server);
    flags.send(&0xffff_ffffu32.to_be_bytes());
    assert!(flags.is_closed(), "unknown client flags");
    let mut unknown = Rude::connect(&server);
    unknown.send(&3u32.to_be_bytes());
    unknown.option(1, b"no such export");
    assert!(unknown.is_closed(), "an export that does not exist");
    // Half a handshake, and silence: others are served meanwhile.
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
    const EINVAL: u32 = 22;
    const ENOSPC: u32 = 28;
    const ENOTSUP: u32 = 95;
    for (flags, command, offset, length, error) in [
        (0, 0, SIZE, 512, EINVAL),
        (0, 0, u64::MAX - 511, 512, EINVAL),
        (0, 0, u64::MAX, u32::MAX, EINVAL),
        (0, 0, 0, 0, EINVAL),
        (0, 0, SIZE - 511, 512, EINVAL),
        (0, 0, SIZE + 1, 511, EINVAL),
        (0, 0, 1, (32 << 20) + 1, EINVAL),
        (0, 0, 0, 512 << 20, EINVAL),
        (0xfff0, 0, 0, 512, EINVAL),
        (0, 3, 512, 512, EINVAL),
        (0, 4, SIZE - 512, 1024, EINVAL),
        (0, 4, u64::MAX - 511, 1024, EINVAL),
        (0, 6, 0, 0x8000_0000, ENOSPC),
        (0, 6, SIZE - 509, 512, ENOSPC),
        (0, 4, u64::MAX - 510, 510, EINVAL),
        (16, 6, 3, 512, ENOTSUP),
        (0, 3, 1, 0, EINVAL),
        (0, 7, 0, 512, EINVAL),
        (0, 99, 0, 512, EINVAL),
        (0, 0xffff, 0, 0, EINVAL),
    ] {
        rude.request(flags, command, offset, length);
        assert_eq!(rude.error(), Some(error), "{flags} {command} {offset} {length}");
    }
    // A write's payload follows it whatever is wrong with it.
    for (offset, length, error) in
        [(SIZE, 512, ENOSPC), (SIZE - 511, 512, ENOSPC), (SIZE - 1, 100, ENOSPC)]
    {
        rude.request(0, 1, offset, length);
        rude.send(&vec![1; length as usize]);
        assert_eq!(rude.error(), Some(error), "{offset} {length}");
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
    half.send(&REQUEST.to_be_bytes());
    good.reads(9);
    drop(half);
    // Half a write: neither half of it may be seen.
    for sent in [1, 512, 4095] {
        let mut half = Rude::inside(&server);
        half.request(0, 1, 0, 4096);
        half.send(&vec![1; sent]);
        good.reads(9);
        drop(half);
        good.reads(9);
    }
    let mut large = Rude::inside(&server);
    large.request(0, 1, 0, 4 << 20);
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
    // Replies of 1 MiB that are not taken: sooner or later the server must stop reading requests.
    let request = Rude::header(0, 0, 0, 1 << 20);
    let taken = (0..1_000_000).take_while(|_| deaf.0.write_all(&request).is_ok());
    let taken = taken.count();
    assert!(taken < 1_000_000, "the server takes requests without end");
    good.reads(9);
    assert!(resident_mib(&server) < 400, "{} MiB", resident_mib(&server));
    good.reads(9);
    good.request(0, 2, 0, 0);
    // The stop does not wait for it for ever (10 s).
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
            _ => rude.request(0, 0, 0, 4096),
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
    rude.send(&Rude::header(0, 0, 0, 4096).repeat(8000));
    let clients = || {
        let rows = server.volume(&["list", "--json"]).json("overdrive.volumes/1");
        rows["volumes"][0]["clients"].as_u64().expect("a number")
    };
    assert_eq!(clients(), 1);
    drop(rude);
    wait_until("what it asked for is forgotten", || clients() == 0);
    server.end().well();
}
