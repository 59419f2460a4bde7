//! How many pieces the backing is asked for at a time.
//!
//! More are asked for as long as a piece takes about as long among so many as among half as many:
//! then the backing works on all of them at once. Where it takes longer, pieces stand in line, and
//! so would a client's own reads. Now and then only half as many are asked for, to see how long
//! that takes. (The idea of TCP Vegas, Brakmo and Peterson, SIGCOMM 1994; with means, because the
//! least time of a drive says little of its usual one.)
//!
//! What clients read of the backing stands among the pieces, and is counted with them. Where
//! clients alone ask for more than half of what may be asked for, one piece beside them is the
//! least that can be tried; and where that is as good as all, a few pieces are sent among twice as
//! many.
//!
//! Reads that belong to no stream have nothing of it: the backing is not tried out beside them,
//! because they would wait.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use lane::Lock;

/// The most pieces at a time.
const DEPTH_MAX: u32 = 64;
/// The depth before anything was measured.
const DEPTH_FIRST: u32 = 4;
/// The least depth of which half can be tried.
const DEPTH_MIN: u32 = 2;
/// A piece that takes so much longer than among half as many, in 16ths, does not stand in line ...
const AS_LONG: u64 = 17;
/// ... and one that takes so much longer does.
const LONGER: u64 = 20;
/// Pieces at the full depth that tell whether it is right.
const JUDGED: u64 = 4;
/// Pieces at the full depth after which another is tried, and at half that are enough.
const TRIED: u32 = 256;
const TRIAL: u32 = 4;
/// How much the depth grows, as a part of it, as long as none was too much.
const STEP_ONE_IN: u32 = 4;
/// Times as long as a piece takes within which a client that has read what belongs to no stream may
/// do so again.
const BESIDE: u64 = 8;
/// What a piece takes before one has come, in nanoseconds.
const TOOK_FIRST_NS: u64 = 1_000_000;
/// Beside such reads, one part in so many of what was added to the first depth is left free: the
/// depth is as much as the backing works on, or somewhat more.
const FREE_ONE_IN: u32 = 4;
/// Size classes of pieces: 8, 16, 32 ... sectors.
const CLASSES: usize = 10;

/// No other depth is tried at the moment; half of it is, or as little as clients allow; twice as
/// much is.
const NONE: u8 = 0;
const HALF: u8 = 1;
const DOUBLE: u8 = 2;

/// How many pieces may be under way, and what tells.
#[derive(Debug)]
pub(super) struct Depth {
    limit: AtomicU32,
    under_way: AtomicU32,
    /// Which depth is tried.
    trial: AtomicU8,
    /// Since when this has been the limit, or is tried: what began before tells nothing of it.
    since_ns: AtomicU64,
    /// What belongs to no stream was read since a piece has begun.
    is_alone_read: AtomicBool,
    /// Until when pieces begin beside such reads.
    beside_ns: AtomicU64,
    /// What the last piece took, in nanoseconds.
    took_ns: AtomicU64,
    measured: Lock<Measured>,
}

/// What pieces take.
#[derive(Debug)]
struct Measured {
    /// Among half as many as may be under way, or as few as clients allow, by size; 0: not measured
    /// yet. In nanoseconds.
    among_half: [u64; CLASSES],
    /// Among all, since the limit was judged.
    all: Sum,
    /// Among twice as many, while that is tried.
    double: Sum,
    /// Among all, when that began.
    before_ns: u64,
    /// Pieces since another depth was tried, and while half is.
    tried: u32,
    trial: u32,
    /// A depth was too much once: from then on it grows by one at a time.
    is_settled: bool,
}

/// What pieces of one size have taken.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    class: usize,
    ns: u64,
    pieces: u64,
}

impl Sum {
    fn add(&mut self, class: usize, ns: u64) {
        if self.class != class {
            *self = Sum { class, ..Sum::default() };
        }
        self.ns += ns;
        self.pieces += 1;
    }

    /// The mean, if it is of enough pieces.
    fn mean(&self) -> Option<u64> {
        (self.pieces >= JUDGED).then(|| (self.ns / self.pieces).max(1))
    }
}

/// A piece under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// Pieces and reads of clients that were under way, with it, and the place that is left free
    /// beside those.
    among: u32,
    /// Reads of clients, with that place.
    reads: u32,
    /// What belongs to no stream is read meanwhile.
    is_beside: bool,
    at_ns: u64,
}

