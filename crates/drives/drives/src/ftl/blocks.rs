//! The state of the blocks of a hybrid mapping.

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
    /// The logical block of the stream's log block.
    pub(super) stream: u32,
    /// Logical blocks without a data block: each may need a free superblock before one is freed.
    pub(super) bare: u32,
}

impl Blocks {
    pub(super) fn new(most: u32, blocks: u32) -> Blocks {
        let data = vec![u32::MAX; blocks as usize];
        Blocks { most, data, logs: VecDeque::new(), stream: u32::MAX, bare: blocks }
    }
}
