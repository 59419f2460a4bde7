//! An encrypted wire over another wire.

use crate::Refusal;
use block::{Error, Kind, Memory, Part, Result, Wire};
use rustls::Connection;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are received together, still encrypted.
const INCOMING_BYTES: usize = 64 << 10;
/// Bytes that are sent together, encrypted.
const OUTGOING_BYTES: usize = 256 << 10;
/// Maximum number of plain bytes in a record. Source: RFC 8446, section 5.1.
const RECORD_BYTES: usize = 16 << 10;
/// Maximum length of a record: its header, its contents, the type of the contents and the tag; and
/// once in a long while, a message about new keys before it.
const RECORD_BYTES_MAX: usize = RECORD_BYTES + 512;

const BROKEN: Error = Error::new(Kind::Io, "decrypt what the other side has sent");
const UNSENDABLE: Error = Error::new(Kind::Io, "encrypt data for the other side");

/// A wire whose bytes are encrypted, over a wire that carries them.
///
/// Bytes are encrypted and decrypted on the lane, in steps of one send or one receive of the wire
/// below. As TLS requires, both sides first agree on keys: [`TlsWire::handshake`].
///
/// [`Wire::finish`] announces the end by TLS's own message (`close_notify`). The end of the wire
/// below is the end of this one also without that message: a protocol with messages of known
/// length, such as NBD, notices a cut itself.
pub struct TlsWire<W> {
    below: W,
    state: RefCell<State>,
    incoming: Arc<Memory>,
    outgoing: Arc<Memory>,
    /// The reason why the session has failed.
    failed: Cell<Option<Refusal>>,
}

struct State {
    session: Connection,
    /// The part of the incoming memory that was received and not yet decrypted.
    encrypted: Range<usize>,
    /// Whether the other side has announced the end of its data.
    has_ended: bool,
    /// Plain bytes of one record on their way to or from a memory.
    record: Box<[u8]>,
}

impl<W: Wire> TlsWire<W> {
    /// Puts a session on a wire that has carried nothing of it yet.
    pub fn new(below: W, mut session: Connection) -> TlsWire<W> {
        // This type takes all encrypted bytes before it adds more.
        session.set_buffer_limit(None);
        TlsWire {
            below,
            state: RefCell::new(State {
                session,
                encrypted: 0..0,
                has_ended: false,
                record: vec![0; RECORD_BYTES].into_boxed_slice(),
            }),
            incoming: Arc::new(Memory::heap(INCOMING_BYTES)),
            outgoing: Arc::new(Memory::heap(OUTGOING_BYTES)),
            failed: Cell::new(None),
        }
    }

    /// Agrees on keys with the other side, and checks its certificate if the session requires one.
    /// Until this has succeeded, nothing else may be sent or received.
    ///
    /// # Errors
    /// The other side is not trusted, does not trust this one, or has ended the connection.
    pub async fn handshake(&self) -> std::result::Result<(), Refusal> {
        loop {
            let length = self.state.borrow_mut().take_encrypted(&self.outgoing);
            if length > 0 {
                self.send_encrypted(length).await.map_err(|_| GONE)?;
                continue;
            }
            if let Some(refusal) = self.failed.get() {
                self.wait_for_end().await;
                return Err(refusal);
            }
            if !self.state.borrow().session.is_handshaking() {
                return Ok(());
            }
            if !self.state.borrow().encrypted.is_empty() {
                // The other side is notified of an error by the next send.
                let decrypted = self.state.borrow_mut().decrypt_some(&self.incoming);
                self.failed.set(decrypted.err());
            } else if self.receive_encrypted().await.map_err(|_| GONE)? == 0 {
                return Err(GONE);
            }
        }
    }

    /// Returns the reason why the session has failed. None: it has not.
    pub fn failed(&self) -> Option<Refusal> {
        self.failed.get()
    }

    /// Whether the other side has announced the end of its data. False after a cut.
    pub fn has_ended(&self) -> bool {
        self.state.borrow().has_ended
    }

    /// Waits until the other side has read this side's error and ends the connection: closing it
    /// while data arrives may destroy the error on its way.
    async fn wait_for_end(&self) {
        self.below.finish().await;
        while self.receive_encrypted().await.is_ok_and(|count| count > 0) {}
    }

    async fn receive_encrypted(&self) -> Result<usize> {
        let count = self.below.receive(&self.incoming, 0, INCOMING_BYTES).await?;
        self.state.borrow_mut().encrypted = 0..count.min(INCOMING_BYTES);
        Ok(count)
    }

    async fn send_encrypted(&self, length: usize) -> Result {
        self.below.send(&[Part { memory: self.outgoing.clone(), offset: 0, length }]).await
    }
}

const GONE: Refusal = Refusal("it ended the connection before both sides had agreed on keys");

