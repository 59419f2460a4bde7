//! A list that was read.

use crate::blocks::Blocks;
use crate::{
    BLOCK_BYTES, BLOCKS_MAX, BYTES_MAX, CHECKED, CLASSES, FIXED, IDENTITY_MAX, MAGIC, Unusable,
    VERSION,
};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The volume of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// Identity of the volume's contents.
    pub identity: String,
    /// The number of its whole blocks.
    pub volume_blocks: u64,
    /// Time of the save, in seconds since 1970.
    pub saved_s: u64,
}

/// A valid list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotList {
    of: Description,
    blocks: Blocks,
}

impl HotList {
    /// Reads a list.
    ///
    /// # Errors
    /// The bytes are no list, damaged, or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<HotList, Unusable> {
        if bytes.len() > BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let mut rest = Rest(bytes);
        if rest.take(MAGIC.len())? != MAGIC {
            return Err(Unusable::NoList);
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
        let (classes, length) = (rest.u16()?, usize::from(rest.u16()?));
        let classes_max = CLASSES as u16;
        if block_bytes != BLOCK_BYTES
            || !(1..=classes_max).contains(&classes)
            || length > IDENTITY_MAX
        {
            return Err(Unusable::Damaged);
        }
        let identity = core::str::from_utf8(rest.take(length)?).map_err(|_| Unusable::Damaged)?;
        let identity = identity.to_string();
        let counts: Vec<u32> = (0..classes).map(|_| rest.u32()).collect::<Result<_, _>>()?;
        let of = Description { identity, volume_blocks, saved_s };
        let mut list = HotList { of, blocks: Blocks::new(counts, rest.0.to_vec()) };
        list.check().map(|()| list)
    }

    /// The volume from which it was saved.
    pub fn description(&self) -> &Description {
        &self.of
    }

    /// The number of its blocks.
    pub fn len(&self) -> u64 {
        self.blocks.announced()
    }

    /// Whether it has no block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns its blocks: the hottest class first, each in ascending order.
    pub fn into_blocks(self) -> Blocks {
        self.blocks
    }

    /// Checks that it has the blocks that it announces, all within the volume, and nothing else.
    fn check(&mut self) -> Result<(), Unusable> {
        if self.len() > BLOCKS_MAX as u64 {
            return Err(Unusable::TooLarge);
        }
        let end = self.of.volume_blocks;
        let found = self.blocks.by_ref().take_while(|block| *block < end).count();
        let is_whole = found as u64 == self.len() && self.blocks.is_at_end();
        self.blocks.rewind();
        if is_whole { Ok(()) } else { Err(Unusable::Damaged) }
    }
}

/// The bytes that were not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Unusable> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unusable::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Unusable> {
        self.take(LENGTH)?.try_into().map_err(|_| Unusable::Damaged)
    }

    fn u16(&mut self) -> Result<u16, Unusable> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Unusable> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Unusable> {
        self.array().map(u64::from_le_bytes)
    }
}
