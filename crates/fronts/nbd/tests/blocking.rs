//! The client on a socket, against a server whose messages the test chooses.

use nbd::client::{Connection, Event, Wish};
use nbd::codec::*;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

const SIZE: u64 = 64 << 20;

/// Performs a handshake for a client without special requests, then runs the test's part.
fn serve<S: Read + Write>(mut stream: S, then: impl FnOnce(S)) {
    let info = info_export(&ExportInfo { bytes: SIZE, flags: NBD_FLAG_HAS_FLAGS });
    let mut out = Greeting { flags: NBD_FLAG_FIXED_NEWSTYLE }.encode().to_vec();
    put_reply(&mut out, NBD_OPT_GO, NBD_REP_INFO, &info);
    put_reply(&mut out, NBD_OPT_GO, NBD_REP_ACK, &[]);
    stream.write_all(&out).expect("it listens");
    let mut asked = [0; 4 + OPTION_HEADER_BYTES + 6];
    stream.read_exact(&mut asked).expect("flags and an option");
    then(stream);
}

fn header(stream: &mut impl Read) -> Option<RequestHeader> {
    let mut bytes = [0; REQUEST_BYTES];
    stream.read_exact(&mut bytes).ok()?;
    Some(RequestHeader::parse(&bytes).expect("a request"))
}

fn answer(stream: &mut impl Write, cookie: u64, error: u32, data: &[u8]) {
    let mut out = SimpleReply { error, cookie }.encode().to_vec();
    out.extend_from_slice(data);
    stream.write_all(&out).expect("it listens");
}

/// Returns a client, with its server on a thread.
fn scene(then: impl FnOnce(UnixStream) + Send + 'static) -> Connection {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    thread::spawn(move || serve(theirs, then));
    Connection::from_stream(ours, Wish::default()).expect("an export")
}

fn read(cookie: u64, length: u32) -> RequestHeader {
    RequestHeader { flags: 0, command: NBD_CMD_READ, cookie, offset: cookie * 4096, length }
}

#[test]
fn replies_in_any_order_find_their_requests() {
    let mut client = scene(|mut stream| {
        let asked: Vec<_> = (0..50).filter_map(|_| header(&mut stream)).collect();
        for header in asked.iter().rev() {
            let data = vec![header.cookie as u8; header.length as usize];
            answer(&mut stream, header.cookie, 0, &data);
        }
    });
    assert_eq!(client.agreed().export.bytes, SIZE);
    for cookie in 0..50 {
        client.ask(&read(cookie, 4096 + 512 * cookie as u32));
    }
    client.send().expect("it listens");
    let (mut next, mut bytes_heard) = (49, 0);
    while client.under_way() > 0 {
        match client.event().expect("the protocol") {
            None => client.receive().expect("more"),
            Some(Event::Data { cookie, at, bytes }) => {
                assert_eq!((cookie, at), (next, bytes_heard));
                assert!(bytes.iter().all(|&byte| u64::from(byte) == cookie));
                bytes_heard += bytes.len() as u32;
            }
            Some(Event::Done { cookie, error: 0 }) => {
                assert_eq!((cookie, bytes_heard), (next, 4096 + 512 * cookie as u32));
                (next, bytes_heard) = (next.wrapping_sub(1), 0);
            }
            Some(event) => panic!("{event:?}"),
        }
    }
}

#[test]
fn who_sends_and_receives_much_does_not_wait_for_itself() {
    // The server answers each request before it receives the next: neither socket can hold all of
    // them.
    const BYTES: u32 = 1 << 20;
    let mut client = scene(|mut stream| {
        let mut payload = vec![0; BYTES as usize];
        while let Some(header) = header(&mut stream) {
            if header.command == NBD_CMD_WRITE {
                stream.read_exact(&mut payload).expect("a payload");
            }
            let is_read = header.command == NBD_CMD_READ;
            answer(&mut stream, header.cookie, 0, if is_read { &payload } else { &[] });
        }
    });
    for cookie in 0..20 {
        client.ask(&read(2 * cookie, BYTES));
        let command = NBD_CMD_WRITE;
        let write = RequestHeader { command, ..read(2 * cookie + 1, BYTES) };
        let out = client.ask(&write);
        out.resize(out.len() + BYTES as usize, 7);
    }
    while client.under_way() > 0 {
        client.pump(Duration::from_secs(10)).expect("it goes on");
        while client.event().expect("the protocol").is_some() {}
    }
    assert_eq!(client.unsent_bytes(), 0);
}

#[test]
fn errors_have_names() {
    let mut client = scene(|mut stream| {
        for error in [NBD_EIO, NBD_ENOSPC, 4711] {
            let header = header(&mut stream).expect("a request");
            let mut payload = vec![0; if header.command == NBD_CMD_WRITE { 512 } else { 0 }];
            stream.read_exact(&mut payload).expect("a payload");
            answer(&mut stream, header.cookie, error, &[]);
        }
    });
    let text = |result: io::Result<()>| result.expect_err("refused").to_string();
    let mut into = [0; 512];
    assert_eq!(text(client.read(0, &mut into)), "the NBD server answers a read with EIO");
    assert_eq!(text(client.write(0, 0, &into)), "the NBD server answers a write with ENOSPC");
    assert_eq!(text(client.flush()), "the NBD server answers a flush with error 4711");
    let gone = client.flush().expect_err("it has gone");
    // A server that closes with an unread request resets the connection.
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    assert!([UnexpectedEof, BrokenPipe, ConnectionReset].contains(&gone.kind()), "{gone}");
}

#[test]
fn what_is_no_reply_ends_it_and_so_does_one_at_a_time_among_many() {
    let mut client = scene(|mut stream| {
        header(&mut stream);
        answer(&mut stream, 99, 0, &[]);
        // The client closes first.
        let _ = stream.read(&mut [0]);
    });
    client.ask(&read(1, 512));
    let busy = client.flush().expect_err("something is under way");
    assert_eq!(busy.kind(), io::ErrorKind::InvalidInput);
    client.send().expect("it listens");
    client.receive().expect("something");
    for _ in 0..2 {
        let fault = client.event().expect_err("that was not asked for");
        assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
    }
}

#[test]
fn tcp_serves_as_well() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        serve(stream, |mut stream| {
            let header = header(&mut stream).expect("a request");
            answer(&mut stream, header.cookie, 0, &[5; 512]);
            assert_eq!(self::header(&mut stream).expect("a farewell").command, NBD_CMD_DISC);
        });
    });
    let stream = TcpStream::connect(address).expect("it listens");
    let mut client = Connection::from_stream(stream, Wish::default()).expect("an export");
    let mut into = [0; 512];
    client.read(512, &mut into).expect("an answer");
    assert_eq!(into, [5; 512]);
    client.goodbye();
    serving.join().expect("it went well");
}
