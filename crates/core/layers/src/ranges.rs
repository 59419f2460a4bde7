//! Ranges of a volume that changes have taken: plain data, in the order of their arrival.

use block::Extent;

/// Maximum number of ranges at a time.
pub(crate) const RANGES_MAX: usize = 64;

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
    list: [Option<TakenRange>; RANGES_MAX],
    number: u64,
}

impl Ranges {
    pub(crate) fn new() -> Ranges {
        Ranges { list: [None; RANGES_MAX], number: 0 }
    }

    /// Appends a range after the earlier ones. None: the maximum is reached.
    pub(crate) fn add(&mut self, at: Extent) -> Option<RangeIndex> {
        let index = self.list.iter().position(Option::is_none)?;
        self.number += 1;
        self.list[index] = Some(TakenRange { at, number: self.number });
        Some(index)
    }

    /// Whether no earlier range overlaps this one.
    pub(crate) fn is_first(&self, index: RangeIndex) -> bool {
        let own = self.list[index].expect("the range was added");
        let mut before = self.list.iter().flatten().filter(|other| other.number < own.number);
        !before.any(|other| other.at.overlaps(&own.at))
    }

    /// Releases a range.
    pub(crate) fn remove(&mut self, index: RangeIndex) {
        let taken = self.list[index].take();
        assert!(taken.is_some(), "a range is removed once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_goes_first_and_the_others_do_not_wait() {
        let mut ranges = Ranges::new();
        let mut ask = |first, count| ranges.add(Extent::new(first, count)).expect("an index");
        let (one, two, three) = (ask(0, 8), ask(4, 8), ask(12, 4));
        assert!(ranges.is_first(one) && ranges.is_first(three) && !ranges.is_first(two));
        ranges.remove(one);
        assert!(ranges.is_first(two));
        let again = ranges.add(Extent::new(11, 2)).expect("an index");
        assert_eq!(again, one, "the index that was given back");
        assert!(!ranges.is_first(again), "what it touches came before");
    }

    #[test]
    fn the_places_are_bounded() {
        let mut ranges = Ranges::new();
        for number in 0..RANGES_MAX as u64 {
            ranges.add(Extent::new(number, 1)).expect("an index");
        }
        assert_eq!(ranges.add(Extent::new(100, 1)), None);
        ranges.remove(5);
        assert_eq!(ranges.add(Extent::new(100, 1)), Some(5));
    }
}
