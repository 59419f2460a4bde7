//! The area: segments of the arena, divided into places for compressed objects.
//!
//! A segment is 16 neighbouring slots. All its places have the size of its class, so an object
//! takes any free place of its class, and a segment is returned to the engine when its last object
//! is freed. A location names the segment among all those of the shard, so the area needs no list
//! of objects: the records in the headers are its only directory, and rebuild it after a kill.
//!
//! ```text
//! location  | segment 18 | class 6 | place 8 |
//! segment   | object . | object .. | free     | object . | ... | free     |
//! ```
//!
//! Stores go to the fullest segments. Compaction empties the emptiest ones: it is a pass over the
//! engine's headers. [`Area::begin_pass`] chooses them, and [`Area::relocate`] returns a new
//! location for each of their objects. Frees, stores and moves take no time that grows with the
//! area.
//!
//! Source: N. Gupta, M. Kim, zsmalloc, Linux 3.9 (size classes whose pages are chosen by fullness).
//! It finds the owner of an object by a word in the object.

mod classes;
mod lists;
mod segment;

use alloc::boxed::Box;
use alloc::vec::Vec;
use classes::{COUNT, Class};
use core::fmt;
use lists::{Evacuation, Lists};
use segment::Segment;

/// Bytes of a segment: 16 slots.
pub const SEGMENT_BYTES: u32 = 16 * crate::BLOCK_BYTES as u32;
/// Maximum number of segments of a shard: 16 GiB.
const SEGMENTS_MAX: u32 = 1 << 18;

/// With more segments, an object uses places of its own class only: a partly filled segment of
/// each class is then less waste than larger places for half of the objects.
const SEGMENTS_BALANCED: u32 = 1024;
/// Maximum number of classes above its own that an object may use.
const CLASSES_ABOVE_MAX: u32 = 16;
/// A pass begins if it frees at least one of this number of segments.
const PASS_SHARE: u32 = 256;

/// A place of the area.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Location(pub(crate) u32);

impl Location {
    fn new(segment: u32, class: Class, place: u8) -> Location {
        Location(segment << 14 | u32::from(class.0) << 8 | u32::from(place))
    }

    /// Returns the number of its segment.
    pub fn segment(self) -> u32 {
        self.0 >> 14
    }

    fn class(self) -> Class {
        Class((self.0 >> 8) as u8 & (COUNT - 1) as u8)
    }

    fn place(self) -> u8 {
        self.0 as u8
    }

    /// Returns the offset of its first byte from the first byte of the shard's slots.
    pub fn offset(self) -> u64 {
        let within = u32::from(self.place()) * u32::from(self.class().size());
        u64::from(self.segment()) * u64::from(SEGMENT_BYTES) + u64::from(within)
    }
}

/// A record of an object that cannot be where it claims to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Impossible;

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record of a compressed block contradicts others")
    }
}

impl core::error::Error for Impossible {}

/// The segments of a shard. Those that are the engine's have none.
#[derive(Debug)]
struct Segments(Box<[Option<Box<Segment>>]>);

impl Segments {
    fn get(&self, number: u32) -> &Segment {
        self.0[number as usize].as_ref().expect("a segment of the area")
    }

    fn get_mut(&mut self, number: u32) -> &mut Segment {
        self.0[number as usize].as_mut().expect("a segment of the area")
    }
}

/// The area of a shard.
#[derive(Debug)]
pub struct Area {
    segments: Segments,
    /// The number of segments that the area has.
    count: u32,
    lists: Box<Lists>,
    /// The segments of each class that the pass evacuates.
    evacuations: Box<[Evacuation; COUNT]>,
    /// The number of passes.
    pass: u32,
}

impl Area {
    /// Makes an empty area among this number of slots.
    ///
    /// # Panics
    /// If there are more slots than a location can name.
    pub fn new(slots: u32) -> Area {
        let segments = slots / (SEGMENT_BYTES / crate::BLOCK_BYTES as u32);
        assert!(segments <= SEGMENTS_MAX, "a shard of at most 16 GiB");
        let mut all = Vec::new();
        all.resize_with(segments as usize, || None);
        Area {
            segments: Segments(all.into_boxed_slice()),
            count: 0,
            lists: Box::new(Lists::new()),
            evacuations: Box::new([Evacuation::default(); COUNT]),
            pass: 0,
        }
    }

    /// Returns a place for a new object of this length. The caller copies its bytes there, and
    /// publishes its record. `None`: the area needs an empty segment, see [`Area::store_in`].
    pub fn store(&mut self, length: u16) -> Option<Location> {
        let class = Class::of(length)?;
        let last = (class.0 + self.classes_above()).min(COUNT as u8 - 1);
        (class.0..=last).find_map(|class| self.store_in_class(Class(class)))
    }

    /// Returns a place in a segment that the engine gives to the area, which is empty. `None`: the
    /// object is longer than [`crate::LENGTH_MAX`], or the area has the segment already.
    pub fn store_in(&mut self, segment: u32, length: u16) -> Option<Location> {
        let class = Class::of(length)?;
        let unused = self.segments.0.get_mut(segment as usize)?;
        if unused.is_some() {
            return None;
        }
        *unused = Some(Box::new(Segment::new(class)));
        self.count += 1;
        self.regroup(segment, None);
        self.take(segment)
    }

