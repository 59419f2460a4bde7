//! The status of blocks, decided without reading them.

use super::Shard;

/// The status of a block, as far as the cache can decide it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Data: the block is being written, or will be.
    Data,
    /// It reads as zeros.
    Zeros {
        /// The space behind it may be unmapped.
        may_unmap: bool,
    },
    /// Undecided: the backing has the status.
    Nothing,
}

impl Shard {
    /// Whether the status of every block is undecided.
    pub(crate) fn knows_nothing(&self) -> bool {
        self.dirty == 0 && self.zeroes.is_empty() && self.write_through.is_empty()
    }

    /// Returns the status of a block. Clean slots decide nothing: the backing has the same data.
    pub(crate) fn known(&self, block: u64) -> Known {
        if self.write_through.meet(block, 1) {
            return Known::Data;
        }
        match self.current(block) {
            Some((_, header)) if header.state.is_dirty() => Known::Data,
            _ => match self.zeroes.covering(block) {
                Some(may_unmap) => Known::Zeros { may_unmap },
                None => Known::Nothing,
            },
        }
    }
}
