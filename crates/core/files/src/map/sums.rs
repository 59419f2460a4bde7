//! Amounts by class and by directory.

use super::types::Owner;
use super::view::Map;
use crate::class::{CLASSES, Class};
use alloc::vec;
use alloc::vec::Vec;

/// Amounts of anything that blocks have: sectors, hits, time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sums {
    classes: [u64; CLASSES],
    /// Amounts of each directory and its files, without the directories below.
    directories: Vec<u64>,
}

impl Sums {
    /// Begins with zeros. Takes eight bytes for each directory of the map.
    pub fn new(map: &Map) -> Sums {
        Sums { classes: [0; CLASSES], directories: vec![0; map.directories() as usize] }
    }

    /// Returns the sectors of all extents of the map. Sectors without an extent are of the class
    /// [`Class::Unknown`].
    pub fn of_map(map: &Map) -> Sums {
        let mut sums = Sums::new(map);
        let mut found = 0;
        let mut last = None;
        for extent in map.extents() {
            found += extent.sectors;
            // Extents of one file follow one another.
            let directory = match last {
                Some((owner, directory)) if owner == extent.owner => directory,
                _ => directory_of(map, extent.owner),
            };
            last = Some((extent.owner, directory));
            sums.add_to(directory, extent.class, extent.sectors);
        }
        sums.add_to(None, Class::Unknown, map.sectors().saturating_sub(found));
        sums
    }

    /// Adds an amount of a block of this class and owner, as [`Map::block`] returns them.
    pub fn add(&mut self, map: &Map, class: Class, owner: Owner, amount: u64) {
        self.add_to(directory_of(map, owner), class, amount);
    }

    fn add_to(&mut self, directory: Option<u32>, class: Class, amount: u64) {
        let sum = &mut self.classes[usize::from(class.number())];
        *sum = sum.saturating_add(amount);
        if let Some(sum) = directory.and_then(|number| self.directories.get_mut(number as usize)) {
            *sum = sum.saturating_add(amount);
        }
    }

    /// Returns the amount of a class.
    pub fn class(&self, class: Class) -> u64 {
        self.classes[usize::from(class.number())]
    }

    /// Returns the amount of each directory, with all directories below it.
    pub fn directories(&self, map: &Map) -> Vec<u64> {
        let mut totals = self.directories.clone();
        // A parent has a smaller number.
        for number in (1..totals.len()).rev() {
            let parent = map.directory(number as u32).and_then(|directory| directory.parent);
            if let Some(parent) = parent.filter(|&parent| (parent as usize) < number) {
                totals[parent as usize] = totals[parent as usize].saturating_add(totals[number]);
            }
        }
        totals
    }
}

fn directory_of(map: &Map, owner: Owner) -> Option<u32> {
    match owner {
        Owner::None => None,
        Owner::Directory(number) => Some(number),
        Owner::File(number) => map.file(number).map(|file| file.directory),
    }
}
