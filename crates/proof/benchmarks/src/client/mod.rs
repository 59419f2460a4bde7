//! Our own client: one connection, one thread, no allocation while it runs, so that its maximum
//! rate is far above that of the servers.
//!
//! It uses the protocol of `nbd::client`, without structured replies. It can block or busy-wait,
//! and keep a window of reads under way or offer a fixed load independent of the answers.

mod encrypted;
mod null;
mod paced;
mod pipeline;
mod replay;

pub(crate) use encrypted::EncryptedClient;
pub(crate) use null::NullServer;
pub(crate) use paced::Paced;
pub(crate) use pipeline::{Run, Window};
pub(crate) use replay::Replayed;

use crate::sides::wall_ns;
use anyhow::{Result, ensure};
use nbd::client::{Connection, Event, Wish};
use nbd::codec::*;
use rustix::net::RecvFlags;
use std::path::Path;

/// The name of every volume here.
pub(crate) const VOLUME: &str = "figures";

/// The size of every read of a load.
pub(crate) const BLOCK: usize = 4096;
/// Maximum number of reads that a client has under way.
pub(crate) const WINDOW_MAX: usize = 256;

/// How a client waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// In the kernel.
    Blocked,
    /// It polls the socket, and never sleeps.
    Spinning,
    /// On the ring of a lane, as the daemon does. For servers.
    OnRing,
}

impl Waiting {
    fn flags(self) -> RecvFlags {
        match self {
            Waiting::Blocked | Waiting::OnRing => RecvFlags::empty(),
            Waiting::Spinning => RecvFlags::DONTWAIT,
        }
    }
}

/// One connection to a server.
pub(crate) struct Client {
    connection: Connection,
    /// The time when the read in each slot of the window was sent.
    asked_ns: [u64; WINDOW_MAX],
    /// Slots of the window whose reads have been answered.
    free: Vec<u16>,
}

impl Client {
    /// Connects to the export of this name (or the only existing one) at a unix socket.
    ///
    /// # Errors
    /// If no server listens there, or it does not use the protocol.
    pub(crate) fn connect(socket: &Path, name: &str) -> Result<Client> {
        let connection = Connection::open(socket, Wish::export(name))?;
        Ok(Client { connection, asked_ns: [0; WINDOW_MAX], free: Vec::with_capacity(WINDOW_MAX) })
    }

    fn bytes(&self) -> u64 {
        self.connection.agreed().export.bytes
    }

    /// Returns the number of blocks of the export.
    pub(crate) fn blocks(&self) -> u64 {
        self.bytes() / BLOCK as u64
    }

    /// Writes, and waits for the answer.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        Ok(self.connection.write(0, offset, data)?)
    }

    /// Reads as many bytes as `into` holds, and waits for them.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.connection.read(offset, into)?)
    }

    /// Flushes, and waits for the answer.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.connection.flush()?)
    }

    /// Reads the whole volume in order, so that a large enough cache holds it.
    ///
    /// # Errors
    /// If the server refuses, or the connection breaks.
    pub(crate) fn read_all(&mut self) -> Result<()> {
        let mut chunk = vec![0; 64 << 10];
        for offset in (0..self.bytes()).step_by(chunk.len()) {
            let length = chunk.len().min((self.bytes() - offset) as usize);
            self.read(offset, &mut chunk[..length])?;
        }
        Ok(())
    }

    /// Queues a read of a block, to be sent together with others.
    #[inline]
    fn queue_read(&mut self, place: u16, block: u64, now_ns: u64) {
        self.asked_ns[usize::from(place)] = now_ns;
        self.connection.ask(&RequestHeader {
            flags: 0,
            command: NBD_CMD_READ,
            cookie: place.into(),
            offset: block * BLOCK as u64,
            length: BLOCK as u32,
        });
    }

    /// Receives at least once, and passes the latency of every read that this answers to
    /// `record_latency`. The slot of the read is then free. Returns the time, and the number of
    /// reads.
    fn receive_answers(
        &mut self,
        waiting: Waiting,
        record_latency: &mut impl FnMut(u64),
    ) -> Result<(u64, usize)> {
        match waiting {
            Waiting::Blocked | Waiting::OnRing => self.connection.receive()?,
            Waiting::Spinning => {
                while !self.connection.receive_now()? {
                    std::hint::spin_loop();
                }
            }
        }
        let now_ns = wall_ns();
        let answered = self.process_received(now_ns, record_latency)?;
        Ok((now_ns, answered))
    }

    /// Processes the received bytes. A read is answered when the last byte of its payload has
    /// arrived.
    fn process_received(
        &mut self,
        now_ns: u64,
        record_latency: &mut impl FnMut(u64),
    ) -> Result<usize> {
        let mut answered = 0;
        while let Some(event) = self.connection.event()? {
            if let Event::Done { cookie, error } = event {
                ensure!(error == 0, "the server answers with {}", error_name(error));
                answered += 1;
                record_latency(now_ns.saturating_sub(self.asked_ns[cookie as usize]));
                self.free.push(cookie as u16);
            }
        }
        Ok(answered)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.goodbye();
    }
}
