//! Parses a byte stream of replies into events.

use super::Fault;
use super::under_way::{RequestState, UnderWay};
use crate::codec::*;

/// Maximum length of a chunk of block status, in bytes.
pub const STATUS_BYTES_MAX: usize = 1 << 20;
/// Maximum length of an error chunk, in bytes: its fields and a text.
const ERROR_BYTES_MAX: usize = 14 + STRING_BYTES_MAX;

/// An event: a reply or a part of it.
#[derive(PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// Data of a read, starting `at` bytes into the request. All bytes are inside the request, and
    /// none comes twice. They are valid only if the read ends in `Done` without an error.
    Data {
        /// The request's.
        cookie: u64,
        /// In bytes.
        at: u32,
        /// The bytes that have arrived; not empty.
        bytes: &'a [u8],
    },
    /// Same as `Data`, for a part that is all zeros.
    Zeros {
        /// The request's.
        cookie: u64,
        /// In bytes.
        at: u32,
        /// In bytes; not 0.
        length: u32,
    },
    /// Block status in one context.
    Status {
        /// The request's.
        cookie: u64,
        /// The context's number, one of those agreed on.
        context: u32,
        /// From the request's start on. The last extent may reach beyond the request's end.
        extents: Vec<Descriptor>,
    },
    /// The request is answered, and its cookie free again.
    Done {
        /// The request's.
        cookie: u64,
        /// 0, or an `NBD_E...`. With 0, all bytes of a read have arrived.
        error: u32,
    },
}

/// The part of the stream that is expected next.
#[derive(Clone, Copy)]
enum Step {
    /// The start of a reply or of a chunk.
    Head,
    /// Data of a read; after the last of it the reply may end.
    Data { cookie: u64, at: u32, left: u32, last: bool },
    /// The rest of a chunk that is parsed as a whole.
    Body(Chunk),
    /// Nothing: the stream is invalid.
    Broken,
}

enum Head {
    Simple(SimpleReply),
    Chunk(Chunk),
}

/// The replies of one connection.
pub struct Replies {
    structured: bool,
    /// Numbers of the selected contexts.
    contexts: Vec<u32>,
    step: Step,
    /// Bytes of an incomplete head or body.
    gathered: Vec<u8>,
}

impl Replies {
    /// Creates a parser. `structured` and `contexts` come from the handshake.
    pub fn new(structured: bool, contexts: Vec<u32>) -> Replies {
        Replies {
            structured,
            contexts,
            step: Step::Head,
            gathered: Vec::with_capacity(CHUNK_HEADER_BYTES),
        }
    }

    /// Returns the minimum number of bytes that the next event consumes. A client that passes no
    /// more at a time never holds bytes of another reply. 0: the next event needs no bytes.
    pub fn needs(&self) -> usize {
        match self.step {
            Step::Head if self.gathered.len() < SIMPLE_REPLY_BYTES => {
                SIMPLE_REPLY_BYTES - self.gathered.len()
            }
            Step::Head => CHUNK_HEADER_BYTES - self.gathered.len(),
            Step::Data { left, .. } => left as usize,
            Step::Body(chunk) => chunk.length as usize - self.gathered.len(),
            Step::Broken => 0,
        }
    }

