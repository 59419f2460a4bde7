//! Extents of forks, in the inode or in trees.

use super::inode::{Fork, Form};
use super::superblock::Superblock;
use crate::bytes::{be16, be64};
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::tree::{Content, Run};

/// Bytes of an extent.
const EXTENT: usize = 16;
/// Headers of the blocks of a tree, in versions 4 and 5.
const HEADER_4: usize = 24;
const HEADER_5: usize = 72;
const MARKS: [&[u8]; 2] = [b"BMAP", b"BMA3"];
const LEVEL_MAX: u16 = 9;

/// A reader of one fork's list.
pub(super) struct Lister<'l, 'd, 's> {
    pub(super) part: &'l mut Part<'d, 's>,
    pub(super) superblock: &'l Superblock,
    pub(super) each: &'l mut dyn FnMut(Run) -> Step,
}

impl Lister<'_, '_, '_> {
    pub(super) fn fork(&mut self, fork: &Fork<'_>, content: Content) -> Step {
        match fork.form {
            Form::Local | Form::None => Ok(()),
            Form::Extents => {
                let room = (fork.bytes.len() / EXTENT) as u64;
                if fork.extents > room {
                    return Err(Fault::Damaged);
                }
                self.extents(&fork.bytes[..fork.extents as usize * EXTENT], content)
            }
            Form::Tree => self.root(fork.bytes, content),
        }
    }

    fn extents(&mut self, list: &[u8], content: Content) -> Step {
        let mut result = Ok(());
        for extent in list.chunks_exact(EXTENT) {
            self.part.device.step()?;
            match self.extent(extent, content) {
                Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                // The extents behind a damaged one are listed.
                Err(fault) => result = Err(fault),
                Ok(()) => {}
            }
        }
        result
    }

    /// Reports an extent: one bit for unwritten ones, 54 for the position in the file, 52 for the
    /// first block, 21 for the length.
    fn extent(&mut self, extent: &[u8], content: Content) -> Step {
        let (high, low) = (be64(extent, 0), be64(extent, 8));
        let at = (high & (u64::MAX >> 1)) >> 9;
        let block = (high & 0x1ff) << 43 | low >> 21;
        let blocks = low & 0x1f_ffff;
        let bytes = self.superblock.block_bytes;
        let start = self.superblock.position(block)?;
        let at = at.checked_mul(bytes).ok_or(Fault::Damaged)?;
        (self.each)(Run { at, start, length: blocks * bytes, content })
    }

    /// Lists the tree whose root is in the inode.
    fn root(&mut self, root: &[u8], content: Content) -> Step {
        let (level, records) = (be16(root, 0), usize::from(be16(root, 2)));
        let room = root.len().saturating_sub(4) / 16;
        if level == 0 || level > LEVEL_MAX || records > room {
            return Err(Fault::Damaged);
        }
        self.children(&root[4 + room * 8..], records, level, content)
    }

    /// Lists the trees below these pointers.
    fn children(&mut self, pointers: &[u8], records: usize, level: u16, content: Content) -> Step {
        let mut result = Ok(());
        for pointer in pointers.chunks_exact(8).take(records) {
            match self.node(be64(pointer, 0), level - 1, content) {
                Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                Err(fault) => result = Err(fault),
                Ok(()) => {}
            }
        }
        result
    }

    fn node(&mut self, block: u64, level: u16, content: Content) -> Step {
        self.part.device.step()?;
        let (start, length) = (self.superblock.position(block)?, self.superblock.block_bytes);
        (self.each)(Run { at: 0, start, length, content: Content::Metadata })?;
        let node = self.part.read_vec(start, length as usize)?;
        let header = if self.superblock.is_version_5 { HEADER_5 } else { HEADER_4 };
        let mark = MARKS[usize::from(self.superblock.is_version_5)];
        let records = usize::from(be16(&node, 6));
        let room = (node.len() - header) / 16;
        if !node.starts_with(mark) || be16(&node, 4) != level || records > room {
            return Err(Fault::Damaged);
        }
        match level {
            0 => self.extents(&node[header..header + records * EXTENT], content),
            _ => self.children(&node[header + room * 8..], records, level, content),
        }
    }
}