impl<W: Wire> Wire for TlsWire<W> {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        loop {
            let read = self.state.borrow_mut().read(&self.incoming, memory, offset, length);
            match read {
                Ok(0) if !self.state.borrow().has_ended => {}
                Ok(count) => return Ok(count),
                Err(refusal) => {
                    self.failed.set(Some(refusal));
                    return Err(BROKEN);
                }
            }
            if self.receive_encrypted().await? == 0 {
                return Ok(0);
            }
        }
    }

    async fn send(&self, parts: &[Part]) -> Result {
        let mut position = Position::default();
        loop {
            let length = self.state.borrow_mut().encrypt(parts, &mut position, &self.outgoing)?;
            if length == 0 {
                return Ok(());
            }
            self.send_encrypted(length).await?;
        }
    }

    async fn finish(&self) {
        let length = self.state.borrow_mut().announce_end(&self.outgoing);
        // It fails only if the other side has ended the connection already.
        if length == 0 || self.send_encrypted(length).await.is_ok() {
            self.below.finish().await;
        }
    }

    fn shutdown(&self) {
        self.below.shutdown();
    }
}

impl State {
    /// Decrypts received bytes into a memory, as far as there is room. Returns the number of plain
    /// bytes; 0: all received bytes are used up.
    fn read(
        &mut self,
        incoming: &Arc<Memory>,
        memory: &Memory,
        offset: usize,
        length: usize,
    ) -> std::result::Result<usize, Refusal> {
        let mut done = 0;
        loop {
            while done < length {
                let room = self.record.len().min(length - done);
                // An error: there are no bytes now, or there will be none any more.
                let count = self.session.reader().read(&mut self.record[..room]).unwrap_or(0);
                if count == 0 {
                    break;
                }
                memory.write(offset + done, &self.record[..count]);
                done += count;
            }
            if done == length || self.encrypted.is_empty() {
                return Ok(done);
            }
            self.decrypt_some(incoming)?;
        }
    }

    /// Decrypts some of the received bytes, of which there are some. Drops those after the end.
    fn decrypt_some(&mut self, incoming: &Arc<Memory>) -> std::result::Result<(), Refusal> {
        let mut source = Source { memory: incoming, range: &mut self.encrypted };
        self.session.read_tls(&mut source).map_err(|_| TOO_LONG)?;
        self.has_ended = self.session.process_new_packets()?.peer_has_closed();
        if self.has_ended {
            self.encrypted = 0..0;
        }
        Ok(())
    }

    /// Encrypts the parts from a position on, as far as there is room. Returns the number of
    /// encrypted bytes; 0: all parts have been encrypted.
    fn encrypt(
        &mut self,
        parts: &[Part],
        position: &mut Position,
        outgoing: &Arc<Memory>,
    ) -> Result<usize> {
        let mut length = 0;
        loop {
            length += self.take_encrypted_at(outgoing, length);
            if OUTGOING_BYTES - length < RECORD_BYTES_MAX {
                return Ok(length);
            }
            let count = position.copy(parts, &mut self.record);
            if count == 0 {
                return Ok(length);
            }
            self.session.writer().write_all(&self.record[..count]).map_err(|_| UNSENDABLE)?;
        }
    }

    /// Adds the message that no more data follows, once. Returns the number of encrypted bytes at
    /// the beginning of the outgoing memory.
    fn announce_end(&mut self, outgoing: &Arc<Memory>) -> usize {
        self.session.send_close_notify();
        self.take_encrypted(outgoing)
    }

    /// Moves encrypted bytes to the beginning of the outgoing memory. Returns their number.
    fn take_encrypted(&mut self, outgoing: &Arc<Memory>) -> usize {
        self.take_encrypted_at(outgoing, 0)
    }

    fn take_encrypted_at(&mut self, outgoing: &Arc<Memory>, offset: usize) -> usize {
        let mut target = Target { memory: outgoing, offset };
        while self.session.wants_write() {
            match self.session.write_tls(&mut target) {
                Ok(count) if count > 0 => {}
                _ => break,
            }
        }
        target.offset - offset
    }
}

const TOO_LONG: Refusal = Refusal("its messages are too long");

/// A position in the parts of a send.
#[derive(Default)]
struct Position {
    part: usize,
    /// Offset in that part.
    offset: usize,
}

impl Position {
    /// Copies the next bytes, as many as fit. Returns their number; 0: there are no more.
    fn copy(&mut self, parts: &[Part], into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len()
            && let Some(part) = parts.get(self.part)
        {
            let count = (part.length - self.offset).min(into.len() - done);
            part.memory.read(part.offset + self.offset, &mut into[done..done + count]);
            (self.offset, done) = (self.offset + count, done + count);
            if self.offset == part.length {
                (self.part, self.offset) = (self.part + 1, 0);
            }
        }
        done
    }
}

/// Reads the bytes of a range of a memory, and removes them from the range.
struct Source<'a> {
    memory: &'a Memory,
    range: &'a mut Range<usize>,
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.range.len());
        self.memory.read(self.range.start, &mut into[..count]);
        self.range.start += count;
        Ok(count)
    }
}

/// Writes to a memory from an offset on, as far as there is room.
struct Target<'a> {
    memory: &'a Memory,
    offset: usize,
}

impl Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.memory.bytes() - self.offset);
        self.memory.write(self.offset, &bytes[..count]);
        self.offset += count;
        Ok(count)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        slices.iter().try_fold(0, |done, slice| Ok(done + self.write(slice)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