    /// Consumes the bytes of the next event from the front of `input`. None: more bytes are needed.
    ///
    /// # Errors
    /// The server violates the protocol. All further calls fail too.
    #[inline]
    pub fn take<'a>(
        &mut self,
        input: &mut &'a [u8],
        under_way: &mut UnderWay,
    ) -> Result<Option<Event<'a>>, Fault> {
        let taken = self.event(input, under_way);
        if taken.is_err() {
            self.step = Step::Broken;
        }
        taken
    }

    fn event<'a>(
        &mut self,
        input: &mut &'a [u8],
        under_way: &mut UnderWay,
    ) -> Result<Option<Event<'a>>, Fault> {
        loop {
            let event = match self.step {
                Step::Head => match self.head(input)? {
                    None => return Ok(None),
                    Some(Head::Simple(reply)) => self.simple(reply, under_way)?,
                    Some(Head::Chunk(chunk)) => self.chunk(chunk, under_way)?,
                },
                Step::Data { cookie, left: 0, last, .. } => {
                    self.step = Step::Head;
                    if last { Some(self.done(cookie, under_way)?) } else { None }
                }
                Step::Data { cookie, at, left, last } => {
                    let count = input.len().min(left as usize);
                    if count == 0 {
                        return Ok(None);
                    }
                    let (bytes, rest) = input.split_at(count);
                    *input = rest;
                    let (next, left) = (at + count as u32, left - count as u32);
                    self.step = Step::Data { cookie, at: next, left, last };
                    Some(Event::Data { cookie, at, bytes })
                }
                Step::Body(chunk) => {
                    if !self.gather(input, chunk.length as usize) {
                        return Ok(None);
                    }
                    self.body(chunk, under_way)?
                }
                Step::Broken => return Err(Fault::Nonsense("it has before")),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Moves bytes until `bytes` are gathered. Memory grows with the bytes received, not with the
    /// length claimed.
    fn gather(&mut self, input: &mut &[u8], bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.gathered.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.gathered.extend_from_slice(taken);
        *input = rest;
        self.gathered.len() >= bytes
    }

    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Head>, Fault> {
        // Usually a complete simple reply is there.
        if self.gathered.is_empty()
            && let Some((bytes, rest)) = input.split_first_chunk()
            && let Some(reply) = SimpleReply::parse(bytes)
        {
            *input = rest;
            return Ok(Some(Head::Simple(reply)));
        }
        if !self.gather(input, SIMPLE_REPLY_BYTES) {
            return Ok(None);
        }
        let simple = self.gathered.first_chunk().and_then(SimpleReply::parse);
        if simple.is_none() && !self.gathered.starts_with(&NBD_STRUCTURED_REPLY_MAGIC.to_be_bytes())
        {
            return Err(Fault::Nonsense("a reply has no magic number"));
        }
        if simple.is_none() && !self.gather(input, CHUNK_HEADER_BYTES) {
            return Ok(None);
        }
        let chunk = self.gathered.first_chunk().and_then(Chunk::parse);
        self.gathered.clear();
        Ok(simple.map(Head::Simple).or(chunk.map(Head::Chunk)))
    }

    #[inline]
    fn simple<'a>(
        &mut self,
        reply: SimpleReply,
        under_way: &mut UnderWay,
    ) -> Result<Option<Event<'a>>, Fault> {
        let SimpleReply { error, cookie } = reply;
        let request = find(under_way, cookie)?;
        if error == 0 {
            if self.structured && [NBD_CMD_READ, NBD_CMD_BLOCK_STATUS].contains(&request.command) {
                return Err(Fault::Nonsense("a simple reply where a structured one is required"));
            }
            if request.command == NBD_CMD_READ {
                self.step = Step::Data { cookie, at: 0, left: request.length, last: true };
                return Ok(None);
            }
        }
        under_way.end(cookie);
        Ok(Some(Event::Done { cookie, error }))
    }

    /// Checks a chunk's header before more of the chunk is consumed.
    fn chunk<'a>(
        &mut self,
        chunk: Chunk,
        under_way: &mut UnderWay,
    ) -> Result<Option<Event<'a>>, Fault> {
        if !self.structured {
            return Err(Fault::Nonsense("a structured reply that was not negotiated"));
        }
        let request = find(under_way, chunk.cookie)?;
        let length = chunk.length as usize;
        let (belongs, fits) = match chunk.kind {
            NBD_REPLY_TYPE_NONE => (is_last(&chunk), length == 0),
            NBD_REPLY_TYPE_OFFSET_DATA => {
                // Its data is passed on as it arrives; only its offset is gathered first.
                (
                    request.command == NBD_CMD_READ,
                    length > 8 && length - 8 <= request.length as usize,
                )
            }
            NBD_REPLY_TYPE_OFFSET_HOLE => (request.command == NBD_CMD_READ, length == 12),
            NBD_REPLY_TYPE_BLOCK_STATUS => {
                (request.command == NBD_CMD_BLOCK_STATUS, length <= STATUS_BYTES_MAX)
            }
            kind if is_error(kind) => (true, (6..=ERROR_BYTES_MAX).contains(&length)),
            _ => return Err(Fault::Nonsense("a chunk of an unknown type")),
        };
        if !belongs {
            return Err(Fault::Nonsense("a chunk that does not belong to its request"));
        }
        if !fits {
            return Err(Fault::Nonsense("a chunk whose length does not fit its type"));
        }
        let is_data = chunk.kind == NBD_REPLY_TYPE_OFFSET_DATA;
        // For data, only the offset is gathered; `body` handles the rest.
        let gathered = if is_data { 8 } else { chunk.length };
        self.step = Step::Body(Chunk { length: gathered, ..chunk });
        if is_data {
            request.data_bytes = chunk.length - 8;
        }
        Ok(None)
    }

    /// Parses the bytes after a chunk's header: the whole body, or the offset of its data.
    fn body<'a>(
        &mut self,
        chunk: Chunk,
        under_way: &mut UnderWay,
    ) -> Result<Option<Event<'a>>, Fault> {
        let body = std::mem::take(&mut self.gathered);
        let (cookie, last) = (chunk.cookie, is_last(&chunk));
        let request = find(under_way, cookie)?;
        // The end of the reply is a separate event, after that of this chunk.
        self.step = Step::Data { cookie, at: 0, left: 0, last };
        let event = match chunk.kind {
            NBD_REPLY_TYPE_OFFSET_DATA => {
                let left = request.data_bytes;
                let at = place(request, &body, left)?;
                self.step = Step::Data { cookie, at, left, last };
                None
            }
            NBD_REPLY_TYPE_OFFSET_HOLE => {
                let length = body.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                Some(Event::Zeros { cookie, at: place(request, &body, length)?, length })
            }
            NBD_REPLY_TYPE_BLOCK_STATUS => {
                let (context, extents) = status(request, &body, &self.contexts)?;
                Some(Event::Status { cookie, context, extents })
            }
            kind if is_error(kind) => {
                let error = error_of_chunk(&body)?;
                if request.error == 0 {
                    request.error = error;
                }
                None
            }
            _ => None,
        };
        // Its memory is reused, unless it was unusually large.
        self.gathered = body;
        self.gathered.clear();
        self.gathered.shrink_to(ERROR_BYTES_MAX);
        Ok(event)
    }

    /// Ends a reply.
    fn done<'a>(&self, cookie: u64, under_way: &mut UnderWay) -> Result<Event<'a>, Fault> {
        let Some(request) = under_way.end(cookie) else { return Err(UNKNOWN) };
        let error = request.error;
        if self.structured && error == 0 {
            let whole = match request.command {
                NBD_CMD_READ => request.is_whole(),
                NBD_CMD_BLOCK_STATUS => request.contexts.len() == self.contexts.len(),
                _ => true,
            };
            if !whole {
                return Err(Fault::Nonsense("a reply that ends before its data is complete"));
            }
        }
        Ok(Event::Done { cookie, error })
    }
}

