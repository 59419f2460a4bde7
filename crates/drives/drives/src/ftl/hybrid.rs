//! Hybrid mapping with log blocks, as in controllers without memory for a map of all pages: FAST
//! (Lee and others, ACM TECS 2007).
//!
//! A *data block* holds one logical block, each slot at its own offset. The host's writes go into
//! log blocks: a stream that begins with a logical block's first slot into one of its own, all
//! other writes, in order of arrival, into shared ones. Before a shared log block can be reused,
//! each logical block with data in it is *merged*: its valid slots, wherever they are, are copied
//! into a new data block. A stream that has filled its block turns it into the data block
//! (*switch*); one that ends before copies the rest from the old one (*partial merge*).
//!
//! The oldest log blocks are merged in steps while the newest is filled, so that they are empty
//! when it is full: a request waits for the steps of its own share. Idle time merges in steps, too,
//! and the next one continues. When the last unused block has become a log block, the log is far
//! longer than it may be from then on. It shrinks while it is used: of the oldest log blocks, as
//! many as together hold no more valid slots than one has are emptied while one is filled.

use super::blocks::{Blocks, Merge};
use super::state::{BUFFERED, Frontier, NONE, NOWHERE, Victim};
use super::{Ftl, Idle, Nand, Purpose, UnitAddress};

/// The destination of the next unit.
enum Goal {
    /// The stream's log block.
    Stream,
    /// A new stream of this logical block.
    Begin(u32),
    /// The shared log.
    Log,
}

impl Ftl {
    fn hybrid(&mut self) -> &mut Blocks {
        self.hybrid.as_mut().expect("the mapping is hybrid")
    }

    /// Programs the oldest staged slots as a unit; returns their number.
    pub(super) fn program_hybrid<N: Nand>(&mut self, nand: &mut N) -> u32 {
        let unit = self.shape.unit_slots;
        let taken = self.staged().min(unit);
        let into_stream = match self.goal(taken) {
            Goal::Stream => true,
            Goal::Begin(block) => {
                self.end_stream(nand);
                self.begin_stream(block, nand);
                true
            }
            Goal::Log => {
                self.make_log_room(nand);
                false
            }
        };
        let mut frontier = if into_stream { self.relocated } else { self.host };
        let first = frontier.superblock * self.superblock_slots + frontier.next;
        let live = self.place(first, taken);
        self.owner[(first + taken) as usize..(first + unit) as usize].fill(NOWHERE);
        self.valid[frontier.superblock as usize] += live;
        self.counters.host_programs += u64::from(taken);
        self.counters.padding += u64::from(unit - taken);
        frontier.next += unit;
        self.report_program(nand, &frontier, false, Purpose::Host);
        if into_stream {
            self.relocated = frontier;
            if frontier.left() == 0 {
                self.end_stream(nand);
            }
        } else {
            self.host = frontier;
            self.merge_ahead(nand);
        }
        taken
    }

    /// Returns the destination of the next unit, from its slots.
    fn goal(&mut self, taken: u32) -> Goal {
        let mask = self.buffer.len() as u32 - 1;
        let slot = |number: u32| {
            self.buffer[(self.buffer_head.wrapping_add(number) & mask) as usize].logical
        };
        let first = slot(0);
        if first == NOWHERE || (1..taken).any(|number| slot(number) != first + number) {
            return Goal::Log;
        }
        let (block, at) = (first / self.superblock_slots, first % self.superblock_slots);
        let hybrid = self.hybrid.as_ref().expect("the mapping is hybrid");
        // Slots shorter than a unit would leave a hole in a stream, and do not predict the next
        // ones.
        if taken < self.shape.unit_slots {
            return Goal::Log;
        }
        if self.relocated.end > 0 && block == hybrid.stream && at == self.relocated.next {
            return Goal::Stream;
        }
        if at == 0 { Goal::Begin(block) } else { Goal::Log }
    }

    fn begin_stream<N: Nand>(&mut self, block: u32, nand: &mut N) {
        if self.hybrid().merging.is_some_and(|merge| merge.block == block) {
            self.continue_merge(u32::MAX, nand);
        }
        let superblock = self.take_free(nand);
        self.relocated = self.open(superblock, false, nand);
        self.hybrid().stream = block;
    }

    /// Turns the stream's log block into the data block: unchanged if it is full, otherwise after
    /// copying the rest from the old one and the log.
    fn end_stream<N: Nand>(&mut self, nand: &mut N) {
        if self.relocated.end == 0 {
            return;
        }
        let mut merge = self.take_stream();
        self.fill_block(&mut merge, u32::MAX, nand);
    }

