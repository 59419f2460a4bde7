//! Blocks that are being compressed: evicted, and not stored yet.

use crate::planted::{Bug, planted};
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum number of blocks of a shard that are being compressed at a time.
const PENDING_MAX: usize = 64;

/// The number of a compression that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(u32);

struct Block {
    ticket: Ticket,
    block: u64,
    is_cancelled: bool,
}

/// The blocks that are being compressed.
#[derive(Default)]
pub(super) struct Pending {
    blocks: Vec<Block>,
    begun: u32,
}

impl Pending {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn has(&self, block: u64) -> bool {
        self.blocks.iter().any(|pending| pending.block == block && !pending.is_cancelled)
    }

    /// Begins one. None: too many are under way.
    pub(super) fn begin(&mut self, block: u64) -> Option<Ticket> {
        if self.blocks.len() == PENDING_MAX {
            return None;
        }
        self.begun = self.begun.wrapping_add(1);
        let ticket = Ticket(self.begun);
        self.blocks.push(Block { ticket, block, is_cancelled: false });
        Some(ticket)
    }

    /// Cancels those of these blocks.
    pub(super) fn cancel(&mut self, blocks: Range<u64>) {
        for pending in &mut self.blocks {
            pending.is_cancelled |= blocks.contains(&pending.block);
        }
    }

    /// Ends one. Returns its block, unless it was cancelled.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<u64> {
        let index = self.blocks.iter().position(|pending| pending.ticket == ticket)?;
        let pending = self.blocks.swap_remove(index);
        let is_valid = !pending.is_cancelled || planted(Bug::StoreCancelled);
        is_valid.then_some(pending.block)
    }
}
