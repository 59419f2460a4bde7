//! Writing zeros out: a range, together with what touches it in other shards.
//!
//! Neighbouring regions belong to different shards, so each has only pieces of a large range. A
//! worker takes the first range of a shard, then from every other shard, in a section of its own,
//! what lies in the same rows of regions; puts the pieces in order, and sends those that touch as
//! one. It takes few from each: small ranges that are scattered are sent side by side by several
//! workers, and what fails is tried again without the rest.

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::write_through_queue::WriteThroughQueue;
use crate::shard::zero_ranges::Taken;
use alloc::vec::Vec;
use block::Extent;
use core::ops::Range;
use policy::Hash;

/// Ranges that a run takes from each other shard at most: a large range has one there.
const RANGES_MAX: usize = 4;
/// Sectors in one write of zeros: 4 GiB.
const SECTORS_MAX: u32 = 8 << 20;

/// Ranges of zeros on their way to the backing. Each worker has one and uses it again and again.
#[derive(Default)]
pub(crate) struct ZeroRun {
    epoch: u64,
    /// The rows of regions that the first range lies in, as positions.
    rows: Range<u64>,
    /// The places of the ranges, in the arena.
    numbers: Vec<u32>,
    parts: Vec<Part>,
}

/// One write of zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) at: Extent,
    /// Space behind it may be given up.
    pub(crate) may_unmap: bool,
}

impl ZeroRun {
    fn begin(&mut self, epoch: u64, rows: Range<u64>) {
        self.numbers.clear();
        self.parts.clear();
        (self.epoch, self.rows) = (epoch, rows);
    }

    /// Whether some of its ranges are in these places of the arena.
    pub(crate) fn has_some_of(&self, numbers: Range<u32>) -> bool {
        self.numbers.iter().any(|number| numbers.contains(number))
    }

    fn push(&mut self, blocks: Range<u64>, may_unmap: bool) {
        let sectors = u64::from(BLOCK_SECTORS);
        // More blocks than a request can name were never one range; former programs made larger
        // ones than we do.
        let at =
            Extent::new(blocks.start * sectors, ((blocks.end - blocks.start) * sectors) as u32);
        self.parts.push(Part { at, may_unmap });
    }

    /// Puts the parts in order, and joins those that touch.
    pub(crate) fn join(&mut self) {
        self.parts.sort_unstable_by_key(|part| part.at.first);
        self.parts.dedup_by(|next, kept| {
            let touch = kept.at.end() == next.at.first && kept.may_unmap == next.may_unmap;
            match kept.at.count.checked_add(next.at.count) {
                Some(count) if touch && count <= SECTORS_MAX => {
                    kept.at.count = count;
                    true
                }
                _ => false,
            }
        });
    }

    /// What to write, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        let most = if planted(Bug::ForgetParts) { 1 } else { usize::MAX };
        self.parts.iter().copied().take(most)
    }
}

/// Whether a write-through is under way at some of these blocks.
fn is_passed(passes: &WriteThroughQueue) -> impl Fn(Range<u64>) -> bool {
    |blocks| !passes.is_empty() && passes.meet(blocks.start, (blocks.end - blocks.start) as u32)
}

impl Shard {
    /// The closing epoch's ranges come before its slots, which are newer: begins a run of zeros
    /// with the first one. False: it cannot be written now.
    pub(super) fn begin_zeros(&mut self, run: &mut ZeroRun) -> bool {
        let epoch = self.closing_epoch;
        let is_passed = is_passed(&self.write_through);
        let Some(taken) = self.zeroes.take_first(epoch, is_passed) else { return false };
        run.begin(epoch, self.zeroes.whole_regions(&taken.positions));
        self.carve(&taken, run);
        true
    }

    /// Adds what this shard has in the same rows.
    pub(crate) fn add_zeros(&mut self, run: &mut ZeroRun) {
        // It may not have begun that epoch yet.
        if self.closing_epoch != run.epoch {
            return;
        }
        for _ in 0..RANGES_MAX {
            let is_passed = is_passed(&self.write_through);
            let Some(taken) = self.zeroes.take_at(run.epoch, &run.rows, is_passed) else { return };
            self.carve(&taken, run);
        }
    }

    /// The parts of a range that its epoch does not overwrite. The others are left out not only to
    /// save the work: a recovered range may have been durable already, together with the slots over
    /// it, and then the backing must not show zeros there again. The same holds for a range that
    /// waits again after a failed flush, while the workers have begun to write the slots over it
    /// again.
    fn carve(&self, taken: &Taken, run: &mut ZeroRun) {
        run.numbers.push(taken.number);
        for stretch in self.zeroes.blocks_at(&taken.positions) {
            let mut first = stretch.start;
            // Where nothing is dirty, nothing is looked up.
            let looked_up = if self.dirty == 0 { 0..0 } else { stretch.clone() };
            for block in looked_up {
                if self.has_closing(block) {
                    if first < block {
                        run.push(first..block, taken.may_unmap);
                    }
                    first = block + 1;
                }
            }
            if first < stretch.end {
                run.push(first..stretch.end, taken.may_unmap);
            }
        }
    }

    /// Whether the closing epoch has a version of this block.
    fn has_closing(&self, block: u64) -> bool {
        let found = self.index.find(Hash::of(block), |slot| {
            let header = self.header(slot);
            header.block == block && header.state.is_dirty() && self.is_closing(&header)
        });
        found.is_some()
    }

    /// A run of zeros has been written, or has failed: notes it of this shard's ranges in it.
    pub(crate) fn zeros_done(&mut self, gauges: &Gauges, run: &ZeroRun, good: bool) {
        let own = self.zeroes.numbers();
        for &number in run.numbers.iter().filter(|number| own.contains(number)) {
            self.zeroes.run_done(number, good);
            if good {
                gauges.closing_written(1);
            }
        }
        // The requests are counted where the run began.
        if good && own.contains(&run.numbers[0]) {
            self.counters.zeroes_written += run.parts.len() as u64;
        }
    }
}