/// What is to be done when a piece has told something.
enum Next {
    /// This is the limit.
    Limit(u32),
    /// Half of it is to be tried, or as little as clients allow.
    Half,
    /// Twice as much is.
    Double,
}

fn class_of(sectors: u32) -> usize {
    (sectors.max(8).ilog2() as usize - 3).min(CLASSES - 1)
}

/// Reads of clients, with a place that is left free for the next one.
fn places(reads: u32) -> u32 {
    if reads == 0 { 0 } else { reads + 1 }
}

/// What is tried as half of a limit, where clients take so many places: one piece at least.
fn half_of(limit: u32, places: u32) -> u32 {
    if places == 0 { limit / 2 } else { (limit / 2).max(places + 1) }
}

/// Whether that is so much less than the limit that it tells something.
fn has_half(limit: u32, places: u32) -> bool {
    u64::from(half_of(limit, places)) * LONGER <= u64::from(limit) * 16
}

/// The depth of which twice as much is tried, where clients take so many places.
fn base(limit: u32, places: u32) -> u32 {
    limit.max(places + 1)
}

/// Twice as much, as far as it may be tried.
fn twice(base: u32) -> u32 {
    (base * 2).min(DEPTH_MAX)
}

impl Measured {
    /// A piece took so long among half as many as may be under way. Whether a trial goes on.
    fn half(&mut self, class: usize, ns: u64) -> bool {
        let mean = &mut self.among_half[class];
        *mean = if *mean == 0 { ns } else { *mean - *mean / 8 + ns / 8 }.max(1);
        self.trial = self.trial.saturating_sub(1);
        self.trial > 0
    }

    /// A piece took so long among as many as may be under way, of which clients take so many
    /// places.
    fn all(&mut self, class: usize, ns: u64, limit: u32, places: u32) -> Next {
        self.all.add(class, ns);
        self.tried += 1;
        let mean = self.all.mean();
        if !has_half(limit, places) {
            let may_double = twice(base(limit, places)) > base(limit, places);
            return match mean {
                Some(mean) if may_double && (self.before_ns == 0 || self.tried >= TRIED) => {
                    (self.before_ns, self.tried) = (mean, 0);
                    (self.all, self.double) = (Sum::default(), Sum::default());
                    Next::Double
                }
                _ => Next::Limit(limit),
            };
        }
        let half = self.among_half[class];
        if half == 0 || self.tried >= TRIED {
            (self.tried, self.trial) = (0, TRIAL);
            return Next::Half;
        }
        let Some(mean) = mean else { return Next::Limit(limit) };
        self.all = Sum::default();
        Next::Limit(match mean.saturating_mul(16) {
            // Those that stand in line are too many (J. Little, "A Proof for the Queuing Formula",
            // 1961).
            taken if taken > half.saturating_mul(LONGER) => {
                self.is_settled = true;
                (u64::from(limit) * half / mean) as u32 + 1
            }
            taken if taken > half.saturating_mul(AS_LONG) => limit,
            _ if self.is_settled => limit + 1,
            _ => limit + (limit / STEP_ONE_IN).max(1),
        })
    }

    /// A piece took so long among twice as many as `base`. The limit, once that is known.
    fn double(&mut self, class: usize, ns: u64, limit: u32, base: u32) -> Option<u32> {
        self.double.add(class, ns);
        let mean = self.double.mean()?;
        let is_as_long = mean.saturating_mul(16) <= self.before_ns.saturating_mul(AS_LONG);
        self.is_settled |= !is_as_long;
        Some(if is_as_long { twice(base) } else { limit })
    }
}

impl Depth {
    pub(super) fn new() -> Depth {
        Depth {
            limit: AtomicU32::new(DEPTH_FIRST),
            under_way: AtomicU32::new(0),
            trial: AtomicU8::new(NONE),
            since_ns: AtomicU64::new(0),
            is_alone_read: AtomicBool::new(false),
            beside_ns: AtomicU64::new(0),
            took_ns: AtomicU64::new(TOOK_FIRST_NS),
            measured: Lock::new(Measured {
                among_half: [0; CLASSES],
                all: Sum::default(),
                double: Sum::default(),
                before_ns: 0,
                tried: 0,
                trial: 0,
                is_settled: false,
            }),
        }
    }

