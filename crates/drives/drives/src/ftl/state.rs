//! The arrays of the FTL, and their basic operations.

use super::blocks::Blocks;
use super::map::Map;
use super::map_pages::MapPages;
use super::table::{MapCost, Table};
use super::{Counters, Nand, Purpose, Settings, UnitAddress};
use crate::random::Random;
use crate::shape::{ADDRESSES, Divider, Shape};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

pub(super) use super::frontier::{Frontier, NONE, Victim};
pub(crate) use crate::shape::NOWHERE;

/// In the map, values from here to `NOWHERE` are positions in the buffer.
pub(super) const BUFFERED: u32 = ADDRESSES;

/// Superblocks without which cleaning could stall: two frontiers and the free superblocks that
/// cleaning needs.
const RESERVE: u64 = 5;

/// A slot that waits in the buffer.
#[derive(Clone, Copy)]
pub(super) struct Staged {
    /// Its logical slot; `NOWHERE` if it was trimmed since.
    pub(super) logical: u32,
    /// Location of the previous version; `NOWHERE` if there is none.
    pub(super) older: u32,
}

/// The flash translation layer of one drive. See the crate's documentation.
pub struct Ftl {
    pub(super) shape: Shape,
    pub(super) settings: Settings,
    pub(super) by_superblock: Divider,
    pub(super) by_unit: Divider,
    pub(super) superblock_slots: u32,
    /// The location of each logical slot.
    pub(super) map: Map,
    /// The owner of each physical slot: it is valid if the map agrees.
    pub(super) owner: Vec<u32>,
    /// Valid slots of each superblock.
    pub(super) valid: Vec<u32>,
    /// 0 if a superblock may be cleaned, otherwise all ones: combined with `valid` by OR, it gives
    /// the rank.
    pub(super) barred: Vec<u32>,
    /// Slots that were programmed in it.
    pub(super) filled: Vec<u32>,
    /// The number of superblocks closed before it.
    pub(super) closed_at: Vec<u64>,
    pub(super) closed: u64,
    /// Whether it is used with one bit a cell.
    pub(super) slc: Vec<bool>,
    /// Superblocks that became empty, and are not free yet unless they were chosen since.
    pub(super) emptied: Vec<u32>,
    /// Whether it waits for idle time because a slot in it was trimmed.
    pub(super) trimmed: Vec<bool>,
    pub(super) erases: Vec<u32>,
    /// Dynamic SLC superblocks with data.
    pub(super) dynamic: u32,
    pub(super) free: VecDeque<u32>,
    pub(super) slc_free: VecDeque<u32>,
    /// Closed SLC superblocks, oldest first.
    pub(super) slc_closed: VecDeque<u32>,
    pub(super) host: Frontier,
    pub(super) host_slc: Frontier,
    pub(super) relocated: Frontier,
    pub(super) victim: Option<Victim>,
    pub(super) folded: Option<Victim>,
    /// A ring; its size is a power of two.
    pub(super) buffer: Vec<Staged>,
    pub(super) buffer_head: u32,
    pub(super) buffer_tail: u32,
    /// Relocations due, in 1/256.
    pub(super) credit_256: u64,
    /// Whether a burst of cleaning is under way in parallel with the host's writes.
    pub(super) in_burst: bool,
    /// For a hybrid mapping, where `relocated` is the log block of its stream.
    pub(super) hybrid: Option<Blocks>,
    pub(super) table: Table,
    /// For a map on the flash.
    pub(super) pages: Option<MapPages>,
    pub(super) random: Random,
    pub(super) counters: Counters,
}

