//! The stream detector of a volume: finds the reads that follow one another in an order.
//!
//! It receives the reads that miss in memory, and those that hit only because of readahead. A
//! stream goes forward, backward, or in steps of the same length. The longer a stream has lasted,
//! the farther from its head a request may be that still belongs to it, because requests of several
//! connections overtake one another. That distance is counted in requests of the same length: short
//! random reads are no part of a stream of long ones. In return a stream must read most of the
//! sectors on its way: random reads of a small area are near to everything, and jump. Streams may
//! be interleaved with each other and with other requests.
//!
//! The memory is bounded: a fixed number of streams, of which the one with the longest pause is
//! replaced, and a fixed number of requests outside streams (`lone.rs`).

use crate::streams::lone::Lone;
use crate::streams::order::Order;
use alloc::boxed::Box;
use alloc::vec;
use block::Extent;

/// Maximum number of followed streams.
pub(super) const STREAMS: usize = 64;
/// A request belongs to a stream if its distance from the head is at most this number of requests,
/// or the number that the stream has had, if that is less.
const REACH_MAX: u64 = 32;
/// Steps of a strided stream that may be left out, or arrive late.
const STEPS_MAX: i64 = 4;
/// A stream reads at least one part in this number of its way; the rest may be in memory.
const WAY_MAX: u64 = 2;
/// Requests that may be left out for the moment ...
const WAY_AHEAD: u64 = 8;
/// ... and requests that may arrive after others, or again.
const WAY_BEHIND: u64 = 4;
/// Requests after which the older half of the way is forgotten.
const WAY_REQUESTS: u64 = 64;

/// A stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) order: Order,
    /// The first sector of the next request; of a backward stream, its end.
    pub(super) next: u64,
    /// The longest request until now, in sectors.
    pub(super) request_sectors: u32,
    /// The number of its requests.
    pub(super) requests: u64,
    /// The sectors that all of them have read.
    pub(super) sectors: u64,
    /// The time of its last request, counted in reads.
    last: u64,
    way: Way,
}

/// How much of its way a stream has read recently: in sectors, or in steps.
#[derive(Clone, Copy, Debug)]
struct Way {
    length: u64,
    read: u64,
}

const NONE: Stream = Stream {
    order: Order::Forward,
    next: 0,
    request_sectors: 0,
    requests: 0,
    sectors: 0,
    last: 0,
    way: Way { length: 0, read: 0 },
};
const NOWHERE: Near = Near { from: u64::MAX, length: 0 };

/// A range in which the next request of a stream begins, or nothing.
#[derive(Clone, Copy, Debug)]
struct Near {
    from: u64,
    length: u64,
}

/// The same ranges, rounded outwards to units of which a volume has at most 2^32: most reads are
/// outside streams, and one pass over these numbers, several at a time, finds that.
#[derive(Debug)]
struct Coarse {
    unit_shift: u32,
    from: [u32; STREAMS],
    length: [u32; STREAMS],
}

impl Coarse {
    /// For a volume of `sectors` sectors.
    fn new(sectors: u64) -> Coarse {
        let unit_shift = (u64::BITS - sectors.leading_zeros()).saturating_sub(u32::BITS);
        Coarse { unit_shift, from: [u32::MAX; STREAMS], length: [0; STREAMS] }
    }

    fn set(&mut self, place: usize, near: Near) {
        let unit = |sector: u64| sector >> self.unit_shift;
        let units = unit(near.from.saturating_add(near.length)) - unit(near.from);
        self.from[place] = unit(near.from) as u32;
        self.length[place] = units.try_into().unwrap_or(u32::MAX);
    }

    /// Whether a request that begins here may be near any stream. Sectors behind the volume's end
    /// may be taken for others.
    #[inline]
    fn may_be_near(&self, first: u64) -> bool {
        let unit = (first >> self.unit_shift) as u32;
        let ranges = self.from.iter().zip(&self.length);
        ranges.fold(false, |found, (from, length)| found | (unit.wrapping_sub(*from) <= *length))
    }
}

#[derive(Debug)]
pub(super) struct Detector {
    lone: Lone,
    streams: Box<[Stream]>,
    /// The approximate range of each stream's next request: contiguous, because reads near any of
    /// them search all.
    near: Box<[Near]>,
    coarse: Coarse,
    /// Entries from this one on have had no stream yet.
    used: usize,
    /// Reads until now.
    reads: u64,
}

