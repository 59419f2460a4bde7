//! A client of our own: one connection, one thread, no memory taken while it runs, so that what it
//! can ask for at most is far above what servers can answer.
//!
//! It speaks the protocol by the codec that the server uses, without structured replies. It can
//! block, or look again and again without sleeping; keep a window of reads under way, or offer a
//! fixed load whatever the answers do.

mod null;
mod paced;
mod pipeline;
mod replay;

pub(crate) use null::NullServer;
pub(crate) use paced::Paced;
pub(crate) use pipeline::{Run, Window};
pub(crate) use replay::{Replayed, Timed};

use crate::sides::wall_ns;
use anyhow::{Context, Result, bail, ensure};
use nbd::codec::*;
use rustix::net::RecvFlags;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The size of every read of a load.
pub(crate) const BLOCK: usize = 4096;
/// The most reads that a client has under way.
pub(crate) const WINDOW_MAX: usize = 256;
/// The receive buffer: as much as a unix socket holds by default.
const BUFFER_BYTES: usize = 256 << 10;

/// How a client waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// In the kernel.
    Blocked,
    /// It asks again and again, and never sleeps.
    Spinning,
}

impl Waiting {
    fn flags(self) -> RecvFlags {
        match self {
            Waiting::Blocked => RecvFlags::empty(),
            Waiting::Spinning => RecvFlags::DONTWAIT,
        }
    }
}

/// One connection to a server.
pub(crate) struct Client {
    stream: UnixStream,
    bytes: u64,
    buffer: Box<[u8]>,
    /// Bytes of a header that has come in part, at the start of the buffer.
    partial: usize,
    /// The read whose payload is coming, and how many of its bytes are still to come.
    answering: u16,
    skip: usize,
    outgoing: Vec<u8>,
    /// When the read in each place of the window was asked for.
    asked_ns: [u64; WINDOW_MAX],
    /// Places of the window whose reads have been answered.
    free: Vec<u16>,
}

