//! The earlier uses of each extent, and a search for an extent of a given history.

use std::collections::{BTreeMap, HashMap};
use trace::{Event, Operation};

/// An extent of a device.
pub(crate) type Extent = (u32, u64, u32);

/// Returns the extent of a request.
pub(crate) fn extent(event: &Event) -> Extent {
    (event.device, event.first, event.sectors)
}

/// Number of uses of each extent in the whole trace.
pub(crate) type Totals = HashMap<Extent, u32>;

/// Extents with the same device, size and number of uses in the whole trace, in half powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Kind {
    device: u32,
    sectors: u32,
    total: u8,
}

/// The history of an extent before a request: extents of the same class can stand for one another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Class {
    kind: Kind,
    is_written: bool,
    /// Uses that follow, in half powers of two.
    left: u8,
    /// Distance of the last two uses, as a power of two; 0: there was only one.
    distance: u8,
}

/// The device of an extent, and its sectors.
type Size = (u32, u32);

/// The use of an extent by a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// The first one.
    First,
    /// One after others: the class of the history, and the number of requests since the last one.
    Again(Class, u64),
}

/// The uses of an extent.
#[derive(Clone, Copy, Debug)]
struct Uses {
    left: u32,
    last: u64,
    distance: u64,
    is_written: bool,
    kind: Kind,
}

impl Uses {
    fn class(&self) -> Class {
        let distance = (u64::BITS - self.distance.leading_zeros()) as u8;
        Class {
            kind: self.kind,
            is_written: self.is_written,
            left: half_power(self.left),
            distance,
        }
    }
}

/// Returns a number as half a power of two.
fn half_power(number: u32) -> u8 {
    (2.0 * f64::from(number.max(1)).log2()).round() as u8
}

/// The extents that were used and will be used again, by their last use.
type ByLastUse = BTreeMap<u64, Extent>;

/// The earlier uses of all extents.
pub(crate) struct History<'a> {
    totals: &'a Totals,
    uses: HashMap<Extent, Uses>,
    of_class: HashMap<Class, ByLastUse>,
    of_kind: HashMap<Kind, ByLastUse>,
    of_size: HashMap<Size, ByLastUse>,
}

impl<'a> History<'a> {
    /// Returns the history before any request.
    pub(crate) fn new(totals: &'a Totals) -> History<'a> {
        History {
            totals,
            uses: HashMap::new(),
            of_class: HashMap::new(),
            of_kind: HashMap::new(),
            of_size: HashMap::new(),
        }
    }

    /// Records the use of an extent by the request of this number, which ascend. Returns the use as
    /// it was before.
    pub(crate) fn record(&mut self, number: u64, extent: Extent, operation: Operation) -> Use {
        let before = self.uses.get(&extent).copied();
        let total = self.totals.get(&extent).copied().unwrap_or(1);
        let now = Uses {
            left: before.map_or(total, |before| before.left).saturating_sub(1),
            last: number,
            distance: before.map_or(0, |before| number - before.last),
            is_written: operation != Operation::Read,
            kind: Kind { device: extent.0, sectors: extent.2, total: half_power(total) },
        };
        if let Some(before) = before {
            self.lists(&before).into_iter().for_each(|list| {
                list.remove(&before.last);
            });
        }
        if now.left > 0 {
            self.lists(&now).into_iter().for_each(|list| {
                list.insert(number, extent);
            });
        }
        self.uses.insert(extent, now);
        match before {
            None => Use::First,
            Some(before) => Use::Again(before.class(), number - before.last),
        }
    }

    fn lists(&mut self, uses: &Uses) -> [&mut ByLastUse; 3] {
        let kind = uses.kind;
        [
            self.of_class.entry(uses.class()).or_default(),
            self.of_kind.entry(kind).or_default(),
            self.of_size.entry((kind.device, kind.sectors)).or_default(),
        ]
    }

    /// Returns the number of the last use of an extent. None: it was not used.
    pub(crate) fn last_use(&self, extent: Extent) -> Option<u64> {
        self.uses.get(&extent).map(|uses| uses.last)
    }

    /// Returns the extent of this class that was last used by the request of this number, and will
    /// be used again.
    pub(crate) fn used_at(&self, number: u64, class: Class) -> Option<Extent> {
        self.of_class.get(&class)?.get(&number).copied()
    }

    /// Returns an extent of this class whose last use is about `distance` requests before the
    /// request `number`: the nearest one. If none of the class is near, it is one that is used as
    /// often in the whole trace, and at last any of the same size. None: there is none that is used
    /// again.
    pub(crate) fn find(&self, number: u64, class: Class, distance: u64) -> Option<Extent> {
        let wanted = number.saturating_sub(distance);
        let far = |found: &(u64, Extent)| found.0.abs_diff(wanted);
        let of_class = self.of_class.get(&class).and_then(|all| nearest(all, wanted));
        if let Some(found) = of_class.filter(|found| far(found) <= distance / 8 + NEAR) {
            return Some(found.1);
        }
        let of_kind = self.of_kind.get(&class.kind).and_then(|all| nearest(all, wanted));
        let found = of_class.into_iter().chain(of_kind).min_by_key(far);
        let size = (class.kind.device, class.kind.sectors);
        let any = || self.of_size.get(&size).and_then(|all| nearest(all, wanted));
        found.or_else(any).map(|found| found.1)
    }
}

/// A difference of distances that makes none.
const NEAR: u64 = 16;

/// Returns the extent whose last use is nearest to this number.
fn nearest(all: &ByLastUse, wanted: u64) -> Option<(u64, Extent)> {
    let before = all.range(..=wanted).next_back();
    let after = all.range(wanted + 1..).next();
    let found = match (before, after) {
        (Some(before), Some(after)) if after.0 - wanted < wanted - before.0 => Some(after),
        (Some(before), _) => Some(before),
        (None, after) => after,
    };
    found.map(|(last, extent)| (*last, *extent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_found_by_its_history() {
        let extent = |number: u64| (0, number * 8, 8);
        // Extents 0 to 9 are used twice, and 5 more often.
        let totals = (0..10).map(|number| (extent(number), if number == 5 { 9 } else { 2 }));
        let totals: Totals = totals.collect();
        let mut history = History::new(&totals);
        for number in 0..10 {
            assert_eq!(history.record(number, extent(number), Operation::Read), Use::First);
        }
        let used = history.record(10, extent(3), Operation::Read);
        let Use::Again(twice, 7) = used else { panic!("{used:?}") };
        assert_eq!(history.find(11, twice, 9), Some(extent(2)));
        assert_eq!(history.find(11, twice, 8), Some(extent(2)), "3 is not used any more");
        assert_eq!(history.find(12, twice, 7), Some(extent(4)), "5 is used more often");
        let often = Class { kind: Kind { total: half_power(9), ..twice.kind }, ..twice };
        assert_eq!(history.find(11, often, 1), Some(extent(5)));
        let large = Class { kind: Kind { sectors: 16, ..twice.kind }, ..twice };
        assert_eq!(history.find(12, large, 7), None);
    }
}