    /// Returns the number of classes above its own that an object uses before it needs an empty
    /// segment: the fewer segments there are, the more, because each class has a partly filled one.
    fn classes_above(&self) -> u8 {
        (SEGMENTS_BALANCED / self.count.max(1)).isqrt().min(CLASSES_ABOVE_MAX) as u8
    }

    fn store_in_class(&mut self, class: Class) -> Option<Location> {
        // Freed places of a pinned segment may still be read.
        let accepts = |_, segment: &Segment| segment.pins == 0;
        let segment = self.lists.fullest(&self.segments, class, 0, accepts)?;
        self.take(segment)
    }

    fn take(&mut self, number: u32) -> Option<Location> {
        let segment = self.segments.get_mut(number);
        let before = segment.group();
        let (class, place) = (segment.class, segment.take()?);
        self.regroup(number, before);
        Some(Location::new(number, class, place))
    }

    /// Moves a segment to the list of its present group.
    fn regroup(&mut self, number: u32, before: Option<usize>) {
        let now = self.segments.get(number).group();
        if before != now {
            if let Some(before) = before {
                self.lists.remove(&mut self.segments, number, before);
            }
            if let Some(now) = now {
                self.lists.add(&mut self.segments, number, now);
            }
        }
    }

    /// Removes an object. Returns its segment if that is the engine's again.
    #[must_use]
    pub fn free(&mut self, location: Location) -> Option<u32> {
        let number = location.segment();
        let segment = self.segments.get_mut(number);
        let before = segment.group();
        segment.free_place(location.place());
        self.regroup(number, before);
        self.release(number)
    }

    /// Returns a segment to the engine if it is unused.
    fn release(&mut self, number: u32) -> Option<u32> {
        let segment = self.segments.get(number);
        let group = segment.group().filter(|_| segment.is_unused())?;
        self.lists.remove(&mut self.segments, number, group);
        self.segments.0[number as usize] = None;
        self.count -= 1;
        Some(number)
    }

    /// Keeps the bytes of an object as they are until [`Area::unpin`], even if it is freed.
    /// `false`: too many reads of its segment are under way, and this one must copy the object
    /// before the shard's lock is released.
    pub fn pin(&mut self, location: Location) -> bool {
        let pins = &mut self.segments.get_mut(location.segment()).pins;
        let is_possible = *pins < u16::MAX;
        *pins += u16::from(is_possible);
        is_possible
    }

    /// Ends a read. Returns the segment if that is the engine's again.
    #[must_use]
    pub fn unpin(&mut self, location: Location) -> Option<u32> {
        self.segments.get_mut(location.segment()).pins -= 1;
        self.release(location.segment())
    }

    /// Begins a pass over all objects: chooses the emptiest segments, whose objects fit into the
    /// others of their classes. `false`: they are not worth a pass.
    pub fn begin_pass(&mut self) -> bool {
        self.pass = self.pass.wrapping_add(1);
        for (class, evacuation) in (0..).zip(&mut *self.evacuations) {
            *evacuation = self.lists.evacuation(Class(class));
        }
        let segments: u32 = self.evacuations.iter().map(|it| it.segments).sum();
        segments > self.count / PASS_SHARE
    }

    /// Returns a new location for an object if its segment is evacuated and not pinned. The caller
    /// copies its bytes, publishes its record, and frees the old location.
    pub fn relocate(&mut self, location: Location) -> Option<Location> {
        let (evacuation, pass) = (&self.evacuations[usize::from(location.class().0)], self.pass);
        let is_evacuated = |number: u32, segment: &Segment| {
            segment.group().is_some_and(|group| evacuation.includes(number, group, pass))
        };
        let segment = self.segments.get(location.segment());
        if segment.pins > 0 || !is_evacuated(location.segment(), segment) {
            return None;
        }
        let accepts =
            |number, segment: &Segment| segment.pins == 0 && !is_evacuated(number, segment);
        let least = evacuation.least();
        let target = self.lists.fullest(&self.segments, location.class(), least, accepts)?;
        self.take(target)
    }

    /// Adds an object that a dead process has stored. Objects come in any order.
    ///
    /// # Errors
    /// The object cannot be there: this record, or another one, is damaged.
    pub fn restore(&mut self, location: Location, length: u16) -> Result<(), Impossible> {
        let class = location.class();
        let fits =
            (1..=class.size()).contains(&length) && u16::from(location.place()) < class.places();
        let number = location.segment();
        let found = self.segments.0.get_mut(number as usize).filter(|_| fits).ok_or(Impossible)?;
        if found.is_none() {
            *found = Some(Box::new(Segment::new(class)));
            self.count += 1;
            self.regroup(number, None);
        }
        let segment = self.segments.get_mut(number);
        let before = segment.group();
        if segment.class != class || !segment.take_place(location.place()) {
            return Err(Impossible);
        }
        self.regroup(number, before);
        Ok(())
    }

    /// Whether the area has this segment. The engine must not use its slots.
    pub fn has(&self, segment: u32) -> bool {
        self.segments.0.get(segment as usize).is_some_and(Option::is_some)
    }

    /// Returns the number of segments that the area has.
    pub fn segments(&self) -> u32 {
        self.count
    }

    /// Returns the number of bytes of metadata that the area occupies.
    pub fn metadata_bytes(&self) -> usize {
        size_of::<Area>()
            + size_of::<Lists>()
            + size_of::<[Evacuation; COUNT]>()
            + size_of_val(&*self.segments.0)
            + self.count as usize * size_of::<Segment>()
    }
}
