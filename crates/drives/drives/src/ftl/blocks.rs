//! The state of the blocks of a hybrid mapping.

use super::frontier::Frontier;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// The state of a hybrid mapping.
pub(super) struct Blocks {
    /// Maximum number of log blocks with data, including the open one, once there is no block left
    /// that was never used.
    pub(super) most: u32,
    /// The data block of each logical block; all ones if it has none.
    pub(super) data: Vec<u32>,
    /// Closed log blocks, oldest first, including the one that is being merged.
    pub(super) logs: VecDeque<u32>,
    /// Closed log blocks that stay when the open one is full and closed, too.
    pub(super) kept: u32,
    /// The logical block of the stream's log block.
    pub(super) stream: u32,
    /// The merge under way.
    pub(super) merging: Option<Merge>,
    /// Logical blocks without a data block: each may need a free superblock before one is freed.
    pub(super) bare: u32,
}

impl Blocks {
    pub(super) fn new(most: u32, blocks: u32) -> Blocks {
        let data = vec![u32::MAX; blocks as usize];
        let (logs, stream, merging) = (VecDeque::new(), u32::MAX, None);
        Blocks { most, data, logs, kept: 0, stream, merging, bare: blocks }
    }
}

/// The merge of a logical block, up to a position in its new data block.
#[derive(Clone, Copy)]
pub(super) struct Merge {
    pub(super) block: u32,
    pub(super) target: Frontier,
}