    /// Pieces that may be under way beside so many reads of clients: with them, and one more, no
    /// more than what the backing works on at once.
    fn room(&self, reads: u32) -> u32 {
        let (limit, places) = (self.limit.load(Ordering::Relaxed), places(reads));
        let limit = match self.trial.load(Ordering::Relaxed) {
            HALF => half_of(limit, places),
            DOUBLE => twice(base(limit, places)),
            _ => limit,
        };
        limit.saturating_sub(places).max(1)
    }

    /// The same where clients read what belongs to no stream, and will again at any moment.
    fn room_beside(&self, reads: u32) -> u32 {
        let limit = self.limit.load(Ordering::Relaxed);
        let free = limit.saturating_sub(DEPTH_FIRST) / FREE_ONE_IN;
        (limit - free).saturating_sub(places(reads.max(1))).max(1)
    }

    /// A client has read what belongs to no stream.
    pub(super) fn note_alone(&self) {
        self.is_alone_read.store(true, Ordering::Relaxed);
    }

    /// What was taken for that was the beginning of streams.
    pub(super) fn was_none_alone(&self) {
        self.is_alone_read.store(false, Ordering::Relaxed);
        self.beside_ns.store(0, Ordering::Relaxed);
    }

    /// Whether a client has done so lately.
    fn is_beside(&self, now_ns: u64) -> bool {
        if self.is_alone_read.swap(false, Ordering::Relaxed) {
            let for_ns = BESIDE * self.took_ns.load(Ordering::Relaxed);
            self.beside_ns.store(now_ns.saturating_add(for_ns), Ordering::Relaxed);
        }
        now_ns < self.beside_ns.load(Ordering::Relaxed)
    }

    /// Whether a piece may begin, where all reads belong to streams.
    pub(super) fn has_room(&self, reads: u32) -> bool {
        self.under_way.load(Ordering::Relaxed) < self.room(reads)
    }

    /// A piece begins, if it may. It must be told of with [`Depth::end`] or [`Depth::cancel`].
    pub(super) fn begin(&self, now_ns: u64, reads: u32) -> Option<Begun> {
        let is_beside = self.is_beside(now_ns);
        let room = if is_beside { self.room_beside(reads) } else { self.room(reads) };
        let next = |pieces| (pieces < room).then_some(pieces + 1);
        let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.under_way.fetch_update(done, failed, next).ok()?;
        let reads = places(reads);
        Some(Begun { among: before + 1 + reads, reads, is_beside, at_ns: now_ns })
    }

