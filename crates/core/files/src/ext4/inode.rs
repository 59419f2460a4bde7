//! Inodes of ext4.
//!
//! Source: Documentation/filesystems/ext4 of the Linux kernel (`inodes.rst`, `attributes.rst`).

use super::groups::descriptor;
use super::superblock::Superblock;
use crate::bytes::{byte, le16, le32, part as bytes_at};
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::tree::{Attributes, Type};
use alloc::vec::Vec;

const EXTENTS: u32 = 0x8_0000;
const INLINE: u32 = 0x1000_0000;
/// Mark of the attributes in an inode.
const ATTRIBUTES_MAGIC: u32 = 0xea02_0000;
/// Number of the prefix `system.` of attribute names.
const SYSTEM_PREFIX: u8 = 7;
/// Position of the 60 bytes with the block map, the extents or the data.
pub(super) const BLOCKS_AT: usize = 0x28;
pub(super) const BLOCKS_BYTES: usize = 60;

/// An inode, with all its bytes.
pub(crate) struct Inode {
    raw: Vec<u8>,
    is_wide: bool,
}

/// Form of an inode's contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Extents,
    BlockMap,
    /// The inode has no blocks of its own.
    Inline,
}

impl Inode {
    pub(crate) fn read(
        part: &mut Part<'_, '_>,
        superblock: &Superblock,
        number: u64,
    ) -> Step<Inode> {
        let index = number.checked_sub(1).ok_or(Fault::Damaged)?;
        if number > superblock.inodes {
            return Err(Fault::Damaged);
        }
        let group = index / superblock.inodes_per_group;
        if group >= superblock.groups {
            return Err(Fault::Damaged);
        }
        let table = descriptor(part, superblock, group)?.inode_table;
        let within = index % superblock.inodes_per_group * superblock.inode_bytes;
        let at = superblock.position(table)?.checked_add(within).ok_or(Fault::Damaged)?;
        let raw = part.read_vec(at, superblock.inode_bytes as usize)?;
        let inode = Inode { raw, is_wide: superblock.inode_bytes > 128 };
        // A name of an inode that is not in use any more: the directory is older than the inode.
        if inode.mode() == 0 { Err(Fault::Damaged) } else { Ok(inode) }
    }

    fn mode(&self) -> u16 {
        le16(&self.raw, 0)
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let is_long = matches!(Type::of_mode(self.mode()), Type::File | Type::Directory);
        let high = if is_long { le32(&self.raw, 0x6c) } else { 0 };
        let bytes = u64::from(high) << 32 | u64::from(le32(&self.raw, 0x4));
        Attributes { mode: self.mode(), bytes, links: u32::from(le16(&self.raw, 0x1a)) }
    }

    pub(crate) fn form(&self) -> Form {
        let flags = le32(&self.raw, 0x20);
        // A short symbolic link has its target in the inode.
        let is_short = self.attributes().bytes < BLOCKS_BYTES as u64;
        let is_link = Type::of_mode(self.mode()) == Type::Link;
        if flags & INLINE != 0 || (is_link && is_short && flags & EXTENTS == 0) {
            Form::Inline
        } else if flags & EXTENTS != 0 {
            Form::Extents
        } else if Type::of_mode(self.mode()) == Type::Other {
            Form::Inline
        } else {
            Form::BlockMap
        }
    }

    /// Returns the bytes that list the blocks, or contain the data.
    pub(crate) fn blocks(&self) -> &[u8] {
        bytes_at(&self.raw, BLOCKS_AT, BLOCKS_BYTES)
    }

    /// Returns the block of attributes. 0: there is none.
    pub(crate) fn attribute_block(&self) -> u64 {
        u64::from(le16(&self.raw, 0x76)) << 32 | u64::from(le32(&self.raw, 0x68))
    }

    /// Returns the rest of inline data, which is the attribute `system.data`.
    pub(crate) fn inline_rest(&self) -> &[u8] {
        if !self.is_wide {
            return &[];
        }
        let start = 128 + usize::from(le16(&self.raw, 0x80));
        if le32(&self.raw, start) != ATTRIBUTES_MAGIC {
            return &[];
        }
        let entries = self.raw.get(start + 4..).unwrap_or_default();
        let mut at = 0;
        // Four zeros end the list.
        while at + 16 <= entries.len() && le32(entries, at) != 0 {
            let name = bytes_at(entries, at + 16, usize::from(byte(entries, at)));
            if byte(entries, at + 1) == SYSTEM_PREFIX && name == b"data" {
                let (offset, length) = (le16(entries, at + 2), le32(entries, at + 8));
                return bytes_at(entries, usize::from(offset), length as usize);
            }
            at += (16 + name.len()).next_multiple_of(4);
        }
        &[]
    }
}