const UNKNOWN: Fault = Fault::Nonsense("a reply to a request that was not sent");

#[inline]
fn find(under_way: &mut UnderWay, cookie: u64) -> Result<&mut RequestState, Fault> {
    under_way.find(cookie).ok_or(UNKNOWN)
}

fn is_last(chunk: &Chunk) -> bool {
    chunk.flags & NBD_REPLY_FLAG_DONE != 0
}

fn is_error(kind: u16) -> bool {
    kind >> 15 == 1
}

/// Returns the position of a piece in its read. The chunk starts with the offset in the export.
fn place(request: &mut RequestState, body: &[u8], length: u32) -> Result<u32, Fault> {
    let offset = body.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let at = offset.and_then(|offset| request.place(offset, length));
    at.ok_or(Fault::Nonsense("a part of a read that is outside it, or comes twice"))
}

/// Returns the error of a chunk. Checks the length of its text, and ignores the text.
fn error_of_chunk(body: &[u8]) -> Result<u32, Fault> {
    let error = body.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let text = body.get(4..6).and_then(|bytes| bytes.first_chunk());
    let text = text.map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)));
    if error == 0 || 6 + text > body.len() {
        return Err(Fault::Nonsense("an invalid error"));
    }
    Ok(error)
}

/// Parses a block status. Only its last extent may reach beyond the requested range.
fn status(
    request: &mut RequestState,
    body: &[u8],
    contexts: &[u32],
) -> Result<(u32, Vec<Descriptor>), Fault> {
    let status = parse_status(body).ok_or(Fault::Nonsense("an invalid block status"))?;
    let (context, extents) = status;
    if !contexts.contains(&context) || request.contexts.contains(&context) {
        return Err(Fault::Nonsense("a block status in an unexpected context"));
    }
    request.contexts.push(context);
    let inner = extents.iter().rev().skip(1).map(|next| u64::from(next.length)).sum::<u64>();
    let one = request.flags & NBD_CMD_FLAG_REQ_ONE != 0;
    let bytes = inner + extents.last().map_or(0, |last| u64::from(last.length));
    let length = u64::from(request.length);
    if inner >= length || one && (extents.len() > 1 || bytes > length) {
        return Err(Fault::Nonsense("a block status that exceeds its request"));
    }
    Ok((context, extents))
}
