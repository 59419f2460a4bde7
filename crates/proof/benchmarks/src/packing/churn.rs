//! A day of churn: objects of mixed lengths replace one another in an area, without bytes.

use lane::Random;
use packing::{Area, Location, SEGMENT_BYTES};
use std::collections::VecDeque;

/// Hours of the day. In each, most new objects are of one kind.
const HOURS: usize = 24;
/// Stores between two steps of compaction, and objects that a step looks at.
const STEP_STORES: usize = 256;
const STEP_OBJECTS: usize = 8192;

/// How objects leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The oldest first, but one in four stays for another round, as if it had been read.
    Oldest,
    /// Any object.
    Random,
}

/// Figures of a day.
#[derive(Default)]
pub(super) struct Day {
    /// Memory of the area divided by bytes of objects: mean and maximum.
    pub(super) mean: f64,
    pub(super) most: f64,
    /// Objects moved, and headers read, for each store.
    pub(super) moves: f64,
    pub(super) headers: f64,
    /// Bytes of the area's metadata for each object.
    pub(super) metadata: f64,
}

struct Churn<'a> {
    kinds: &'a [Vec<u16>],
    cursors: Vec<usize>,
    random: Random,
    area: Area,
    empty: Vec<u32>,
    objects: Vec<Option<(Location, u16)>>,
    bytes: u64,
    next: Option<usize>,
    moves: u64,
    headers: u64,
}

impl Churn<'_> {
    fn store(&mut self, object: usize, hour: usize) {
        let kinds = self.kinds.len();
        let kind = match self.random.below(10) < 8 {
            true => hour % kinds,
            false => self.random.below(kinds as u64) as usize,
        };
        // Files of 200 blocks in the mean.
        let (lengths, cursor) = (&self.kinds[kind], &mut self.cursors[kind]);
        *cursor = match self.random.below(200) {
            0 => self.random.below(lengths.len() as u64) as usize,
            _ => (*cursor + 1) % lengths.len(),
        };
        let length = lengths[*cursor];
        let (area, empty) = (&mut self.area, &mut self.empty);
        let location = area.store(length).or_else(|| area.store_in(empty.pop()?, length));
        self.objects[object] = Some((location.expect("room for every object"), length));
        self.bytes += u64::from(length);
    }

    fn free(&mut self, object: usize) {
        if let Some((location, length)) = self.objects[object].take() {
            self.empty.extend(self.area.free(location));
            self.bytes -= u64::from(length);
        }
    }

    /// One step of a pass, which begins if it is worth it.
    fn compact(&mut self) {
        let begin = match self.next {
            Some(next) => next,
            None if self.area.begin_pass() => 0,
            None => return,
        };
        let end = (begin + STEP_OBJECTS).min(self.objects.len());
        for (location, _) in self.objects[begin..end].iter_mut().flatten() {
            if let Some(to) = self.area.relocate(*location) {
                self.empty.extend(self.area.free(*location));
                *location = to;
                self.moves += 1;
            }
        }
        self.headers += (end - begin) as u64;
        self.next = (end < self.objects.len()).then_some(end);
    }

    fn overhead(&self) -> f64 {
        f64::from(self.area.segments()) * f64::from(SEGMENT_BYTES) / self.bytes as f64
    }
}

/// Replaces objects of these kinds of lengths.
pub(super) fn day(kinds: &[Vec<u16>], objects: usize, stores: usize, order: Order) -> Day {
    let mut churn = Churn {
        kinds,
        cursors: vec![0; kinds.len()],
        random: Random::new(1),
        area: Area::new(objects as u32),
        empty: (0..objects as u32 / 16).rev().collect(),
        objects: vec![None; objects],
        bytes: 0,
        next: None,
        moves: 0,
        headers: 0,
    };
    let mut queue: VecDeque<usize> = VecDeque::new();
    let (mut day, mut samples) = (Day::default(), 0);
    for at in 0..objects + stores {
        let object = match order {
            _ if at < objects => at,
            Order::Random => churn.random.below(objects as u64) as usize,
            Order::Oldest => loop {
                let oldest = queue.pop_front().expect("as many as objects");
                if churn.random.below(4) > 0 {
                    break oldest;
                }
                queue.push_back(oldest);
            },
        };
        churn.free(object);
        churn.store(object, at * HOURS / (objects + stores));
        queue.push_back(object);
        if order == Order::Random {
            queue.clear();
        }
        if at.is_multiple_of(STEP_STORES) {
            churn.compact();
            if at > objects {
                let overhead = churn.overhead();
                (day.mean, day.most) = (day.mean + overhead, day.most.max(overhead));
                samples += 1;
            }
        }
    }
    day.mean /= f64::from(samples);
    day.moves = churn.moves as f64 / stores as f64;
    day.headers = churn.headers as f64 / stores as f64;
    day.metadata = churn.area.metadata_bytes() as f64 / objects as f64;
    day
}
