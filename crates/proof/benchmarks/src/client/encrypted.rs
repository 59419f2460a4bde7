//! A client over TLS that keeps a window of reads under way, on one thread, in the kernel's waits.
//!
//! Like the plain client it sends together what is queued, and receives as much as there is, so
//! that its own cost is small and the same for every server.

use super::{BLOCK, Run, VOLUME, Window};
use crate::sides::wall_ns;
use anyhow::{Context, Result, ensure};
use nbd::client::{Event, Negotiation, Replies, UnderWay, Wish};
use nbd::codec::{NBD_CMD_READ, RequestHeader};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tls::{ClientTls, Session};

/// Bytes that are received together, encrypted: the default capacity of a unix socket.
const BUFFER_BYTES: usize = 256 << 10;

/// A connection in transmission over TLS.
pub(crate) struct EncryptedClient {
    stream: UnixStream,
    session: Session,
    blocks: u64,
    replies: Replies,
    under_way: UnderWay,
    /// Requests that are not sent yet.
    out: Vec<u8>,
    received: Box<[u8]>,
    plain: Box<[u8]>,
}

impl EncryptedClient {
    /// Connects to the export of a server that offers TLS, and trusts the certificates of a
    /// directory.
    ///
    /// # Errors
    /// If no server listens there, or it does not use the protocol, or is not trusted.
    pub(crate) fn connect(socket: &Path, certificates: &Path) -> Result<EncryptedClient> {
        let tls = ClientTls::open(certificates, "localhost").map_err(anyhow::Error::msg)?;
        let mut stream = UnixStream::connect(socket)?;
        let mut negotiation = Negotiation::over_tls(Wish::export(VOLUME));
        let (mut out, mut bytes) = (Vec::new(), vec![0; BUFFER_BYTES].into_boxed_slice());
        while !negotiation.starts_tls() {
            let count = stream.read(&mut bytes)?;
            ensure!(count > 0, "the server has ended the handshake");
            negotiation.take(&mut &bytes[..count], &mut out)?;
            stream.write_all(&std::mem::take(&mut out))?;
        }
        let mut session = tls.session();
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        negotiation.protect(&mut out);
        let mut client = EncryptedClient {
            stream,
            session,
            blocks: 0,
            replies: Replies::new(false, Vec::new()),
            under_way: UnderWay::default(),
            out,
            received: vec![0; BUFFER_BYTES].into_boxed_slice(),
            plain: bytes,
        };
        let agreed = loop {
            client.send()?;
            let count = client.receive()?;
            let mut input = &client.plain[..count];
            if let Some(agreed) = negotiation.take(&mut input, &mut client.out)? {
                break agreed;
            }
        };
        client.blocks = agreed.export.bytes / BLOCK as u64;
        Ok(client)
    }

    /// Returns the number of blocks of the export.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the name of the cipher.
    pub(crate) fn cipher(&self) -> String {
        let suite = self.session.negotiated_cipher_suite();
        suite.map_or_else(String::new, |suite| format!("{:?}", suite.suite()))
    }

    /// Keeps a window of reads under way, of the blocks that `next` returns.
    ///
    /// # Errors
    /// If the server refuses one, or the connection breaks.
    pub(crate) fn reads(&mut self, window: Window, mut next: impl FnMut() -> u64) -> Result<Run> {
        let start = wall_ns();
        for cookie in 0..window.reads as u64 {
            self.queue_read(cookie, next());
        }
        let end = start + window.run_ms * 1_000_000;
        let (mut requests, mut answered) = (0, Vec::with_capacity(window.reads));
        let now = loop {
            self.send()?;
            self.receive_answers(&mut answered)?;
            requests += answered.len() as u64;
            let now = wall_ns();
            if now >= end {
                break now;
            }
            for cookie in answered.drain(..) {
                self.queue_read(cookie, next());
            }
        };
        while self.under_way.count() > 0 {
            self.receive_answers(&mut answered)?;
        }
        Ok(Run { requests, took_ns: now - start })
    }

    fn queue_read(&mut self, cookie: u64, block: u64) {
        let (offset, length) = (block * BLOCK as u64, BLOCK as u32);
        let header = RequestHeader { flags: 0, command: NBD_CMD_READ, cookie, offset, length };
        self.under_way.ask(&header, &mut self.out);
    }

    /// Receives once, and adds the cookies of the reads that this answers.
    fn receive_answers(&mut self, answered: &mut Vec<u64>) -> Result<()> {
        let count = self.receive()?;
        let mut input = &self.plain[..count];
        while let Some(event) = self.replies.take(&mut input, &mut self.under_way)? {
            if let Event::Done { cookie, error } = event {
                ensure!(error == 0, "the server answers with error {error}");
                answered.push(cookie);
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        self.session.writer().write_all(&self.out)?;
        self.out.clear();
        while self.session.wants_write() {
            self.session.write_tls(&mut self.stream)?;
        }
        Ok(())
    }

    /// Receives once, and decrypts all of it. Returns the number of plain bytes: 0 if only a part
    /// of a record has arrived.
    fn receive(&mut self) -> Result<usize> {
        let count = self.stream.read(&mut self.received)?;
        ensure!(count > 0, "the server has ended the connection");
        let (mut encrypted, mut done) = (&self.received[..count], 0);
        while !encrypted.is_empty() {
            self.session.read_tls(&mut encrypted)?;
            self.session.process_new_packets().context("TLS")?;
            // An error: there are no bytes now.
            while let Ok(count @ 1..) = self.session.reader().read(&mut self.plain[done..]) {
                done += count;
            }
        }
        Ok(done)
    }
}
