//! The area against a model that knows the bytes of every place.

use packing::{Area, LENGTH_MAX, Location, Record, SEGMENT_BYTES};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SEGMENTS: u32 = 12;
const SLOTS: u32 = SEGMENTS * 16;

#[derive(Clone, Debug)]
enum Step {
    Store(u16),
    /// Each names an object by its number, modulo their count.
    Free(usize),
    Pin(usize),
    Unpin(usize),
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![1..=LENGTH_MAX as u16, 1000..1100_u16, Just(300)];
    let step = prop_oneof![
        5 => length.prop_map(Step::Store),
        4 => any::<usize>().prop_map(Step::Free),
        1 => any::<usize>().prop_map(Step::Pin),
        1 => any::<usize>().prop_map(Step::Unpin),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..400)
}

/// An object of the model: its length, and the bytes that the caller has copied.
struct Object {
    location: Location,
    length: u16,
    /// A number that no other object has.
    stamp: u64,
}

struct Model {
    area: Area,
    empty: BTreeSet<u32>,
    objects: Vec<Object>,
    /// Locations that reads have pinned, with the stamps of their objects.
    pinned: Vec<(Location, u16, u64)>,
    /// The object in each range of bytes that was written last: its end and its stamp.
    memory: BTreeMap<u64, (u64, u64)>,
    stamps: u64,
}

impl Model {
    fn new() -> Model {
        Model {
            area: Area::new(SLOTS),
            empty: (0..SEGMENTS).collect(),
            objects: Vec::new(),
            pinned: Vec::new(),
            memory: BTreeMap::new(),
            stamps: 0,
        }
    }

    /// Writes an object's bytes. Older ones that it overlaps are lost.
    fn write(&mut self, location: Location, length: u16, stamp: u64) {
        let (begin, end) = (location.offset(), location.offset() + u64::from(length));
        assert!(begin / u64::from(SEGMENT_BYTES) == u64::from(location.segment()));
        assert!((end - 1) / u64::from(SEGMENT_BYTES) == u64::from(location.segment()));
        assert!(!self.empty.contains(&location.segment()), "bytes in the engine's segment");
        self.memory.retain(|at, (until, _)| *until <= begin || *at >= end);
        self.memory.insert(begin, (end, stamp));
    }

    fn holds(&self, location: Location, length: u16, stamp: u64) -> bool {
        let begin = location.offset();
        self.memory.get(&begin) == Some(&(begin + u64::from(length), stamp))
    }

    fn returned(&mut self, segment: Option<u32>) {
        if let Some(segment) = segment {
            assert!(self.empty.insert(segment), "returned twice");
        }
    }

    fn store(&mut self, length: u16) {
        let location = self.area.store(length).or_else(|| {
            let segment = self.empty.pop_first()?;
            let location = self.area.store_in(segment, length);
            Some(location.expect("an empty segment takes an object"))
        });
        if let Some(location) = location {
            self.stamps += 1;
            self.write(location, length, self.stamps);
            self.objects.push(Object { location, length, stamp: self.stamps });
        }
    }

    fn free(&mut self, at: usize) {
        let object = self.objects.swap_remove(at);
        let segment = self.area.free(object.location);
        self.returned(segment);
    }

    fn compact(&mut self) {
        self.area.begin_pass();
        for at in 0..self.objects.len() {
            let Object { location, length, stamp } = self.objects[at];
            if let Some(to) = self.area.relocate(location) {
                let is_pinned = |it: &(Location, u16, u64)| it.0.segment() == location.segment();
                assert!(!self.pinned.iter().any(is_pinned), "a pinned object was moved");
                self.write(to, length, stamp);
                self.objects[at].location = to;
                let segment = self.area.free(location);
                self.returned(segment);
            }
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Store(length) => self.store(length),
            Step::Compact => self.compact(),
            Step::Free(at) if !self.objects.is_empty() => self.free(at % self.objects.len()),
            Step::Pin(at) if !self.objects.is_empty() => {
                let Object { location, length, stamp } = self.objects[at % self.objects.len()];
                assert!(self.area.pin(location));
                self.pinned.push((location, length, stamp));
            }
            Step::Unpin(at) if !self.pinned.is_empty() => {
                let (location, ..) = self.pinned.swap_remove(at % self.pinned.len());
                let segment = self.area.unpin(location);
                self.returned(segment);
            }
            _ => {}
        }
    }

