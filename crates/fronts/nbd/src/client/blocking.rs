//! A client on a socket, for a thread that may block: many requests at a time, replies in any
//! order.

use super::{Agreed, Event, Negotiation, Replies, UnderWay, Wish};
use crate::codec::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of the receive buffer: the default capacity of a unix socket.
const BUFFER_BYTES: usize = 256 << 10;
/// Time limit of the whole handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// A connection in transmission. In steady state it allocates no memory.
///
/// Only the kernel buffers replies: [`Connection::send`] waits for the server and receives nothing.
/// A client that sends and receives much at the same time calls [`Connection::pump`], which does
/// both.
pub struct Connection<S = UnixStream> {
    stream: S,
    agreed: Agreed,
    replies: Replies,
    under_way: UnderWay,
    /// Bytes to send, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    buffer: Box<[u8]>,
    /// The part of the buffer that was received and not yet parsed.
    unparsed: Range<usize>,
}

impl Connection {
    /// Connects to a unix socket, and enters transmission.
    ///
    /// # Errors
    /// The system's errors. With [`super::Fault`] as the inner error: the server violates the
    /// protocol, or refuses the export.
    pub fn open(socket: &Path, wish: Wish) -> io::Result<Connection> {
        Connection::from_stream(UnixStream::connect(socket)?, wish)
    }
}

