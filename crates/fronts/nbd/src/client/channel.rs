//! The byte stream of a handshake over a socket that does not block: as it is, or encrypted.

use super::Fault;
use super::checks::{Checks, send_all};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use tls::{Refusal, Session};

/// Bytes that are received together, encrypted.
const BUFFER_BYTES: usize = 4096;

/// A socket, and the TLS session over it once there is one.
pub(super) struct Channel<'a> {
    socket: &'a OwnedFd,
    checks: Checks<'a>,
    session: Option<Session>,
    /// Whether any data has arrived over TLS: then the server trusts this client.
    is_trusted: bool,
}

impl<'a> Channel<'a> {
    pub(super) fn new(socket: &'a OwnedFd, checks: Checks<'a>) -> Channel<'a> {
        Channel { socket, checks, session: None, is_trusted: false }
    }

    /// Returns the session, for the time after the handshake.
    pub(super) fn into_session(self) -> Option<Session> {
        self.session
    }

    /// Receives at least one byte.
    ///
    /// # Errors
    /// The server has ended the connection, TLS has failed, or the time is over.
    pub(super) async fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(session) = &mut self.session else { return self.receive_bytes(into).await };
            let count = session.reader().read(into).unwrap_or(0);
            if count > 0 {
                self.is_trusted = true;
                return Ok(count);
            }
            self.decrypt_more().await.map_err(|error| self.explain(error))?;
        }
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.session else {
            return send_all(self.socket, bytes, &mut self.checks).await;
        };
        session.writer().write_all(bytes)?;
        let Err(error) = self.send_encrypted().await else { return Ok(()) };
        // The server may have sent its reason before it closed the connection.
        let reason = self.decrypt_more().await.err().filter(|reason| reason.get_ref().is_some());
        Err(reason.unwrap_or_else(|| self.explain(error)))
    }

    /// Returns the likely reason for the end of a connection that has just become encrypted: a
    /// server checks the client's certificate after the client has done its part.
    fn explain(&self, error: io::Error) -> io::Error {
        let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof];
        match kinds.contains(&error.kind()) && !self.is_trusted {
            true => Fault::Untrusted(Refusal::UNEXPLAINED).into(),
            false => error,
        }
    }

    /// Encrypts the stream from now on.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub(super) async fn protect(&mut self, session: Session) -> io::Result<()> {
        self.session = Some(session);
        self.send_encrypted().await?;
        while self.session.as_ref().is_some_and(|session| session.is_handshaking()) {
            self.decrypt_more().await.map_err(|error| self.explain(error))?;
        }
        Ok(())
    }

    /// Receives encrypted bytes, and sends what the session has to answer.
    async fn decrypt_more(&mut self) -> io::Result<()> {
        let mut buffer = [0; BUFFER_BYTES];
        let count = self.receive_bytes(&mut buffer).await?;
        let (mut rest, mut processed) = (&buffer[..count], Ok(()));
        while let Some(session) = &mut self.session
            && !rest.is_empty()
            && processed.is_ok()
        {
            if session.read_tls(&mut rest)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            processed = session.process_new_packets().map(drop);
        }
        // An error is sent as well.
        let sent = self.send_encrypted().await;
        processed.map_err(|error| Fault::from(Refusal::from(error)))?;
        sent
    }

    async fn send_encrypted(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(session) = &mut self.session
            && session.wants_write()
        {
            session.write_tls(&mut bytes)?;
        }
        send_all(self.socket, &bytes, &mut self.checks).await
    }

    async fn receive_bytes(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.socket, &mut *into, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => return Ok(count),
                Err(Errno::AGAIN | Errno::INTR) => self.checks.next().await?,
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