    /// A piece that was begun was not asked for, or has failed.
    pub(super) fn cancel(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// A piece of so many sectors has come.
    pub(super) fn end(&self, begun: Begun, now_ns: u64, sectors: u32) {
        self.cancel();
        let (class, took_ns) = (class_of(sectors), now_ns.saturating_sub(begun.at_ns).max(1));
        self.took_ns.store(took_ns, Ordering::Relaxed);
        if begun.is_beside || begun.at_ns < self.since_ns.load(Ordering::Relaxed) {
            return;
        }
        let limit = self.limit.load(Ordering::Relaxed);
        self.measured.peek(|measured| match self.trial.load(Ordering::Relaxed) {
            DOUBLE => {
                let base = base(limit, begun.reads);
                // Clients may ask for more by now than may be tried: then this ends at once.
                if begun.among * 2 > base + twice(base)
                    && let Some(next) = measured.double(class, took_ns, limit, base)
                {
                    self.try_depth(NONE, now_ns);
                    self.set(next, limit, now_ns);
                }
            }
            trial if has_half(limit, begun.reads) && begun.among <= half_of(limit, begun.reads) => {
                let goes_on = measured.half(class, took_ns);
                self.trial.store(if goes_on { trial } else { NONE }, Ordering::Relaxed);
            }
            // Clients ask for nearly as much by now.
            HALF => self.try_depth(NONE, now_ns),
            _ if begun.among < limit => {}
            _ => match measured.all(class, took_ns, limit, begun.reads) {
                Next::Half => self.try_depth(HALF, now_ns),
                Next::Double => self.try_depth(DOUBLE, now_ns),
                Next::Limit(next) => self.set(next, limit, now_ns),
            },
        });
    }

    /// From now on this depth is tried.
    fn try_depth(&self, trial: u8, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.trial.store(trial, Ordering::Relaxed);
    }

    fn set(&self, next: u32, limit: u32, now_ns: u64) {
        let next = next.clamp(DEPTH_MIN, DEPTH_MAX);
        if next != limit {
            self.since_ns.store(now_ns, Ordering::Relaxed);
            self.limit.store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;

    /// The mean number of pieces and reads under way, in the end, over a backing of so many
    /// servers, each of which takes `ns` for a request, with as many pieces as may be beside so
    /// many reads of clients.
    fn settled(servers: usize, reads: u32, ns: u64) -> u32 {
        settles(&Depth::new(), 0, servers, reads, ns).0
    }

    /// The same of one that has learnt before, from a moment on, and when it ends.
    fn settles(depth: &Depth, begin_ns: u64, servers: usize, reads: u32, ns: u64) -> (u32, u64) {
        let (mut free, mut pieces) = (alloc::vec![begin_ns; servers], VecDeque::new());
        let (mut now, mut sum, mut judged) = (begin_ns, 0, 0);
        let mut serve = |number: u64, now: u64| {
            let server = free.iter_mut().min().expect("one server at least");
            *server = now.max(*server) + ns + number % 7 * ns / 50;
            *server
        };
        for _ in 0..reads {
            pieces.push_back((serve(0, now), None));
        }
        for number in 0..20_000 {
            while let Some(begun) = depth.begin(now, reads) {
                pieces.push_back((serve(number, now), Some(begun)));
            }
            let next = (0..pieces.len()).min_by_key(|place| pieces[*place].0);
            let (end, begun) = next.and_then(|place| pieces.remove(place)).expect("one may begin");
            now = now.max(end);
            match begun {
                Some(begun) => depth.end(begun, now, 256),
                None => pieces.push_back((serve(number, now), None)),
            }
            if number >= 10_000 {
                (sum, judged) = (sum + pieces.len() as u32, judged + 1);
            }
        }
        pieces.iter().filter(|(_, begun)| begun.is_some()).for_each(|_| depth.cancel());
        (sum / judged, now)
    }

    #[test]
    fn as_many_pieces_as_the_backing_works_on_at_once_are_asked_for() {
        for servers in [2, 4, 8, 16, 32] {
            let depth = settled(servers, 0, 1_000_000);
            let servers = servers as u32;
            let around = servers - servers / 8 - 1..=servers + servers / 4 + 2;
            assert!(around.contains(&depth), "{servers} servers: {depth}");
        }
        assert!(settled(1, 0, 1_000_000) <= 3);
    }

    #[test]
    fn so_it_is_beside_clients_that_never_stop_to_read() {
        for (servers, reads) in [(8, 1), (16, 2), (16, 4), (16, 6), (32, 8), (32, 12)] {
            let depth = settled(servers, reads, 1_000_000);
            let servers = servers as u32;
            let around = servers - servers / 4 - 1..=servers + servers / 4 + 2;
            assert!(around.contains(&depth), "{servers} servers, {reads} reads: {depth}");
        }
        // Where clients keep the backing busy by themselves, hardly more than a piece at a time is
        // sent.
        for (servers, reads) in [(1, 1), (1, 4), (2, 4), (4, 8), (8, 16)] {
            let depth = settled(servers, reads, 1_000_000);
            assert!(depth <= reads + reads / 8 + 2, "{servers} servers, {reads} reads: {depth}");
        }
    }

    #[test]
    fn less_is_asked_for_beside_clients_too_when_the_backing_works_on_less() {
        for (before, after, reads) in [(32, 8, 12), (16, 4, 6), (32, 2, 8)] {
            let depth = Depth::new();
            let (many, now) = settles(&depth, 0, before, reads, 1_000_000);
            assert!(many > 2 * reads, "{many}");
            let (few, _) = settles(&depth, now, after, reads, 1_000_000);
            assert!(few <= reads + reads / 4 + 2, "{after} servers, {reads} reads: {few}");
        }
    }

    #[test]
    fn the_largest_depth_is_not_kept_when_clients_have_left_and_less_is_worked_on() {
        let depth = Depth::new();
        let (many, now) = settles(&depth, 0, 128, 40, 1_000_000);
        assert!(many > 48, "{many}");
        let (few, _) = settles(&depth, now, 4, 0, 1_000_000);
        assert!(few <= 6, "{few}");
    }

    #[test]
    fn clients_reads_leave_less_for_pieces() {
        let depth = Depth::new();
        depth.limit.store(16, Ordering::Relaxed);
        assert_eq!([0, 1, 8, 15, 100].map(|reads| depth.room(reads)), [16, 14, 7, 1, 1]);
    }
}
