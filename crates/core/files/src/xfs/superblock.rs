//! The superblock of XFS.
//!
//! Source: "XFS Algorithms & Data Structures", 3rd edition, and `xfs_format.h` of the Linux kernel.

use crate::bytes::{be16, be32, be64, byte};
use crate::device::Part;
use crate::fault::{Fault, Step};

const MARK: &[u8] = b"XFSB";
/// Directories of the second format.
const DIRECTORIES_2: u16 = 0x2000;
/// Whether the second set of features is valid.
const MORE: u16 = 0x8000;
/// Types in directory entries, in version 4 and in version 5.
const TYPES_4: u32 = 0x200;
const TYPES_5: u32 = 0x1;
/// Features that a reader has to understand, and that this one does: types, sparse inodes, the
/// metadata's UUID, large timestamps, a repair that is due, large counters, exchanged ranges,
/// parent pointers.
const KNOWN: u32 = 0xff;

/// A superblock whose numbers are consistent.
#[derive(Clone, Debug)]
pub(crate) struct Superblock {
    pub(crate) block_bytes: u64,
    pub(crate) sector_bytes: u64,
    /// Blocks of each group but the last.
    pub(crate) group_blocks: u64,
    pub(crate) groups: u64,
    pub(crate) inode_bytes: u64,
    pub(crate) directory_block_bytes: usize,
    pub(crate) root_inode: u64,
    /// Inodes without a name: the realtime bitmap and its summary, quotas.
    pub(crate) hidden_inodes: [u64; 5],
    /// First block of the log; 0: it is on another device.
    pub(crate) log_start: u64,
    pub(crate) log_blocks: u64,
    pub(crate) is_version_5: bool,
    pub(crate) has_types: bool,
    pub(crate) has_sparse_inodes: bool,
    blocks: u64,
    /// Bits of a block number within a group, and of an inode's within a block.
    group_bits: u32,
    inode_bits: u32,
}

/// Whether these bytes of a partition, from its start on, have the mark of a superblock.
pub(crate) fn is_there(start: &[u8]) -> bool {
    start.starts_with(MARK)
}

impl Superblock {
    pub(crate) fn read(part: &mut Part<'_, '_>) -> Step<Superblock> {
        let mut raw = [0; 512];
        part.read(0, &mut raw)?;
        Superblock::parse(&raw).ok_or(Fault::Damaged)
    }

    fn parse(raw: &[u8]) -> Option<Superblock> {
        let (version, features) = (be16(raw, 100), be32(raw, 216));
        let is_version_5 = version & 0xf == 5;
        let is_known = if is_version_5 {
            features & !KNOWN == 0
        } else {
            version & 0xf == 4 && version & DIRECTORIES_2 != 0
        };
        if !raw.starts_with(MARK) || !is_known {
            return None;
        }
        let types_4 = version & MORE != 0 && be32(raw, 200) & TYPES_4 != 0;
        let directory_bits = u32::from(byte(raw, 120)) + u32::from(byte(raw, 192));
        let superblock = Superblock {
            block_bytes: u64::from(be32(raw, 4)),
            sector_bytes: u64::from(be16(raw, 102)),
            group_blocks: u64::from(be32(raw, 84)),
            groups: u64::from(be32(raw, 88)),
            inode_bytes: u64::from(be16(raw, 104)),
            directory_block_bytes: 1usize.checked_shl(directory_bits).unwrap_or(0),
            root_inode: be64(raw, 56),
            hidden_inodes: [64, 72, 160, 168, 232].map(|at| be64(raw, at)),
            log_start: be64(raw, 48),
            log_blocks: u64::from(be32(raw, 96)),
            is_version_5,
            has_types: if is_version_5 { features & TYPES_5 != 0 } else { types_4 },
            has_sparse_inodes: is_version_5 && features & 0x2 != 0,
            blocks: be64(raw, 8),
            group_bits: u32::from(byte(raw, 124)),
            inode_bits: u32::from(byte(raw, 123)),
        };
        superblock.is_sound().then_some(superblock)
    }

    fn is_sound(&self) -> bool {
        let is_power = |number: u64, min: u64, max: u64| {
            number.is_power_of_two() && (min..=max).contains(&number)
        };
        is_power(self.block_bytes, 512, 1 << 16)
            && is_power(self.sector_bytes, 512, 1 << 15)
            && is_power(self.inode_bytes, 256, 2048.min(self.block_bytes))
            && (self.block_bytes..=1 << 16).contains(&(self.directory_block_bytes as u64))
            && self.block_bytes / self.inode_bytes == 1 << self.inode_bits.min(31)
            && self.group_bits <= 31
            && (1..=1 << self.group_bits).contains(&self.group_blocks)
            && self.groups > 0
            && self.blocks <= self.groups * self.group_blocks
            && self.blocks <= u64::MAX / self.block_bytes
    }

    /// Returns the number of blocks of a group.
    pub(crate) fn blocks_of_group(&self, group: u64) -> u64 {
        self.blocks.saturating_sub(group * self.group_blocks).min(self.group_blocks)
    }

    /// Returns the position of a block of a group, in bytes.
    pub(crate) fn position_in_group(&self, group: u64, block: u64) -> Step<u64> {
        if group >= self.groups || block >= self.blocks_of_group(group) {
            return Err(Fault::Damaged);
        }
        Ok((group * self.group_blocks + block) * self.block_bytes)
    }

    /// Returns the position of a block, in bytes.
    pub(crate) fn position(&self, block: u64) -> Step<u64> {
        self.position_in_group(block >> self.group_bits, block & ((1 << self.group_bits) - 1))
    }

    /// Returns the position of an inode, in bytes.
    pub(crate) fn inode_position(&self, number: u64) -> Step<u64> {
        let block = self.position(number >> self.inode_bits)?;
        Ok(block + (number & ((1 << self.inode_bits) - 1)) * self.inode_bytes)
    }

    /// Returns the block of a group, and the inode's index in it, of an inode number in the group.
    pub(crate) fn block_of_inode(&self, number_in_group: u64) -> u64 {
        number_in_group >> self.inode_bits
    }

    /// Returns the number of inodes of a block.
    pub(crate) fn inodes_per_block(&self) -> u64 {
        1 << self.inode_bits
    }

    /// Returns the position of a group's header of this number of sectors after its start, in
    /// bytes.
    pub(crate) fn header_position(&self, group: u64, sector: u64) -> u64 {
        group * self.group_blocks * self.block_bytes + sector * self.sector_bytes
    }
}
