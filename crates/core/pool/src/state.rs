//! Where a pool's commits are.

use crate::format::Head;
use crate::layout::Layout;
use alloc::vec;
use alloc::vec::Vec;

/// Where the commits are.
pub(crate) struct State {
    /// The number of the open batch.
    pub(crate) open: u64,
    /// The last batch that was committed.
    pub(crate) done: u64,
    /// The last one of which something was lost.
    pub(crate) last_failed: u64,
    /// Something was lost and no flush has said so yet.
    pub(crate) unheard: bool,
    pub(crate) running: bool,
    /// The head of the newest journal block.
    pub(crate) newest: Head,
    pub(crate) life: u32,
    /// The oldest journal block that is needed.
    pub(crate) tail: u64,
    /// The pass over the map covers all blocks below this one.
    pub(crate) pass: Option<u64>,
    /// A pass that has ended, but for a flush.
    pub(crate) ended: Option<u64>,
    /// The sequence of the next pages that are copied.
    pub(crate) pages: u64,
    /// Pages that this commit has taken along, in the order of the buffer.
    pub(crate) slice: Vec<u32>,
    /// They are being written.
    pub(crate) tidying: bool,
    /// A member has failed during this commit.
    pub(crate) disturbed: bool,
    pub(crate) scratch: Vec<u8>,
}

impl State {
    /// Goes on behind `newest`, which is needed no more than what is before it, in a new life; pages
    /// get sequences from `pages` on.
    pub(crate) fn after(newest: Head, life: u32, pages: u64, layout: &Layout) -> State {
        State {
            open: 1,
            done: 0,
            last_failed: 0,
            unheard: false,
            running: false,
            newest,
            life,
            tail: newest.sequence + 1,
            pass: None,
            ended: None,
            pages,
            slice: Vec::with_capacity(layout.slice_max() as usize),
            tidying: false,
            disturbed: false,
            scratch: vec![0; layout.block_bytes()],
        }
    }

    /// Where the next journal block goes.
    pub(crate) fn next_position(&self, layout: &Layout) -> u32 {
        ((self.newest.sequence + 1) % u64::from(layout.journal)) as u32
    }

    /// Whether a commit could begin.
    pub(crate) fn is_idle(&self) -> bool {
        !self.running && !self.tidying
    }

    /// What is copied from now on is newer than what was.
    pub(crate) fn next_pages(&mut self) {
        self.pages += 1;
    }
}
