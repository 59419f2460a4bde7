//! Ready runs: sequences of blocks that were absorbed in order, and may be written back while the
//! device is idle, long before the buffer is full.
//!
//! A stream of writes is rarely written a second time soon, and it keeps the device busy for as
//! long without the cache. So a device that stays idle until early writeback begins loses that
//! time. Blocks outside of such sequences wait, because rewriting them saves writes. If more than
//! one block in [`REWRITTEN_ONE_IN`] is rewritten before it is durable, sequences wait as well.
//!
//! The blocks are written early, as in `early_writeback.rs`, and under the same conditions.

/// Minimum length of a run, in blocks, where runs may be that long.
const RUN_BLOCKS: u32 = 16;
/// Minimum length where they may not. A block alone is no sequence.
const RUN_BLOCKS_MIN: u32 = 2;
/// Sequences that a shard follows at a time.
const FOLLOWED: usize = 4;
/// Maximum number of runs that wait; the next ones are found behind these.
const READY: usize = 16;
/// Runs are written while at most one absorbed block in this number replaces one that is not
/// durable.
const REWRITTEN_ONE_IN: u32 = 16;
/// Absorbed blocks after which the older half of both counts is forgotten.
const RECENT: u32 = 4096;

/// A sequence of absorbed blocks.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    /// The block after it.
    end: u64,
    /// Its last blocks that belong to no run yet.
    length: u32,
}

/// The ready runs of a shard, as hints: their blocks may have changed since.
#[derive(Debug)]
pub(super) struct ReadyRuns {
    /// Minimum length of a run, in blocks.
    run_blocks: u32,
    followed: [Sequence; FOLLOWED],
    /// The sequence that is replaced next.
    oldest: usize,
    /// The first blocks of runs, in a ring.
    first: [u64; READY],
    head: usize,
    length: usize,
    absorbed: u32,
    rewritten: u32,
}

impl ReadyRuns {
    /// Makes an empty list. `run_blocks_max`: blocks in the largest writeback run.
    pub(super) fn new(run_blocks_max: u32) -> ReadyRuns {
        ReadyRuns {
            run_blocks: RUN_BLOCKS.min(run_blocks_max).max(RUN_BLOCKS_MIN),
            followed: [Sequence { end: u64::MAX, length: 0 }; FOLLOWED],
            oldest: 0,
            first: [0; READY],
            head: 0,
            length: 0,
            absorbed: 0,
            rewritten: 0,
        }
    }

    /// Returns the minimum length of a run, in blocks.
    pub(super) fn run_blocks(&self) -> u32 {
        self.run_blocks
    }

    /// Whether no run is ready.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Records absorbed blocks. Returns the first block of a run that is complete now, if blocks
    /// like it are rarely rewritten.
    pub(super) fn note_absorbed(&mut self, first: u64, blocks: u32) -> Option<u64> {
        self.absorbed += blocks;
        if self.absorbed >= RECENT {
            self.absorbed /= 2;
            self.rewritten /= 2;
        }
        let known = self.followed.iter().position(|sequence| sequence.end == first);
        let at = known.unwrap_or(self.oldest);
        if known.is_none() {
            self.followed[at].length = 0;
            self.oldest = (self.oldest + 1) % FOLLOWED;
        }
        let sequence = &mut self.followed[at];
        sequence.end = first + u64::from(blocks);
        sequence.length += blocks;
        if sequence.length < self.run_blocks {
            return None;
        }
        let run = sequence.end - u64::from(sequence.length);
        sequence.length = 0;
        self.is_written_once().then_some(run)
    }

    /// Whether absorbed blocks are rarely rewritten at the moment.
    pub(super) fn is_written_once(&self) -> bool {
        self.rewritten.saturating_mul(REWRITTEN_ONE_IN) <= self.absorbed
    }

    /// Records a block of the open epoch that was replaced before it was durable.
    pub(super) fn note_rewritten(&mut self) {
        self.rewritten = self.rewritten.saturating_add(1);
    }

