//! Writeback of zeros: a range, together with the adjacent ranges of other shards.
//!
//! Neighbouring regions belong to different shards, so each shard has only pieces of a large range.
//! A worker takes the first range of a shard, and then, in separate sections, the ranges of every
//! other shard in the same rows of regions. It sorts the pieces, and sends adjacent ones as one
//! request. It takes few ranges from each shard: scattered small ranges are sent in parallel by
//! several workers, and a failed range is retried without the others.

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

/// Maximum number of ranges that a run takes from each other shard: a large range has one there.
const RANGES_MAX: usize = 4;
/// Sectors in one write of zeros: 4 GiB.
const SECTORS_MAX: u32 = 8 << 20;

/// Ranges of zeros in flight to the backing. Each worker has one and reuses it.
#[derive(Default)]
pub(crate) struct ZeroRun {
    epoch: u64,
    /// The rows of regions that contain the first range, as positions.
    rows: Range<u64>,
    /// The numbers of the ranges in the arena.
    numbers: Vec<u32>,
    parts: Vec<Part>,
}

/// One write of zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) at: Extent,
    /// The space behind it may be unmapped.
    pub(crate) may_unmap: bool,
}

impl ZeroRun {
    fn begin(&mut self, epoch: u64, rows: Range<u64>) {
        self.numbers.clear();
        self.parts.clear();
        (self.epoch, self.rows) = (epoch, rows);
    }

    /// Whether any of its ranges has one of these numbers in the arena.
    pub(crate) fn has_some_of(&self, numbers: Range<u32>) -> bool {
        self.numbers.iter().any(|number| numbers.contains(number))
    }

    fn push(&mut self, blocks: Range<u64>, may_unmap: bool) {
        let sectors = u64::from(BLOCK_SECTORS);
        // A range never had more blocks than a request can name; former versions of the program
        // made larger ranges than this one.
        let at =
            Extent::new(blocks.start * sectors, ((blocks.end - blocks.start) * sectors) as u32);
        self.parts.push(Part { at, may_unmap });
    }

    /// Sorts the parts, and joins adjacent ones.
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

    /// Returns the writes, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        let most = if planted(Bug::ForgetParts) { 1 } else { usize::MAX };
        self.parts.iter().copied().take(most)
    }
}

/// Whether a write-through of any of these blocks is in flight.
fn is_written_through(queue: &WriteThroughQueue) -> impl Fn(Range<u64>) -> bool {
    |blocks| !queue.is_empty() && queue.meet(blocks.start, (blocks.end - blocks.start) as u32)
}

impl Shard {
    /// Begins a run of zeros with the first range of the closing epoch. The epoch's ranges are
    /// written before its slots, which are newer. Returns false if the range cannot be written now.
    pub(super) fn begin_zeros(&mut self, run: &mut ZeroRun) -> bool {
        let epoch = self.closing_epoch;
        let is_written_through = is_written_through(&self.write_through);
        let Some(taken) = self.zeroes.take_first(epoch, is_written_through) else { return false };
        run.begin(epoch, self.zeroes.whole_regions(&taken.positions));
        self.carve(&taken, run);
        true
    }

    /// Adds this shard's ranges in the same rows.
    pub(crate) fn add_zeros(&mut self, run: &mut ZeroRun) {
        // This shard may not have begun that epoch yet.
        if self.closing_epoch != run.epoch {
            return;
        }
        for _ in 0..RANGES_MAX {
            let is_written_through = is_written_through(&self.write_through);
            let Some(taken) = self.zeroes.take_at(run.epoch, &run.rows, is_written_through) else {
                return;
            };
            self.carve(&taken, run);
        }
    }

    /// Adds the parts of a range that its epoch does not overwrite. This does not only save work: a
    /// recovered range may have been durable already, together with the slots over it, and then the
    /// backing must not show zeros there again. The same holds for a range that waits again after a
    /// failed flush, while the workers have begun to write the slots over it again.
    fn carve(&self, taken: &Taken, run: &mut ZeroRun) {
        run.numbers.push(taken.number);
        for stretch in self.zeroes.blocks_at(&taken.positions) {
            let mut first = stretch.start;
            // Without dirty blocks, or any blocks in these regions, no lookup is needed.
            let may_have = self.dirty > 0 && self.regions.may_have_any(&stretch);
            let looked_up = if may_have { stretch.clone() } else { 0..0 };
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

    /// Ends a run of zeros that was written, or has failed, for this shard's ranges in it.
    pub(crate) fn zeros_done(&mut self, gauges: &Gauges, run: &ZeroRun, good: bool) {
        let own = self.zeroes.numbers();
        for &number in run.numbers.iter().filter(|number| own.contains(number)) {
            self.zeroes.run_done(number, good);
            if good {
                gauges.closing_written(1);
            }
        }
        // The requests are counted in the shard where the run began.
        if good && own.contains(&run.numbers[0]) {
            self.counters.zeroes_written.add(run.parts.len() as u64);
        }
    }
}