    /// Turns the stream into a merge of its logical block.
    fn take_stream(&mut self) -> Merge {
        let target = core::mem::replace(&mut self.relocated, Frontier::CLOSED);
        let block = core::mem::replace(&mut self.hybrid().stream, NONE);
        Merge { block, target }
    }

    /// Takes a free superblock; leaves those that merges may need before they free one.
    fn take_free<N: Nand>(&mut self, nand: &mut N) -> u32 {
        while !self.can_spare(0) && self.merge(u32::MAX, nand) {}
        self.free.pop_front().expect("merging leaves superblocks free")
    }

    /// Whether more superblocks are free than merges, and this number of others, may need.
    fn can_spare(&self, others: u32) -> bool {
        let bare = self.hybrid.as_ref().map_or(0, |hybrid| hybrid.bare);
        self.free.len() as u32 > bare + 2 + others
    }

    /// Whether the next superblock to be taken was never used, and can be spared when a stream has
    /// taken its own.
    fn is_fresh(&self) -> bool {
        let next = self.free.front().copied();
        self.can_spare(1) && next.is_some_and(|next| self.erases[next as usize] == 0)
    }

    /// Ensures that the shared log has room for a unit.
    fn make_log_room<N: Nand>(&mut self, nand: &mut N) {
        if self.host.left() > 0 {
            return;
        }
        let full = core::mem::replace(&mut self.host, Frontier::CLOSED);
        if full.superblock != NONE {
            self.close(full);
            self.hybrid().logs.push_back(full.superblock);
        }
        // These blocks are empty by now, but for the rest of a merge under way.
        while self.hybrid().logs.len() as u32 > self.hybrid().kept && self.merge(u32::MAX, nand) {}
        let superblock = self.take_free(nand);
        self.host = self.open(superblock, false, nand);
        self.hybrid().kept = self.closed_logs_to_keep();
    }

    /// Returns the number of closed log blocks that stay when the log's open block is full. Blocks
    /// that were never used are taken before anything is merged.
    fn closed_logs_to_keep(&self) -> u32 {
        let hybrid = self.hybrid.as_ref().expect("the mapping is hybrid");
        let closed = hybrid.logs.len() as u32 + 1;
        let excess = (closed + 1).saturating_sub(hybrid.most);
        if excess == 0 || self.is_fresh() {
            return closed;
        }
        let mut valid = 0;
        let cheap = hybrid.logs.iter().take_while(|log| {
            valid += self.valid[**log as usize];
            valid <= self.superblock_slots
        });
        closed - (cheap.count() as u32).clamp(1, excess)
    }

    /// Merges the oldest log blocks far enough to be empty when the open one is full.
    fn merge_ahead<N: Nand>(&mut self, nand: &mut N) {
        let step = self.shape.dies * self.shape.unit_slots;
        while self.valid_in_due_logs() > self.host.left() {
            self.merge(step, nand);
        }
    }

    /// Returns the valid slots in the closed log blocks that are to be emptied before the open one
    /// is full.
    fn valid_in_due_logs(&self) -> u32 {
        let hybrid = self.hybrid.as_ref().expect("the mapping is hybrid");
        let due = (hybrid.logs.len() as u32 + 1).saturating_sub(hybrid.kept);
        let logs = hybrid.logs.iter().take(due as usize);
        logs.map(|log| self.valid[*log as usize]).sum()
    }

    /// Continues the merge under way, or begins that of the next logical block with data in the
    /// oldest log block, by about `most` slots; frees that log block if there is none. False: there
    /// is no closed log block.
    fn merge<N: Nand>(&mut self, most: u32, nand: &mut N) -> bool {
        if self.hybrid().merging.is_none() && !self.begin_merge(nand) {
            return false;
        }
        self.continue_merge(most, nand);
        true
    }

    /// Begins the merge of the next logical block with data in the oldest log block; frees that log
    /// block if there is none. False: there is no closed log block.
    fn begin_merge<N: Nand>(&mut self, nand: &mut N) -> bool {
        let Some(oldest) = self.hybrid().logs.front().copied() else {
            return false;
        };
        let mut victim = match self.victim.take() {
            Some(victim) => victim,
            None => {
                self.barred[oldest as usize] = u32::MAX;
                Victim { superblock: oldest, next: 0, valid: self.valid[oldest as usize] }
            }
        };
        let base = oldest * self.superblock_slots;
        while self.valid[oldest as usize] > 0 {
            let physical = base + victim.next;
            let logical = self.owner[physical as usize];
            if logical != NOWHERE && self.flash_location(logical) == physical {
                self.victim = Some(victim);
                let merge = self.open_merge(logical / self.superblock_slots, nand);
                self.hybrid().merging = Some(merge);
                return true;
            }
            victim.next += 1;
        }
        self.hybrid().logs.pop_front();
        self.release(oldest);
        true
    }

