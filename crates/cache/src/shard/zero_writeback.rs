//! Writing zeros out: what all shards have in one window of the volume goes to the backing together.
//!
//! Neighbouring regions belong to different shards, so each has only pieces of a large range. A worker takes the
//! pieces shard by shard, each in a section of its own, puts them in order, and sends those that touch as one.

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::zero_ranges::Taken;
use alloc::vec::Vec;
use block::Extent;
use core::ops::Range;
use lane::atomic::Ordering;
use policy::Hash;

/// Ranges of zeros on their way to the backing. Each worker has one and uses it again and again.
#[derive(Default)]
pub(crate) struct ZeroRun {
    epoch: u64,
    window: u64,
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
    fn begin(&mut self, epoch: u64, window: u64) {
        self.numbers.clear();
        self.parts.clear();
        (self.epoch, self.window) = (epoch, window);
    }

    /// Whether some of its ranges are in these places of the arena.
    pub(crate) fn has_some_of(&self, numbers: Range<u32>) -> bool {
        self.numbers.iter().any(|number| numbers.contains(number))
    }

    fn push(&mut self, blocks: Range<u64>, may_unmap: bool) {
        let sectors = u64::from(BLOCK_SECTORS);
        // More blocks than a request can name were never one range; former programs made larger ones than we do.
        let at =
            Extent::new(blocks.start * sectors, ((blocks.end - blocks.start) * sectors) as u32);
        self.parts.push(Part { at, may_unmap });
    }

    /// Puts the parts in order, and joins those that touch.
    pub(crate) fn join(&mut self) {
        self.parts.sort_unstable_by_key(|part| part.at.first);
        self.parts.dedup_by(|next, kept| {
            let joined = kept.at.count.checked_add(next.at.count);
            match joined {
                Some(count)
                    if kept.at.end() == next.at.first && kept.may_unmap == next.may_unmap =>
                {
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

impl Shard {
    /// The closing epoch's ranges come before its slots, which are newer: begins a run of zeros with those of this shard
    /// in the first window that has some. False: none can be written now.
    pub(super) fn begin_zeros(&mut self, run: &mut ZeroRun) -> bool {
        let epoch = self.closing_epoch;
        let Some(window) = self.zeroes.next_window(epoch) else { return false };
        run.begin(epoch, window);
        self.add_zeros(run);
        !run.numbers.is_empty()
    }

    /// Adds what this shard has in the same window.
    pub(crate) fn add_zeros(&mut self, run: &mut ZeroRun) {
        // It may not have begun that epoch yet.
        if self.closing_epoch != run.epoch {
            return;
        }
        let passes = &self.write_through;
        let is_passed = |blocks: Range<u64>| {
            !passes.is_empty() && passes.meet(blocks.start, (blocks.end - blocks.start) as u32)
        };
        while let Some(taken) = self.zeroes.take(run.epoch, run.window, is_passed) {
            run.numbers.push(taken.number);
            self.carve(&taken, run);
        }
    }

    /// The parts of a range that its epoch does not overwrite. The others are left out not only to
    /// save the work: a recovered range may have been durable already, together with the slots over
    /// it, and then the backing must not show zeros there again. The same holds for a range that waits
    /// again after a failed flush, while the workers have begun to write the slots over it again.
    fn carve(&self, taken: &Taken, run: &mut ZeroRun) {
        for stretch in self.zeroes.blocks_at(&taken.positions) {
            let mut first = stretch.start;
            for block in stretch.clone() {
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
                gauges.remaining.fetch_sub(1, Ordering::SeqCst);
            }
        }
        // The requests are counted where the run began.
        if good && own.contains(&run.numbers[0]) {
            self.counters.zeroes_written += run.parts.len() as u64;
        }
    }
}
