//! Metadata contexts: requests for them, and block status.

use super::constants::*;
use super::options::{export_name, take_u32};
use super::transmission::{CHUNK_HEADER_BYTES, Chunk};

/// The only context that the protocol document itself defines.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
/// Represents all contexts of the document's namespace in a list.
pub const BASE_WILDCARD: &str = "base:";

/// Length of the part of a block status chunk before its descriptors.
pub const STATUS_CHUNK_BYTES: usize = CHUNK_HEADER_BYTES + 4;
/// Length of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 8;

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaRequest<'a> {
    /// Name of the export; empty: the default export.
    pub name: &'a str,
    /// Checked to consist of strings, each after its length, and nothing else.
    queries: &'a [u8],
}

impl<'a> MetaRequest<'a> {
    /// Parses the data of the option.
    ///
    /// # Errors
    /// The `NBD_REP_ERR_...` to answer with: lengths do not match, or a string is not valid.
    pub fn parse(data: &'a [u8]) -> Result<MetaRequest<'a>, u32> {
        let mut rest = data;
        let name = take_text(&mut rest)?;
        let count = take_u32(&mut rest).ok_or(NBD_REP_ERR_INVALID)?;
        let queries = rest;
        // The claimed count is harmless: each query takes at least four bytes, so this ends with
        // the data.
        for _ in 0..count {
            take_text(&mut rest)?;
        }
        if rest.is_empty() { Ok(MetaRequest { name, queries }) } else { Err(NBD_REP_ERR_INVALID) }
    }

    /// The queries, in order.
    pub fn queries(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut rest = self.queries;
        std::iter::from_fn(move || take_text(&mut rest).ok())
    }

    /// Encodes the option's data for a name and queries.
    pub fn encode(name: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        put_text(&mut data, name);
        data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
        queries.iter().for_each(|query| put_text(&mut data, query));
        data
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Takes a string with its length from the front of the data. A length that exceeds the data is
/// reported as invalid, even if it also exceeds the maximum.
fn take_text<'a>(from: &mut &'a [u8]) -> Result<&'a str, u32> {
    let length = take_u32(from).ok_or(NBD_REP_ERR_INVALID)? as usize;
    let (text, rest) = from.split_at_checked(length).ok_or(NBD_REP_ERR_INVALID)?;
    *from = rest;
    export_name(text)
}

/// Encodes the data of `NBD_REP_META_CONTEXT`: the number that chunks will carry, and the context's
/// name.
pub fn meta_context(id: u32, name: &str) -> Vec<u8> {
    let mut data = id.to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data
}

/// Parses the data of `NBD_REP_META_CONTEXT`: number and name. None: it is invalid.
pub fn parse_meta_context(data: &[u8]) -> Option<(u32, &str)> {
    let mut rest = data;
    let id = take_u32(&mut rest)?;
    Some((id, std::str::from_utf8(rest).ok()?))
}

/// One extent of a block status: bytes that all have the same state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// In bytes; not 0.
    pub length: u32,
    /// `NBD_STATE_...`.
    pub flags: u32,
}

impl Descriptor {
    /// Encodes the descriptor.
    pub fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }
}

/// Encodes the part of a block status chunk before its `count` descriptors; the chunk is the whole
/// reply.
pub fn status_chunk(cookie: u64, context: u32, count: u32) -> [u8; STATUS_CHUNK_BYTES] {
    let chunk = Chunk {
        flags: NBD_REPLY_FLAG_DONE,
        kind: NBD_REPLY_TYPE_BLOCK_STATUS,
        cookie,
        length: count.saturating_mul(DESCRIPTOR_BYTES as u32).saturating_add(4),
    };
    let mut bytes = [0; STATUS_CHUNK_BYTES];
    bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&chunk.encode());
    bytes[CHUNK_HEADER_BYTES..].copy_from_slice(&context.to_be_bytes());
    bytes
}

/// Parses the body of a block status chunk: the context's number and the descriptors. None: it has
/// no descriptor, a partial one, or an empty extent.
pub fn parse_status(body: &[u8]) -> Option<(u32, Vec<Descriptor>)> {
    let mut rest = body;
    let context = take_u32(&mut rest)?;
    let mut list = Vec::with_capacity(rest.len() / DESCRIPTOR_BYTES);
    while !rest.is_empty() {
        let length = take_u32(&mut rest).filter(|length| *length > 0)?;
        list.push(Descriptor { length, flags: take_u32(&mut rest)? });
    }
    (!list.is_empty()).then_some((context, list))
}
