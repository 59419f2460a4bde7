//! Writeback: sorted, merged runs; durable only after the backing's flush.

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::admission::{Candidate, Origin, Rules};
use crate::arena::{Arena, Header, State};
use crate::blocks::stretches;
use crate::dirty::gauges::{Gauges, Stage};
use crate::planted::{Bug, planted};
use crate::shard::ZeroRun;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Buf, Extent, Pieces};
use policy::{Cause, Hash, List, NIL};

/// Blocks that are sorted at a time: few enough for one short section, enough for a long sweep.
pub(super) const PLAN: usize = 512;

/// A run of blocks in flight to the backing. Each worker has one and reuses it.
pub(crate) struct Run {
    /// The slots, in the order of their blocks.
    slots: Vec<u32>,
    /// The writes: their sectors, and their first sector in the pieces.
    parts: Vec<(Extent, u32)>,
    pieces: Arc<Pieces>,
    capacity: usize,
}

impl Run {
    pub(crate) fn new(arena: &Arena, run_blocks: u32) -> Run {
        let capacity = run_blocks as usize;
        Run {
            slots: Vec::with_capacity(capacity),
            parts: Vec::with_capacity(BLOCK_SECTORS as usize),
            pieces: Arc::new(Pieces::new(arena.memory().clone(), arena.grain(), capacity)),
            capacity,
        }
    }

    /// Returns the requests that write the run.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Extent, Buf)> {
        let all = Buf::of(self.pieces.clone());
        self.parts.iter().map(move |&(at, skip)| (at, all.part(skip, at.count)))
    }

    /// The number of blocks in the run.
    pub(crate) fn blocks(&self) -> u32 {
        self.slots.len() as u32
    }

    fn clear(&mut self, arena: &Arena) {
        self.slots.clear();
        self.parts.clear();
        match Arc::get_mut(&mut self.pieces) {
            Some(pieces) => pieces.clear(),
            // An abandoned request still uses the old list: leave the list to it.
            None => {
                let pieces = Pieces::new(arena.memory().clone(), arena.grain(), self.capacity);
                self.pieces = Arc::new(pieces);
            }
        }
    }

    /// Appends the valid sectors of a slot.
    fn push(&mut self, arena: &Arena, base: u32, slot: u32, header: &Header) {
        let pieces = Arc::get_mut(&mut self.pieces).expect("no worker has this run yet");
        let start = header.block * u64::from(BLOCK_SECTORS);
        self.slots.push(slot);
        stretches(header.mask, |first, length| {
            let skip = pieces.sectors();
            pieces.push(arena.sector_at(base + slot, first), length);
            let first = if planted(Bug::WrongOffset) { 0 } else { first };
            let at = start + u64::from(first);
            match self.parts.last_mut() {
                Some((extent, _)) if extent.end() == at => extent.count += length,
                _ => self.parts.push((Extent::new(at, length), skip)),
            }
        });
    }
}

/// A worker's load: one of the two at a time.
pub(crate) struct Load {
    pub(crate) blocks: Run,
    pub(crate) zeros: ZeroRun,
}

impl Load {
    pub(crate) fn new(arena: &Arena, run_blocks: u32) -> Load {
        Load { blocks: Run::new(arena, run_blocks), zeros: ZeroRun::default() }
    }
}

/// The next work of a worker.
pub(crate) enum Next {
    /// Nothing here.
    Nothing,
    /// A run of blocks.
    Blocks,
    /// Zeros: other shards may have zeros to write with them.
    Zeros,
}

impl Shard {
    /// Closes the open epoch: changes admitted from now on belong to the next one. Nothing is
    /// copied; the list only changes its role.
    pub(crate) fn close(&mut self, gauges: &Gauges) {
        let open = core::mem::replace(&mut self.open, List::EMPTY);
        self.ready.clear();
        gauges.shard_closed(open.length);
        self.chain.push_back(open);
        if planted(Bug::MergeEpochs) {
            self.merge_newest(gauges);
        }
        self.epoch += 1;
    }

