//! Requests that belong to no stream so far, as far as the beginning of one would need them.
//!
//! Two tables say where a neighbour of an earlier request would begin or end; each request takes the place of one
//! that is older, whatever that was. So a stream of one request in a thousand is still found. A third table has, for
//! each area of the volume, the last request and how far it was from the one before: the same distance twice is a
//! stride.

use crate::streams::order::Order;
use alloc::boxed::Box;
use alloc::vec;
use block::Extent;
use policy::Hash;

/// Requests that are remembered, more or less: 8 bytes each for either neighbour.
const REMEMBERED: usize = 2048;
/// Areas that are remembered, and their size as a power of two, in sectors: 16 MiB.
const AREAS: usize = 256;
const AREA_SHIFT: u32 = 15;

/// The last request of an area.
#[derive(Clone, Copy)]
struct Last {
    first: u64,
    /// How far it was from the one before; 0: not known.
    distance: i64,
}

const NOTHING: Last = Last { first: u64::MAX, distance: 0 };

#[derive(Debug)]
pub(super) struct Lone {
    /// The sectors behind requests.
    ends: Box<[u64]>,
    /// The first sectors of requests.
    firsts: Box<[u64]>,
    areas: Box<[Last]>,
}

impl core::fmt::Debug for Last {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} by {}", self.first, self.distance)
    }
}

fn place(sector: u64, places: usize) -> usize {
    (Hash::of(sector).bits() >> 32) as usize % places
}

impl Lone {
    pub(super) fn new() -> Lone {
        Lone {
            ends: vec![u64::MAX; REMEMBERED].into_boxed_slice(),
            firsts: vec![u64::MAX; REMEMBERED].into_boxed_slice(),
            areas: vec![NOTHING; AREAS].into_boxed_slice(),
        }
    }

    /// The order in which a request stands to others, if it is enough to begin a stream. Otherwise it is remembered.
    pub(super) fn order(&mut self, at: &Extent) -> Option<Order> {
        if self.ends[place(at.first, REMEMBERED)] == at.first {
            return Some(Order::Forward);
        }
        if self.firsts[place(at.end(), REMEMBERED)] == at.end() {
            return Some(Order::Backward);
        }
        self.ends[place(at.end(), REMEMBERED)] = at.end();
        self.firsts[place(at.first, REMEMBERED)] = at.first;
        self.stride(at)
    }

    fn stride(&mut self, at: &Extent) -> Option<Order> {
        let area = at.first >> AREA_SHIFT;
        let near = [area, area.wrapping_sub(1), area + 1].map(|area| place(area, AREAS));
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
