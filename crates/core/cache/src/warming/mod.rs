//! The lists of earlier lives, while their blocks are read back: the start-up list ahead of the
//! guest (`start_up.rs`), and the list of hot blocks whenever nothing of it is due.
//!
//! A list names blocks; their contents are read from the backing, so nothing here
//! can be stale. The tasks of readahead pull pieces of them (`tasks/readahead.rs`) when no stream
//! needs one and clients leave the backing some parallelism (`pace.rs`). The blocks take free slots
//! only, and are evicted before every block that was accessed in this life.
//!
//! ```text
//!   begin --> reading --> done: every block was tried
//!                |
//!                '------> stopped: it gains less than it costs, or the backing returned an error
//! ```

mod economics;
mod first_reads;
mod pace;
mod shape;
mod start_up;
mod starting;

use crate::stats::counters::Counters;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use hotlist::{Blocks, HotList, StartList};
use lane::{Event, Lock};

pub(crate) use economics::Evidence;
pub(crate) use pace::Begun;
use pace::Pace;
pub(crate) use shape::{Listed, Piece, Source};
use shape::{PIECE_BLOCKS, Shape};
use starting::Starting;

/// Maximum number of blocks of which a piece skips as many between two listed ones.
const GAP_MAX: u64 = 32;

const NONE: u8 = 0;
const READING: u8 = 1;
const STOPPED: u8 = 2;
const DONE: u8 = 3;

/// The lists, and the progress of reading them.
#[derive(Debug)]
pub(crate) struct Warming {
    starting: Starting,
    /// Of the list of hot blocks, as all that follows, but for the pace.
    state: AtomicU8,
    left: Lock<Option<Box<Left>>>,
    pace: Lock<Pace>,
    /// When a client's read was last sent to the backing.
    read_ns: AtomicU64,
    shape: Shape,
    listed: AtomicU64,
    begun_ns: AtomicU64,
    /// 0: reading has not ended.
    ended_ns: AtomicU64,
    /// Blocks that clients had admitted when it began.
    filled_before: AtomicU64,
}

/// The blocks that were not tried yet.
#[derive(Debug)]
struct Left {
    next: Option<u64>,
    blocks: Blocks,
}

impl Left {
    fn peek(&mut self) -> Option<u64> {
        if self.next.is_none() {
            self.next = self.blocks.next();
        }
        self.next
    }
}

impl Warming {
    /// Makes the state of a volume of this number of whole blocks, without a list. Fetches have at
    /// most `run_blocks` blocks, all of one region.
    pub(crate) fn new(volume_blocks: u64, run_blocks: u32, region_blocks: u32) -> Warming {
        Warming {
            starting: Starting::new(),
            state: AtomicU8::new(NONE),
            left: Lock::new(None),
            pace: Lock::new(Pace::FIRST),
            read_ns: AtomicU64::new(0),
            shape: Shape {
                piece_blocks: PIECE_BLOCKS.min(run_blocks.into()),
                region_blocks: region_blocks.into(),
                volume_blocks,
            },
            listed: AtomicU64::new(0),
            begun_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            filled_before: AtomicU64::new(0),
        }
    }

    /// Begins to read a list. Does nothing while another one is being read.
    pub(crate) fn begin(&self, list: HotList, filled_before: u64, now_ns: u64) {
        self.left.peek(|left| {
            if self.is_ranking_read() || list.is_empty() {
                return;
            }
            self.listed.store(list.len(), Ordering::Relaxed);
            self.begun_ns.store(now_ns, Ordering::Relaxed);
            self.filled_before.store(filled_before, Ordering::Relaxed);
            *left = Some(Box::new(Left { next: None, blocks: list.into_blocks() }));
            self.state.store(READING, Ordering::SeqCst);
        });
    }

    /// Whether a piece of one of the lists may be left to read.
    #[inline]
    pub(crate) fn is_reading(&self) -> bool {
        self.is_ranking_read() | self.starting.is_due()
    }

    /// Whether blocks of the list of hot blocks may be left to read.
    #[inline]
    pub(crate) fn is_ranking_read(&self) -> bool {
        self.state.load(Ordering::Relaxed) == READING
    }

    /// Begins to note clients' first reads, for a cache with this number of slots.
    pub(crate) fn begin_start_up(&self, slots: u32) {
        self.starting.begin(slots);
    }

    /// Follows a start-up list from now on, if the first minutes are not over.
    pub(crate) fn follow_start_up(&self, list: StartList, slots: u32) {
        self.starting.follow(list, slots);
    }

    /// Notes that a client reads these blocks, unless that was a hit of a block in use.
    #[inline]
    pub(crate) fn note_blocks(&self, blocks: Range<u64>, now_ns: impl FnOnce() -> u64) {
        self.starting.note(blocks, now_ns);
    }

    /// The time of the first noted read, if there was one, and the event of that.
    pub(crate) fn start_up_began(&self) -> (Option<u64>, &Event) {
        (self.starting.first_ns(), self.starting.began())
    }

