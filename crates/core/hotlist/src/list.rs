//! A list that was read.

use crate::blocks::Blocks;
use crate::{BLOCKS_MAX, BYTES_MAX, CLASSES, MAGIC, Unusable, header};
use alloc::string::String;
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
        let (of, classes, mut rest) =
            header::open(bytes, &MAGIC, Unusable::NoList, CLASSES as u16)?;
        let counts: Vec<u32> = (0..classes).map(|_| rest.u32()).collect::<Result<_, _>>()?;
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