    /// Adds a run behind the others, if there is room. Without room, the run is found behind
    /// another one of its sequence, or waits.
    pub(super) fn push(&mut self, first: u64) {
        if self.length < READY {
            self.first[(self.head + self.length) % READY] = first;
            self.length += 1;
        }
    }

    /// Adds a run before all others, of which the last one may be dropped.
    pub(super) fn push_next(&mut self, first: u64) {
        self.head = (self.head + READY - 1) % READY;
        self.first[self.head] = first;
        self.length = (self.length + 1).min(READY);
    }

    /// Removes the next run.
    pub(super) fn pop(&mut self) -> Option<u64> {
        self.length = self.length.checked_sub(1)?;
        let first = self.first[self.head];
        self.head = (self.head + 1) % READY;
        Some(first)
    }

    /// Drops all runs, because their epoch is closed or discarded.
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn blocks_in_order_make_runs_and_others_do_not() {
        let mut runs = ReadyRuns::new(256);
        let singles = (100..148).filter_map(|block| runs.note_absorbed(block, 1));
        assert_eq!(singles.collect::<Vec<u64>>(), [100, 116, 132]);
        assert_eq!(runs.note_absorbed(1000, 32), Some(1000), "a long write is a run");
        assert_eq!(runs.note_absorbed(2000, 12), None);
        // Four sequences beside one another, each in steps of 4 blocks.
        let steps = (0..8).flat_map(|step| (0..4).map(move |each| 10_000 * (each + 1) + 4 * step));
        let ready = steps.filter_map(|first| runs.note_absorbed(first, 4));
        let both = [0, 16].map(|at| (1..=4).map(move |each| 10_000 * each + at));
        assert_eq!(ready.collect::<Vec<u64>>(), both.into_iter().flatten().collect::<Vec<u64>>());
        let mut scattered = (0..1000).filter_map(|number| runs.note_absorbed(number * 8, 1));
        assert_eq!(scattered.next(), None);
    }

    #[test]
    fn a_run_is_no_longer_than_writeback_makes_them_and_never_one_block() {
        for (run_blocks_max, expected) in [(1, 2), (2, 2), (4, 4), (16, 16), (256, 16)] {
            let mut runs = ReadyRuns::new(run_blocks_max);
            let first = (0..64).find(|&block| runs.note_absorbed(block, 1).is_some());
            assert_eq!(first, Some(u64::from(expected) - 1), "{run_blocks_max}");
            assert_eq!(runs.run_blocks(), expected);
        }
    }

    #[test]
    fn no_run_is_ready_while_blocks_are_rewritten() {
        let mut runs = ReadyRuns::new(256);
        assert_eq!(runs.note_absorbed(0, 64), Some(0));
        (0..8).for_each(|_| runs.note_rewritten());
        assert_eq!(runs.note_absorbed(64, 16), None, "8 of 80");
        assert_eq!(runs.note_absorbed(80, 48), Some(80), "8 of 128");
        (0..4000).for_each(|_| runs.note_rewritten());
        let later = (0..2000).position(|step| runs.note_absorbed(1000 + 16 * step, 16).is_some());
        let blocks = 16 * later.expect("rewriting is forgotten");
        assert!((8_000..32_000).contains(&blocks), "{blocks}");
    }

    #[test]
    fn runs_are_taken_in_their_order_and_a_bounded_number_waits() {
        let mut runs = ReadyRuns::new(256);
        (0..20).for_each(|run| runs.push(run));
        assert_eq!(runs.pop(), Some(0));
        runs.push_next(100);
        runs.push_next(101);
        let all: Vec<u64> = core::iter::from_fn(|| runs.pop()).collect();
        assert_eq!(all[..4], [101, 100, 1, 2]);
        assert_eq!((all.len(), all[READY - 1], runs.is_empty()), (READY, 14, true));
        runs.push(7);
        runs.clear();
        assert_eq!(runs.pop(), None);
    }
}
