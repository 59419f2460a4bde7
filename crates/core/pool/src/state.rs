//! State of a pool's commits.

use crate::format::Head;
use crate::layout::Layout;
use alloc::vec;
use alloc::vec::Vec;

/// State of the commits.
pub(crate) struct State {
    /// The number of the open batch.
    pub(crate) open: u64,
    /// The last batch that was committed.
    pub(crate) done: u64,
    /// The last batch of which data was lost.
    pub(crate) last_failed: u64,
    /// Data was lost and no flush has reported it yet.
    pub(crate) unreported: bool,
    pub(crate) running: bool,
    /// The head of the newest journal block.
    pub(crate) newest: Head,
    pub(crate) life: u32,
    /// The oldest journal block that is needed.
    pub(crate) tail: u64,
    /// The sequence of the journal block at which the running pass over the map began; the pass
    /// covers all earlier blocks.
    pub(crate) pass: Option<u64>,
    /// A pass that has ended except for a flush.
    pub(crate) ended: Option<u64>,
    /// The sequence of the next copies of pages.
    pub(crate) pages: u64,
    /// Pages that this commit writes, in the order of the buffer.
    pub(crate) slice: Vec<u32>,
    /// Whether these pages are being written.
    pub(crate) tidying: bool,
    /// Whether a member has failed during this commit.
    pub(crate) disturbed: bool,
    pub(crate) scratch: Vec<u8>,
}

impl State {
    /// Continues after `newest`, which like all earlier blocks is not needed any more, in a new
    /// life. Pages get sequences from `pages` on.
    pub(crate) fn after(newest: Head, life: u32, pages: u64, layout: &Layout) -> State {
        State {
            open: 1,
            done: 0,
            last_failed: 0,
            unreported: false,
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

    /// Position of the next journal block.
    pub(crate) fn next_position(&self, layout: &Layout) -> u32 {
        ((self.newest.sequence + 1) % u64::from(layout.journal)) as u32
    }

    /// Whether a commit could begin.
    pub(crate) fn is_idle(&self) -> bool {
        !self.running && !self.tidying
    }

    /// Gives later copies a newer sequence.
    pub(crate) fn next_pages(&mut self) {
        self.pages += 1;
    }
}