impl Client {
    /// Connects to the export of this name (or the only one there is) at a unix socket.
    ///
    /// # Errors
    /// If nobody listens there, or does not speak the protocol.
    pub(crate) fn connect(socket: &Path, name: &str) -> Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        let bytes = shake_hands(&mut stream, name)?;
        Ok(Client {
            stream,
            bytes,
            buffer: vec![0; BUFFER_BYTES].into(),
            partial: 0,
            answering: 0,
            skip: 0,
            outgoing: Vec::with_capacity(WINDOW_MAX * REQUEST_BYTES),
            asked_ns: [0; WINDOW_MAX],
            free: Vec::with_capacity(WINDOW_MAX),
        })
    }

    /// How many blocks the export has.
    pub(crate) fn blocks(&self) -> u64 {
        self.bytes / BLOCK as u64
    }

    /// Writes, and waits for the answer.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let length = data.len() as u32;
        self.command(NBD_CMD_WRITE, offset, length)?;
        self.stream.write_all(data)?;
        self.answered()
    }

    /// Reads as much as `into` holds, and waits for it.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.command(NBD_CMD_READ, offset, into.len() as u32)?;
        self.answered()?;
        self.stream.read_exact(into)?;
        Ok(())
    }

    /// Flushes, and waits for the answer.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.command(NBD_CMD_FLUSH, 0, 0)?;
        self.answered()
    }

    /// Reads all of the volume in order, so that a cache that has room holds it.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn read_all(&mut self) -> Result<()> {
        let mut chunk = vec![0; 64 << 10];
        for offset in (0..self.bytes).step_by(chunk.len()) {
            let length = chunk.len().min((self.bytes - offset) as usize);
            self.read(offset, &mut chunk[..length])?;
        }
        Ok(())
    }

    fn command(&mut self, command: u16, offset: u64, length: u32) -> Result<()> {
        let header = RequestHeader { flags: 0, command, cookie: 0, offset, length };
        self.stream.write_all(&header.encode())?;
        Ok(())
    }

    fn answered(&mut self) -> Result<()> {
        let reply: [u8; SIMPLE_REPLY_BYTES] = take(&mut self.stream)?;
        let reply = SimpleReply::parse(&reply).context("a reply that is none")?;
        ensure!(reply.error == 0, "the server answers with error {}", reply.error);
        Ok(())
    }

    /// Queues a read of a block for the next [`Client::send`].
    #[inline]
    fn ask(&mut self, place: u16, block: u64, now_ns: u64) {
        self.asked_ns[usize::from(place)] = now_ns;
        let header = RequestHeader {
            flags: 0,
            command: NBD_CMD_READ,
            cookie: place.into(),
            offset: block * BLOCK as u64,
            length: BLOCK as u32,
        };
        self.outgoing.extend_from_slice(&header.encode());
    }

    fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }

    /// Receives once, as much as there is. None: there is nothing now.
    fn receive(&mut self, flags: RecvFlags) -> Result<Option<usize>> {
        let result = rustix::net::recv(&self.stream, &mut self.buffer[self.partial..], flags);
        match result {
            Ok((0, _)) => bail!("the server has ended the connection"),
            Ok((count, _)) => Ok(Some(count)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Receives at least once, and tells of every read that is answered by that: how long it took.
    /// Its place is then free. Returns the time, and how many there were.
    fn hear(&mut self, waiting: Waiting, heard: &mut impl FnMut(u64)) -> Result<(u64, usize)> {
        let count = loop {
            match self.receive(waiting.flags())? {
                Some(count) => break count,
                None => std::hint::spin_loop(),
            }
        };
        let now_ns = wall_ns();
        let answered = self.understand(count, now_ns, heard)?;
        Ok((now_ns, answered))
    }

    /// Goes through bytes that have just been received behind those kept. A read is answered when
    /// the last byte of its payload has come.
    fn understand(
        &mut self,
        count: usize,
        now_ns: u64,
        heard: &mut impl FnMut(u64),
    ) -> Result<usize> {
        let end = self.partial + count;
        let (mut at, mut answered) = (0, 0);
        loop {
            if self.skip > 0 {
                let skipped = self.skip.min(end - at);
                at += skipped;
                self.skip -= skipped;
                if self.skip > 0 {
                    break;
                }
                answered += 1;
                heard(now_ns.saturating_sub(self.asked_ns[usize::from(self.answering)]));
                self.free.push(self.answering);
            }
            let Some(header) = self.buffer[at..end].first_chunk() else { break };
            let reply = SimpleReply::parse(header).context("a reply that is none")?;
            ensure!(reply.error == 0, "the server answers with error {}", reply.error);
            ensure!(reply.cookie < WINDOW_MAX as u64, "a reply to what was never asked");
            self.answering = reply.cookie as u16;
            at += SIMPLE_REPLY_BYTES;
            self.skip = BLOCK;
        }
        self.partial = end - at;
        self.buffer.copy_within(at..end, 0);
        Ok(answered)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The server may have gone before.
        let _ = self.command(NBD_CMD_DISC, 0, 0);
    }
}

fn take<const BYTES: usize>(stream: &mut UnixStream) -> std::io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The handshake of a newstyle server; returns the export's size in bytes.
fn shake_hands(stream: &mut UnixStream, name: &str) -> Result<u64> {
    let greeting: [u8; GREETING_BYTES] = take(stream)?;
    Greeting::parse(&greeting).context("this is no newstyle NBD server")?;
    let flags = NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES;
    let mut out = flags.to_be_bytes().to_vec();
    put_option(&mut out, NBD_OPT_GO, &InfoRequest::encode(name, &[]));
    stream.write_all(&out)?;
    let mut bytes = None;
    loop {
        let header: [u8; OPTION_REPLY_HEADER_BYTES] = take(stream)?;
        let header = OptionReplyHeader::parse(&header).context("a reply that is none")?;
        ensure!(header.length as usize <= OPTION_BYTES_MAX, "an option's reply is too long");
        let mut data = vec![0; header.length as usize];
        stream.read_exact(&mut data)?;
        match header.kind {
            NBD_REP_INFO => bytes = ExportInfo::parse(&data).map(|info| info.bytes).or(bytes),
            NBD_REP_ACK => return bytes.context("the server does not tell the size"),
            kind => bail!("the server refuses the export {name}, {kind:#x}"),
        }
    }
}
