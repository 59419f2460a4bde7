//! Allocation groups: their headers, their trees, and their free space.

use super::superblock::Superblock;
use crate::bytes::{be16, be32};
use crate::class::Class;
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::map::{Builder, Owner};
use crate::tree::add;

/// Sectors of the headers: superblock, free space, inodes, free list.
const HEADERS: u64 = 4;
const FREE_SPACE: (u64, &[u8]) = (1, b"XAGF");
const INODES: (u64, &[u8]) = (2, b"XAGI");
/// Headers of the blocks of a tree, in versions 4 and 5.
const BLOCK_HEADERS: [usize; 2] = [16, 56];
const LEVELS_MAX: u32 = 9;
/// Inodes that one record of the inode tree describes.
const CHUNK: u64 = 64;

/// The kind of a tree in a group.
#[derive(Clone, Copy)]
struct Tree {
    /// Marks of its blocks, in versions 4 and 5.
    marks: [&'static [u8]; 2],
    key_bytes: usize,
    /// Bytes of a record in its leaves, if these are read.
    record_bytes: Option<usize>,
    /// The pointer to its root and its number of levels, in the header of the group.
    root_at: usize,
    levels_at: usize,
}

/// Free space by block: its records are read.
const BY_BLOCK: Tree = Tree {
    marks: [b"ABTB", b"AB3B"],
    key_bytes: 8,
    record_bytes: Some(8),
    root_at: 16,
    levels_at: 28,
};
const BY_SIZE: Tree =
    Tree { marks: [b"ABTC", b"AB3C"], record_bytes: None, root_at: 20, levels_at: 32, ..BY_BLOCK };
const OWNERS: Tree = Tree {
    marks: [b"RMB3", b"RMB3"],
    key_bytes: 40,
    record_bytes: None,
    root_at: 24,
    levels_at: 36,
};
const SHARED: Tree = Tree {
    marks: [b"R3FC", b"R3FC"],
    key_bytes: 4,
    record_bytes: None,
    root_at: 88,
    levels_at: 92,
};
/// Chunks of inodes: its records are read.
const CHUNKS: Tree = Tree {
    marks: [b"IABT", b"IAB3"],
    key_bytes: 4,
    record_bytes: Some(16),
    root_at: 20,
    levels_at: 24,
};
const FREE_CHUNKS: Tree =
    Tree { marks: [b"FIBT", b"FIB3"], record_bytes: None, root_at: 328, levels_at: 332, ..CHUNKS };

/// A reader of one group.
struct Group<'g, 'd, 's> {
    part: &'g mut Part<'d, 's>,
    superblock: &'g Superblock,
    builder: &'g mut Builder,
    number: u64,
}

/// Adds the metadata and the free space of all groups to the map. Returns the number of objects
/// that could not be read.
pub(super) fn add_groups(
    part: &mut Part<'_, '_>,
    superblock: &Superblock,
    builder: &mut Builder,
) -> Step<u32> {
    let mut unreadable = 0u32;
    for number in 0..superblock.groups {
        // Groups beyond the end of the partition do not exist.
        if superblock.header_position(number, 0) >= part.bytes() {
            return Ok(unreadable.saturating_add(1));
        }
        part.device.step()?;
        let mut group = Group { part, superblock, builder, number };
        unreadable = unreadable.saturating_add(group.add()?);
    }
    Ok(unreadable)
}

