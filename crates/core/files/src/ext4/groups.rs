//! Groups of blocks: their metadata, and their free space.

use super::superblock::Superblock;
use crate::bytes::{le16, le32};
use crate::class::Class;
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::map::{Builder, Owner};
use crate::tree::add;

/// Flag of a group whose block bitmap was never written: all blocks but metadata are free.
const BLOCK_UNINIT: u16 = 0x2;

/// The descriptor of a group.
pub(crate) struct Descriptor {
    block_bitmap: u64,
    inode_bitmap: u64,
    pub(crate) inode_table: u64,
    flags: u16,
}

pub(crate) fn descriptor(
    part: &mut Part<'_, '_>,
    superblock: &Superblock,
    group: u64,
) -> Step<Descriptor> {
    let mut raw = [0; 64];
    let length = raw.len().min(superblock.descriptor_bytes as usize);
    part.read(superblock.descriptor_position(group)?, &mut raw[..length])?;
    // Without the feature 64bit, the upper half stays zero.
    let wide =
        |low: usize, high: usize| u64::from(le32(&raw, high)) << 32 | u64::from(le32(&raw, low));
    Ok(Descriptor {
        block_bitmap: wide(0x0, 0x20),
        inode_bitmap: wide(0x4, 0x24),
        inode_table: wide(0x8, 0x28),
        flags: le16(&raw, 0x12),
    })
}

/// Adds the metadata and the free space of all groups to the map. Returns the number of groups that
/// could not be read.
pub(crate) fn add_groups(
    part: &mut Part<'_, '_>,
    superblock: &Superblock,
    builder: &mut Builder,
) -> Step<u32> {
    let mut unreadable = 0;
    for group in 0..superblock.groups {
        // Groups beyond the end of the partition do not exist.
        if superblock.group_start(group) >= part.bytes() / superblock.block_bytes {
            return Ok(unreadable + 1);
        }
        part.device.step()?;
        match add_group(part, superblock, builder, group) {
            Err(Fault::Exhausted) => return Err(Fault::Exhausted),
            Err(_) => unreadable += 1,
            Ok(()) => {}
        }
    }
    Ok(unreadable)
}

fn add_group(
    part: &mut Part<'_, '_>,
    superblock: &Superblock,
    builder: &mut Builder,
    group: u64,
) -> Step {
    let range = (part.first_sector(), part.sectors());
    let bytes = superblock.block_bytes;
    let mut metadata = |block: u64, blocks: u64| {
        let start = superblock.position(block)?;
        add(builder, range, start, blocks.saturating_mul(bytes), Class::Metadata, Owner::None)
    };
    let start = superblock.group_start(group);
    let found = descriptor(part, superblock, group)?;
    metadata(start, superblock.head_blocks(group))?;
    metadata(found.block_bitmap, 1)?;
    metadata(found.inode_bitmap, 1)?;
    let table = superblock.inodes_per_group * superblock.inode_bytes;
    metadata(found.inode_table, table.div_ceil(bytes))?;
    let end = start.saturating_add(superblock.blocks_per_group).min(superblock.blocks);
    if superblock.has_uninitialised_bitmaps && found.flags & BLOCK_UNINIT != 0 {
        let (start, length) = (start * bytes, (end - start) * bytes);
        return add(builder, range, start, length, Class::Free, Owner::None);
    }
    let bitmap = part.read_vec(superblock.position(found.block_bitmap)?, bytes as usize)?;
    let cluster = superblock.cluster_blocks * bytes;
    let clusters = (end - start).div_ceil(superblock.cluster_blocks);
    free_runs(&bitmap, clusters as usize, |first, number| {
        part.device.step()?;
        let (at, length) = (start * bytes + first as u64 * cluster, number as u64 * cluster);
        add(builder, range, at, length, Class::Free, Owner::None)
    })
}

/// Calls `each` with the first bit and the number of bits of each run of zeros, of the first `bits`
/// bits.
fn free_runs(bitmap: &[u8], bits: usize, mut each: impl FnMut(usize, usize) -> Step) -> Step {
    let is_used = |bit: usize| bitmap.get(bit / 8).is_none_or(|byte| byte >> (bit % 8) & 1 == 1);
    let mut bit = 0;
    while bit < bits {
        let whole = bitmap.get(bit / 8).filter(|_| bit % 8 == 0);
        if whole == Some(&0xff) {
            bit += 8;
        } else if is_used(bit) {
            bit += 1;
        } else {
            let first = bit;
            while bit < bits && !is_used(bit) {
                let is_zero = bit % 8 == 0 && bitmap.get(bit / 8) == Some(&0);
                bit += if is_zero { 8 } else { 1 };
            }
            each(first, bit.min(bits) - first)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_of_zeros_are_those_of_single_bits(
            bitmap in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..12),
            bits in 0usize..100,
        ) {
            let mut found = Vec::new();
            free_runs(&bitmap, bits, |first, number| {
                found.extend(first..first + number);
                Ok(())
            }).expect("no bound");
            let is_free = |bit: &usize| bitmap.get(bit / 8).is_some_and(|it| it >> (bit % 8) & 1 == 0);
            let expected: Vec<usize> = (0..bits).filter(is_free).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
