//! Bytes as blocks: the whole blocks around a range of bytes, and the bytes of them outside the
//! range.

use crate::error::{Error, Kind, Result};
use crate::limits::Limits;
use crate::request::Extent;

/// The bytes of a request's first and last block that are outside its range. Each count is less
/// than a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Padding {
    /// Bytes from the start of the first block to the start of the range.
    pub head: u32,
    /// Bytes from the end of the range to the end of the last block.
    pub tail: u32,
}

impl Padding {
    /// The padding of a request of whole blocks: none.
    pub const NONE: Padding = Padding { head: 0, tail: 0 };

    /// Bytes of both ends together.
    pub fn bytes(self) -> usize {
        self.head as usize + self.tail as usize
    }
}

impl Limits {
    /// Bytes of a block in a buffer.
    pub fn block_bytes(&self) -> u32 {
        self.block_sectors() * self.grain
    }

    /// Sectors of a block.
    pub fn block_sectors(&self) -> u32 {
        self.block_logical_bytes / crate::SECTOR as u32
    }

    /// Returns the blocks around `length` bytes from byte `offset` on, and their padding.
    ///
    /// # Errors
    /// `Invalid`: `length` is 0. `OutOfRange`: the range exceeds the whole blocks of the device.
    pub fn around(&self, offset: u64, length: u32) -> Result<(Extent, Padding)> {
        const DOING: &str = "reach these bytes";
        if length == 0 {
            return Err(Error::new(Kind::Invalid, DOING));
        }
        let (block_bytes, block_sectors) = (u64::from(self.block_bytes()), self.block_sectors());
        let all_bytes = self.sectors / u64::from(block_sectors) * block_bytes;
        if offset > all_bytes || u64::from(length) > all_bytes - offset {
            return Err(Error::new(Kind::OutOfRange, DOING));
        }
        let end = offset + u64::from(length);
        let (first, last) = (offset / block_bytes, (end - 1) / block_bytes);
        let blocks = (last - first + 1) as u32;
        let at = Extent::new(first * u64::from(block_sectors), blocks * block_sectors);
        let padding = Padding {
            head: (offset - first * block_bytes) as u32,
            tail: ((last + 1) * block_bytes - end) as u32,
        };
        Ok((at, padding))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(
        block: u32,
        offset: u64,
        length: u32,
    ) -> std::result::Result<(Extent, Padding), Kind> {
        // The last two sectors do not make a whole block of 4096 bytes.
        let limits = Limits { block_logical_bytes: block, ..Limits::plain(66, 512) };
        limits.around(offset, length).map_err(|error| error.kind)
    }

    #[test]
    fn bytes_become_blocks_and_padding() {
        let padding = |head, tail| Padding { head, tail };
        assert_eq!(around(512, 0, 512), Ok((Extent::new(0, 1), Padding::NONE)));
        assert_eq!(around(512, 511, 2), Ok((Extent::new(0, 2), padding(511, 511))));
        assert_eq!(around(512, 1, 1), Ok((Extent::new(0, 1), padding(1, 510))));
        assert_eq!(around(4096, 4096, 4097), Ok((Extent::new(8, 16), padding(0, 4095))));
        assert_eq!(around(4096, 512, 512), Ok((Extent::new(0, 8), padding(512, 3072))));
        assert_eq!(around(512, 65 * 512 + 1, 511), Ok((Extent::new(65, 1), padding(1, 0))));
    }

    #[test]
    fn what_is_not_all_inside_is_refused() {
        assert_eq!(around(512, 7, 0), Err(Kind::Invalid));
        assert_eq!(around(512, 65 * 512 + 1, 512), Err(Kind::OutOfRange));
        assert_eq!(around(4096, 64 * 512 - 1, 2), Err(Kind::OutOfRange), "no whole block is there");
        assert_eq!(around(512, u64::MAX, u32::MAX), Err(Kind::OutOfRange));
        let large = Limits { ..Limits::plain(1 << 54, 512) };
        let (at, padding) = large.around(1, u32::MAX).expect("inside");
        assert_eq!((at.count, padding), (1 << 23, Padding { head: 1, tail: 0 }));
    }

    #[test]
    fn the_world_may_have_smaller_sectors() {
        let limits = Limits { block_logical_bytes: 4096, ..Limits::plain(64, 16) };
        let (at, padding) = limits.around(130, 16).expect("inside");
        assert_eq!((at, padding), (Extent::new(8, 8), Padding { head: 2, tail: 110 }));
    }
}
