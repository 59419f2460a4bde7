//! A server that answers without any lookup: the maximum rate of the client, the socket and the
//! kernel together.

use super::VOLUME;
use super::Waiting;
use crate::processors::Processors;
use anyhow::Result;
use block::{Memory, Part};
use host::File;
use lane::Lane;
use nbd::codec::*;
use ring::Ring;
use rustix::io::Errno;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Its receive buffer, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Maximum number of replies sent in one call: the default capacity of a unix socket.
const REPLIES_MAX: usize = 48;
const REPLY_BYTES: usize = SIMPLE_REPLY_BYTES + super::BLOCK;

/// The server; it serves one client after the other, on a thread of this process, until the process
/// ends.
pub(crate) struct NullServer {
    socket: PathBuf,
}

impl NullServer {
    /// Starts it, with a volume of `bytes` bytes. One that spins does so as long as a client is
    /// connected.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub(crate) fn start(
        socket: &Path,
        bytes: u64,
        waiting: Waiting,
        processors: &Processors,
    ) -> Result<NullServer> {
        let listener = UnixListener::bind(socket)?;
        let processors = processors.clone();
        std::thread::Builder::new().name("null-server".into()).spawn(move || {
            if processors.take_servers().is_err() {
                return;
            }
            for stream in listener.incoming().flatten() {
                // A disconnect ends the connection, not the server.
                let _ = serve(stream, bytes, waiting);
            }
        })?;
        Ok(NullServer { socket: socket.to_owned() })
    }

    /// Connects a client.
    ///
    /// # Errors
    /// Those of the client.
    pub(crate) fn connect(&self) -> Result<super::Client> {
        super::Client::connect(&self.socket, VOLUME)
    }
}

/// Runs the handshake of our own client, then replies.
fn serve(mut stream: UnixStream, bytes: u64, waiting: Waiting) -> Result<()> {
    let flags = NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES;
    stream.write_all(&Greeting { flags }.encode())?;
    let mut asked = [0; 4 + OPTION_HEADER_BYTES];
    stream.read_exact(&mut asked)?;
    let header = asked.last_chunk().and_then(OptionHeader::parse);
    let length = header.map_or(0, |header| header.length as usize).min(OPTION_BYTES_MAX);
    stream.read_exact(&mut vec![0; length])?;
    let mut out = Vec::new();
    let info = info_export(&ExportInfo { bytes, flags: NBD_FLAG_HAS_FLAGS });
    put_reply(&mut out, NBD_OPT_GO, NBD_REP_INFO, &info);
    put_reply(&mut out, NBD_OPT_GO, NBD_REP_ACK, &[]);
    stream.write_all(&out)?;
    match waiting {
        Waiting::OnRing => answer_on_ring(stream),
        _ => answer(&mut stream, waiting),
    }
}

/// Answers on a lane and its ring, one read at a time.
fn answer_on_ring(stream: UnixStream) -> Result<()> {
    let ring = Ring::new(&Lane::new())?;
    let (socket, serve) = (File::new(stream.into()), ring.clone());
    let [requests, replies] =
        [BUFFER_BYTES, REPLY_BYTES].map(|bytes| Arc::new(Memory::heap(bytes)));
    let answers = async move {
        let mut request = [0; REQUEST_BYTES];
        while let Ok(REQUEST_BYTES) = serve.receive(&socket, &requests, 0, BUFFER_BYTES).await {
            requests.read(0, &mut request);
            let header = RequestHeader::parse(&request);
            let Some(header) = header.filter(|header| header.command == NBD_CMD_READ) else {
                return;
            };
            replies.write(0, &SimpleReply { error: 0, cookie: header.cookie }.encode());
            let part = Part { memory: replies.clone(), offset: 0, length: REPLY_BYTES };
            if serve.send(&socket, &[part]).await.is_err() {
                return;
            }
        }
    };
    Ok(ring.block_on(answers)?)
}

/// Answers all received requests, always with the same bytes except for the cookies.
fn answer(stream: &mut UnixStream, waiting: Waiting) -> Result<()> {
    let flags = waiting.flags();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut replies = vec![0; REPLIES_MAX * REPLY_BYTES];
    let mut kept = 0;
    loop {
        let count = match rustix::net::recv(&*stream, &mut buffer[kept..], flags) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        if count == 0 {
            return Ok(());
        }
        let end = kept + count;
        let (requests, rest) = buffer[..end].as_chunks::<REQUEST_BYTES>();
        for run in requests.chunks(REPLIES_MAX) {
            for (index, request) in run.iter().enumerate() {
                let Some(header) = RequestHeader::parse(request) else { return Ok(()) };
                if header.command != NBD_CMD_READ {
                    return Ok(());
                }
                let reply = SimpleReply { error: 0, cookie: header.cookie }.encode();
                let at = index * REPLY_BYTES;
                replies[at..at + SIMPLE_REPLY_BYTES].copy_from_slice(&reply);
            }
            stream.write_all(&replies[..run.len() * REPLY_BYTES])?;
        }
        kept = rest.len();
        buffer.copy_within(end - kept..end, 0);
    }
}
