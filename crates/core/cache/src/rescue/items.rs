//! The walk over the rescued data: the blocks in slots and the ranges of zeros, by address.

use super::{Item, Rescue, What};
use crate::BLOCK_SECTORS;
use crate::blocks::stretches;
use core::ops::Range;

/// A block in slots, split where the slot changes.
struct Cut {
    /// The slot of every sector.
    slots: [Option<u32>; BLOCK_SECTORS as usize],
    /// The block's first sector.
    first: u64,
    /// The next sector to yield, in the block.
    next: u32,
}

pub(super) struct Items<'a> {
    rescue: &'a Rescue,
    next_version: usize,
    next_zeros: usize,
    /// The rest of the range before `next_zeros`.
    zeros: Range<u64>,
    block: Cut,
}

impl<'a> Items<'a> {
    pub(super) fn of(rescue: &'a Rescue) -> Items<'a> {
        let block = Cut { slots: [None; BLOCK_SECTORS as usize], first: 0, next: BLOCK_SECTORS };
        Items { rescue, next_version: 0, next_zeros: 0, zeros: 0..0, block }
    }

    fn next_of_block(&mut self) -> Option<Item> {
        let sectors = self.block.slots.get(self.block.next as usize..)?;
        let skip = sectors.iter().position(Option::is_some)?;
        let slot = sectors[skip]?;
        let length = sectors[skip..].iter().take_while(|other| **other == Some(slot)).count();
        let sector = self.block.next + skip as u32;
        self.block.next = sector + length as u32;
        Some(Item {
            first_sector: self.block.first + u64::from(sector),
            sectors: length as u64,
            what: What::Bytes { offset: self.rescue.arena.sector_at(slot, sector) },
        })
    }

    fn next_zeros(&mut self, before: u64) -> Option<Item> {
        while self.zeros.is_empty() {
            self.zeros = self.rescue.zeros.get(self.next_zeros)?.clone();
            self.next_zeros += 1;
        }
        let end = self.zeros.end.min(before);
        if end <= self.zeros.start {
            return None;
        }
        let sectors = u64::from(BLOCK_SECTORS);
        let first_sector = self.zeros.start * sectors;
        self.zeros.start = end;
        let sectors = (end * sectors).min(self.rescue.sectors) - first_sector;
        Some(Item { first_sector, sectors, what: What::Zeros })
    }

    /// Begins the next block in slots: older versions first, newer ones over them.
    fn take_block(&mut self, block: u64) {
        self.block.slots = [None; BLOCK_SECTORS as usize];
        (self.block.first, self.block.next) = (block * u64::from(BLOCK_SECTORS), 0);
        let rest = &self.rescue.versions[self.next_version..];
        for version in rest.iter().take_while(|version| version.block == block) {
            stretches(version.mask, |first, length| {
                let sectors = first as usize..(first + length) as usize;
                self.block.slots[sectors].fill(Some(version.slot));
            });
            self.next_version += 1;
        }
        if self.zeros.start == block && !self.zeros.is_empty() {
            self.zeros.start += 1;
        }
    }
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let Some(item) = self.next_of_block() {
            return Some(item);
        }
        let block = self.rescue.versions.get(self.next_version).map(|version| version.block);
        if let Some(item) = self.next_zeros(block.unwrap_or(u64::MAX)) {
            return Some(item);
        }
        self.take_block(block?);
        self.next_of_block()
    }
}
