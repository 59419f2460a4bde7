//! A segment: the places that are taken, and its neighbours in its list.

use super::classes::Class;

/// Groups of segments by fullness, beside the full ones.
pub(super) const GROUPS: usize = 16;
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

    /// Returns its group: the fuller, the higher. `None`: no place is free.
    pub(super) fn group(&self) -> Option<usize> {
        let places = usize::from(self.class.places());
        let objects = usize::from(self.objects);
        (objects < places).then_some(objects * GROUPS / places)
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
