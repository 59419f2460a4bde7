//! What is known of blocks without reading them.

use super::Shard;

/// What the cache knows of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// It is written to, or will be: data.
    Data,
    /// It reads as zeros.
    Zeros {
        /// The space behind it may be given up.
        may_unmap: bool,
    },
    /// Nothing: the backing has what it is.
    Nothing,
}

impl Shard {
    /// Whether nothing is known of any block.
    pub(crate) fn knows_nothing(&self) -> bool {
        self.dirty == 0 && self.zeroes.is_empty() && self.write_through.is_empty()
    }

    /// What is known of a block. Clean slots decide nothing: the backing has the same.
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
