//! The handshake: greeting, options, and the frames of their replies.

use super::constants::*;

/// Length of the server's greeting.
pub const GREETING_BYTES: usize = 18;
/// Length of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Length of the header of a reply to an option.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;

/// The first message of a newstyle server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// `NBD_FLAG_FIXED_NEWSTYLE` and `NBD_FLAG_NO_ZEROES`.
    pub flags: u16,
}

impl Greeting {
    /// Encodes the greeting.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&NBD_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&NBD_OPTS_MAGIC.to_be_bytes());
        bytes[16..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }

    /// Parses a greeting. None: this is not a newstyle server.
    pub fn parse(bytes: &[u8; GREETING_BYTES]) -> Option<Greeting> {
        let mut rest = &bytes[..];
        let right = take_u64(&mut rest)? == NBD_MAGIC && take_u64(&mut rest)? == NBD_OPTS_MAGIC;
        let flags = take_u16(&mut rest)?;
        right.then_some(Greeting { flags })
    }
}

/// Header of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// `NBD_OPT_...`, or anything.
    pub option: u32,
    /// Bytes of data that follow; not checked.
    pub length: u32,
}

impl OptionHeader {
    /// Parses the header. None: the magic number is wrong, and the stream cannot be parsed any
    /// further.
    pub fn parse(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<OptionHeader> {
        let mut rest = &bytes[..];
        let right = take_u64(&mut rest)? == NBD_OPTS_MAGIC;
        let (option, length) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
        right.then_some(OptionHeader { option, length })
    }
}

/// Appends an option with its data.
pub fn put_option(out: &mut Vec<u8>, option: u32, data: &[u8]) {
    out.extend_from_slice(&NBD_OPTS_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Header of a reply to an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionReplyHeader {
    /// The option that is answered.
    pub option: u32,
    /// `NBD_REP_...`; the highest bit marks an error.
    pub kind: u32,
    /// Bytes of data that follow; not checked.
    pub length: u32,
}

impl OptionReplyHeader {
    /// Parses the header. None: the magic number is wrong.
    pub fn parse(bytes: &[u8; OPTION_REPLY_HEADER_BYTES]) -> Option<OptionReplyHeader> {
        let mut rest = &bytes[..];
        let right = take_u64(&mut rest)? == NBD_REP_MAGIC;
        let header = OptionReplyHeader {
            option: take_u32(&mut rest)?,
            kind: take_u32(&mut rest)?,
            length: take_u32(&mut rest)?,
        };
        right.then_some(header)
    }
}

/// Appends a reply to an option, with its data.
pub fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&NBD_REP_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Parses an export's name: the whole data of `NBD_OPT_EXPORT_NAME`.
///
/// # Errors
/// The `NBD_REP_ERR_...` to answer with: the name is too long, or not text.
pub fn export_name(data: &[u8]) -> Result<&str, u32> {
    if data.len() > STRING_BYTES_MAX {
        return Err(NBD_REP_ERR_TOO_BIG);
    }
    let name = std::str::from_utf8(data).map_err(|_| NBD_REP_ERR_INVALID)?;
    if name.contains('\0') {
        return Err(NBD_REP_ERR_INVALID);
    }
    Ok(name)
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoRequest<'a> {
    /// Name of the export; empty: the default export.
    pub name: &'a str,
    /// Two bytes for each requested item.
    wanted: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    /// Parses the data of the option.
    ///
    /// # Errors
    /// The `NBD_REP_ERR_...` to answer with: lengths do not match, or the name is not valid.
    pub fn parse(data: &'a [u8]) -> Result<InfoRequest<'a>, u32> {
        let mut rest = data;
        let length = take_u32(&mut rest).ok_or(NBD_REP_ERR_INVALID)? as usize;
        if length > STRING_BYTES_MAX {
            return Err(NBD_REP_ERR_TOO_BIG);
        }
        let (name, mut rest) = rest.split_at_checked(length).ok_or(NBD_REP_ERR_INVALID)?;
        let count = take_u16(&mut rest).ok_or(NBD_REP_ERR_INVALID)?;
        if rest.len() != usize::from(count) * 2 {
            return Err(NBD_REP_ERR_INVALID);
        }
        Ok(InfoRequest { name: export_name(name)?, wanted: rest })
    }

    /// Whether the client requested this `NBD_INFO_...`.
    pub fn requests_info(&self, info: u16) -> bool {
        self.wanted.chunks_exact(2).any(|bytes| bytes == info.to_be_bytes())
    }

    /// Encodes the option's data for a name and the requested items.
    pub fn encode(name: &str, wanted: &[u16]) -> Vec<u8> {
        let mut data = Vec::with_capacity(6 + name.len() + 2 * wanted.len());
        data.extend_from_slice(&(name.len() as u32).to_be_bytes());
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
        for info in wanted {
            data.extend_from_slice(&info.to_be_bytes());
        }
        data
    }
}

/// Encodes the data of `NBD_REP_SERVER`: a name, and a text for people.
pub fn listed(name: &str, description: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(4 + name.len() + description.len());
    data.extend_from_slice(&(name.len() as u32).to_be_bytes());
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(description.as_bytes());
    data
}

/// Parses the data of `NBD_REP_SERVER`: name and text. None: it is invalid.
pub fn parse_listed(data: &[u8]) -> Option<(&str, &str)> {
    let mut rest = data;
    let length = take_u32(&mut rest)? as usize;
    let (name, text) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(text).ok()?))
}

pub(super) fn take_u16(from: &mut &[u8]) -> Option<u16> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u16::from_be_bytes(*head))
}

pub(super) fn take_u32(from: &mut &[u8]) -> Option<u32> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u32::from_be_bytes(*head))
}

pub(super) fn take_u64(from: &mut &[u8]) -> Option<u64> {
    let (head, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_be_bytes(*head))
}