impl Ftl {
    /// Returns an empty drive.
    ///
    /// Errors: a sentence that names the unusable value in the shape or the settings.
    pub fn new(shape: Shape, settings: Settings) -> Result<Ftl, &'static str> {
        Ftl::check(&shape, &settings)?;
        let superblocks = shape.superblocks as usize;
        let area = settings.slc.static_superblocks;
        let first = area + settings.map_superblocks(&shape);
        let ring = settings.buffer_slots.max(2 * shape.unit_slots).next_power_of_two();
        let mut slc = vec![false; superblocks];
        slc[..area as usize].fill(true);
        Ok(Ftl {
            shape,
            settings,
            by_superblock: Divider::new(shape.superblock_slots()),
            by_unit: Divider::new(shape.unit_slots),
            superblock_slots: shape.superblock_slots(),
            map: Map::new(shape.logical_slots),
            // Zeros use no memory until they are written, and no owner is read before that.
            owner: vec![0; shape.physical_slots() as usize],
            valid: vec![0; superblocks],
            barred: vec![u32::MAX; superblocks],
            filled: vec![0; superblocks],
            closed_at: vec![0; superblocks],
            closed: 0,
            slc,
            emptied: Vec::new(),
            trimmed: vec![false; superblocks],
            erases: vec![0; superblocks],
            dynamic: 0,
            free: (first..shape.superblocks).collect(),
            slc_free: (0..area).collect(),
            slc_closed: VecDeque::new(),
            host: Frontier::CLOSED,
            host_slc: Frontier::CLOSED,
            relocated: Frontier::CLOSED,
            victim: None,
            folded: None,
            buffer: vec![Staged { logical: NOWHERE, older: NOWHERE }; ring as usize],
            buffer_head: 0,
            buffer_tail: 0,
            credit_256: 0,
            in_burst: false,
            hybrid: (settings.log_blocks > 0).then(|| {
                let blocks = shape.logical_slots.div_ceil(shape.superblock_slots());
                Blocks::new(settings.log_blocks, blocks)
            }),
            table: Table::new(settings.map, shape.logical_slots),
            pages: MapPages::new(&shape, &settings),
            random: Random::new(settings.seed),
            counters: Counters::default(),
        })
    }

    /// Checks that a drive can be made of this.
    ///
    /// Errors: a sentence that names the unusable value in the shape or the settings.
    pub fn check(shape: &Shape, settings: &Settings) -> Result<(), &'static str> {
        if let Some(fault) = shape.fault() {
            return Err(fault);
        }
        let slc = &settings.slc;
        if (slc.static_superblocks > 0 || slc.dynamic_superblocks > 0) && shape.slc_pages == 0 {
            return Err("an SLC area needs blocks of at least as many pages as a cell has bits");
        }
        let most = match settings.pacing {
            super::Pacing::Paced { free_superblocks } => free_superblocks,
            super::Pacing::Burst { low, high, .. } if low <= high && low > 0 => high,
            super::Pacing::Burst { .. } => return Err("a burst needs 0 < low <= high"),
        };
        let map = settings.map_superblocks(shape);
        if map > 0 && settings.map_superblock_units(shape) < 2 {
            return Err(
                "a map on the flash needs superblocks of at least two units; give more dies or \
                 pages",
            );
        }
        let held =
            u64::from(most.max(2)) + u64::from(slc.static_superblocks) + u64::from(map) + RESERVE;
        let room = u64::from(shape.superblocks).saturating_sub(held);
        if room * u64::from(shape.superblock_slots()) < u64::from(shape.logical_slots) {
            return Err(
                "too little flash for this capacity, its SLC area, its map and the reserve; \
                    give more blocks, a smaller capacity or a smaller reserve",
            );
        }
        if settings.log_blocks > 0 {
            let blocks = shape.logical_slots.div_ceil(shape.superblock_slots());
            let needed = u64::from(blocks) + u64::from(settings.log_blocks) + RESERVE + 2;
            if slc.static_superblocks + slc.dynamic_superblocks > 0 {
                return Err("a hybrid mapping has no SLC area");
            }
            if map > 0 {
                return Err(
                    "a hybrid mapping has no map on the flash; give the kind flat or extents",
                );
            }
            if needed > u64::from(shape.superblocks) {
                return Err("too little flash for the log blocks; give fewer, or more blocks");
            }
        }
        if settings.buffer_slots > 1 << 24 || shape.unit_slots > 1 << 20 {
            return Err("the write buffer holds at most 64 GiB and a unit at most 4 GiB");
        }
        Ok(())
    }

    /// Returns the geometry.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the policies.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the superblocks that are free at full density.
    pub fn free_superblocks(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns the slots with data in SLC superblocks.
    pub fn slc_valid_slots(&self) -> u64 {
        let each = self.slc.iter().zip(&self.valid);
        each.filter(|(slc, _)| **slc).map(|(_, valid)| u64::from(*valid)).sum()
    }

    /// Returns the number of erases of each superblock.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Returns the extents of the mapping table; 0 unless it is a tree.
    pub fn extents(&self) -> u64 {
        self.table.extents()
    }

    /// Returns the physical slots that are neither free nor unused in open superblocks, divided by
    /// logical slots: alpha in theory.
    pub fn alpha(&self) -> f64 {
        let free = self.free.len() as u64 * u64::from(self.superblock_slots);
        let open = u64::from(self.host.left() + self.relocated.left());
        let apart =
            self.settings.slc.static_superblocks + self.settings.map_superblocks(&self.shape);
        let all = self.shape.physical_slots() - u64::from(apart) * u64::from(self.superblock_slots);
        (all - free - open) as f64 / f64::from(self.shape.logical_slots)
    }

    /// Returns the location of a slot's data, for a read.
    #[inline]
    pub fn find(&self, logical: u32) -> Found {
        match self.map.at(logical) {
            NOWHERE => Found::Nowhere,
            buffered if buffered >= BUFFERED => Found::Buffer,
            physical => Found::Flash(self.address_of(physical)),
        }
    }

    /// Returns the memory of a slot's map entry, for prefetching by callers that know the next
    /// requests. None: the slot is beyond the drive's end.
    #[inline]
    pub fn entry(&self, logical: u32) -> Option<&u32> {
        self.map.entry(logical)
    }

    pub(crate) fn address_of(&self, physical: u32) -> UnitAddress {
        let superblock = self.by_superblock.divide(physical);
        let position = physical - superblock * self.superblock_slots;
        let unit = self.by_unit.divide(position);
        UnitAddress { superblock, unit, slc: self.slc[superblock as usize] }
    }

    /// Looks up a slot for a read; returns the cost in map pages.
    #[inline]
    pub fn look_up(&mut self, logical: u32) -> MapCost {
        if self.pages.is_some() {
            return self.touch_entry(logical, false);
        }
        let cost = self.table.read(logical);
        self.counters.map_reads += u64::from(cost.reads);
        self.counters.map_programs += u64::from(cost.programs);
        cost
    }

    /// Marks a physical slot as not valid.
    #[inline]
    pub(super) fn invalidate(&mut self, physical: u32) {
        let superblock = self.by_superblock.divide(physical) as usize;
        self.valid[superblock] -= 1;
        if self.valid[superblock] == 0 && self.barred[superblock] == 0 {
            self.emptied.push(superblock as u32);
        }
    }

    /// Frees the closed superblocks whose last valid slot was overwritten or trimmed since the last
    /// call. Areas with one bit a cell have rules of their own.
    #[inline]
    pub(super) fn release_emptied(&mut self) {
        while let Some(superblock) = self.emptied.pop() {
            let at = superblock as usize;
            if self.valid[at] == 0 && self.barred[at] == 0 && !self.slc[at] {
                self.release(superblock);
            }
        }
    }

    /// Takes a free superblock, erases it and opens it.
    pub(super) fn open<N: Nand>(&mut self, superblock: u32, slc: bool, nand: &mut N) -> Frontier {
        let at = superblock as usize;
        self.slc[at] = slc;
        self.trimmed[at] = false;
        self.erases[at] += 1;
        self.filled[at] = 0;
        let end = if slc {
            self.counters.slc_erases += 1;
            self.shape.slc_superblock_slots()
        } else {
            self.counters.erases += 1;
            self.superblock_slots
        };
        nand.erase(superblock, slc);
        Frontier { superblock, next: 0, end }
    }

    /// Closes a frontier; nothing more is programmed there.
    pub(super) fn close(&mut self, frontier: Frontier) {
        if frontier.superblock == NONE {
            return;
        }
        let at = frontier.superblock as usize;
        self.filled[at] = frontier.next;
        self.closed += 1;
        self.closed_at[at] = self.closed;
        if self.slc[at] {
            self.slc_closed.push_back(frontier.superblock);
        }
        if !self.is_static(frontier.superblock) {
            self.barred[at] = 0;
        }
    }

    /// Whether a superblock belongs to the static SLC area.
    pub(super) fn is_static(&self, superblock: u32) -> bool {
        superblock < self.settings.slc.static_superblocks
    }

    /// Frees an empty superblock.
    pub(super) fn release(&mut self, superblock: u32) {
        let at = superblock as usize;
        assert_eq!(self.valid[at], 0, "only an empty superblock is free");
        self.barred[at] = u32::MAX;
        if self.slc[at] {
            self.slc_closed.retain(|closed| *closed != superblock);
        }
        if self.is_static(superblock) {
            self.slc_free.push_back(superblock);
            return;
        }
        if self.slc[at] {
            self.dynamic -= 1;
        }
        self.free.push_back(superblock);
    }

    /// Whether a unit begins at this position of a superblock.
    #[inline]
    pub(super) fn is_at_unit(&self, position: u32) -> bool {
        self.by_unit.divide(position) * self.shape.unit_slots == position
    }

    /// Reports the unit that ends at the frontier's position to `nand`, if one does.
    #[inline]
    pub(super) fn report_program<N: Nand>(
        &self,
        nand: &mut N,
        frontier: &Frontier,
        slc: bool,
        purpose: Purpose,
    ) {
        let unit = self.by_unit.divide(frontier.next) - 1;
        nand.program(UnitAddress { superblock: frontier.superblock, unit, slc }, purpose);
    }
}

/// The location of a slot's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// It was never written, or trimmed.
    Nowhere,
    /// In the volatile buffer.
    Buffer,
    /// On the flash.
    Flash(UnitAddress),
}
