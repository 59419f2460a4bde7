//! Metadata contexts: how they are asked for, and what a block status tells.

use super::constants::*;
use super::options::{export_name, take_u32};
use super::transmission::{CHUNK_HEADER_BYTES, Chunk};

/// The one context that the protocol document itself defines.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
/// What stands for every context of the document's namespace, in a list.
pub const BASE_WILDCARD: &str = "base:";

/// Length of all that stands before the descriptors in a chunk of block status.
pub const STATUS_CHUNK_BYTES: usize = CHUNK_HEADER_BYTES + 4;
/// Length of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 8;

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaRequest<'a> {
    /// The export that is asked about; empty: the default one.
    pub name: &'a str,
    /// Checked to be so many strings, each behind its length, and nothing else.
    queries: &'a [u8],
}

impl<'a> MetaRequest<'a> {
    /// Reads the data of the option.
    ///
    /// # Errors
    /// The `NBD_REP_ERR_...` to answer with: lengths that do not fit, a string that is none.
    pub fn parse(data: &'a [u8]) -> Result<MetaRequest<'a>, u32> {
        let mut rest = data;
        let name = take_text(&mut rest)?;
        let count = take_u32(&mut rest).ok_or(NBD_REP_ERR_INVALID)?;
        let queries = rest;
        // However many are claimed: each takes four bytes at least, so this ends with the data.
        for _ in 0..count {
            take_text(&mut rest)?;
        }
        if rest.is_empty() { Ok(MetaRequest { name, queries }) } else { Err(NBD_REP_ERR_INVALID) }
    }

    /// What is asked for, in order.
    pub fn queries(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut rest = self.queries;
        std::iter::from_fn(move || take_text(&mut rest).ok())
    }

    /// The option's data for a name and queries.
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

/// A string behind its length. A length beyond the data is a mistake before it is too long.
fn take_text<'a>(from: &mut &'a [u8]) -> Result<&'a str, u32> {
    let length = take_u32(from).ok_or(NBD_REP_ERR_INVALID)? as usize;
    let (text, rest) = from.split_at_checked(length).ok_or(NBD_REP_ERR_INVALID)?;
    *from = rest;
    export_name(text)
}

/// The data of `NBD_REP_META_CONTEXT`: the number that chunks will carry, and the context's name.
pub fn meta_context(id: u32, name: &str) -> Vec<u8> {
    let mut data = id.to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data
}

/// Reads the data of `NBD_REP_META_CONTEXT`: number and name. None: it makes no sense.
pub fn parse_meta_context(data: &[u8]) -> Option<(u32, &str)> {
    let mut rest = data;
    let id = take_u32(&mut rest)?;
    Some((id, std::str::from_utf8(rest).ok()?))
}

/// One extent of a block status: so many bytes, all alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// In bytes; not 0.
    pub length: u32,
    /// `NBD_STATE_...`.
    pub flags: u32,
}

impl Descriptor {
    /// The descriptor as bytes.
    pub fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }
}

/// Everything before the `count` descriptors of a block status that is one chunk.
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

/// Reads what stands behind the header of a chunk of block status: the context's number and the
/// descriptors. None: no descriptor, half a one, or an empty extent.
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
