//! Cleaning: chooses victims, relocates valid slots, and paces that.

use super::state::{BUFFERED, NOWHERE, Victim};
use super::{Ftl, Nand, Pacing, Purpose, UnitAddress, Victims};

/// Slots whose owners and places are looked up together, so that their cache misses overlap.
const CHUNK: usize = 64;

impl Ftl {
    /// Cleans according to the pacing, after the host programmed `written` slots at full density.
    pub(super) fn pace<N: Nand>(&mut self, written: u32, nand: &mut N) {
        match self.settings.pacing {
            Pacing::Paced { free_superblocks } => {
                self.release_emptied();
                let block = u64::from(self.superblock_slots);
                let room = self.free.len() as u64 * block
                    + u64::from(self.host.left())
                    + u64::from(self.relocated.left());
                let goal = (u64::from(free_superblocks) * block)
                    .saturating_sub(self.settings.odd_slots.into())
                    .max(u64::from(free_superblocks.min(3)) * block);
                if room >= goal {
                    self.credit_256 = 0;
                    return;
                }
                let lack_256 = (goal - room) * 256 / block;
                self.pay(written, 256 + lack_256.min(768), nand);
            }
            Pacing::Burst { low, high, gain: 0 } => {
                if self.free.len() as u32 <= low {
                    self.clean_until(high, nand);
                }
            }
            Pacing::Burst { low, high, gain } => {
                let free = self.free.len() as u32;
                self.in_burst = free <= low || self.in_burst && free < high;
                if self.in_burst {
                    self.pay(written, 256 * (1 + u64::from(gain)), nand);
                }
            }
        }
    }

    /// Relocates for each host slot the number of slots that the victim costs per slot gained,
    /// times `haste_256` / 256: a factor above 1 gains space.
    fn pay<N: Nand>(&mut self, written: u32, haste_256: u64, nand: &mut N) {
        let Some(victim) = self.victim.or_else(|| self.choose()) else {
            return;
        };
        self.victim = Some(victim);
        let gain = u64::from(self.superblock_slots - victim.valid).max(1);
        self.credit_256 += u64::from(written) * u64::from(victim.valid) * haste_256 / gain;
        let due = (self.credit_256 >> 8) as u32;
        if due > 0 || victim.valid == 0 {
            let moved = self.collect(due, nand);
            self.credit_256 -= (u64::from(moved) << 8).min(self.credit_256);
        }
    }

    /// Cleans whole superblocks until `free` are free.
    pub(super) fn clean_until<N: Nand>(&mut self, free: u32, nand: &mut N) {
        while (self.free.len() as u32) < free {
            if self.victim.is_none() {
                self.victim = self.choose();
            }
            assert!(self.victim.is_some(), "a drive with spare space always has a victim");
            self.collect(u32::MAX, nand);
        }
    }

    /// Relocates up to `most` slots of the victim, if there is one; frees it when it is empty.
    pub(super) fn collect<N: Nand>(&mut self, most: u32, nand: &mut N) -> u32 {
        let Some(mut victim) = self.victim.take() else {
            return 0;
        };
        let moved = self.relocate(&mut victim, most, nand);
        if self.slc[victim.superblock as usize] {
            self.counters.folds += u64::from(moved);
        } else {
            self.counters.relocations += u64::from(moved);
        }
        if self.valid[victim.superblock as usize] == 0 {
            self.release(victim.superblock);
        } else {
            self.victim = Some(victim);
        }
        moved
    }

    /// Relocates up to `most` valid slots of a superblock, in order.
    pub(super) fn relocate<N: Nand>(
        &mut self,
        victim: &mut Victim,
        most: u32,
        nand: &mut N,
    ) -> u32 {
        let superblock = victim.superblock as usize;
        let base = victim.superblock * self.superblock_slots;
        let filled = self.filled[superblock];
        let mut reads = Reads::new(victim.superblock, self.slc[superblock]);
        let mut places = [NOWHERE; CHUNK];
        let mut moved = 0;
        while moved < most && self.valid[superblock] > 0 {
            assert!(victim.next < filled, "valid slots lie behind what was programmed");
            let count = (filled - victim.next).min(CHUNK as u32).min((most - moved).max(8));
            let first = base + victim.next;
            let owners = &self.owner[first as usize..(first + count) as usize];
            for (place, owner) in places.iter_mut().zip(owners) {
                *place = self.map.of_owner(*owner);
            }
            for offset in 0..count {
                let (physical, place) = (first + offset, places[offset as usize]);
                if place != physical && !self.is_older(place, physical) {
                    continue;
                }
                if moved == most {
                    victim.next += offset;
                    reads.end(nand);
                    return moved;
                }
                let logical = self.owner[physical as usize];
                if N::TIMED {
                    if physical >= reads.end_of_unit {
                        reads.end(nand);
                        let unit = self.by_unit.divide(physical - base);
                        reads.begin(unit, base + (unit + 1) * self.shape.unit_slots);
                    }
                    reads.add(physical, logical);
                }
                self.carry(physical, place, nand);
                if self.pages.is_some() {
                    self.move_entry(logical, nand);
                }
                self.valid[superblock] -= 1;
                moved += 1;
            }
            victim.next += count;
        }
        reads.end(nand);
        moved
    }

