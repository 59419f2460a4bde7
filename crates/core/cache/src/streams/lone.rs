//! Requests outside streams, as far as they are needed to find the beginning of a stream.
//!
//! A table gives the sectors where a neighbour of an earlier request would begin or end; each
//! request replaces an older entry, whatever that was. So a stream of one request in a thousand is
//! still found. A second table has, for each area of the volume, the last request and its distance
//! from the one before: the same distance twice is a stride.
//!
//! Every miss searches both, mostly in lines that no cache of the processor holds: so entries that
//! are searched together share a line.

use crate::BLOCK_SECTORS;
use crate::streams::order::Order;
use alloc::boxed::Box;
use alloc::vec;
use block::Extent;
use policy::Hash;

/// Approximate maximum number of stored requests: 8 bytes each for either neighbour. A small volume
/// has fewer sectors where a stream can begin.
const REMEMBERED_MAX: u64 = 2048;
const REMEMBERED_LEAST: u64 = 16;
/// Maximum number of stored areas, and their size as a power of two, in sectors: 16 MiB.
const AREAS_MAX: u64 = 256;
const AREA_SHIFT: u32 = 15;

/// Areas whose entries are neighbours, as a power of two.
const AREAS_A_LINE_SHIFT: u32 = 2;

/// A sector at the border of requests.
#[derive(Clone, Copy)]
struct Border {
    /// The sector behind a request.
    end: u64,
    /// The first sector of a request.
    first: u64,
}

const NO_BORDER: Border = Border { end: u64::MAX, first: u64::MAX };

impl core::fmt::Debug for Border {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.end, self.first)
    }
}

/// The last request of an area.
#[derive(Clone, Copy)]
struct Last {
    first: u64,
    /// Its distance from the one before; 0: not known.
    distance: i64,
}

const NOTHING: Last = Last { first: u64::MAX, distance: 0 };

#[derive(Debug)]
pub(super) struct Lone {
    borders: Box<[Border]>,
    areas: Box<[Last]>,
}

impl core::fmt::Debug for Last {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} by {}", self.first, self.distance)
    }
}

/// Returns the index of a number in a table, whose length is a power of two.
fn place(number: u64, places: usize) -> usize {
    (Hash::of(number).bits() >> 32) as usize & (places - 1)
}

impl Lone {
    /// Makes the tables for a volume of `sectors` sectors.
    pub(super) fn new(sectors: u64) -> Lone {
        let blocks = (sectors / u64::from(BLOCK_SECTORS)).min(REMEMBERED_MAX);
        let remembered = blocks.next_power_of_two().max(REMEMBERED_LEAST) as usize;
        let areas = ((sectors >> AREA_SHIFT) + 1).min(AREAS_MAX).next_power_of_two() as usize;
        Lone {
            borders: vec![NO_BORDER; remembered].into_boxed_slice(),
            areas: vec![NOTHING; areas].into_boxed_slice(),
        }
    }

    /// Returns the order of a request relative to earlier ones, if it begins a stream. Otherwise
    /// stores the request.
    pub(super) fn order(&mut self, at: &Extent) -> Option<Order> {
        let [first, end] = [at.first, at.end()].map(|sector| place(sector, self.borders.len()));
        if self.borders[first].end == at.first {
            return Some(Order::Forward);
        }
        if self.borders[end].first == at.end() {
            return Some(Order::Backward);
        }
        self.borders[end].end = at.end();
        self.borders[first].first = at.first;
        self.stride(at)
    }

    /// Adds a further part to the request that ends where it begins, if that is stored.
    pub(super) fn lengthen(&mut self, at: &Extent) -> bool {
        let [first, end] = [at.first, at.end()].map(|sector| place(sector, self.borders.len()));
        let is_stored = self.borders[first].end == at.first;
        if is_stored {
            self.borders[first].end = u64::MAX;
            self.borders[end].end = at.end();
        }
        is_stored
    }

    /// Returns the index of an area: neighbours mostly follow each other.
    fn area_place(&self, area: u64) -> usize {
        let line = place(area >> AREAS_A_LINE_SHIFT, self.areas.len());
        (line << AREAS_A_LINE_SHIFT | (area & ((1 << AREAS_A_LINE_SHIFT) - 1)) as usize)
            & (self.areas.len() - 1)
    }

    fn stride(&mut self, at: &Extent) -> Option<Order> {
        let area = at.first >> AREA_SHIFT;
        let near = [area, area.wrapping_sub(1), area + 1].map(|area| self.area_place(area));
        let is_near = |last: &Last| last.first.abs_diff(at.first) < 1 << AREA_SHIFT;
        let last = near.into_iter().map(|place| self.areas[place]).find(is_near).unwrap_or(NOTHING);
        let distance = match last.first {
            u64::MAX => 0,
            first => at.first.wrapping_sub(first) as i64,
        };
        self.areas[near[0]] = Last { first: at.first, distance };
        let is_stride = distance == last.distance && distance.unsigned_abs() > at.count.into();
        is_stride.then_some(Order::Strided(distance))
    }
}
