//! The sizes of places in a segment.
//!
//! A class is a number of places that divide a segment without a rest, up to the multiple of
//! [`PLACE_ALIGNMENT`]. The sizes are about 4 % apart.

use super::SEGMENT_BYTES;
use crate::codec::LENGTH_MAX;

/// Places begin at multiples of this number of bytes.
const PLACE_ALIGNMENT: u32 = 8;

/// Places of a segment in each class, from small places to large ones.
const PLACES: [u16; 64] = [
    255, 248, 238, 228, 219, 210, 201, 193, 185, 177, 170, 163, 156, 150, 144, 138, 132, 127, 122,
    117, 112, 107, 103, 99, 95, 91, 87, 83, 80, 77, 74, 71, 68, 65, 62, 59, 57, 55, 53, 51, 49, 47,
    45, 43, 41, 39, 37, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19,
];

/// Number of classes.
pub(super) const COUNT: usize = PLACES.len();

/// A size of places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Class(pub(super) u8);

const fn sizes() -> [u16; COUNT] {
    let mut sizes = [0; COUNT];
    let mut class = 0;
    while class < COUNT {
        let size = SEGMENT_BYTES / PLACES[class] as u32;
        sizes[class] = (size / PLACE_ALIGNMENT * PLACE_ALIGNMENT) as u16;
        class += 1;
    }
    assert!(sizes[COUNT - 1] as usize >= LENGTH_MAX);
    sizes
}

static SIZES: [u16; COUNT] = sizes();

impl Class {
    /// Returns the class with the smallest places for this length. `None`: it is too long.
    pub(super) fn of(length: u16) -> Option<Class> {
        let class = SIZES.partition_point(|size| *size < length);
        (class < COUNT).then_some(Class(class as u8))
    }

    /// Returns the size of a place in bytes.
    pub(super) fn size(self) -> u16 {
        SIZES[usize::from(self.0)]
    }

    /// Returns the number of places in a segment.
    pub(super) fn places(self) -> u16 {
        PLACES[usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_the_smallest_class_that_holds_it() {
        for length in 1..=LENGTH_MAX as u16 {
            let class = Class::of(length).expect("an object's length");
            assert!(class.size() >= length);
            assert!(class.0 == 0 || Class(class.0 - 1).size() < length);
            assert!(u32::from(class.size()) * u32::from(class.places()) <= SEGMENT_BYTES);
        }
        assert_eq!(Class::of(4096), None);
    }
}
