//! The transmission: requests, simple replies, chunks of structured replies.

use super::constants::*;
use super::options::{take_u16, take_u32, take_u64};

/// Length of a request, without the payload of a write.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply, without the payload of a read.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Length of a chunk's header.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// Length of the part of a data chunk before its payload.
pub const DATA_CHUNK_BYTES: usize = CHUNK_HEADER_BYTES + 8;
/// Length of a chunk that reports an error without a text.
pub const ERROR_CHUNK_BYTES: usize = CHUNK_HEADER_BYTES + 6;

/// A request on the wire. Only its magic number has been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// `NBD_CMD_FLAG_...`.
    pub flags: u16,
    /// `NBD_CMD_...`, or anything.
    pub command: u16,
    /// Chosen by the client; the reply carries the same cookie.
    pub cookie: u64,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub length: u32,
}

impl RequestHeader {
    /// Parses a request. None: the magic number is wrong, and the stream cannot be parsed any
    /// further.
    #[inline]
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<RequestHeader> {
        let mut rest = &bytes[..];
        let right = take_u32(&mut rest)? == NBD_REQUEST_MAGIC;
        let header = RequestHeader {
            flags: take_u16(&mut rest)?,
            command: take_u16(&mut rest)?,
            cookie: take_u64(&mut rest)?,
            offset: take_u64(&mut rest)?,
            length: take_u32(&mut rest)?,
        };
        right.then_some(header)
    }

    /// Encodes the request.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&NBD_REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// A simple reply. The payload of a successful read follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimpleReply {
    /// 0, or an `NBD_E...`.
    pub error: u32,
    /// The request's.
    pub cookie: u64,
}

impl SimpleReply {
    /// Encodes the reply.
    #[inline]
    pub fn encode(&self) -> [u8; SIMPLE_REPLY_BYTES] {
        let mut bytes = [0; SIMPLE_REPLY_BYTES];
        bytes[..4].copy_from_slice(&NBD_SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }

    /// Parses a simple reply. None: the magic number differs.
    pub fn parse(bytes: &[u8; SIMPLE_REPLY_BYTES]) -> Option<SimpleReply> {
        let mut rest = &bytes[..];
        let right = take_u32(&mut rest)? == NBD_SIMPLE_REPLY_MAGIC;
        let reply = SimpleReply { error: take_u32(&mut rest)?, cookie: take_u64(&mut rest)? };
        right.then_some(reply)
    }
}

/// Header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// `NBD_REPLY_FLAG_DONE` marks the last chunk of a reply.
    pub flags: u16,
    /// `NBD_REPLY_TYPE_...`.
    pub kind: u16,
    /// The request's.
    pub cookie: u64,
    /// Bytes that follow; not checked.
    pub length: u32,
}

impl Chunk {
    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&NBD_STRUCTURED_REPLY_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Parses the header. None: the magic number differs.
    pub fn parse(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Option<Chunk> {
        let mut rest = &bytes[..];
        let right = take_u32(&mut rest)? == NBD_STRUCTURED_REPLY_MAGIC;
        let chunk = Chunk {
            flags: take_u16(&mut rest)?,
            kind: take_u16(&mut rest)?,
            cookie: take_u64(&mut rest)?,
            length: take_u32(&mut rest)?,
        };
        right.then_some(chunk)
    }
}

/// Encodes the part before the payload of a read's only chunk, with `length` bytes from `offset`
/// on.
#[inline]
pub fn data_chunk(cookie: u64, offset: u64, length: u32) -> [u8; DATA_CHUNK_BYTES] {
    let chunk = Chunk {
        flags: NBD_REPLY_FLAG_DONE,
        kind: NBD_REPLY_TYPE_OFFSET_DATA,
        cookie,
        length: length.saturating_add(8),
    };
    let mut bytes = [0; DATA_CHUNK_BYTES];
    bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&chunk.encode());
    bytes[CHUNK_HEADER_BYTES..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// Encodes the only chunk of a request that failed with `error`, without a text.
pub fn error_chunk(cookie: u64, error: u32) -> [u8; ERROR_CHUNK_BYTES] {
    let chunk = Chunk { flags: NBD_REPLY_FLAG_DONE, kind: NBD_REPLY_TYPE_ERROR, cookie, length: 6 };
    let mut bytes = [0; ERROR_CHUNK_BYTES];
    bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&chunk.encode());
    bytes[CHUNK_HEADER_BYTES..24].copy_from_slice(&error.to_be_bytes());
    bytes
}
