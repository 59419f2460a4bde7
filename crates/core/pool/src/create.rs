//! Creates pools: only on request, and only from members that are blank, unless the caller
//! overwrites them.

use crate::decide::blank_map;
use crate::format::{Head, Record, Superblock, encode_page};
use crate::layout::{Layout, slots_of};
use crate::refusal::{Reason, Refusal};
use crate::slots::Slots;
use alloc::vec;
use alloc::vec::Vec;
use block::Stack;

/// The part at the start and at the end of a member that must be zeros, in slots: 1 MiB. Most
/// signatures are there; the code that opens the members searches for the others.
const BLANK_SLOTS: u32 = 256;

/// Creates a pool of these members, in this order; `pool` is its identity and should be random.
/// With `overwrite`, the members' contents are lost.
///
/// # Errors
/// A [`Refusal`]. Nothing was written if it concerns sizes or a member that is not blank.
pub async fn create(members: &[Stack], pool: u128, overwrite: bool) -> Result<Layout, Refusal> {
    let sizes: Vec<u32> = members.iter().map(|member| slots_of(member.limits())).collect();
    let grain = members.first().map_or(0, |member| member.limits().grain);
    check_blocks(members.iter().enumerate(), grain)?;
    let layout = Layout::for_sizes(&sizes, grain)
        .map_err(|sentence| Refusal::whole(Reason::Sizes(sentence)))?;
    if !overwrite {
        for (number, member) in members.iter().enumerate() {
            check_blank(member, sizes[number])
                .await
                .map_err(|reason| Refusal::of(number, reason))?;
        }
    }
    for (number, member) in members.iter().enumerate() {
        let superblock = Superblock { pool, number, layout: layout.clone() };
        write_member(member, &superblock)
            .await
            .map_err(|error| Refusal::of(number, Reason::Device(error)))?;
    }
    Ok(layout)
}

/// Checks that the members' block sizes are suitable for a pool.
pub(crate) fn check_blocks<'a>(
    members: impl Iterator<Item = (usize, &'a Stack)>,
    grain: u32,
) -> Result<(), Refusal> {
    for (number, member) in members {
        let limits = member.limits();
        if limits.grain != grain || limits.block_logical_bytes > 4096 || limits.io_max_bytes < 4096
        {
            return Err(Refusal::of(number, Reason::Blocks));
        }
    }
    Ok(())
}

async fn check_blank(member: &Stack, size: u32) -> Result<(), Reason> {
    let mut slots = Slots::of(member);
    let count = BLANK_SLOTS.min(size);
    for first in [0, size - count] {
        let mut blank = true;
        let look = |_, bytes: &[u8]| {
            blank &= bytes.iter().all(|byte| *byte == 0);
            blank
        };
        slots.read(first, count, look).await.map_err(Reason::Device)?;
        if !blank {
            return Err(Reason::NotBlank);
        }
    }
    Ok(())
}

/// The superblock is written last: without it, the contents are not a pool.
async fn write_member(member: &Stack, superblock: &Superblock) -> block::Result {
    let (layout, pool) = (&superblock.layout, superblock.pool);
    let mut bytes = vec![0; layout.block_bytes()];
    let mut slots = Slots::of(member);
    slots.write(0, 1, |_, slot| slot.zero()).await?;
    slots.flush().await?;
    // Erases the remains of an earlier pool. (Their blocks would be rejected anyway.)
    slots.write(1, layout.journal, |_, slot| slot.zero()).await?;
    let first = Head { life: 1, sequence: 1, tail: 1, ..Head::default() };
    let records: [Record; 0] = [];
    let head = |_, slot: &block::Buf| {
        first.encode(pool, &records, &mut bytes);
        slot.write(&bytes);
    };
    slots.write(1 + 1, 1, head).await?;
    let map = blank_map(layout);
    let entries = layout.entries_a_page() as usize;
    let page = |at, slot: &block::Buf| {
        let page = at - layout.page_slot(0, 0);
        let end = map.len().min((page as usize + 1) * entries);
        let first = end.min(page as usize * entries);
        encode_page(pool, page, 0, &map[first..end], &mut bytes);
        slot.write(&bytes);
    };
    slots.write(layout.page_slot(0, 0), layout.pages, page).await?;
    slots.write(layout.page_slot(0, 1), layout.pages, |_, slot| slot.zero()).await?;
    slots.flush().await?;
    let last = |_, slot: &block::Buf| {
        superblock.encode(&mut bytes);
        slot.write(&bytes);
    };
    slots.write(0, 1, last).await?;
    slots.flush().await
}
