//! Fetches, which are called *fills* here while they are in flight.
//!
//! A fill marks the sectors for which its bytes must not be used: sectors that were in memory when
//! it began, and sectors that a change has touched since (C10). Sectors of a write-through are
//! *suspect*: they may be combined with other fetched sectors, but not with newer ones from memory,
//! or a read would show the block in a state that never existed. One `keep` bit says whether any
//! block of the fill may be admitted.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// The number of a fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FillId(u32);

#[derive(Clone, Copy)]
struct Fill {
    first: u64,
    end: u64,
    number: u32,
    keep: bool,
    /// True if it is fetched ahead of a stream.
    ahead: bool,
}

/// The fetches for which a joining read would wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    /// Other reads.
    Reads,
    /// Fetches ahead of a stream, at least in part.
    Ahead,
}

/// The fills of a shard.
pub(crate) struct Fills {
    /// The fills in flight, unordered and contiguous: every miss and every change searches them.
    active: Vec<Fill>,
    /// The index of each in `active`.
    indices: Box<[u32]>,
    /// `blocks_max` bytes for each number: the marks of its blocks.
    marks: Box<[u8]>,
    /// The suspect sectors, in the same layout.
    suspects: Box<[u8]>,
    blocks_max: u32,
    free: Vec<u32>,
}

impl Fills {
    pub(crate) fn new(fills: u32, blocks_max: u32) -> Fills {
        Fills {
            active: Vec::with_capacity(fills as usize),
            indices: vec![0; fills as usize].into_boxed_slice(),
            marks: vec![0; fills as usize * blocks_max as usize].into_boxed_slice(),
            suspects: vec![0; fills as usize * blocks_max as usize].into_boxed_slice(),
            blocks_max,
            free: (0..fills).rev().collect(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// The number of fills that can begin.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// The maximum number of fills.
    pub(crate) fn most(&self) -> usize {
        self.indices.len()
    }

    fn fill(&self, id: FillId) -> &Fill {
        &self.active[self.indices[id.0 as usize] as usize]
    }

    /// Returns the index of the marks of a block of a fill.
    fn mark_at(&self, fill: &Fill, block: u64) -> usize {
        debug_assert!(block >= fill.first && block < fill.end);
        (fill.number * self.blocks_max) as usize + (block - fill.first) as usize
    }

    /// Begins a fill, unmarked.
    pub(crate) fn begin(&mut self, first: u64, blocks: u32, keep: bool) -> FillId {
        self.begin_as(first, blocks, keep, false)
    }

    /// Begins a fill ahead of a stream, which may be admitted.
    pub(crate) fn begin_ahead(&mut self, first: u64, blocks: u32) -> FillId {
        self.begin_as(first, blocks, true, true)
    }

    fn begin_as(&mut self, first: u64, blocks: u32, keep: bool, ahead: bool) -> FillId {
        assert!(blocks > 0 && blocks <= self.blocks_max);
        let number = self.free.pop().expect("asked is_full before");
        let from = (number * self.blocks_max) as usize;
        self.marks[from..from + blocks as usize].fill(0);
        self.suspects[from..from + blocks as usize].fill(0);
        self.indices[number as usize] = self.active.len() as u32;
        self.active.push(Fill { first, end: first + u64::from(blocks), number, keep, ahead });
        FillId(number)
    }

    /// Marks the sectors of a block that are in memory as the fill begins.
    pub(crate) fn set_mark(&mut self, id: FillId, block: u64, mask: u8) {
        let at = self.mark_at(self.fill(id), block);
        self.marks[at] = mask;
    }

    pub(crate) fn end(&mut self, id: FillId) {
        let index = self.indices[id.0 as usize] as usize;
        let ended = self.active.swap_remove(index);
        assert_eq!(ended.number, id.0, "a fill ends once");
        if let Some(moved) = self.active.get(index) {
            self.indices[moved.number as usize] = index as u32;
        }
        self.free.push(id.0);
    }

    pub(crate) fn keeps(&self, id: FillId) -> bool {
        self.fill(id).keep
    }

    /// Returns the sectors among `wanted` for which this fill must not be used. Suspect sectors
    /// count only beside marked ones.
    pub(crate) fn mark(&self, id: FillId, block: u64, wanted: u8) -> u8 {
        let at = self.mark_at(self.fill(id), block);
        match wanted & self.marks[at] {
            0 => 0,
            marked => marked | wanted & self.suspects[at],
        }
    }

    /// Marks sectors of a block that a change touches: no fill in flight may be used for them any
    /// more.
    #[inline]
    pub(crate) fn touch(&mut self, block: u64, mask: u8) {
        for fill in &self.active {
            if block >= fill.first && block < fill.end {
                let at = self.mark_at(fill, block);
                self.marks[at] |= mask;
            }
        }
    }

    /// Marks all sectors of blocks that a change touches, as [`Fills::touch`] does.
    pub(crate) fn touch_blocks(&mut self, blocks: &Range<u64>) {
        for fill in &self.active {
            let (first, end) = (blocks.start.max(fill.first), blocks.end.min(fill.end));
            if first < end {
                let at = self.mark_at(fill, first);
                self.marks[at..at + (end - first) as usize].fill(0xff);
            }
        }
    }

    /// Marks sectors of a block as suspect, because they are written through: before that is sent,
    /// since the backing may show it before its answer, and again after the answer.
    pub(crate) fn suspect(&mut self, block: u64, mask: u8) {
        for fill in &self.active {
            if block >= fill.first && block < fill.end {
                let at = self.mark_at(fill, block);
                self.suspects[at] |= mask;
            }
        }
    }

    /// Prevents the admission of all fills in flight.
    pub(crate) fn bar_all(&mut self) {
        self.active.iter_mut().for_each(|fill| fill.keep = false);
    }

    /// Prevents the admission of fills of these blocks, which are written through: data fetched at
    /// the same time may be older or newer.
    pub(crate) fn bar_admission(&mut self, first: u64, blocks: u32) {
        let end = first + u64::from(blocks);
        for fill in &mut self.active {
            fill.keep &= first >= fill.end || fill.first >= end;
        }
    }

    /// Whether any fill fetches this block, whether or not it may be admitted.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.meet(block, 1)
    }

    /// Whether any fill fetches some of these blocks, whether or not it may be admitted.
    pub(crate) fn meet(&self, first: u64, blocks: u32) -> bool {
        let end = first + u64::from(blocks);
        self.active.iter().any(|fill| fill.first < end && first < fill.end)
    }

    /// Returns the kind of the fills that together fetch all of these blocks and may be admitted.
    /// None: a block is not fetched, or a sector of it was in memory, or a change has touched one.
    #[inline]
    pub(crate) fn covers(&self, first: u64, blocks: u32) -> Option<Joined> {
        let (mut next, end) = (first, first + u64::from(blocks));
        let mut joined = Joined::Reads;
        while next < end {
            // Not `&&`: it is unpredictable which condition fails, and rare that all hold.
            let is_it = |fill: &&Fill| (fill.first <= next) & (next < fill.end) & fill.keep;
            let fill = self.active.iter().find(is_it)?;
            let covered = (fill.end.min(end) - next) as usize;
            let from = self.mark_at(fill, next);
            if self.marks[from..from + covered].iter().any(|&mark| mark != 0) {
                return None;
            }
            if fill.ahead {
                joined = Joined::Ahead;
            }
            next += covered as u64;
        }
        Some(joined)
    }
}
