//! Cached sectors of directories by class.

use files::Map;
use std::collections::BTreeMap;

/// Cached sectors of each directory and class; with those of the directories below it, if
/// [`Totals::roll_up`] has added them.
#[derive(Default)]
pub(super) struct Totals(BTreeMap<(u32, u8), u64>);

impl Totals {
    pub(super) fn add(&mut self, directory: u32, class: u8, sectors: u64) {
        *self.0.entry((directory, class)).or_default() += sectors;
    }

    /// Adds the sectors of each directory to those above it.
    pub(super) fn roll_up(&mut self, map: &Map) {
        let mut next = self.0.last_key_value().map(|(key, _)| *key);
        while let Some((directory, class)) = next {
            let sectors = self.0[&(directory, class)];
            // A parent has a smaller number, so its key is before this one.
            if let Some(parent) = parent_of(map, directory) {
                self.add(parent, class, sectors);
            }
            next = self.0.range(..(directory, class)).next_back().map(|(key, _)| *key);
        }
    }

    /// Returns the sectors of each class of a directory.
    pub(super) fn of(&self, directory: u32) -> impl Iterator<Item = (u8, u64)> {
        let all = self.0.range((directory, 0)..=(directory, u8::MAX));
        all.map(|((_, class), sectors)| (*class, *sectors))
    }

    /// Returns the directories that have sectors.
    pub(super) fn directories(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.0.keys().map(|(directory, _)| *directory).collect();
        all.dedup();
        all
    }
}

/// Returns the number of the directory above this one. None: it is the root.
pub(super) fn parent_of(map: &Map, directory: u32) -> Option<u32> {
    let parent = map.directory(directory).and_then(|directory| directory.parent);
    parent.filter(|parent| *parent < directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::Builder;

    #[test]
    fn directories_have_the_sectors_of_all_below_them_by_class() {
        let mut builder = Builder::new(800, 1 << 20);
        let mut add = |parent, name: &[u8]| builder.directory(parent, name).expect("room");
        let home = add(Builder::ROOT, b"home");
        let (one, other) = (add(home, b"one"), add(home, b"other"));
        let map = builder.finish(7);
        let mut totals = Totals::default();
        for (directory, class, sectors) in [(one, 3, 5), (other, 3, 6), (other, 4, 7), (0, 4, 1)] {
            totals.add(directory, class, sectors);
        }
        totals.roll_up(&map);
        let of = |directory| totals.of(directory).collect::<Vec<_>>();
        assert_eq!(of(other), [(3, 6), (4, 7)]);
        assert_eq!(of(home), [(3, 11), (4, 7)]);
        assert_eq!(of(0), [(3, 11), (4, 8)]);
        assert_eq!(totals.directories(), [0, home, one, other]);
    }
}