    /// Planted bug: the previous epoch takes in the one that was closed just now.
    fn merge_newest(&mut self, gauges: &Gauges) {
        let newest = self.chain.len() - 1;
        if newest == 0 {
            return;
        }
        while let Some(slot) = self.links.pop_front(&mut self.chain[newest]) {
            let header = self.header(slot);
            let mut older = None;
            self.index.find(Hash::of(header.block), |other| {
                let found = self.header(other);
                let is_it = found.block == header.block
                    && found.state == State::Dirty
                    && found.epoch == header.epoch.wrapping_sub(1);
                older = is_it.then_some((other, found));
                is_it
            });
            let epoch = header.epoch.wrapping_sub(1);
            self.arena.publish(self.base + slot, &Header { epoch, ..header });
            if let Some((older, _)) = older {
                self.links.remove(&mut self.chain[newest - 1], older);
                self.unindex(Hash::of(header.block), older);
                self.free_slot(older);
                self.dirty -= 1;
                gauges.block_dropped(Stage::Closed);
            }
            self.links.push_back(&mut self.chain[newest - 1], slot);
        }
    }

    /// Begins the writeback of the oldest closed epoch. The one before it must be durable and
    /// released.
    pub(crate) fn begin(&mut self, gauges: &Gauges) {
        assert!(self.closing.length == 0 && self.written.length == 0, "two epochs closing");
        self.closing = self.chain.pop_front().expect("an epoch is closed before it is begun");
        self.closing_epoch += 1;
        let ranges = self.zeroes.unwritten(self.closing_epoch);
        let (settling, under_way) = self.begin_early();
        gauges.epoch_begun(self.closing.length + ranges, settling, under_way);
    }

    /// Fills `load` with the next piece to write back, of the closing epoch or, if none waits
    /// there, of the open one: a range of zeros, or a run of at most `most` blocks. `ready_most`:
    /// the maximum length of a ready run; 0: clients wait for the device, so it writes none.
    pub(crate) fn next_run(
        &mut self,
        gauges: &Gauges,
        load: &mut Load,
        most: u32,
        ready_most: u32,
    ) -> Next {
        if self.zeroes.unwritten(self.closing_epoch) > 0 {
            return if self.begin_zeros(&mut load.zeros) { Next::Zeros } else { Next::Nothing };
        }
        let early = self.writes_early(gauges);
        while let Some(seed) = self.next_seed(early) {
            if let Some(first) = self.gather(gauges, seed, &mut load.blocks, most, early) {
                self.note_map_write(first, load.blocks.blocks());
                return Next::Blocks;
            }
        }
        match ready_most > 0 && self.begin_ready(gauges, &mut load.blocks, ready_most) {
            true => Next::Blocks,
            false => Next::Nothing,
        }
    }

    /// Fills a run with the next ready one and its waiting neighbours. Returns false if there is
    /// none.
    fn begin_ready(&mut self, gauges: &Gauges, run: &mut Run, most: u32) -> bool {
        while self.writes_ready(gauges) {
            let Some(seed) = self.ready.pop() else { return false };
            if let Some(first) = self.gather(gauges, seed, run, most, true) {
                self.note_map_write(first, run.blocks());
                // The sequence may go on.
                let next = first + u64::from(run.blocks());
                let last = next + u64::from(self.ready.run_blocks()) - 1;
                let goes_on = [next, last].iter().all(|at| self.waiting(*at, true).is_some());
                if goes_on && self.ready.is_written_once() {
                    self.ready.push_next(next);
                }
                return true;
            }
        }
        false
    }

    /// Returns the next block of the sorted plan that still waits; makes a new plan when the plan
    /// is used up.
    fn next_seed(&mut self, early: bool) -> Option<u64> {
        for attempt in 0..2 {
            while let Some((block, slot)) = self.plan.pop() {
                let header = self.header(slot);
                // The plan is a hint: the slot may have been freed, written, or reused for another
                // block.
                if header.block == block && self.is_waiting(&header, early) {
                    return Some(block);
                }
            }
            if attempt == 0 {
                self.make_plan(early);
            }
        }
        None
    }

    fn make_plan(&mut self, early: bool) {
        let mut slot = if early { self.open.head } else { self.closing.head };
        while slot != NIL && self.plan.len() < PLAN {
            let block = self.arena.block(self.base + slot);
            if !self.is_held_back(block) {
                self.plan.push((block, slot));
            }
            slot = self.links.after(slot);
        }
        self.plan.sort_unstable_by(|one, two| two.cmp(one));
    }

