//! Lists of the blocks of an inode: trees of extents, and the older block maps.
//!
//! Source: Documentation/filesystems/ext4 of the Linux kernel (`ifork.rst`).

use super::superblock::Superblock;
use crate::bytes::{le16, le32};
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::tree::{Content, Run};

const MAGIC: u16 = 0xf30a;
/// Bytes of the header of a node, and of each of its entries.
const ENTRY: usize = 12;
const DEPTH_MAX: u16 = 5;
/// Lengths above this one are of extents that are allocated, but not written.
const WRITTEN_MAX: u16 = 1 << 15;
/// Direct entries of a block map.
const DIRECT: u64 = 12;

/// A reader of one inode's list.
pub(super) struct Lister<'l, 'd, 's> {
    pub(super) part: &'l mut Part<'d, 's>,
    pub(super) superblock: &'l Superblock,
    pub(super) each: &'l mut dyn FnMut(Run) -> Step,
}

impl Lister<'_, '_, '_> {
    /// Lists the extents below a node of a tree.
    pub(super) fn extents(&mut self, node: &[u8], depth_max: u16) -> Step {
        let (entries, depth) = (usize::from(le16(node, 2)), le16(node, 6));
        let room = node.len() / ENTRY;
        if le16(node, 0) != MAGIC || depth > depth_max || entries >= room.max(1) {
            return Err(Fault::Damaged);
        }
        let mut result = Ok(());
        for entry in node.chunks_exact(ENTRY).skip(1).take(entries) {
            self.part.device.step()?;
            let next = match depth {
                0 => self.extent(entry),
                _ => self.child(entry, depth),
            };
            match next {
                Err(Fault::Exhausted) => return next,
                // The entries behind a damaged one are listed.
                Err(_) => result = next,
                Ok(()) => {}
            }
        }
        result
    }

    fn extent(&mut self, entry: &[u8]) -> Step {
        let length = le16(entry, 4);
        let blocks = if length > WRITTEN_MAX { length - WRITTEN_MAX } else { length };
        let block = u64::from(le16(entry, 6)) << 32 | u64::from(le32(entry, 8));
        self.data(u64::from(le32(entry, 0)), block, u64::from(blocks))
    }

    fn child(&mut self, entry: &[u8], depth: u16) -> Step {
        let block = u64::from(le16(entry, 8)) << 32 | u64::from(le32(entry, 4));
        let node = self.metadata(block)?;
        if le16(&node, 6) != depth - 1 {
            return Err(Fault::Damaged);
        }
        self.extents(&node, depth - 1)
    }

    /// Lists the tree in the inode's own bytes.
    pub(super) fn root(&mut self, node: &[u8]) -> Step {
        self.extents(node, DEPTH_MAX)
    }

    /// Lists the blocks of a block map in the inode's own bytes.
    pub(super) fn block_map(&mut self, map: &[u8]) -> Step {
        for index in 0..DIRECT {
            let block = u64::from(le32(map, 4 * index as usize));
            self.mapped(index, block)?;
        }
        let per_block = self.superblock.block_bytes / 4;
        let mut first = DIRECT;
        for level in 1..=3u32 {
            let block = u64::from(le32(map, 4 * (DIRECT as usize + level as usize - 1)));
            self.indirect(first, block, level)?;
            first += per_block.pow(level);
        }
        Ok(())
    }

    fn indirect(&mut self, first: u64, block: u64, level: u32) -> Step {
        if block == 0 {
            return Ok(());
        }
        let node = self.metadata(block)?;
        let span = (self.superblock.block_bytes / 4).pow(level - 1);
        for (index, entry) in node.chunks_exact(4).enumerate() {
            let (at, block) = (first + index as u64 * span, u64::from(le32(entry, 0)));
            match level {
                1 => self.mapped(at, block)?,
                _ => self.indirect(at, block, level - 1)?,
            }
        }
        Ok(())
    }

    fn mapped(&mut self, at: u64, block: u64) -> Step {
        if block == 0 {
            return Ok(());
        }
        self.part.device.step()?;
        self.data(at, block, 1)
    }

    fn data(&mut self, at: u64, block: u64, blocks: u64) -> Step {
        let bytes = self.superblock.block_bytes;
        let (at, start) = (at * bytes, self.superblock.position(block)?);
        (self.each)(Run { at, start, length: blocks * bytes, content: Content::Data })
    }

    /// Reports a block of metadata, and returns its bytes.
    fn metadata(&mut self, block: u64) -> Step<alloc::vec::Vec<u8>> {
        self.part.device.step()?;
        let (start, length) = (self.superblock.position(block)?, self.superblock.block_bytes);
        (self.each)(Run { at: 0, start, length, content: Content::Metadata })?;
        self.part.read_vec(start, length as usize)
    }
}