impl Group<'_, '_, '_> {
    /// Adds the headers, the trees and the free list. Returns the number of those that could not be
    /// read.
    fn add(&mut self) -> Step<u32> {
        let start = self.superblock.header_position(self.number, 0);
        let length =
            (HEADERS * self.superblock.sector_bytes).next_multiple_of(self.superblock.block_bytes);
        let range = (self.part.first_sector(), self.part.sectors());
        add(self.builder, range, start, length, Class::Metadata, Owner::None)?;
        let mut unreadable = 0;
        let mut count = |result: Step| match result {
            Err(Fault::Exhausted) => Err(Fault::Exhausted),
            Err(_) => {
                unreadable += 1;
                Ok(())
            }
            Ok(()) => Ok(()),
        };
        match self.header(FREE_SPACE) {
            Err(fault) => count(Err(fault))?,
            Ok(header) => {
                for tree in [BY_BLOCK, BY_SIZE, OWNERS, SHARED] {
                    count(self.tree(&header, tree))?;
                }
                count(self.free_list(&header))?;
            }
        }
        match self.header(INODES) {
            Err(fault) => count(Err(fault))?,
            Ok(header) => {
                for tree in [CHUNKS, FREE_CHUNKS] {
                    count(self.tree(&header, tree))?;
                }
            }
        }
        Ok(unreadable)
    }

    /// Reads a header of the group.
    fn header(&mut self, (sector, mark): (u64, &[u8])) -> Step<[u8; 512]> {
        let mut header = [0; 512];
        self.part.read(self.superblock.header_position(self.number, sector), &mut header)?;
        let is_ours = header.starts_with(mark) && u64::from(be32(&header, 8)) == self.number;
        if is_ours { Ok(header) } else { Err(Fault::Damaged) }
    }

    /// Adds blocks of the group.
    fn blocks(&mut self, block: u64, blocks: u64, class: Class) -> Step {
        let room = self.superblock.blocks_of_group(self.number).saturating_sub(block);
        if blocks > room {
            return Err(Fault::Damaged);
        }
        let start = self.superblock.position_in_group(self.number, block)?;
        let range = (self.part.first_sector(), self.part.sectors());
        let length = blocks * self.superblock.block_bytes;
        add(self.builder, range, start, length, class, Owner::None)
    }

    /// Adds the blocks that are reserved for the trees.
    fn free_list(&mut self, header: &[u8]) -> Step {
        let (first, count) = (u64::from(be32(header, 40)), u64::from(be32(header, 48)));
        let at = if self.superblock.is_version_5 { 36 } else { 0 };
        let length = self.superblock.sector_bytes as usize;
        let position = self.superblock.header_position(self.number, 3);
        let list = self.part.read_vec(position, length)?;
        let slots = (length - at) as u64 / 4;
        if first >= slots || count > slots {
            return Err(Fault::Damaged);
        }
        for index in 0..count {
            let slot = ((first + index) % slots) as usize;
            self.blocks(u64::from(be32(&list, at + slot * 4)), 1, Class::Metadata)?;
        }
        Ok(())
    }

    fn tree(&mut self, header: &[u8], tree: Tree) -> Step {
        let (root, levels) = (be32(header, tree.root_at), be32(header, tree.levels_at));
        match levels {
            // The group has no such tree.
            0 => Ok(()),
            1..=LEVELS_MAX => self.node(tree, u64::from(root), levels - 1),
            _ => Err(Fault::Damaged),
        }
    }

    fn node(&mut self, tree: Tree, block: u64, level: u32) -> Step {
        self.part.device.step()?;
        self.blocks(block, 1, Class::Metadata)?;
        if level == 0 && tree.record_bytes.is_none() {
            return Ok(());
        }
        let at = self.superblock.position_in_group(self.number, block)?;
        let node = self.part.read_vec(at, self.superblock.block_bytes as usize)?;
        let version = usize::from(self.superblock.is_version_5);
        let body = &node[BLOCK_HEADERS[version]..];
        let entry = match level {
            0 => tree.record_bytes.unwrap_or(usize::MAX),
            _ => tree.key_bytes + 4,
        };
        let (records, room) = (usize::from(be16(&node, 6)), body.len() / entry);
        let is_sound = node.starts_with(tree.marks[version])
            && u32::from(be16(&node, 4)) == level
            && records <= room;
        if !is_sound {
            return Err(Fault::Damaged);
        }
        let (list, size) = match level {
            0 => (body, entry),
            _ => (&body[room * tree.key_bytes..], 4),
        };
        for record in list.chunks_exact(size).take(records) {
            self.part.device.step()?;
            match level {
                0 => self.record(tree, record)?,
                _ => self.node(tree, u64::from(be32(record, 0)), level - 1)?,
            }
        }
        Ok(())
    }

    /// Adds the blocks of a record in a leaf: free space, or a chunk of inodes.
    fn record(&mut self, tree: Tree, record: &[u8]) -> Step {
        let first = u64::from(be32(record, 0));
        if tree.root_at == BY_BLOCK.root_at {
            return self.blocks(first, u64::from(be32(record, 4)), Class::Free);
        }
        let block = self.superblock.block_of_inode(first);
        let per_block = self.superblock.inodes_per_block();
        // Each bit of the mask is a sixteenth of the chunk that does not exist.
        let mask = if self.superblock.has_sparse_inodes { be16(record, 4) } else { 0 };
        for index in 0..CHUNK.div_ceil(per_block) {
            let sixteenth = index * per_block / (CHUNK / 16);
            if mask >> sixteenth.min(15) & 1 == 0 {
                self.blocks(block + index, 1, Class::Metadata)?;
            }
        }
        Ok(())
    }
}
