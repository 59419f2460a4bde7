//! The rescue: the data that a volume that cannot write to its backing still holds, in an order in
//! which it can be saved elsewhere (C8).
//!
//! A rescue reads an arena that is not being written to: the arena of a failed volume, or of a dead
//! process. It changes nothing there. It yields the newest bytes of every dirty sector, by the
//! rules of recovery: the later epoch wins, then the higher sequence; within an epoch a slot is
//! newer than any range of zeros over it; a range of a later epoch overtakes the slots under it.
//! Held copies of write-throughs are older than all of that. Written over the data of the backing,
//! the items make the volume as its clients saw it.
//!
//! ```text
//! block            0        1        2        3        4
//! closing epoch    [slot]   [slot]   (zeros...........)
//! open epoch       [slot]        (zeros...)            [. part]
//! items            slot     -------- zeros ----------     part
//! ```
//!
//! A block in a slot needs no range under it: the slot includes the data that it covers in part.

mod items;
mod mapfile;
#[cfg(test)]
mod tests;

use crate::BLOCK_SECTORS;
use crate::arena::superblock::Unrecoverable;
use crate::arena::superblock::{Condition, Found};
use crate::arena::{Arena, ExtentHeader, Header};
use crate::blocks::bits;
use crate::geometry::Geometry;
use crate::recovery::{Cover, RecoveredEpochs, merge};
use crate::spread::Spread;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::Memory;
use core::fmt;
use core::ops::Range;
use items::Items;
use mapfile::Mapfile;

/// A piece of a volume that is not on its backing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its first sector.
    pub first_sector: u64,
    /// The number of its sectors.
    pub sectors: u64,
    /// Its contents.
    pub what: What,
}

/// The contents of an [`Item`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Bytes in the arena's memory.
    Bytes {
        /// Their offset there; their length is that of the item.
        offset: usize,
    },
    /// Zeros.
    Zeros,
}

/// A version of a block that is part of the rescue.
#[derive(Clone, Copy)]
struct Version {
    block: u64,
    /// The rank of its sequence among the found ones.
    rank: u64,
    slot: u32,
    mask: u8,
    epoch: u64,
}

/// All dirty data in an arena. Needs 32 bytes per dirty block, and 32 for each region with pending
/// zeros.
pub struct Rescue {
    arena: Arena,
    sectors: u64,
    /// Whether held copies of write-throughs are included.
    takes_held: bool,
    /// Sorted by block; for each block the oldest epoch's version first.
    versions: Vec<Version>,
    /// Blocks that read as zeros unless a version holds them: ascending, disjoint.
    zeros: Vec<Range<u64>>,
    rejected: u64,
}

impl Rescue {
    /// Searches an arena that no process uses, and that none recovers until the rescue is dropped.
    ///
    /// Headers and ranges whose checksum is wrong are left out and counted. If the operator has
    /// begun to discard dirty data, the rescue is empty: the rest would be neither the old nor the
    /// new state.
    ///
    /// # Errors
    /// The memory holds no arena: its superblock is not one, or is damaged.
    pub fn from_memory(memory: Arc<Memory>) -> Result<Rescue, Unrecoverable> {
        Rescue::find(memory, true)
    }

    /// [`Rescue::from_memory`] for a failed volume that is served. The volume may continue to serve
    /// reads, but its error may not be cleared until the rescue is dropped. Held copies are left
    /// out: they are clean, so a read may evict one, and fill its slot with another block.
    ///
    /// # Errors
    /// Those of [`Rescue::from_memory`].
    pub fn from_served_memory(memory: Arc<Memory>) -> Result<Rescue, Unrecoverable> {
        Rescue::find(memory, false)
    }

    fn find(memory: Arc<Memory>, takes_held: bool) -> Result<Rescue, Unrecoverable> {
        let found = Arena::found(&memory).ok_or(Unrecoverable::NotAnArena)?;
        let Found { arena, geometry, sectors, .. } = found;
        let (versions, zeros) = (Vec::new(), Vec::new());
        let mut rescue = Rescue { arena, sectors, takes_held, versions, zeros, rejected: 0 };
        if rescue.arena.condition() == Condition::Discarding {
            return Ok(rescue);
        }
        let recovered_epochs = RecoveredEpochs::find(&rescue.arena, &geometry);
        let cover = rescue.find_zeros(&recovered_epochs, &geometry);
        rescue.find_versions(&recovered_epochs, &geometry, &cover);
        Ok(rescue)
    }

