//! The offsets of an arena's parts, and which of them are in use.

use super::superblock;
use crate::BLOCK_SECTORS;
use crate::geometry::{Format, Geometry};
use alloc::vec::Vec;
use core::ops::Range;

pub(super) const HEADER_BYTES: usize = 16;
pub(super) const EXTENT_BYTES: usize = 32;
const PAGE: usize = 4096;

/// Byte offsets of the parts of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) extents_at: usize,
    pub(super) headers_at: usize,
    pub(super) slots_at: usize,
    pub(super) slot_bytes: usize,
    /// The size of the whole memory, including spare slots.
    pub(super) bytes: usize,
}

impl Layout {
    pub(super) fn of(geometry: &Geometry, grain: u32) -> Layout {
        // In the laboratory, where a sector is a stamp, all padding would be copied for each state.
        let at_page =
            |offset: usize| if grain == 512 { offset.next_multiple_of(PAGE) } else { offset };
        let headers = geometry.slots_max() as usize * HEADER_BYTES;
        let extents = geometry.ranges_max() as usize * EXTENT_BYTES;
        let (headers_at, extents_at, slots_at) = match geometry.format {
            Format::Two => {
                let extents_at = superblock::BYTES + headers;
                (superblock::BYTES, extents_at, at_page(extents_at + extents))
            }
            Format::Three | Format::Four => {
                let headers_at = at_page(superblock::BYTES + extents);
                (headers_at, superblock::BYTES, at_page(headers_at + headers))
            }
        };
        let slot_bytes = BLOCK_SECTORS as usize * grain as usize;
        let bytes = slots_at + geometry.slots_max() as usize * slot_bytes;
        Layout { extents_at, headers_at, slots_at, slot_bytes, bytes }
    }

    /// Returns the ranges of bytes in use, ascending and disjoint: all except the headers and the
    /// bytes of spare slots.
    pub(super) fn used(&self, geometry: &Geometry) -> Vec<Range<usize>> {
        let part = |begin: usize, bytes: usize| {
            geometry.live().map(move |slots| {
                begin + slots.start as usize * bytes..begin + slots.end as usize * bytes
            })
        };
        let headers = part(self.headers_at, HEADER_BYTES);
        let slots = part(self.slots_at, self.slot_bytes);
        let first = 0..self.headers_at.min(self.extents_at);
        let ranges_end = self.extents_at + geometry.ranges_max() as usize * EXTENT_BYTES;
        let ranges = self.extents_at..ranges_end;
        let mut used: Vec<Range<usize>> =
            [first, ranges].into_iter().chain(headers).chain(slots).collect();
        used.sort_unstable_by_key(|part| part.start);
        used.dedup_by(|after, before| {
            let touch = after.start <= before.end;
            if touch {
                before.end = before.end.max(after.end);
            }
            touch
        });
        used
    }
}