    /// Opens the new data block of a full merge. A logical block with a stream gets the stream's.
    fn open_merge<N: Nand>(&mut self, block: u32, nand: &mut N) -> Merge {
        if self.hybrid().stream == block {
            return self.take_stream();
        }
        let superblock = self.free.pop_front().expect("superblocks are kept for merges");
        Merge { block, target: self.open(superblock, false, nand) }
    }

    /// Continues the merge under way, if there is one, by units until `most` slots are copied.
    fn continue_merge<N: Nand>(&mut self, most: u32, nand: &mut N) {
        if let Some(mut merge) = self.hybrid().merging.take()
            && !self.fill_block(&mut merge, most, nand)
        {
            self.hybrid().merging = Some(merge);
        }
    }

    /// Returns the position on the flash of a slot's newest version there; `NOWHERE` if there is
    /// none.
    fn flash_location(&self, logical: u32) -> u32 {
        match self.map.at(logical) {
            place if (BUFFERED..NOWHERE).contains(&place) => {
                self.buffer[(place - BUFFERED) as usize].older
            }
            place => place,
        }
    }

    /// Copies valid slots of a logical block after those that its new data block already holds, by
    /// units until `most` are copied. Returns whether that was all: then the new data block has
    /// replaced the previous one, which is free.
    fn fill_block<N: Nand>(&mut self, merge: &mut Merge, most: u32, nand: &mut N) -> bool {
        let Merge { block, mut target } = *merge;
        let (slots, unit) = (self.superblock_slots, self.shape.unit_slots);
        let (base, first) = (block * slots, target.superblock * slots);
        // Slots of a stream that were rewritten since are in the log, and are merged with it.
        let mut reads = Sources::new();
        let mut moved = 0;
        while target.left() > 0 && moved < most {
            let mut copied = 0u32;
            for at in target.next..target.next + unit {
                let logical = base + at;
                let physical = if logical < self.shape.logical_slots {
                    self.flash_location(logical)
                } else {
                    NOWHERE
                };
                self.owner[(first + at) as usize] = NOWHERE;
                if physical == NOWHERE {
                    continue;
                }
                if N::TIMED {
                    reads.add(self.address_of(physical), physical, logical, nand);
                }
                self.move_slot(logical, physical, first + at);
                copied += 1;
            }
            target.next += unit;
            moved += copied;
            self.counters.relocations += u64::from(copied);
            if copied > 0 {
                self.report_program(nand, &target, false, Purpose::Relocation);
            }
        }
        reads.end(nand);
        merge.target = target;
        if target.left() > 0 {
            return false;
        }
        self.close(target);
        let old = core::mem::replace(&mut self.hybrid().data[block as usize], target.superblock);
        match old {
            NONE => self.hybrid().bare -= 1,
            old => self.release(old),
        }
        true
    }

    fn move_slot(&mut self, logical: u32, physical: u32, target: u32) {
        self.invalidate(physical);
        self.owner[target as usize] = logical;
        let place = self.map.at(logical);
        if place == physical {
            self.map.set(logical, target);
        } else {
            self.buffer[(place - BUFFERED) as usize].older = target;
        }
        let superblock = self.by_superblock.divide(target) as usize;
        self.valid[superblock] += 1;
    }

    /// Merges about `slots` slots of a logical block in idle time. Done: `idle_free_superblocks`
    /// are free, or there is no closed log block.
    pub(super) fn idle_hybrid<N: Nand>(&mut self, slots: u32, nand: &mut N) -> Idle {
        let is_clean = self.free.len() as u32 >= self.settings.idle_free_superblocks;
        if self.hybrid().merging.is_none() && is_clean || !self.merge(slots, nand) {
            return Idle::Done;
        }
        Idle::Cleaned
    }
}

/// Collects slots that are read for a merge: those of one unit in one read.
struct Sources {
    place: Option<UnitAddress>,
    slots: u32,
    runs: u32,
    next: (u32, u32),
}

impl Sources {
    fn new() -> Sources {
        Sources { place: None, slots: 0, runs: 0, next: (NOWHERE, NOWHERE) }
    }

    fn add<N: Nand>(&mut self, place: UnitAddress, physical: u32, logical: u32, nand: &mut N) {
        if self.place != Some(place) {
            self.end(nand);
            self.place = Some(place);
        }
        self.slots += 1;
        self.runs += u32::from(self.next != (physical, logical));
        self.next = (physical + 1, logical + 1);
    }

    fn end<N: Nand>(&mut self, nand: &mut N) {
        if let Some(place) = self.place.take() {
            nand.read(place, self.slots, self.runs);
            (self.slots, self.runs) = (0, 0);
        }
    }
}
