//! A wire that may be encrypted.

use crate::{Session, TlsWire};
use block::{Memory, Part, Result, Wire};
use std::sync::Arc;

/// A wire as it is, or encrypted.
pub enum MaybeTls<W> {
    /// Its bytes are sent as they are.
    Plain(W),
    /// Its bytes are encrypted.
    Encrypted(Box<TlsWire<W>>),
}

impl<W: Wire> MaybeTls<W> {
    /// Puts a session on a wire, if there is one.
    pub fn new(wire: W, session: Option<Session>) -> MaybeTls<W> {
        match session {
            None => MaybeTls::Plain(wire),
            Some(session) => MaybeTls::Encrypted(Box::new(TlsWire::new(wire, session))),
        }
    }
}

impl<W: Wire> Wire for MaybeTls<W> {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        match self {
            MaybeTls::Plain(wire) => wire.receive(memory, offset, length).await,
            MaybeTls::Encrypted(wire) => wire.receive(memory, offset, length).await,
        }
    }

    async fn send(&self, parts: &[Part]) -> Result {
        match self {
            MaybeTls::Plain(wire) => wire.send(parts).await,
            MaybeTls::Encrypted(wire) => wire.send(parts).await,
        }
    }

    async fn finish(&self) {
        match self {
            MaybeTls::Plain(wire) => wire.finish().await,
            MaybeTls::Encrypted(wire) => wire.finish().await,
        }
    }

    fn shutdown(&self) {
        match self {
            MaybeTls::Plain(wire) => wire.shutdown(),
            MaybeTls::Encrypted(wire) => wire.shutdown(),
        }
    }
}
