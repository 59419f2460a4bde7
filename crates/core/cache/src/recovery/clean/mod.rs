//! Clean slots at a takeover: which of them still have the backing's data (C9).
//!
//! A clean slot was equal to the backing when its process was killed, if no write-through of its
//! sectors was in flight. A successor may keep it if nothing else has written to the backing since;
//! the caller decides that. Each of the following slots is freed:
//!
//! - one whose block has a newer version, as a slot or as a range of zeros: the process died after
//!   it had published that version and before it freed the older one;
//! - one that was read although a write-through of its sectors was in flight. A write-through hides
//!   these sectors before it is sent. Where it cannot, it marks the slot
//!   ([`Header::is_under_write_through`]);
//! - one that was fetched ahead of a stream and not read: streams end with their process.
//!
//! A slot that is being filled is not published, so it counts as free. All are freed if the memory
//! is in doubt about the backing: the volume had failed, or a flush under way at the kill may have
//! dropped changes.

#[cfg(test)]
mod tests;

use super::Cover;
use crate::arena::superblock::Condition;
use crate::arena::{Arena, Clean, Header, State};
use crate::geometry::{Format, Geometry};
use crate::planted::{Bug, planted};
use crate::shard::Shard;

/// Number of slots whose cells of the index are loaded together.
const BATCH: usize = 16;

/// The handling of clean blocks at a takeover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CleanBlocks {
    /// They are dropped: the backing may have changed since the earlier process was killed.
    Drop,
    /// They are kept: nothing but the earlier process can have written to the backing, and its last
    /// request is over.
    Keep,
}

impl CleanBlocks {
    /// Drops them all if the memory itself is in doubt about the backing. Arenas of former formats
    /// are taken over without their clean blocks.
    pub(super) fn as_trusted(
        self,
        arena: &Arena,
        geometry: &Geometry,
        condition: Condition,
    ) -> CleanBlocks {
        let is_sound = condition == Condition::Well
            && !arena.may_have_lost_changes()
            && geometry.format == Format::Four;
        match self {
            CleanBlocks::Drop if planted(Bug::KeepOverForeignWrite) => CleanBlocks::Keep,
            CleanBlocks::Keep if is_sound => CleanBlocks::Keep,
            _ => CleanBlocks::Drop,
        }
    }

    /// Whether a slot with this header may be kept, unless memory has a newer version of its block.
    #[inline]
    pub(super) fn keeps(self, header: &Header) -> bool {
        let is_readable = header.state == State::Clean && !header.shadowed && header.mask != 0;
        let is_overtaken = header.is_under_write_through() && !planted(Bug::KeepUnderWriteThrough);
        let is_unread = matches!(header.clean(), Clean::Unread | Clean::UnreadBypassed);
        self == CleanBlocks::Keep && is_readable && !is_overtaken && !is_unread
    }
}

impl Shard {
    /// Takes over these clean slots, except where a newer version of the block was taken over.
    pub(super) fn recover_clean(&mut self, slots: &[u32], ranges: &Cover) {
        for batch in slots.chunks(BATCH) {
            batch.iter().for_each(|&slot| self.prefetch_recovery(slot));
            for &slot in batch {
                let block = self.block_of(slot);
                let is_older = self.holds(block)
                    || ranges.covers(self.position_of(block)) && !planted(Bug::KeepUnderZeros);
                match is_older {
                    true => self.recover_free(slot),
                    false => self.recover_kept(slot),
                }
            }
        }
    }
}
