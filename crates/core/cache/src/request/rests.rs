//! The rest of blocks, as a lane fetches it: the rules of the moment. (`shard/rests.rs` decides.)

use crate::BLOCK_SECTORS;
use crate::blocks::blocks_of;
use crate::bypass::balance::Reads;
use crate::handle::Handle;
use crate::shard::rests::RestRules;
use block::{Buf, Extent};

impl Handle {
    /// Returns the rules by which a read fetches the rest of its blocks. None: it has whole blocks,
    /// or there is no buffer for it.
    pub(crate) fn rest_rules(&self, at: &Extent) -> Option<RestRules> {
        let is_border = |sector: u64| sector.is_multiple_of(BLOCK_SECTORS.into());
        let has_rest = !is_border(at.first) || !is_border(at.end());
        if !has_rest || !self.rests.has_room(blocks_of(at).1) {
            return None;
        }
        let shared = &self.shared;
        let copy_ns = shared.settings.fill_cost_ns;
        let backing_ns = shared.gauges.backing_read_ns();
        Some(RestRules {
            end: shared.limits.sectors,
            // A hit is a copy, too.
            reads: Reads { backing_ns, hit_ns: copy_ns, copy_ns },
            hits: shared.expected_hits().unwrap_or(1.0),
        })
    }

    /// Returns a buffer for these sectors, which are those of a read and the rest of its blocks.
    pub(crate) fn rest_buffer(&self, whole: Option<Extent>) -> Option<(Extent, Buf)> {
        let whole = whole?;
        Some((whole, self.rests.take()?))
    }
}
