//! Changes on their way past the cache to the backing.

use alloc::vec::Vec;
use block::Extent;

/// The passing changes of a shard. A handful at a time: a list is searched faster than a table.
#[derive(Default)]
pub(crate) struct Passes {
    list: Vec<Extent>,
    /// As if one touched every block: nothing may begin here.
    closed: bool,
}

impl Passes {
    pub(crate) fn new() -> Passes {
        Passes { list: Vec::with_capacity(64), closed: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.closed
    }

    /// From now on (or no longer) it is as if a pass touched every block.
    pub(crate) fn close(&mut self, closed: bool) {
        self.closed = closed;
    }

    pub(crate) fn begin(&mut self, at: Extent) {
        self.list.push(at);
    }

    pub(crate) fn end(&mut self, at: Extent) {
        let position = self.list.iter().position(|pass| *pass == at);
        self.list.swap_remove(position.expect("a pass ends once"));
    }

    /// Whether a pass touches any of these blocks.
    #[inline]
    pub(crate) fn meet(&self, first: u64, blocks: u32) -> bool {
        let start = first * u64::from(crate::BLOCK_SECTORS);
        let end = (first + u64::from(blocks)) * u64::from(crate::BLOCK_SECTORS);
        self.closed || self.list.iter().any(|pass| pass.first < end && start < pass.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_met_where_it_is_and_everywhere_while_nothing_may_begin() {
        let mut passes = Passes::new();
        assert!(passes.is_empty() && !passes.meet(0, 1000));
        // The end of block 5, and a part of block 6.
        let at = Extent::new(47, 3);
        passes.begin(at);
        let met = [(0, 5), (5, 1), (6, 1), (7, 9), (4, 4)].map(|(first, n)| passes.meet(first, n));
        assert_eq!(met, [false, true, true, false, true]);
        assert!(!passes.is_empty());
        passes.close(true);
        assert!(passes.meet(7, 9));
        passes.end(at);
        assert!(!passes.is_empty() && passes.meet(900, 1));
        passes.close(false);
        assert!(passes.is_empty() && !passes.meet(5, 2));
    }
}
