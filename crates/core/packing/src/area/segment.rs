//! A segment: the places that are taken, and its neighbours in its list.

use super::classes::Class;

/// Groups of segments by their free places: 1, 2, 3, 4, 5 or 6, 7 or 8, 9 to 12, 13 to 16, and so
/// on up to 255. The fuller, the higher. Full segments are in none.
pub(super) const GROUPS: usize = 16;

/// Returns the group of a segment with this number of free places.
fn group_of(free: u16) -> Option<usize> {
    let above = free.checked_sub(1)?;
    let index = match above {
        0 | 1 => above,
        _ => {
            let power = above.ilog2() as u16;
            2 * power + (above >> (power - 1) & 1)
        }
    };
    Some(GROUPS - 1 - usize::from(index))
}

/// Returns the minimum number of free places in the segments of a group.
pub(super) fn free_least(group: usize) -> u64 {
    match GROUPS - 1 - group {
        index @ (0 | 1) => index as u64 + 1,
        index => ((2 + index as u64 % 2) << (index / 2 - 1)) + 1,
    }
}

/// No segment.
pub(super) const NONE: u32 = u32::MAX;

/// A segment of the area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// A bit for each place: taken.
    taken: [u64; 4],
    pub(super) before: u32,
    pub(super) after: u32,
    /// The number of taken places.
    pub(super) objects: u16,
    /// Reads under way.
    pub(super) pins: u16,
    pub(super) class: Class,
}

impl Segment {
    pub(super) fn new(class: Class) -> Segment {
        Segment { taken: [0; 4], before: NONE, after: NONE, objects: 0, pins: 0, class }
    }

    /// Returns its group. `None`: no place is free.
    pub(super) fn group(&self) -> Option<usize> {
        group_of(self.class.places() - self.objects)
    }

    /// Whether nothing is in it, and no read is under way.
    pub(super) fn is_unused(&self) -> bool {
        self.objects == 0 && self.pins == 0
    }

    /// Takes a free place.
    pub(super) fn take(&mut self) -> Option<u8> {
        let word = self.taken.iter().position(|word| *word != u64::MAX)?;
        let place = (word * 64) as u32 + self.taken[word].trailing_ones();
        self.take_place(place as u8).then_some(place as u8)
    }

    /// Takes this place. `false`: it is taken, or there is no such place.
    pub(super) fn take_place(&mut self, place: u8) -> bool {
        let (word, bit) = (usize::from(place / 64), 1u64 << (place % 64));
        let is_free = u16::from(place) < self.class.places() && self.taken[word] & bit == 0;
        if is_free {
            self.taken[word] |= bit;
            self.objects += 1;
        }
        is_free
    }

    /// Frees a taken place.
    pub(super) fn free_place(&mut self, place: u8) {
        let (word, bit) = (usize::from(place / 64), 1u64 << (place % 64));
        assert!(self.taken[word] & bit != 0, "an object that is not in the area");
        self.taken[word] &= !bit;
        self.objects -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_ordered_and_begin_at_their_minimum() {
        assert_eq!(group_of(0), None);
        let groups: [usize; 255] = core::array::from_fn(|at| group_of(at as u16 + 1).unwrap_or(0));
        assert_eq!((groups[0], groups[254]), (GROUPS - 1, 0));
        assert!(groups.is_sorted_by(|one, two| one == two || *one == two + 1));
        for group in 0..GROUPS {
            let first = groups.iter().position(|it| *it == group).map(|at| at as u64 + 1);
            assert_eq!(first, Some(free_least(group)));
        }
    }
}