    /// Collects the ranges, as blocks; also returns them by their epochs.
    fn find_zeros(&mut self, recovered_epochs: &RecoveredEpochs, geometry: &Geometry) -> Cover {
        let spread = Spread::of(geometry);
        let durable = self.arena.durable();
        let mut cover = Cover::default();
        for shard in 0..geometry.shards {
            for number in geometry.ranges_of(shard) {
                match self.arena.extent(number) {
                    Ok(Some(range)) if !durable.cover(range.epoch as u16) => {
                        let epoch = recovered_epochs.number(range.epoch as u16);
                        for blocks in self.blocks_of(&spread, shard, &range) {
                            cover.add(epoch, blocks.clone());
                            self.zeros.push(blocks);
                        }
                    }
                    Ok(_) => {}
                    Err(()) => self.rejected += 1,
                }
            }
        }
        merge(&mut self.zeros);
        cover.sort();
        cover
    }

    /// Returns the blocks of a range, up to the volume's end.
    fn blocks_of(
        &self,
        spread: &Spread,
        shard: u32,
        range: &ExtentHeader,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let end_of_volume = self.sectors.div_ceil(u64::from(BLOCK_SECTORS));
        // The distance of a block from the start is not larger in its shard than in the volume.
        let end = (range.first + u64::from(range.blocks)).min(end_of_volume);
        let stretches = spread.blocks_at(shard, range.first..end);
        let cut = move |blocks: Range<u64>| blocks.start..blocks.end.min(end_of_volume);
        stretches.map(cut).filter(|blocks| !blocks.is_empty())
    }

    /// Collects the newest version of every block in each epoch, unless a range overtakes it.
    fn find_versions(
        &mut self,
        recovered_epochs: &RecoveredEpochs,
        geometry: &Geometry,
        cover: &Cover,
    ) {
        let durable = self.arena.durable();
        for slot in geometry.live_slots() {
            let Some(header) = self.header(slot) else {
                self.rejected += 1;
                continue;
            };
            let epoch = recovered_epochs.number(header.epoch);
            let mask = header.mask & self.sectors_of(header.block);
            let overtaken = || cover.covers_after(epoch, header.block);
            let is_lost = header.state.is_dirty() && !durable.cover(header.epoch);
            if is_lost && mask != 0 && !overtaken() {
                let rank = recovered_epochs.rank(header.sequence);
                self.versions.push(Version { block: header.block, rank, slot, mask, epoch });
            } else if self.takes_held
                && self.arena.is_unflushed(&header)
                && mask != 0
                && !cover.covers(header.block)
            {
                // It is older than all dirty data. Of two, recovery takes that of an unanswered
                // change, or the first.
                let first = u64::from(u32::MAX - slot);
                let rank = if header.is_unanswered() { u64::MAX } else { first };
                let block = header.block;
                self.versions.push(Version { block, rank, slot, mask, epoch: 0 });
            }
        }
        self.versions.sort_unstable_by_key(|version| (version.block, version.epoch, version.rank));
        self.versions.dedup_by(|newer, kept| {
            let same = (newer.block, newer.epoch) == (kept.block, kept.epoch);
            if same {
                *kept = *newer;
            }
            same
        });
        self.versions.shrink_to_fit();
    }

    /// Returns the header of a slot. A concurrent read that reuses a clean slot for another block
    /// can make a sound header look damaged; a damaged one fails each time.
    fn header(&self, slot: u32) -> Option<Header> {
        (0..3).find_map(|_| self.arena.verified(slot))
    }

    /// Returns the sectors of a block that the volume has: the last block may be short.
    fn sectors_of(&self, block: u64) -> u8 {
        let left = self.sectors.saturating_sub(block * u64::from(BLOCK_SECTORS));
        bits(0, left.min(BLOCK_SECTORS.into()) as u32)
    }

    /// Returns the size of the volume in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the bytes per sector: 512, or less in a simulated world.
    pub fn grain(&self) -> u32 {
        self.arena.grain()
    }

    /// Returns the memory to which [`What::Bytes`] refers.
    pub fn memory(&self) -> &Arc<Memory> {
        self.arena.memory()
    }

    /// Returns the number of headers of slots and ranges that failed their checksum: their data is
    /// lost.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Whether nothing is dirty.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.zeros.is_empty()
    }

    /// Returns the number of rescued sectors, including those of zeros.
    pub fn rescued_sectors(&self) -> u64 {
        self.items().map(|item| item.sectors).sum()
    }

    /// Returns everything that is rescued, ascending and without overlap.
    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        Items::of(self)
    }

    /// Returns a GNU ddrescue mapfile of the rescued data, in bytes: `+` is rescued, `?` is not. If
    /// the items are in a file at their own positions,
    /// `ddrescue --force --domain-mapfile=MAP FILE BACKING APPLIED` writes them to a backing and
    /// leaves everything else there unchanged.
    pub fn mapfile(&self) -> impl fmt::Display + '_ {
        Mapfile(self)
    }
}
