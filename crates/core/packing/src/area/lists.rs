//! Lists of the segments with free places, by class and fullness.

use super::Segments;
use super::classes::{COUNT, Class};
use super::segment::{GROUPS, NONE, Segment, free_least};

/// Maximum number of segments of a list that a search reads.
const SEARCH_MAX: usize = 8;

/// A list of segments.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    length: u32,
}

/// The lists of an area. Segments without free places are in none.
#[derive(Debug)]
pub(super) struct Lists {
    lists: [[List; GROUPS]; COUNT],
}

impl Lists {
    pub(super) fn new() -> Lists {
        Lists { lists: [[List { head: NONE, length: 0 }; GROUPS]; COUNT] }
    }

    /// Adds a segment to the list of this group, which is its own.
    pub(super) fn add(&mut self, segments: &mut Segments, number: u32, group: usize) {
        let segment = segments.get_mut(number);
        let list = &mut self.lists[usize::from(segment.class.0)][group];
        (segment.before, segment.after) = (NONE, list.head);
        if list.head != NONE {
            segments.get_mut(list.head).before = number;
        }
        list.head = number;
        list.length += 1;
    }

    /// Removes a segment from the list of this group.
    pub(super) fn remove(&mut self, segments: &mut Segments, number: u32, group: usize) {
        let segment = segments.get_mut(number);
        let (before, after) = (segment.before, segment.after);
        let list = &mut self.lists[usize::from(segment.class.0)][group];
        match before {
            NONE => list.head = after,
            before => segments.get_mut(before).after = after,
        }
        if after != NONE {
            segments.get_mut(after).before = before;
        }
        list.length -= 1;
    }

    /// Returns an accepted segment of this class, from one of the fullest groups, `least` or above.
    pub(super) fn fullest(
        &self,
        segments: &Segments,
        class: Class,
        least: usize,
        accepts: impl Fn(u32, &Segment) -> bool,
    ) -> Option<u32> {
        let groups = &self.lists[usize::from(class.0)][least..];
        groups.iter().rev().find_map(|list| {
            let first = (list.head != NONE).then_some(list.head);
            let next = |number: &u32| Some(segments.get(*number).after).filter(|it| *it != NONE);
            let mut all = core::iter::successors(first, next).take(SEARCH_MAX);
            all.find(|number| accepts(*number, segments.get(*number)))
        })
    }

    /// Returns the segments of a class that can be evacuated into the others. Assumes that each is
    /// as full as its group allows.
    pub(super) fn evacuation(&self, class: Class) -> Evacuation {
        let lists = &self.lists[usize::from(class.0)];
        let places = u64::from(class.places());
        let objects = |group: usize| places.saturating_sub(free_least(group));
        let lengths = lists.map(|list| u64::from(list.length));
        let mut room: u64 =
            (0..).zip(lengths).map(|(it, length)| length * (places - objects(it))).sum();
        let mut moves = 0;
        let mut segments = 0;
        for (group, length) in lengths.into_iter().enumerate() {
            room -= length * (places - objects(group));
            moves += length * objects(group);
            if moves > room {
                // As many of this group as the rest of it, and the fuller groups, have room for.
                let spare = room + length * places - moves;
                let part = spare / places;
                let part_64ths = (part * 64 / length) as u8;
                return Evacuation {
                    group: group as u8,
                    part_64ths,
                    segments: (segments + part) as u32,
                };
            }
            segments += length;
        }
        Evacuation { group: GROUPS as u8, part_64ths: 0, segments: segments as u32 }
    }
}

/// The segments of a class that a pass evacuates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evacuation {
    /// All segments of lower groups.
    group: u8,
    /// A part of the segments of this group.
    part_64ths: u8,
    /// How many segments that will return.
    pub(super) segments: u32,
}

impl Evacuation {
    /// The lowest group that has segments with room for others.
    pub(super) fn least(&self) -> usize {
        self.group.into()
    }

    /// Whether it includes a segment of a group. `pass` chooses others of the last group each time.
    pub(super) fn includes(&self, number: u32, group: usize, pass: u32) -> bool {
        let spread = (number ^ pass).wrapping_mul(0x9e37_79b9) >> (u32::BITS - 6);
        group < self.least() || group == self.least() && spread < self.part_64ths.into()
    }
}