    /// Ends the first minutes. Returns the noted blocks in order; None: they were over.
    pub(crate) fn end_start_up(&self) -> Option<Vec<u64>> {
        self.starting.end()
    }

    /// Ends reading both lists early, at the operator's request.
    pub(crate) fn forget(&self, now_ns: u64) {
        self.starting.forget();
        self.stop_ranking(now_ns);
    }

    /// Ends reading both lists early.
    pub(crate) fn stop(&self, now_ns: u64) {
        self.starting.stop();
        self.stop_ranking(now_ns);
    }

    fn stop_ranking(&self, now_ns: u64) {
        self.left.peek(|left| self.end(left, STOPPED, now_ns));
    }

    fn end(&self, left: &mut Option<Box<Left>>, state: u8, now_ns: u64) {
        if left.take().is_some() {
            self.ended_ns.store(now_ns.max(1), Ordering::Relaxed);
            self.state.store(state, Ordering::SeqCst);
        }
    }

    /// Notes that a client's read is sent to the backing.
    #[inline]
    pub(crate) fn note_read(&self, now_ns: u64) {
        self.read_ns.store(now_ns, Ordering::Relaxed);
    }

    fn since_read_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.read_ns.load(Ordering::Relaxed))
    }

    /// Whether a piece may begin beside `others` other requests to the backing.
    pub(crate) fn has_room(&self, others: u32, now_ns: u64) -> bool {
        let since_ns = self.since_read_ns(now_ns);
        self.pace.peek(|pace| pace.has_room(others, since_ns))
    }

    /// Begins the next piece, if one is left and may begin beside `others` other requests to the
    /// backing. It must be ended.
    pub(crate) fn begin_piece(
        &self,
        others: u32,
        times: Times,
        now_ns: u64,
    ) -> Option<(Piece, Begun)> {
        let since_ns = self.since_read_ns(now_ns);
        let begin = |pace: &mut Pace| Some((pace.begin(now_ns, others, since_ns)?, pace.depth()));
        let (begun, depth) = self.pace.peek(begin)?;
        let gap = gap(times, depth);
        let due = self.starting.next_piece(&self.shape, gap, now_ns);
        let piece = due.or_else(|| self.next_of_ranking(gap, now_ns));
        if piece.is_none() {
            self.pace.peek(Pace::cancel);
        }
        Some((piece?, begun))
    }

    /// The number of pieces in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.pace.peek(|pace| pace.in_flight())
    }

    /// Ends a piece of `blocks` blocks that has arrived; None: that was not requested as a whole,
    /// or has failed. `block_ns`: the time that one more block in a read takes.
    pub(crate) fn end_piece(
        &self,
        begun: Begun,
        of: Source,
        blocks: Option<u32>,
        block_ns: u64,
        now_ns: u64,
    ) {
        if of == Source::StartUp {
            self.starting.answered(now_ns);
        }
        self.pace.peek(|pace| match blocks {
            Some(blocks) => pace.end(begun, now_ns, blocks, block_ns),
            None => pace.cancel(),
        });
    }

    /// Returns the next piece of the list of hot blocks, with at most `gap` other blocks between
    /// two listed ones. It must be tried, or is left out.
    fn next_of_ranking(&self, gap: u64, now_ns: u64) -> Option<Piece> {
        self.left.peek(|slot| {
            let left = slot.as_mut()?;
            let Some(first) = self.next_inside(left) else {
                self.end(slot, DONE, now_ns);
                return None;
            };
            let mut listed = Listed::new(first, Source::Ranking);
            left.next = None;
            while let Some(block) = left.peek()
                && self.shape.extends(&listed, block, gap)
            {
                listed.insert(block);
                left.next = None;
            }
            Some(listed.piece())
        })
    }

    /// Returns the next listed block that lies within the volume.
    fn next_inside(&self, left: &mut Left) -> Option<u64> {
        while !self.shape.has(left.peek()?) {
            left.next = None;
        }
        left.next
    }

    /// Adds the counters.
    pub(crate) fn count(&self, all: &mut Counters, now_ns: u64) {
        self.starting.count(all);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = self.state.load(Ordering::SeqCst);
        if state == NONE {
            return;
        }
        all.warm_listed = load(&self.listed);
        let until_ns = if state == READING { now_ns } else { load(&self.ended_ns) };
        all.warm_ns = until_ns.saturating_sub(load(&self.begun_ns));
        all.warm_state = if state == DONE { 0 } else { state.into() };
    }
}

/// Times of a backing's reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// That of a short read, in nanoseconds; 0: unknown.
    pub(crate) read_ns: u64,
    /// That which one more block in a read takes.
    pub(crate) block_ns: u64,
}

/// Returns the number of unlisted blocks that are read along rather than skipped by another
/// request, over a backing that serves `depth` requests in parallel.
fn gap(times: Times, depth: u32) -> u64 {
    (times.read_ns / u64::from(depth.max(1)) / times.block_ns.max(1)).min(GAP_MAX)
}

#[cfg(test)]
mod tests;