/// The stream of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// No stream.
    Alone,
    /// A stream that began earlier, by its index.
    Continues(usize),
    /// A stream that begins with it, which replaces another or none.
    Begins(usize),
}

/// The place of sectors in the read that requests them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// All of it, or its beginning.
    First,
    /// They follow a part of the same read.
    Further,
}

impl Stream {
    /// Returns the maximum distance from the head of a request of this length.
    fn reach(&self, sectors: u32) -> u64 {
        self.requests.min(REACH_MAX) * u64::from(self.request_sectors.min(sectors))
    }

    /// Whether a request belongs to it.
    fn has(&self, at: &Extent) -> bool {
        match self.order {
            Order::Forward => at.first.abs_diff(self.next) <= self.reach(at.count),
            Order::Backward => at.end().abs_diff(self.next) <= self.reach(at.count),
            Order::Strided(step) => {
                let ahead = at.first.wrapping_sub(self.next) as i64;
                ahead % step == 0 && (ahead / step).abs() <= STEPS_MAX
            }
        }
    }

    /// Adds a request, or a further part of one. Returns whether it is still a stream: not if it
    /// leaves out most of its way, or returns to what it has read.
    fn advance(&mut self, at: &Extent, part: Part) -> bool {
        let (next, went) = match self.order {
            Order::Forward => (self.next.max(at.end()), at.end().saturating_sub(self.next)),
            Order::Backward => (self.next.min(at.first), self.next.saturating_sub(at.first)),
            Order::Strided(step) => match (at.first.wrapping_sub(self.next) as i64) / step {
                ..0 => (self.next, 0),
                steps => (at.first.wrapping_add_signed(step), steps as u64 + 1),
            },
        };
        self.next = next;
        self.request_sectors = self.request_sectors.max(at.count);
        self.requests += u64::from(part == Part::First);
        self.sectors += u64::from(at.count);
        let is_strided = matches!(self.order, Order::Strided(_));
        self.way.length += went;
        self.way.read += if is_strided { 1 } else { u64::from(at.count) };
        if self.requests.is_multiple_of(WAY_REQUESTS) {
            self.way = Way { length: self.way.length / 2, read: self.way.read / 2 };
        }
        let Way { length, read } = self.way;
        let unit = if is_strided { 1 } else { u64::from(self.request_sectors) };
        length <= WAY_MAX * read + WAY_AHEAD * unit && read <= length + WAY_BEHIND * unit
    }

    /// Returns the range in which its next request may begin.
    fn near(&self) -> Near {
        let longest = self.reach(u32::MAX);
        let reach = match self.order {
            Order::Forward => longest,
            Order::Backward => longest + u64::from(self.request_sectors),
            Order::Strided(step) => step.unsigned_abs().saturating_mul(STEPS_MAX as u64),
        };
        let from = self.next.saturating_sub(reach);
        Near { from, length: self.next.saturating_add(reach) - from }
    }
}

impl Detector {
    /// Makes the detector of a volume of `sectors` sectors.
    pub(super) fn new(sectors: u64) -> Detector {
        Detector {
            lone: Lone::new(sectors),
            streams: vec![NONE; STREAMS].into_boxed_slice(),
            near: vec![NOWHERE; STREAMS].into_boxed_slice(),
            coarse: Coarse::new(sectors),
            used: 0,
            reads: 0,
        }
    }

    pub(super) fn stream(&self, place: usize) -> &Stream {
        &self.streams[place]
    }

    /// Adds a read of these sectors.
    pub(super) fn add(&mut self, at: &Extent) -> Found {
        self.add_part(at, Part::First)
    }

    /// Adds a part of a read. One that follows a stored part begins no stream.
    pub(super) fn add_part(&mut self, at: &Extent, part: Part) -> Found {
        self.reads += 1;
        if self.coarse.may_be_near(at.first)
            && let Some(place) = self.continued(at, part)
        {
            return Found::Continues(place);
        }
        if part == Part::Further && self.lone.lengthen(at) {
            return Found::Alone;
        }
        let Some(order) = self.lone.order(at) else { return Found::Alone };
        let place = self.free_index();
        // Assumes that the requests before it were as long.
        let before = if let Order::Strided(_) = order { 2 } else { 1 };
        let next = match order {
            Order::Forward | Order::Strided(_) => at.first,
            Order::Backward => at.end(),
        };
        let sectors = before * u64::from(at.count);
        let request_sectors = at.count;
        self.streams[place] =
            Stream { order, next, request_sectors, requests: before, sectors, ..NONE };
        self.advance(place, at, Part::First);
        Found::Begins(place)
    }

