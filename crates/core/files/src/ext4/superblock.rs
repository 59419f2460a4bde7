//! The superblock of ext2, ext3 and ext4.
//!
//! Source: Documentation/filesystems/ext4 of the Linux kernel (`super.rst`, `group_descr.rst`).

use crate::bytes::{le16, le32, le64};
use crate::device::Part;
use crate::fault::{Fault, Step};

/// Position in the partition, in bytes.
const AT: u64 = 1024;
const MAGIC: u16 = 0xef53;

/// Features that a reader has to understand, and that this one does.
const KNOWN: u32 = 0x2 // types in directory entries
    | 0x4 // a journal that was not replayed
    | META_BG
    | 0x40 // extents
    | WIDE
    | MMP
    | 0x200 // flexible groups
    | 0x400 // values of attributes in inodes
    | 0x2000 // seed of checksums
    | 0x4000 // directories over 2 GiB
    | 0x8000 // data in inodes
    | 0x1_0000 // encryption
    | 0x2_0000; // names without case
const META_BG: u32 = 0x10;
const WIDE: u32 = 0x80;
const MMP: u32 = 0x100;
const SPARSE_SUPER_2: u32 = 0x200;
const SPARSE_SUPER: u32 = 0x1;
const GROUP_CHECKSUMS: u32 = 0x410;
const BIGALLOC: u32 = 0x200;

/// A superblock whose numbers are consistent.
#[derive(Clone, Debug)]
pub(crate) struct Superblock {
    pub(crate) block_bytes: u64,
    /// Blocks of a cluster.
    pub(crate) cluster_blocks: u64,
    pub(crate) blocks: u64,
    pub(crate) first_data_block: u64,
    pub(crate) blocks_per_group: u64,
    pub(crate) inodes: u64,
    pub(crate) inodes_per_group: u64,
    pub(crate) inode_bytes: u64,
    pub(crate) descriptor_bytes: u64,
    pub(crate) groups: u64,
    pub(crate) journal_inode: u64,
    /// Other inodes without a name: quotas, orphans.
    pub(crate) hidden_inodes: [u64; 4],
    /// Block of multiple-mount protection; 0: none.
    pub(crate) mmp_block: u64,
    reserved_descriptor_blocks: u64,
    first_meta_group: u64,
    is_meta_bg: bool,
    is_sparse: bool,
    /// Groups with a copy, in sparse_super2.
    backups: Option<[u64; 2]>,
    pub(crate) has_uninitialised_bitmaps: bool,
}

/// Whether these bytes of a partition, from its start on, have the mark of a superblock.
pub(crate) fn is_there(start: &[u8]) -> bool {
    le16(start, AT as usize + 0x38) == MAGIC
}

impl Superblock {
    pub(crate) fn read(part: &mut Part<'_, '_>) -> Step<Superblock> {
        let mut raw = [0; 1024];
        part.read(AT, &mut raw)?;
        Superblock::parse(&raw).ok_or(Fault::Damaged)
    }

    fn parse(raw: &[u8]) -> Option<Superblock> {
        let (compat, incompat, ro_compat) = (le32(raw, 0x5c), le32(raw, 0x60), le32(raw, 0x64));
        let is_dynamic = le32(raw, 0x4c) >= 1;
        let (log_block, log_cluster) = (le32(raw, 0x18), le32(raw, 0x1c));
        if le16(raw, 0x38) != MAGIC || incompat & !KNOWN != 0 || log_block > 6 {
            return None;
        }
        let is_bigalloc = ro_compat & BIGALLOC != 0;
        let log_ratio = if is_bigalloc { log_cluster.checked_sub(log_block)? } else { 0 };
        let wide = |low: usize, high: usize| {
            let high = if incompat & WIDE != 0 { le32(raw, high) } else { 0 };
            u64::from(high) << 32 | u64::from(le32(raw, low))
        };
        let number = |at: usize| u64::from(le32(raw, at));
        let mut superblock = Superblock {
            block_bytes: 1024 << log_block,
            cluster_blocks: 1 << log_ratio.min(32),
            blocks: wide(0x4, 0x150),
            first_data_block: number(0x14),
            blocks_per_group: number(0x20),
            inodes: number(0x0),
            inodes_per_group: number(0x28),
            inode_bytes: if is_dynamic { u64::from(le16(raw, 0x58)) } else { 128 },
            descriptor_bytes: if incompat & WIDE != 0 { u64::from(le16(raw, 0xfe)) } else { 32 },
            groups: 0,
            journal_inode: if compat & 0x4 != 0 { number(0xe0) } else { 0 },
            hidden_inodes: [number(0x240), number(0x244), number(0x26c), number(0x280)],
            mmp_block: if incompat & MMP != 0 { le64(raw, 0x168) } else { 0 },
            reserved_descriptor_blocks: u64::from(le16(raw, 0xce)),
            first_meta_group: number(0x104),
            is_meta_bg: incompat & META_BG != 0,
            is_sparse: ro_compat & SPARSE_SUPER != 0,
            backups: (compat & SPARSE_SUPER_2 != 0).then(|| [number(0x24c), number(0x250)]),
            has_uninitialised_bitmaps: ro_compat & GROUP_CHECKSUMS != 0,
        };
        if compat & 0x10 == 0 {
            superblock.reserved_descriptor_blocks = 0;
        }
        if !superblock.is_sound() {
            return None;
        }
        let data = superblock.blocks - superblock.first_data_block;
        superblock.groups = data.div_ceil(superblock.blocks_per_group);
        Some(superblock)
    }

