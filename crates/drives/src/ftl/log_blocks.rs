//! What a hybrid mapping knows of its data blocks and log blocks; `hybrid` changes it.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// No superblock, no data block.
pub(super) const NONE: u32 = u32::MAX;

/// The state of a hybrid mapping.
pub(super) struct LogBlocks {
    /// Log blocks that may hold something at a time, the open one included, once no block is left that
    /// was never used.
    pub(super) most: u32,
    /// The data block of each logical block; `NONE` if it has none.
    pub(super) data: Vec<u32>,
    /// Closed log blocks, oldest first, the one that is being merged included.
    pub(super) logs: VecDeque<u32>,
    /// The logical block that the stream's log block holds.
    pub(super) stream: u32,
    /// Logical blocks without a data block: each may need a free superblock before one is freed.
    pub(super) bare: u32,
}

impl LogBlocks {
    pub(super) fn new(most: u32, blocks: u32) -> LogBlocks {
        let data = vec![NONE; blocks as usize];
        LogBlocks { most, data, logs: VecDeque::new(), stream: NONE, bare: blocks }
    }
}