    /// Whether a block must not be written back now: it waits for a write-through of it, for a
    /// change that waits to be sent there, and for the end of its own write in flight. The end of
    /// each of these notifies the workers.
    fn is_held_back(&self, block: u64) -> bool {
        self.write_through.hold_back(block)
            || self.is_under_way(block) && !planted(Bug::WriteBeside)
    }

    /// Whether a version of this block waits for writeback with the closing epoch.
    pub(super) fn is_due(&self, block: u64) -> bool {
        let found = self.index.find(Hash::of(block), |slot| {
            let header = self.header(slot);
            header.block == block && self.is_waiting(&header, false)
        });
        found.is_some()
    }

    fn is_waiting(&self, header: &Header, early: bool) -> bool {
        let is_its = self.is_closing(header) || early && self.is_open(header);
        header.state == State::Dirty && is_its
    }

    /// Returns the version of a block that waits for writeback, unless it is held back.
    fn waiting(&self, block: u64, early: bool) -> Option<(u32, Header)> {
        let slot = self.index.find(Hash::of(block), |slot| {
            let header = self.header(slot);
            header.block == block && self.is_waiting(&header, early)
        })?;
        (!self.is_held_back(block)).then(|| (slot, self.header(slot)))
    }

    /// Fills a run with the seed's block and its waiting neighbours, up to the region's border.
    /// Returns its first block.
    /// Blocks that are not whole may only be first or last, where they join without a gap.
    fn gather(
        &mut self,
        gauges: &Gauges,
        seed: u64,
        run: &mut Run,
        most: u32,
        early: bool,
    ) -> Option<u64> {
        run.clear(&self.arena);
        let most = self.run_blocks.min(most.max(1));
        let mut next = self.waiting(seed, early)?;
        let region = seed / self.region_blocks * self.region_blocks;
        let mut first = seed;
        while first > region && seed - first + 1 < u64::from(most) {
            match self.waiting(first - 1, early) {
                Some(before) if begins_at_start(next.1.mask) && reaches_end(before.1.mask) => {
                    next = before;
                    first -= 1;
                }
                _ => break,
            }
        }
        let mut block = first;
        loop {
            let (slot, header) = next;
            run.push(&self.arena, self.base, slot, &header);
            self.take_out(gauges, slot, &header);
            self.arena.publish(self.base + slot, &Header { state: State::Writing, ..header });
            block += 1;
            let more = block < region + self.region_blocks && run.blocks() < most;
            if !more || !reaches_end(header.mask) {
                return Some(first);
            }
            match self.waiting(block, early) {
                Some(after) if begins_at_start(after.1.mask) => next = after,
                _ => return Some(first),
            }
        }
    }

    /// Ends a run that has been written, or has failed.
    pub(crate) fn run_done(&mut self, gauges: &Gauges, run: &Run, good: bool) {
        for &slot in &run.slots {
            let header = self.header(slot);
            assert_eq!(header.state, State::Writing, "a run's slot was changed under it");
            self.write_through.pay(header.block);
            let begun = self.is_closing(&header);
            let overtaken = self.is_overtaken(slot, &header) && !planted(Bug::KeepOvertaken);
            if !begun {
                self.early.writing -= 1;
                gauges.early_ended();
            } else if good || overtaken {
                gauges.closing_written(1);
            }
            if overtaken {
                self.drop_overtaken(gauges, slot, &header);
            } else if good {
                self.arena.publish(self.base + slot, &Header { state: State::Written, ..header });
                match begun {
                    true => self.links.push_back(&mut self.written, slot),
                    false => self.note_early(gauges, slot),
                }
            } else if begun {
                self.arena.publish(self.base + slot, &Header { state: State::Dirty, ..header });
                self.links.push_back(&mut self.closing, slot);
            } else {
                self.put_back(gauges, slot, &header);
            }
        }
        if good {
            self.counters.blocks_written.add(u64::from(run.blocks()));
            self.counters.runs_written.add(1);
        }
        if planted(Bug::CleanTooEarly) {
            self.release(gauges, u32::MAX);
        }
    }