    fn is_sound(&self) -> bool {
        let bits = self.block_bytes * 8;
        let is_power = |number: u64| number.is_power_of_two();
        is_power(self.inode_bytes)
            && (128..=self.block_bytes).contains(&self.inode_bytes)
            && is_power(self.descriptor_bytes)
            && (32..=self.block_bytes).contains(&self.descriptor_bytes)
            && (1..=bits).contains(&self.inodes_per_group)
            && self.cluster_blocks <= 1 << 20
            && self.blocks_per_group.is_multiple_of(self.cluster_blocks)
            && (1..=bits).contains(&(self.blocks_per_group / self.cluster_blocks))
            && self.first_data_block < self.blocks
            && self.blocks <= u64::MAX / self.block_bytes
    }

    /// Returns the position of a block in the partition, in bytes.
    pub(crate) fn position(&self, block: u64) -> Step<u64> {
        if block >= self.blocks {
            return Err(Fault::Damaged);
        }
        Ok(block * self.block_bytes)
    }

    pub(crate) fn group_start(&self, group: u64) -> u64 {
        self.first_data_block + group * self.blocks_per_group
    }

    fn descriptors_per_block(&self) -> u64 {
        self.block_bytes / self.descriptor_bytes
    }

    /// Whether a group has a copy of the superblock.
    pub(crate) fn has_superblock(&self, group: u64) -> bool {
        if let Some(backups) = self.backups {
            return group == 0 || backups.contains(&group);
        }
        let is_power_of = |base: u64| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        };
        !self.is_sparse || group <= 1 || [3, 5, 7].into_iter().any(is_power_of)
    }

    /// Whether the group's descriptors are in a meta group.
    fn is_in_meta_group(&self, group: u64) -> bool {
        self.is_meta_bg && group / self.descriptors_per_block() >= self.first_meta_group
    }

    /// Returns the position of the descriptor of a group, in bytes.
    pub(crate) fn descriptor_position(&self, group: u64) -> Step<u64> {
        let per_block = self.descriptors_per_block();
        let number = group / per_block;
        let block = if self.is_in_meta_group(group) {
            let first = number * per_block;
            self.group_start(first) + self.blocks_before_descriptors(first)
        } else {
            AT / self.block_bytes + 1 + number
        };
        Ok(self.position(block)? + group % per_block * self.descriptor_bytes)
    }

    /// Returns the number of blocks before a meta group's descriptors: the superblock, and the boot
    /// sector if group 0 contains it although blocks have 1 KiB.
    fn blocks_before_descriptors(&self, group: u64) -> u64 {
        let boot = group == 0 && self.block_bytes == 1024 && self.first_data_block == 0;
        u64::from(self.has_superblock(group)) + u64::from(boot)
    }

    /// Returns the number of blocks at the beginning of a group that contain a superblock and
    /// descriptors.
    pub(crate) fn head_blocks(&self, group: u64) -> u64 {
        let per_block = self.descriptors_per_block();
        let mut blocks = self.blocks_before_descriptors(group);
        if self.is_in_meta_group(group) {
            let within = group % per_block;
            blocks += u64::from(within <= 1 || within == per_block - 1);
        } else if self.has_superblock(group) {
            let all = self.groups.div_ceil(per_block);
            let plain = if self.is_meta_bg { all.min(self.first_meta_group) } else { all };
            blocks += plain + self.reserved_descriptor_blocks;
        }
        blocks
    }
}