    /// Objects and pinned reads have their bytes, and the segments are those that have some.
    fn check(&self) {
        let objects = self.objects.iter().map(|it| (it.location, it.length, it.stamp));
        let used = objects.chain(self.pinned.iter().copied());
        let mut segments = BTreeSet::new();
        for (location, length, stamp) in used {
            assert!(self.holds(location, length, stamp), "the bytes of an object are lost");
            segments.insert(location.segment());
        }
        let has: BTreeSet<u32> = (0..SEGMENTS).filter(|it| self.area.has(*it)).collect();
        assert_eq!(has, segments);
        assert_eq!(self.area.segments() as usize, segments.len());
        assert_eq!(self.empty.len(), SEGMENTS as usize - segments.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_object_is_lost_or_overwritten(steps in steps()) {
        let mut model = Model::new();
        for step in &steps {
            model.run(step);
            model.check();
        }
        // A rebuild from the locations is the same area: it takes the same calls.
        for (location, ..) in std::mem::take(&mut model.pinned) {
            let segment = model.area.unpin(location);
            model.returned(segment);
        }
        let mut rebuilt = Area::new(SLOTS);
        for object in model.objects.iter().rev() {
            prop_assert_eq!(rebuilt.restore(object.location, object.length), Ok(()));
        }
        prop_assert_eq!(rebuilt.metadata_bytes(), model.area.metadata_bytes());
        model.area = rebuilt;
        model.check();
        for step in &steps {
            model.run(step);
            model.check();
        }
        while !model.objects.is_empty() {
            model.free(0);
        }
        model.pinned.clear();
    }

    /// Damaged headers name any location and length.
    #[test]
    fn impossible_objects_are_refused(
        records in prop::collection::vec((any::<u32>(), any::<u32>(), 0..5000u64), 1..200),
    ) {
        let mut area = Area::new(SLOTS);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (near, far, length) in records {
            // Half of the locations are near to one another.
            let location = if near % 2 == 0 { far } else { near % (2 << 14) };
            let second = length << 32 | u64::from(location);
            let Some(Record::Object(object, location)) = Record::from_bits(1 << 22, second) else {
                continue;
            };
            if area.restore(location, object.length).is_ok() {
                let begin = location.offset();
                let end = begin + u64::from(object.length);
                prop_assert!(end <= u64::from(SLOTS) * 4096);
                prop_assert!(taken.iter().all(|(from, to)| *to <= begin || end <= *from));
                taken.push((begin, end));
                prop_assert!(area.pin(location));
                prop_assert_eq!(area.unpin(location), None);
            }
        }
    }
}

/// Stores this number of objects of a length.
fn filled(model: &mut Model, count: usize, length: u16) {
    (0..count).for_each(|_| model.store(length));
    assert_eq!(model.objects.len(), count);
}

#[test]
fn a_pass_returns_the_segments_that_the_others_have_room_for() {
    let mut model = Model::new();
    // 32 places of 2 KiB in each of 10 segments.
    filled(&mut model, 320, 2040);
    assert_eq!(model.area.segments(), 10);
    assert!(!model.area.begin_pass(), "all are full");
    // One of three stays, in every segment.
    for at in (0..320).rev().filter(|at| at % 3 > 0) {
        model.free(at);
    }
    assert_eq!((model.objects.len(), model.area.segments()), (107, 10));
    // All are equally full. Each pass chooses other ones to be emptied.
    let mut passes = 0;
    while model.area.begin_pass() {
        model.compact();
        model.check();
        passes += 1;
        assert!(passes < 20, "no end");
    }
    assert!(model.area.segments() <= 5, "{} segments for 107 objects", model.area.segments());
}

#[test]
fn freed_bytes_stay_until_their_read_ends() {
    let mut model = Model::new();
    filled(&mut model, 32, 2040);
    model.run(&Step::Pin(7));
    model.free(7);
    // The only free place is that of the object that is being read.
    model.store(2040);
    model.check();
    assert_eq!(model.area.segments(), 2);
    model.run(&Step::Unpin(0));
    model.store(2040);
    assert_eq!(model.area.segments(), 2);
    // A segment whose last object is freed under a read is returned after it.
    let mut model = Model::new();
    filled(&mut model, 1, 500);
    model.run(&Step::Pin(0));
    model.free(0);
    model.check();
    assert_eq!(model.area.segments(), 1);
    model.run(&Step::Unpin(0));
    model.check();
    assert_eq!(model.area.segments(), 0);
}

#[test]
fn a_segment_is_one_allocation_and_objects_are_none() {
    let mut area = Area::new(1 << 16);
    let allocations = || allocations::of_this_thread();
    let before = (allocations(), area.metadata_bytes());
    let mut objects: Vec<Location> = Vec::with_capacity(10_000);
    let vector = allocations() - before.0;
    for segment in 0..100 {
        objects.extend(area.store_in(segment, 1700));
        objects.extend((0..30).filter_map(|_| area.store(1700)));
    }
    assert_eq!(allocations() - before.0 - vector, 100);
    let segment_bytes = (area.metadata_bytes() - before.1) / 100;
    assert!(segment_bytes <= 56, "{segment_bytes}");
    let before = allocations();
    for object in objects.iter().step_by(2) {
        assert!(area.pin(*object));
        let _ = (area.free(*object), area.unpin(*object));
    }
    assert!(area.begin_pass());
    let mut moved = 0;
    for object in objects.iter().skip(1).step_by(2) {
        if area.relocate(*object).is_some() {
            let _ = area.free(*object);
            moved += 1;
        }
    }
    assert!(moved > 100, "{moved}");
    assert_eq!(allocations() - before, 0);
}

#[test]
fn lengths_and_segments_that_cannot_be_are_refused() {
    let mut area = Area::new(SLOTS);
    assert_eq!(area.store(4096), None);
    assert_eq!(area.store_in(0, 4096), None);
    assert_eq!(area.store_in(SEGMENTS, 100), None);
    assert!(area.store_in(0, 100).is_some());
    assert_eq!(area.store_in(0, 100), None, "the area has it");
}
