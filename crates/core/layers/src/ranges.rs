//! Ranges of a volume that changes have taken: plain data, in the order of their arrival.

use block::Extent;

/// Maximum number of ranges at a time.
pub(crate) const PLACES: usize = 64;

/// Index of a range.
pub(crate) type RangeIndex = usize;

#[derive(Clone, Copy)]
struct TakenRange {
    at: Extent,
    /// Increases with each range.
    number: u64,
}

/// The ranges that are taken or waited for.
pub(crate) struct Ranges {
    places: [Option<TakenRange>; PLACES],
    number: u64,
}

impl Ranges {
    pub(crate) fn new() -> Ranges {
        Ranges { places: [None; PLACES], number: 0 }
    }

    /// Appends a range after the earlier ones. None: the maximum is reached.
    pub(crate) fn ask(&mut self, at: Extent) -> Option<RangeIndex> {
        let place = self.places.iter().position(Option::is_none)?;
        self.number += 1;
        self.places[place] = Some(TakenRange { at, number: self.number });
        Some(place)
    }

    /// Whether no earlier range overlaps this one.
    pub(crate) fn is_first(&self, place: RangeIndex) -> bool {
        let own = self.places[place].expect("a range was asked for");
        let mut before = self.places.iter().flatten().filter(|other| other.number < own.number);
        !before.any(|other| other.at.overlaps(&own.at))
    }

    /// Releases a range.
    pub(crate) fn give(&mut self, place: RangeIndex) {
        let taken = self.places[place].take();
        assert!(taken.is_some(), "a range is given back once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_goes_first_and_the_others_do_not_wait() {
        let mut ranges = Ranges::new();
        let mut ask = |first, count| ranges.ask(Extent::new(first, count)).expect("a place");
        let (one, two, three) = (ask(0, 8), ask(4, 8), ask(12, 4));
        assert!(ranges.is_first(one) && ranges.is_first(three) && !ranges.is_first(two));
        ranges.give(one);
        assert!(ranges.is_first(two));
        let again = ranges.ask(Extent::new(11, 2)).expect("a place");
        assert_eq!(again, one, "the place that was given back");
        assert!(!ranges.is_first(again), "what it touches came before");
    }

    #[test]
    fn the_places_are_bounded() {
        let mut ranges = Ranges::new();
        for number in 0..PLACES as u64 {
            ranges.ask(Extent::new(number, 1)).expect("a place");
        }
        assert_eq!(ranges.ask(Extent::new(100, 1)), None);
        ranges.give(5);
        assert_eq!(ranges.ask(Extent::new(100, 1)), Some(5));
    }
}