impl<S: AsFd> Connection<S> {
    /// Enters transmission on a connected socket, such as a `TcpStream`.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn from_stream(stream: S, wish: Wish) -> io::Result<Connection<S>> {
        Connection::open_within(stream, wish, HANDSHAKE)
    }

    fn open_within(stream: S, wish: Wish, patience: Duration) -> io::Result<Connection<S>> {
        let mut negotiation = Negotiation::new(wish);
        let mut buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let mut out = Vec::new();
        let until = now() + patience;
        loop {
            let left = until.saturating_duration_since(now());
            if left.is_zero() || !is_ready(&stream, PollFlags::IN, left)? {
                return Err(ErrorKind::TimedOut.into());
            }
            let Some(count) = receive(&stream, &mut buffer, RecvFlags::DONTWAIT)? else { continue };
            let mut input = &buffer[..count];
            let agreed = negotiation.take(&mut input, &mut out)?;
            let unparsed = count - input.len()..count;
            send_all(&stream, &out)?;
            out.clear();
            if let Some(agreed) = agreed {
                let contexts = agreed.contexts.iter().map(|context| context.0).collect();
                let replies = Replies::new(agreed.structured, contexts);
                let under_way = UnderWay::default();
                return Ok(Connection {
                    stream,
                    agreed,
                    replies,
                    under_way,
                    out,
                    sent: 0,
                    buffer,
                    unparsed,
                });
            }
        }
    }

    /// Result of the handshake.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Returns the socket, in transmission, for further use. Bytes that were received and not
    /// parsed are lost.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Number of requests that are queued or in flight.
    pub fn under_way(&self) -> usize {
        self.under_way.count()
    }

    /// Number of queued bytes that are not sent yet.
    pub fn unsent_bytes(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Number of bytes in the queue, including those already sent. The queue is emptied only when
    /// all of them are sent.
    pub fn queued_bytes(&self) -> usize {
        self.out.len()
    }

    /// Queues a request. The caller appends the payload of a write to the returned vector. The
    /// client chooses the cookie, and may reuse it once the request is answered.
    ///
    /// # Panics
    /// If a request with this cookie is in flight.
    #[inline]
    pub fn ask(&mut self, header: &RequestHeader) -> &mut Vec<u8> {
        self.under_way.ask(header, &mut self.out);
        &mut self.out
    }

    /// Sends all queued bytes, and waits as long as that takes.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self) -> io::Result<()> {
        send_all(&self.stream, &self.out[self.sent..])?;
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Sends as many bytes as the socket accepts without waiting. Returns whether any were sent.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send_now(&mut self) -> io::Result<bool> {
        let before = self.sent;
        while self.sent < self.out.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, &self.out[self.sent..], flags) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(self.sent > before),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let moved = self.sent > before;
        self.out.clear();
        self.sent = 0;
        Ok(moved)
    }

    /// Receives once; blocks until data arrives.
    ///
    /// # Errors
    /// The server has closed the connection (`UnexpectedEof`), or the connection broke.
    pub fn receive(&mut self) -> io::Result<()> {
        while !self.receive_once(RecvFlags::empty())? {}
        Ok(())
    }

    /// Receives once without waiting. Returns whether any data was there.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn receive_now(&mut self) -> io::Result<bool> {
        self.receive_once(RecvFlags::DONTWAIT)
    }

    fn receive_once(&mut self, flags: RecvFlags) -> io::Result<bool> {
        if self.unparsed.is_empty() {
            self.unparsed = 0..0;
        }
        if self.unparsed.end == self.buffer.len() {
            // The buffered bytes must be parsed first.
            return Ok(true);
        }
        let received = receive(&self.stream, &mut self.buffer[self.unparsed.end..], flags)?;
        self.unparsed.end += received.unwrap_or(0);
        Ok(received.is_some())
    }

    /// Sends and receives as much as possible, and waits at most `patience` for either.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn pump(&mut self, patience: Duration) -> io::Result<()> {
        self.send_now()?;
        if self.wait(patience)? {
            self.send_now()?;
            self.receive_now()?;
        }
        Ok(())
    }

    /// Waits until data can be received, or queued bytes can be sent. Returns false after
    /// `patience`.
    ///
    /// # Errors
    /// The system's errors.
    pub fn wait(&self, patience: Duration) -> io::Result<bool> {
        let sends = if self.unsent_bytes() > 0 { PollFlags::OUT } else { PollFlags::empty() };
        is_ready(&self.stream, PollFlags::IN | sends, patience)
    }

    /// Returns the next event of the received bytes. None: more bytes must be received.
    ///
    /// # Errors
    /// The server violates the protocol.
    #[inline]
    pub fn event(&mut self) -> io::Result<Option<Event<'_>>> {
        let mut input = &self.buffer[self.unparsed.clone()];
        let event = self.replies.take(&mut input, &mut self.under_way)?;
        self.unparsed.start = self.unparsed.end - input.len();
        Ok(event)
    }

    /// Reads `into.len()` bytes, and waits for them. No other request may be in flight.
    ///
    /// # Errors
    /// The server answers with an error, whose name is included; the connection broke.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let length = length_of(into.len())?;
        self.start(NBD_CMD_READ, 0, offset, length, &[])?;
        self.finish(NBD_CMD_READ, |event| match event {
            Event::Data { at, bytes, .. } => {
                into[at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Event::Zeros { at, length, .. } => into[at as usize..][..length as usize].fill(0),
            _ => {}
        })
    }

    /// Writes, and waits for the answer; `flags` are `NBD_CMD_FLAG_...`. No other request may be in
    /// flight.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> io::Result<()> {
        self.start(NBD_CMD_WRITE, flags, offset, length_of(data.len())?, data)?;
        self.finish(NBD_CMD_WRITE, |_| ())
    }

    /// Sends a command without data, such as a flush or a trim, and waits for the answer. No other
    /// request may be in flight.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn plain(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> io::Result<()> {
        self.start(command, flags, offset, length, &[])?;
        self.finish(command, |_| ())
    }

    /// Flushes, and waits for the answer. No other request may be in flight.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.plain(NBD_CMD_FLUSH, 0, 0, 0)
    }

    /// Requests the block status in each selected context, and waits for it. No other request may
    /// be in flight.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn status(
        &mut self,
        flags: u16,
        offset: u64,
        length: u32,
    ) -> io::Result<Vec<(u32, Vec<Descriptor>)>> {
        let mut contexts = Vec::new();
        self.start(NBD_CMD_BLOCK_STATUS, flags, offset, length, &[])?;
        self.finish(NBD_CMD_BLOCK_STATUS, |event| {
            if let Event::Status { context, extents, .. } = event {
                contexts.push((context, extents));
            }
        })?;
        Ok(contexts)
    }

    /// Sends the farewell as far as that is possible without waiting. Errors are ignored: the
    /// server may have gone.
    pub fn goodbye(&mut self) {
        let header =
            RequestHeader { flags: 0, command: NBD_CMD_DISC, cookie: 0, offset: 0, length: 0 };
        self.ask(&header);
        let _ = self.send_now();
    }

    fn start(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> io::Result<()> {
        if self.under_way() > 0 {
            let text = "only one request may be in flight: take the events of the others first";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        self.ask(&RequestHeader { flags, command, cookie: 0, offset, length });
        self.send()?;
        // The data is sent from the caller's memory, without a copy.
        send_all(&self.stream, data)
    }

    /// Handles events until the only request is answered.
    fn finish(&mut self, command: u16, mut take: impl FnMut(Event<'_>)) -> io::Result<()> {
        loop {
            match self.event()? {
                None => self.receive()?,
                Some(Event::Done { error: 0, .. }) => return Ok(()),
                Some(Event::Done { error, .. }) => {
                    let (command, error) = (command_name(command), error_name(error));
                    let text = format!("the NBD server answers {command} with {error}");
                    return Err(io::Error::other(text));
                }
                Some(event) => take(event),
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "this client has no lane: it waits in the kernel")]
fn now() -> Instant {
    Instant::now()
}

fn length_of(bytes: usize) -> io::Result<u32> {
    let text = "a request is shorter than 4 GiB: cut it";
    u32::try_from(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidInput, text))
}

fn is_ready(stream: &impl AsFd, wanted: PollFlags, patience: Duration) -> io::Result<bool> {
    let time = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(stream, wanted)], Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        // The caller checks again.
        Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

fn send_all(stream: &impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match send(stream, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            // The socket does not block, so wait here.
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(stream, PollFlags::OUT)], None).or_else(retried)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn retried(errno: Errno) -> io::Result<usize> {
    if errno == Errno::INTR { Ok(0) } else { Err(errno.into()) }
}

/// Receives once. None: no data is there now.
fn receive(stream: &impl AsFd, into: &mut [u8], flags: RecvFlags) -> io::Result<Option<usize>> {
    match recv(stream, into, flags) {
        Ok((0, _)) => {
            let text = "the NBD server has ended the connection";
            Err(io::Error::new(ErrorKind::UnexpectedEof, text))
        }
        Ok((count, _)) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_server_that_greets_a_byte_at_a_time_is_not_waited_for_without_end() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let server = std::thread::spawn(move || {
            let (_ours, waiting) = UnixStream::pair().expect("a pair");
            let greets = |_: &u32| theirs.write_all(b"N").is_ok();
            let pause = Duration::from_millis(50);
            (0..100).take_while(greets).all(|_| is_ready(&waiting, PollFlags::IN, pause).is_ok());
        });
        let result = Connection::open_within(ours, Wish::default(), Duration::from_millis(200));
        assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
        server.join().expect("it ends with its client");
    }
}
