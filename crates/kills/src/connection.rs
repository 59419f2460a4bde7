//! A client's connection: the handshake, then requests and replies without waiting for either.

use nbd::codec::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Bytes received at a time.
const PIECE_BYTES: usize = 256 << 10;
/// How long the handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// What the server told about its export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it takes trims.
    pub trims: bool,
}

/// A reply's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The request's.
    pub cookie: u64,
    /// 0, or an `NBD_E...`.
    pub error: u32,
}

/// A connection in transmission.
pub struct Connection {
    stream: UnixStream,
    /// Still to be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Received, and not yet taken, from `taken` on.
    received: Vec<u8>,
    taken: usize,
}

fn strange(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the server's handshake: {what}"))
}

fn take<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn negotiate(stream: &mut UnixStream) -> io::Result<Told> {
    Greeting::parse(&take(stream)?).ok_or_else(|| strange("no newstyle server"))?;
    let flags = NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES;
    let mut out = flags.to_be_bytes().to_vec();
    put_option(&mut out, NBD_OPT_GO, &InfoRequest::encode("", &[]));
    stream.write_all(&out)?;
    let mut told = None;
    loop {
        let header = OptionReplyHeader::parse(&take(stream)?);
        let header = header.ok_or_else(|| strange("a reply without its magic number"))?;
        let mut data = vec![0; header.length.min(1 << 16) as usize];
        stream.read_exact(&mut data)?;
        match header.kind {
            NBD_REP_INFO => told = ExportInfo::parse(&data).or(told),
            NBD_REP_ACK => break,
            kind => return Err(strange(&format!("it refuses the export ({kind:#x})"))),
        }
    }
    let told = told.ok_or_else(|| strange("nothing about the export"))?;
    Ok(Told { bytes: told.bytes, trims: told.flags & NBD_FLAG_SEND_TRIM != 0 })
}

impl Connection {
    /// Connects, and enters transmission with the first export.
    ///
    /// # Errors
    /// What the system says; that the server does not speak the protocol.
    pub fn open(socket: &Path) -> io::Result<(Connection, Told)> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(HANDSHAKE))?;
        let told = negotiate(&mut stream)?;
        stream.set_nonblocking(true)?;
        let connection =
            Connection { stream, out: Vec::new(), sent: 0, received: Vec::new(), taken: 0 };
        Ok((connection, told))
    }

    /// Queues a request; a write's payload is appended to what is returned.
    pub fn request(&mut self, header: &RequestHeader) -> &mut Vec<u8> {
        self.out.extend_from_slice(&header.encode());
        &mut self.out
    }

    /// Sends and receives what can be, waiting at most so long for either.
    ///
    /// # Errors
    /// The connection has ended, or broke.
    pub fn pump(&mut self, patience: Duration) -> io::Result<()> {
        self.send()?;
        let wanted =
            if self.out.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let time =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.stream, wanted)], Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.send()?;
        self.receive()
    }

    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let length = self.received.len();
        self.received.resize(length + PIECE_BYTES, 0);
        let result = self.stream.read(&mut self.received[length..]);
        self.received.truncate(length + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next reply with its payload, if it is there whole. `payload` tells how many bytes follow a
    /// reply without an error; None: nobody asked for that.
    ///
    /// # Errors
    /// What came is no reply, or to no request of ours.
    pub fn reply(
        &mut self,
        payload: impl FnOnce(u64) -> Option<usize>,
    ) -> io::Result<Option<(Reply, &[u8])>> {
        let rest = &self.received[self.taken..];
        let Some(head) = rest.first_chunk::<SIMPLE_REPLY_BYTES>() else { return Ok(None) };
        let SimpleReply { error, cookie } =
            SimpleReply::parse(head).ok_or_else(|| strange("a reply without its magic number"))?;
        let length = payload(cookie).ok_or_else(|| strange("a reply to no request"))?;
        let length = if error == 0 { length } else { 0 };
        if rest.len() < SIMPLE_REPLY_BYTES + length {
            return Ok(None);
        }
        let start = self.taken + SIMPLE_REPLY_BYTES;
        self.taken = start + length;
        Ok(Some((Reply { cookie, error }, &self.received[start..start + length])))
    }
}
