//! A client on a socket, for one thread that may wait: many requests at a time, replies in any order.

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

/// The receive buffer: as much as a unix socket holds by default.
const BUFFER_BYTES: usize = 256 << 10;
/// How long a server may take for the whole handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// A connection in transmission. In stride it takes no memory.
///
/// It holds no more than the kernel does: a client that has much to send and much to receive calls
/// [`Connection::pump`], which does both; [`Connection::send`] waits for the server alone.
pub struct Connection<S = UnixStream> {
    stream: S,
    agreed: Agreed,
    replies: Replies,
    under_way: UnderWay,
    /// To be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    buffer: Box<[u8]>,
    /// What of the buffer has come, and is not yet understood.
    heard: Range<usize>,
}

impl Connection {
    /// Connects to a unix socket, and enters transmission.
    ///
    /// # Errors
    /// What the system says; [`super::Fault`], as the inner error: the server breaks the protocol,
    /// or refuses.
    pub fn open(socket: &Path, wish: Wish) -> io::Result<Connection> {
        Connection::over(UnixStream::connect(socket)?, wish)
    }
}

impl<S: AsFd> Connection<S> {
    /// Enters transmission on a socket that is connected, a `TcpStream` for one.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn over(stream: S, wish: Wish) -> io::Result<Connection<S>> {
        Connection::within(stream, wish, HANDSHAKE)
    }

    fn within(stream: S, wish: Wish, patience: Duration) -> io::Result<Connection<S>> {
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
            let heard = count - input.len()..count;
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
                    heard,
                });
            }
        }
    }

    /// What the handshake came to.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// The socket, in transmission, for another to go on with. What has come on it and was not taken is lost.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// How many requests are queued or under way.
    pub fn under_way(&self) -> usize {
        self.under_way.count()
    }

    /// How many bytes are queued, and not yet sent.
    pub fn unsent_bytes(&self) -> usize {
        self.out.len() - self.sent
    }

    /// How many bytes the queue holds until all of them are sent, those among them that are.
    pub fn queued_bytes(&self) -> usize {
        self.out.len()
    }

    /// Queues a request; the payload of a write is appended to what is returned. The client chooses
    /// the cookie, and may use it again once the request is answered.
    ///
    /// # Panics
    /// If a request with this cookie is under way.
    #[inline]
    pub fn ask(&mut self, header: &RequestHeader) -> &mut Vec<u8> {
        self.under_way.ask(header, &mut self.out);
        &mut self.out
    }

    /// Sends all that is queued, however long that takes.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self) -> io::Result<()> {
        send_all(&self.stream, &self.out[self.sent..])?;
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Sends what the socket takes at once. True: something was sent.
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

    /// Receives once, and waits in the kernel until something comes.
    ///
    /// # Errors
    /// The server has ended the connection (`UnexpectedEof`), or it broke.
    pub fn receive(&mut self) -> io::Result<()> {
        while !self.receive_once(RecvFlags::empty())? {}
        Ok(())
    }

    /// Receives once, what has come. True: something has.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn receive_now(&mut self) -> io::Result<bool> {
        self.receive_once(RecvFlags::DONTWAIT)
    }

    fn receive_once(&mut self, flags: RecvFlags) -> io::Result<bool> {
        if self.heard.is_empty() {
            self.heard = 0..0;
        }
        if self.heard.end == self.buffer.len() {
            // What lies there has to be understood first.
            return Ok(true);
        }
        let received = receive(&self.stream, &mut self.buffer[self.heard.end..], flags)?;
        self.heard.end += received.unwrap_or(0);
        Ok(received.is_some())
    }

    /// Sends and receives what can be, and waits at most so long for either.
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

    /// Waits until something can be received, or sent of what is queued. False: not for so long.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self, patience: Duration) -> io::Result<bool> {
        let sends = if self.unsent_bytes() > 0 { PollFlags::OUT } else { PollFlags::empty() };
        is_ready(&self.stream, PollFlags::IN | sends, patience)
    }

    /// The next thing that what was received tells. None: more has to be received.
    ///
    /// # Errors
    /// The server breaks the protocol.
    #[inline]
    pub fn event(&mut self) -> io::Result<Option<Event<'_>>> {
        let mut input = &self.buffer[self.heard.clone()];
        let event = self.replies.take(&mut input, &mut self.under_way)?;
        self.heard.start = self.heard.end - input.len();
        Ok(event)
    }

    /// Reads as much as `into` holds, and waits for it. Nothing else may be under way.
    ///
    /// # Errors
    /// The server answers with an error, named; the connection broke.
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

    /// Writes, and waits for the answer; `flags` are `NBD_CMD_FLAG_...`. Nothing else may be under way.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> io::Result<()> {
        self.start(NBD_CMD_WRITE, flags, offset, length_of(data.len())?, data)?;
        self.finish(NBD_CMD_WRITE, |_| ())
    }

    /// Any command that carries no data, such as a flush or a trim, and waits for the answer.
    /// Nothing else may be under way.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn plain(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> io::Result<()> {
        self.start(command, flags, offset, length, &[])?;
        self.finish(command, |_| ())
    }

    /// Flushes, and waits for the answer. Nothing else may be under way.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.plain(NBD_CMD_FLUSH, 0, 0, 0)
    }

    /// Block status in each context that was agreed on, and waits for it. Nothing else may be under
    /// way.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub fn status(
        &mut self,
        flags: u16,
        offset: u64,
        length: u32,
    ) -> io::Result<Vec<(u32, Vec<Descriptor>)>> {
        let mut told = Vec::new();
        self.start(NBD_CMD_BLOCK_STATUS, flags, offset, length, &[])?;
        self.finish(NBD_CMD_BLOCK_STATUS, |event| {
            if let Event::Status { context, extents, .. } = event {
                told.push((context, extents));
            }
        })?;
        Ok(told)
    }

    /// Tells the server that nothing more will come, as far as it can be told at once. A server that
    /// has gone needs no farewell.
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
            let text = "one request at a time, but others are under way: take their events first";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        self.ask(&RequestHeader { flags, command, cookie: 0, offset, length });
        self.send()?;
        // The data goes from where it lies.
        send_all(&self.stream, data)
    }

    /// Takes events until the only request is answered.
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
        // The caller looks again.
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
            // A socket that does not wait: so we do.
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

/// Receives once. None: there is nothing now.
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
        let result = Connection::within(ours, Wish::default(), Duration::from_millis(200));
        assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
        server.join().expect("it ends with its client");
    }
}
