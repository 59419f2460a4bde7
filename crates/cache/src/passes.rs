//! Changes on their way past the cache to the backing.

use alloc::vec::Vec;
use block::Extent;

/// The passing changes of a shard. A handful at a time: a list is searched faster than a table.
#[derive(Default)]
pub(crate) struct Passes(Vec<Extent>);

impl Passes {
    pub(crate) fn new() -> Passes {
        Passes(Vec::with_capacity(64))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn begin(&mut self, at: Extent) {
        self.0.push(at);
    }

    pub(crate) fn end(&mut self, at: Extent) {
        let position = self.0.iter().position(|pass| *pass == at);
        self.0.swap_remove(position.expect("a pass ends once"));
    }

    /// Whether a pass touches any of these blocks.
    #[inline]
    pub(crate) fn meet(&self, first: u64, blocks: u32) -> bool {
        let start = first * u64::from(crate::BLOCK_SECTORS);
        let end = (first + u64::from(blocks)) * u64::from(crate::BLOCK_SECTORS);
        self.0.iter().any(|pass| pass.first < end && start < pass.end())
    }
}
