//! Reads of the backing that are in flight.
//!
//! A fill remembers, sector by sector, what its bytes must not be used for: sectors that were in
//! memory when it began, and sectors that a change has touched since (C10). One `keep` bit says
//! whether anything of it may stay in memory at all.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A fill's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FillId(u32);

#[derive(Clone, Copy)]
struct Fill {
    first: u64,
    blocks: u32,
    keep: bool,
}

/// The fills of a shard.
pub(crate) struct Fills {
    fills: Box<[Fill]>,
    marks: Box<[u8]>,
    blocks_max: u32,
    free: Vec<u32>,
    active: Vec<u32>,
}

impl Fills {
    pub(crate) fn new(fills: u32, blocks_max: u32) -> Fills {
        let nothing = Fill {
            first: 0,
            blocks: 0,
            keep: false,
        };
        Fills {
            fills: vec![nothing; fills as usize].into_boxed_slice(),
            marks: vec![0; fills as usize * blocks_max as usize].into_boxed_slice(),
            blocks_max,
            free: (0..fills).rev().collect(),
            active: Vec::with_capacity(fills as usize),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.free.clear();
        self.free.extend((0..self.fills.len() as u32).rev());
        self.active.clear();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Begins a fill, unmarked.
    pub(crate) fn begin(&mut self, first: u64, blocks: u32, keep: bool) -> FillId {
        assert!(blocks > 0 && blocks <= self.blocks_max);
        let number = self.free.pop().expect("asked is_full before");
        self.fills[number as usize] = Fill {
            first,
            blocks,
            keep,
        };
        let from = (number * self.blocks_max) as usize;
        self.marks[from..from + blocks as usize].fill(0);
        self.active.push(number);
        FillId(number)
    }

    /// These sectors of a block are in memory as the fill begins.
    pub(crate) fn set_mark(&mut self, id: FillId, block: u64, mask: u8) {
        let skipped = (block - self.fills[id.0 as usize].first) as usize;
        self.marks[(id.0 * self.blocks_max) as usize + skipped] = mask;
    }

    pub(crate) fn end(&mut self, id: FillId) {
        let position = self.active.iter().position(|&number| number == id.0);
        self.active.swap_remove(position.expect("a fill ends once"));
        self.free.push(id.0);
    }

    pub(crate) fn keeps(&self, id: FillId) -> bool {
        self.fills[id.0 as usize].keep
    }

    /// The sectors of a block that this fill must not be used for.
    pub(crate) fn mark(&self, id: FillId, block: u64) -> u8 {
        let fill = &self.fills[id.0 as usize];
        debug_assert!(block >= fill.first && block - fill.first < u64::from(fill.blocks));
        self.marks[(id.0 * self.blocks_max) as usize + (block - fill.first) as usize]
    }

    /// A change touches these sectors of a block: no fill under way may bring them any more.
    #[inline]
    pub(crate) fn touch(&mut self, block: u64, mask: u8) -> bool {
        let mut touched = false;
        for &number in &self.active {
            let fill = &self.fills[number as usize];
            if block >= fill.first && block - fill.first < u64::from(fill.blocks) {
                let at = (number * self.blocks_max) as usize + (block - fill.first) as usize;
                self.marks[at] |= mask;
                touched = true;
            }
        }
        touched
    }

    /// A change goes past the cache to these blocks: what is fetched meanwhile may be older or
    /// newer, so nothing of it is kept.
    pub(crate) fn forget(&mut self, first: u64, blocks: u32) {
        for &number in &self.active {
            let fill = &mut self.fills[number as usize];
            let apart = first >= fill.first + u64::from(fill.blocks)
                || fill.first >= first + u64::from(blocks);
            fill.keep &= apart;
        }
    }

    /// Whether a fill that will be kept brings all of these blocks, untouched so far.
    pub(crate) fn covers(&self, first: u64, blocks: u32) -> bool {
        self.active.iter().any(|&number| {
            let fill = &self.fills[number as usize];
            let inside = first >= fill.first
                && first + u64::from(blocks) <= fill.first + u64::from(fill.blocks);
            let from = (number * self.blocks_max) as usize;
            inside && fill.keep && {
                let skipped = (first - fill.first) as usize;
                let marks = &self.marks[from + skipped..from + skipped + blocks as usize];
                marks.iter().all(|&mark| mark == 0)
            }
        })
    }
}
