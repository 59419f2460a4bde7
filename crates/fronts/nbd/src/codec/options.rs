//! The handshake: greeting, options, and the frames of their replies.

use super::constants::*;

/// Length of the server's greeting.
pub const GREETING_BYTES: usize = 18;
/// Length of what stands before an option's data.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Length of what stands before the data of a reply to an option.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;

/// What a newstyle server says first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// `NBD_FLAG_FIXED_NEWSTYLE` and `NBD_FLAG_NO_ZEROES`.
    pub flags: u16,
}

impl Greeting {
    /// The greeting as bytes.
    pub fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&NBD_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&NBD_OPTS_MAGIC.to_be_bytes());
        bytes[16..].copy_from_slice(&self.flags.to_be_bytes());
        bytes
    }

    /// None: this is no newstyle server.
    pub fn parse(bytes: &[u8; GREETING_BYTES]) -> Option<Greeting> {
        let mut rest = &bytes[..];
        let right = take_u64(&mut rest)? == NBD_MAGIC && take_u64(&mut rest)? == NBD_OPTS_MAGIC;
        let flags = take_u16(&mut rest)?;
        right.then_some(Greeting { flags })
    }
}

/// What stands before an option's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// `NBD_OPT_...`, or anything.
    pub option: u32,
    /// Bytes of data that follow. Not checked against anything.
    pub length: u32,
}

impl OptionHeader {
    /// None: the magic number is wrong, the stream makes no sense any more.
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

/// What stands before the data of a reply to an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionReplyHeader {
    /// The option that is answered.
    pub option: u32,
    /// `NBD_REP_...`; the highest bit marks an error.
    pub kind: u32,
    /// Bytes of data that follow. Not checked against anything.
    pub length: u32,
}

impl OptionReplyHeader {
    /// None: the magic number is wrong.
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

/// Reads an export's name, the whole data of `NBD_OPT_EXPORT_NAME`.
///
/// # Errors
/// The `NBD_REP_ERR_...` that says why not: too long, or not text.
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
    /// The export that is asked about; empty: the default one.
    pub name: &'a str,
    /// Two bytes for each piece of information that is wanted.
    wanted: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    /// Reads the data of the option.
    ///
    /// # Errors
    /// The `NBD_REP_ERR_...` to answer with: lengths that do not fit, a name that is none.
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

    /// Whether the client asked for this `NBD_INFO_...`.
    pub fn wants(&self, info: u16) -> bool {
        self.wanted.chunks_exact(2).any(|bytes| bytes == info.to_be_bytes())
    }

    /// The option's data for a name and what is wanted.
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

/// The data of `NBD_REP_SERVER`: a name, and a text for people.
pub fn listed(name: &str, description: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(4 + name.len() + description.len());
    data.extend_from_slice(&(name.len() as u32).to_be_bytes());
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(description.as_bytes());
    data
}

/// Reads the data of `NBD_REP_SERVER`: name and text. None: it makes no sense.
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