    /// Whether the map's entry is a buffered slot whose older version is here.
    #[inline]
    fn is_older(&self, place: u32, physical: u32) -> bool {
        (BUFFERED..NOWHERE).contains(&place)
            && self.buffer[(place - BUFFERED) as usize].older == physical
    }

    /// Relocates one valid slot.
    #[inline]
    fn carry<N: Nand>(&mut self, physical: u32, place: u32, nand: &mut N) {
        let mut frontier = if self.settings.one_frontier { self.host } else { self.relocated };
        if frontier.left() == 0 {
            self.close(frontier);
            let superblock = self.free.pop_front().expect("one superblock is kept for cleaning");
            frontier = self.open(superblock, false, nand);
        }
        let target = frontier.superblock * self.superblock_slots + frontier.next;
        let logical = self.owner[physical as usize];
        self.owner[target as usize] = logical;
        if place == physical {
            self.map.set(logical, target);
        } else {
            self.buffer[(place - BUFFERED) as usize].older = target;
        }
        self.valid[frontier.superblock as usize] += 1;
        frontier.next += 1;
        if self.is_at_unit(frontier.next) {
            self.report_program(nand, &frontier, false, Purpose::Relocation);
        }
        if self.settings.one_frontier {
            self.host = frontier;
        } else {
            self.relocated = frontier;
        }
    }

    /// Chooses the next victim: a closed superblock whose cleaning gains space.
    pub(super) fn choose(&mut self) -> Option<Victim> {
        let chosen = match self.settings.victims {
            Victims::Greedy => self.least(),
            Victims::Fifo => self.oldest(),
            Victims::Choices(count) => self.least_of(count),
            Victims::CostBenefit => self.best(),
        };
        // Random picks may all be superblocks that must not be cleaned.
        let superblock = chosen.or_else(|| self.least())?;
        let valid = self.valid[superblock as usize];
        // The best choice gains nothing only if nothing can be gained. The blind policies also
        // clean full superblocks.
        let blind = matches!(self.settings.victims, Victims::Fifo | Victims::Choices(_));
        if valid == self.superblock_slots && !blind {
            return None;
        }
        self.barred[superblock as usize] = u32::MAX;
        Some(Victim { superblock, next: 0, valid })
    }

    fn least(&self) -> Option<u32> {
        let ranks = self.valid.iter().zip(&self.barred).map(|(valid, barred)| valid | barred);
        // Two passes: the first is only a minimum, which the compiler vectorises.
        let least = ranks.clone().min().filter(|least| *least != u32::MAX)?;
        ranks.clone().position(|rank| rank == least).map(|at| at as u32)
    }

    fn oldest(&self) -> Option<u32> {
        let open = (0..self.barred.len()).filter(|at| self.barred[*at] == 0);
        open.min_by_key(|at| self.closed_at[*at]).map(|at| at as u32)
    }

    fn least_of(&mut self, count: u32) -> Option<u32> {
        let mut chosen: Option<usize> = None;
        let superblocks = self.barred.len() as u32;
        let mut seen = 0;
        // Nearly all superblocks may be cleaned, so few draws fail; the bound is for a drive that
        // is nearly empty.
        for _ in 0..count.saturating_mul(64) {
            let at = self.random.below(superblocks) as usize;
            if self.barred[at] != 0 {
                continue;
            }
            if chosen.is_none_or(|best| self.valid[at] < self.valid[best]) {
                chosen = Some(at);
            }
            seen += 1;
            if seen == count {
                break;
            }
        }
        chosen.map(|at| at as u32)
    }

    fn best(&self) -> Option<u32> {
        let mut chosen = None;
        let mut most = -1.0;
        for at in (0..self.barred.len()).filter(|at| self.barred[*at] == 0) {
            let used = f64::from(self.valid[at]) / f64::from(self.superblock_slots);
            let age = (self.closed - self.closed_at[at] + 1) as f64;
            let benefit = age * (1.0 - used) / (2.0 * used + 1e-9);
            if benefit > most {
                (chosen, most) = (Some(at as u32), benefit);
            }
        }
        chosen
    }
}

/// Gathers the slots of one unit into one read, and counts the runs among them.
struct Reads {
    place: UnitAddress,
    /// The first slot behind the unit.
    end_of_unit: u32,
    slots: u32,
    runs: u32,
    /// The next slot of a run: physical and logical.
    next: (u32, u32),
}

impl Reads {
    fn new(superblock: u32, slc: bool) -> Reads {
        let place = UnitAddress { superblock, unit: 0, slc };
        Reads { place, end_of_unit: 0, slots: 0, runs: 0, next: (NOWHERE, NOWHERE) }
    }

    fn begin(&mut self, unit: u32, end_of_unit: u32) {
        self.place.unit = unit;
        self.end_of_unit = end_of_unit;
    }

    #[inline]
    fn add(&mut self, physical: u32, logical: u32) {
        self.slots += 1;
        self.runs += u32::from(self.next != (physical, logical));
        self.next = (physical + 1, logical.wrapping_add(1));
    }

    fn end<N: Nand>(&mut self, nand: &mut N) {
        if self.slots > 0 {
            // Cleaning checks the validity of each slot; an SLC superblock is folded in the order
            // of its writes.
            let runs = if self.place.slc { self.runs } else { self.slots };
            nand.read(self.place, self.slots, runs);
            (self.slots, self.runs) = (0, 0);
        }
    }
}