    /// Returns the stream to which a read belongs, and adds it. Ends streams that it contradicts.
    fn continued(&mut self, at: &Extent, part: Part) -> Option<usize> {
        let is_near = |near: &Near| at.first.wrapping_sub(near.from) <= near.length;
        for place in 0..self.used {
            if is_near(&self.near[place]) && self.streams[place].has(at) {
                if self.advance(place, at, part) {
                    return Some(place);
                }
                self.set_near(place, NOWHERE);
                self.streams[place].last = 0;
            }
        }
        None
    }

    fn advance(&mut self, place: usize, at: &Extent, part: Part) -> bool {
        let stream = &mut self.streams[place];
        let goes_on = stream.advance(at, part);
        stream.last = self.reads;
        let near = stream.near();
        self.set_near(place, near);
        goes_on
    }

    fn set_near(&mut self, place: usize, near: Near) {
        self.near[place] = near;
        self.coarse.set(place, near);
    }

    /// Returns the index for a new stream: an unused one, or that of the stream with the longest
    /// pause.
    fn free_index(&mut self) -> usize {
        if self.used < STREAMS {
            self.used += 1;
            return self.used - 1;
        }
        let places = self.streams.iter().enumerate();
        places.min_by_key(|(_, stream)| stream.last).map_or(0, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Draws a number below `end` from a state.
    fn draw(state: &mut u64, end: u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) % end
    }

    /// Returns the number of these reads that belong to a stream that had begun before.
    fn followed(reads: impl IntoIterator<Item = (u64, u32)>) -> usize {
        let mut detector = Detector::new(1 << 40);
        let found =
            reads.into_iter().map(|(first, count)| detector.add(&Extent::new(first, count)));
        found.filter(|found| matches!(found, Found::Continues(_))).count()
    }

    #[test]
    fn forward_backward_and_strided_reads_are_followed_from_the_third_or_fourth_on() {
        let forward = (0..100).map(|read| (read * 128, 128));
        let backward = (0..100).map(|read| (1_000_000 - read * 128, 128));
        let steps = (0..100).map(|read| (read * 2048, 128));
        let back_by_steps = (0..100).map(|read| (1_000_000 - read * 2048, 128));
        assert_eq!(followed(forward), 98);
        assert_eq!(followed(backward), 98);
        assert_eq!(followed(steps), 97);
        assert_eq!(followed(back_by_steps), 97);
        // Requests that begin inside blocks, and have different lengths.
        let mut at = 3;
        let ragged = (0..100).map(|read| {
            let count = 1 + read % 17;
            at += count;
            (at - count, count as u32)
        });
        assert_eq!(followed(ragged), 98);
    }

    #[test]
    fn interleaved_slow_and_reordered_streams_are_followed() {
        let many =
            (0..100).flat_map(|read| (0..48).map(move |stream| ((stream << 30) + read * 8, 8)));
        assert_eq!(followed(many), 48 * 98);
        // One read in five hundred, between random ones over 100 GiB.
        let mut state = 1;
        let slow = (0..50_000u64).map(|read| match read % 500 {
            0 => (read / 500 * 8, 8),
            _ => ((1 << 20) + draw(&mut state, 25 << 20) * 8, 8),
        });
        let found = followed(slow);
        assert!((90..100).contains(&found), "{found}");
        // As they arrive from four connections with eight requests each.
        let mut state = 2;
        let mut reordered: Vec<u64> = (0..1000).collect();
        for read in 0..1000 {
            let other = read + draw(&mut state, 8) as usize;
            reordered.swap(read, other.min(999));
        }
        let found = followed(reordered.into_iter().map(|read| (read * 8, 8)));
        assert!(found > 950, "{found}");
    }

    /// Adds a read of 4 MiB in parts of 1 MiB. Returns the streams that they belong to.
    fn add_long(detector: &mut Detector, first: u64) -> [Found; 4] {
        [0, 1, 2, 3].map(|number| {
            let part = if number == 0 { Part::First } else { Part::Further };
            detector.add_part(&Extent::new(first + number * 2048, 2048), part)
        })
    }

    #[test]
    fn the_parts_of_one_read_are_no_stream_and_those_of_several_are() {
        let mut detector = Detector::new(1 << 40);
        assert_eq!(add_long(&mut detector, 1 << 30), [Found::Alone; 4]);
        assert_eq!(add_long(&mut detector, 0), [Found::Alone; 4]);
        // One that follows the first.
        let next = add_long(&mut detector, (1 << 30) + 8192);
        assert!(matches!(next[0], Found::Begins(0)), "{next:?}");
        assert_eq!(next[1..], [Found::Continues(0); 3]);
        let stream = detector.stream(0);
        assert_eq!((stream.requests, stream.next), (2, (1 << 30) + 16384));
        // In steps of 8 MiB.
        let steps: Vec<Found> =
            (1..5).map(|step| add_long(&mut detector, (1 << 31) + step * 16384)[0]).collect();
        assert!(matches!(steps[..], [Found::Alone, Found::Alone, Found::Begins(_), _]));
        assert!(matches!(steps[3], Found::Continues(_)), "{steps:?}");
    }

    #[test]
    fn short_random_reads_do_not_continue_a_stream_of_long_ones() {
        for direction in [1, -1i64] {
            let mut detector = Detector::new(1 << 40);
            let long = |read: i64| (1_048_576 + direction * read * 2048) as u64;
            let found: Vec<Found> =
                (0..100).map(|read| detector.add(&Extent::new(long(read), 2048))).collect();
            assert!(matches!(found[99], Found::Continues(_)), "{:?}", found[99]);
            // Over 1 GiB, of which the stream's own requests could reach 64 MiB.
            let mut state = 7;
            let random = (0..2000).map(|_| Extent::new(draw(&mut state, 1 << 18) * 8, 8));
            let followed = random.filter(|at| matches!(detector.add(at), Found::Continues(_)));
            assert!(followed.count() < 20, "random reads take the stream for theirs");
            let next = Extent::new(long(100), 2048);
            assert!(matches!(detector.add(&next), Found::Continues(_)), "the stream goes on");
        }
    }

    #[test]
    fn random_reads_are_no_stream() {
        let random = |blocks: u64| {
            let mut state = 3;
            followed((0..100_000).map(move |_| (draw(&mut state, blocks) * 8, 8)))
        };
        assert!(random(25 << 20) < 20, "over 100 GiB: {}", random(25 << 20));
        assert!(random(1 << 20) < 500, "over 4 GiB: {}", random(1 << 20));
        // An area so small that each is near to others: some follow by chance, and not for long.
        let mut detector = Detector::new(1 << 40);
        let mut state = 5;
        let mut long = 0;
        for _ in 0..100_000 {
            let at = Extent::new(draw(&mut state, 4096) * 8, 8 + 8 * draw(&mut state, 4) as u32);
            if let Found::Continues(place) = detector.add(&at) {
                long += u32::from(detector.stream(place).requests >= 16);
            }
        }
        assert!(long < 1000, "{long}");
    }

    #[test]
    fn a_read_near_a_stream_passes_the_coarse_check_on_volumes_of_any_size() {
        let mut state = 6;
        for sectors in [1 << 16, 1 << 32, (1 << 40) + 7, u64::MAX] {
            let mut detector = Detector::new(sectors);
            let mut near_reads = 0;
            for read in 0..1_000u64 {
                let step = 8 * (1 + read / 64 % 5);
                let sector = ((read % 64) << 45) + read / 64 * step;
                let first = [sector, draw(&mut state, 4096) * 8][usize::from(read % 3 == 0)];
                let first = first % (sectors - 16);
                detector.add(&Extent::new(first, 8));
                for near in &detector.near[..detector.used] {
                    let at = near.from.wrapping_add(draw(&mut state, near.length + 1));
                    assert!(detector.coarse.may_be_near(at), "{at} of {near:?}");
                    near_reads += 1;
                }
            }
            assert!(near_reads > 5_000, "there are streams: {near_reads}");
        }
        assert!(!Detector::new(1 << 40).coarse.may_be_near(5), "none is near no stream");
    }

    #[test]
    fn any_request_may_come() {
        let mut detector = Detector::new(1 << 40);
        let mut state = 4;
        for _ in 0..100_000 {
            let first =
                [0, 8, 1 << 60, u64::MAX - 16, draw(&mut state, 64)][draw(&mut state, 5) as usize];
            detector.add(&Extent::new(first, 1 + draw(&mut state, 16) as u32));
        }
    }
}