    /// Releases up to `most` blocks of the closing epoch, which is durable: they become clean, or
    /// are dropped if a newer version exists. Returns true if more are left.
    pub(crate) fn release(&mut self, gauges: &Gauges, most: u32) -> bool {
        // Ranges first: after a kill in between, recovery must not find a range without the slots
        // that were newer than it.
        if !planted(Bug::RangesLast) {
            self.zeroes.release(&self.arena, self.closing_epoch);
        }
        for _ in 0..most {
            let Some(slot) = self.links.pop_front(&mut self.written) else {
                self.settle_doubts();
                if planted(Bug::RangesLast) {
                    self.zeroes.release(&self.arena, self.closing_epoch);
                }
                return false;
            };
            self.release_one(gauges, slot);
        }
        true
    }

    /// Drops the doubts about an epoch of which all is released. Blocks that were written back
    /// early during its release are not durable yet: doubts about them stay.
    fn settle_doubts(&mut self) {
        let mut doubtful = core::mem::take(&mut self.doubtful);
        let is_written = |header: Header| header.state == State::Written;
        doubtful.retain(|&block| self.current(block).is_some_and(|(_, header)| is_written(header)));
        self.doubtful = doubtful;
    }

    /// Releases a version that is durable and in no list: it becomes clean, or is dropped if a
    /// newer one exists.
    pub(super) fn release_one(&mut self, gauges: &Gauges, slot: u32) {
        let header = self.header(slot);
        self.dirty -= 1;
        gauges.block_cleaned();
        if header.shadowed || self.doubtful.contains(&header.block) {
            self.unindex(Hash::of(header.block), slot);
            self.free_slot(slot);
        } else if !self.clean_candidate(slot).is_admitted() {
            self.pass_written(slot, &header);
        } else {
            let clean = Header { state: State::Clean, sequence: 0, ..header };
            self.arena.publish(self.base + slot, &self.marked(clean));
            let hash = Hash::of(header.block);
            self.policy.admit(&mut self.links, slot, hash, Cause::Writeback);
        }
    }

    /// Marks the header of a slot that becomes clean while a write-through of its block is in
    /// flight.
    pub(super) fn marked(&self, header: Header) -> Header {
        match self.write_through.meet(header.block, 1) {
            true => header.under_write_through(),
            false => header,
        }
    }

    /// Returns a dirty block that is about to become clean, as a candidate.
    fn clean_candidate(&self, slot: u32) -> Candidate {
        Candidate {
            is_long_stream: self.ahead.is_bypassed(slot),
            free: self.free_slots(),
            ..Candidate::new(Rules::KEEP, Origin::Absorbed)
        }
    }

    /// Makes up to `most` written blocks wait again after a failed flush of the backing (C8).
    /// Returns true if more are left.
    pub(crate) fn taint(&mut self, gauges: &Gauges, most: u32) -> bool {
        if self.taint_early(gauges, most) {
            return true;
        }
        let mut tainted = self.zeroes.taint();
        let mut left = true;
        for _ in 0..most {
            let Some(slot) = self.links.pop_front(&mut self.written) else {
                left = false;
                break;
            };
            let header = self.header(slot);
            self.arena.publish(self.base + slot, &Header { state: State::Dirty, ..header });
            self.links.push_back(&mut self.closing, slot);
            tainted += 1;
        }
        gauges.closing_waits(tainted);
        left
    }

    /// Whether the workers may find work here.
    pub(crate) fn has_work(&self, gauges: &Gauges) -> bool {
        self.closing.length > 0
            || self.zeroes.unwritten(self.closing_epoch) > 0
            || self.open.length > 0 && (self.writes_early(gauges) || self.writes_ready(gauges))
    }
}

/// Whether the valid sectors (at least one) reach the block's end and have no gap.
fn reaches_end(mask: u8) -> bool {
    mask.leading_ones() == mask.count_ones()
}

/// Whether the valid sectors (at least one) begin at the block's start and have no gap.
fn begins_at_start(mask: u8) -> bool {
    mask.trailing_ones() == mask.count_ones()
}
