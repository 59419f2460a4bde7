//! The header of all kinds of files.

use crate::{
    BLOCK_BYTES, CHECKED, Description, FIXED, IDENTITY_MAX, MAGIC_BYTES, Unusable, VERSION,
};
use alloc::string::ToString;
use alloc::vec::Vec;

/// Begins a list of `parts` parts, with room for `bytes` bytes after the header.
///
/// # Panics
/// If the identity is longer than [`IDENTITY_MAX`].
pub(crate) fn begin(
    magic: &[u8; MAGIC_BYTES],
    of: &Description,
    parts: u16,
    bytes: usize,
) -> Vec<u8> {
    assert!(of.identity.len() <= IDENTITY_MAX, "a short identity");
    let mut list = Vec::with_capacity(FIXED + of.identity.len() + bytes);
    list.extend_from_slice(magic);
    list.extend_from_slice(&VERSION.to_le_bytes());
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&of.volume_blocks.to_le_bytes());
    list.extend_from_slice(&of.saved_s.to_le_bytes());
    list.extend_from_slice(&BLOCK_BYTES.to_le_bytes());
    list.extend_from_slice(&parts.to_le_bytes());
    list.extend_from_slice(&(of.identity.len() as u16).to_le_bytes());
    list.extend_from_slice(of.identity.as_bytes());
    list
}

/// Fills in the checksum of a list that is complete.
pub(crate) fn seal(list: &mut [u8]) {
    let checksum = crc32fast::hash(&list[CHECKED..]);
    list[CHECKED - 4..CHECKED].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks the header and the checksum of a list, which has at most `parts_max` parts. Returns its
/// volume, the number of its parts and the bytes after the header.
///
/// # Errors
/// The bytes are no such list (`other`), damaged, or of a later version.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; MAGIC_BYTES],
    other: Unusable,
    parts_max: u16,
) -> Result<(Description, u16, Rest<'a>), Unusable> {
    let mut rest = Rest(bytes);
    if rest.take(MAGIC_BYTES)? != magic {
        return Err(other);
    }
    match rest.u32()? {
        VERSION => {}
        later if later > VERSION => return Err(Unusable::Newer(later)),
        _ => return Err(Unusable::Damaged),
    }
    if bytes.len() < FIXED || rest.u32()? != crc32fast::hash(&bytes[CHECKED..]) {
        return Err(Unusable::Damaged);
    }
    let (volume_blocks, saved_s) = (rest.u64()?, rest.u64()?);
    let block_bytes = rest.u32()?;
    let (parts, length) = (rest.u16()?, usize::from(rest.u16()?));
    if block_bytes != BLOCK_BYTES || !(1..=parts_max).contains(&parts) || length > IDENTITY_MAX {
        return Err(Unusable::Damaged);
    }
    let identity = core::str::from_utf8(rest.take(length)?).map_err(|_| Unusable::Damaged)?;
    Ok((Description { identity: identity.to_string(), volume_blocks, saved_s }, parts, rest))
}

/// Appends a number in groups of seven bits.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number in groups of seven bits. None: the bytes are no such number.
pub(crate) fn read_number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The bytes that were not read yet.
pub(crate) struct Rest<'a>(pub(crate) &'a [u8]);

impl<'a> Rest<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Unusable> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unusable::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Unusable> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Unusable> {
        let mut at = 0;
        let number = read_number(self.0, &mut at).ok_or(Unusable::Damaged)?;
        self.0 = &self.0[at..];
        Ok(number)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Unusable> {
        self.take(LENGTH)?.try_into().map_err(|_| Unusable::Damaged)
    }

    fn u16(&mut self) -> Result<u16, Unusable> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Unusable> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Unusable> {
        self.array().map(u64::from_le_bytes)
    }
}
