//! The number of pieces in flight to the backing.
//!
//! The depth grows as long as a piece takes about the same time as at half the depth: then the
//! backing works on all pieces in parallel. Where a piece takes longer, pieces queue, and so would
//! a client's own reads. From time to time only half the depth is used, to measure the time there.
//! (The idea of TCP Vegas, Brakmo and Peterson, SIGCOMM 1994; with means, because the minimum time
//! of a drive says little about its usual time.)
//!
//! Clients' reads of the backing are interleaved with the pieces, and are counted with them. Where
//! clients alone use more than half of the depth, the smallest possible trial is one piece beside
//! them; where that is hardly less than the full depth, a few pieces are sent at twice the depth
//! instead.
//!
//! Reads outside streams gain nothing from the depth: no other depth is tried beside them, because
//! they would wait.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use lane::Lock;

/// Maximum number of pieces in flight.
const DEPTH_MAX: u32 = 64;
/// The depth before any measurement.
const DEPTH_FIRST: u32 = 4;
/// Minimum depth of which half can be tried.
const DEPTH_MIN: u32 = 2;
/// A piece whose time, in 16ths of that at half the depth, is at most this does not queue ...
const AS_LONG: u64 = 17;
/// ... and one whose time is above this does.
const LONGER: u64 = 20;
/// Pieces at the full depth that are enough for a judgement.
const JUDGED: u64 = 4;
/// Pieces at the full depth after which another depth is tried, and pieces at half the depth that
/// are enough.
const TRIED: u32 = 256;
const TRIAL: u32 = 4;
/// The depth grows by one part in this number of itself, until it was too large once.
const STEP_ONE_IN: u32 = 4;
/// After a read outside streams, a client may read again within this multiple of a piece's time.
const BESIDE: u64 = 8;
/// The time of a piece before the first measurement, in nanoseconds.
const TOOK_FIRST_NS: u64 = 1_000_000;
/// Beside reads outside streams, one part in this number of the depth beyond [`DEPTH_FIRST`] is
/// left free: the depth is the parallelism of the backing, or somewhat more.
const FREE_ONE_IN: u32 = 4;
/// Size classes of pieces: 8, 16, 32 ... sectors.
const CLASSES: usize = 10;

/// The depth that is tried: none, half of the limit (or the smallest that clients allow), or twice
/// the limit.
const NONE: u8 = 0;
const HALF: u8 = 1;
const DOUBLE: u8 = 2;

/// The number of pieces in flight, with its limit and the measurements.
#[derive(Debug)]
pub(super) struct Depth {
    limit: AtomicU32,
    under_way: AtomicU32,
    /// The depth that is tried.
    trial: AtomicU8,
    /// Since when this has been the limit, or is tried: pieces that began before do not count.
    since_ns: AtomicU64,
    /// A read outside streams has occurred since a piece began.
    has_lone_read: AtomicBool,
    /// Until when pieces count as beside such reads.
    beside_ns: AtomicU64,
    /// The time of the last piece, in nanoseconds.
    took_ns: AtomicU64,
    measured: Lock<Measured>,
}

/// Times of pieces.
#[derive(Debug)]
struct Measured {
    /// At half of the limit, or the smallest depth that clients allow, by size; 0: not measured
    /// yet. In nanoseconds.
    among_half: [u64; CLASSES],
    /// At the full depth, since the limit was judged.
    all: Sum,
    /// At twice the depth, while that is tried.
    double: Sum,
    /// At the full depth, when that trial began.
    before_ns: u64,
    /// Pieces at the full depth since another depth was tried.
    tried: u32,
    /// Pieces that are still to be measured at half of the depth.
    trial: u32,
    /// A depth was once too large: from then on it grows by one at a time.
    is_settled: bool,
}

/// Times of pieces of one size.
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

    /// Returns the mean, if there are enough pieces.
    fn mean(&self) -> Option<u64> {
        (self.pieces >= JUDGED).then(|| (self.ns / self.pieces).max(1))
    }
}

/// A piece in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// Pieces and reads of clients in flight, including this piece, and the place that is left free
    /// beside those reads.
    among: u32,
    /// Reads of clients, with that place.
    reads: u32,
    /// Reads outside streams occur at the same time.
    is_beside: bool,
    at_ns: u64,
}

/// The next step after a piece has been measured.
enum Next {
    /// Set this limit.
    Limit(u32),
    /// Try half of the limit, or the smallest depth that clients allow.
    Half,
    /// Try twice the limit.
    Double,
}

fn class_of(sectors: u32) -> usize {
    (sectors.max(8).ilog2() as usize - 3).min(CLASSES - 1)
}

/// Returns the number of clients' reads, with a place that is left free for the next one.
fn places(reads: u32) -> u32 {
    if reads == 0 { 0 } else { reads + 1 }
}

/// Returns the depth that is tried as half of a limit, where clients use `places` places: at least
/// one piece.
fn half_of(limit: u32, places: u32) -> u32 {
    if places == 0 { limit / 2 } else { (limit / 2).max(places + 1) }
}

/// Whether that is sufficiently below the limit for a comparison.
fn has_half(limit: u32, places: u32) -> bool {
    u64::from(half_of(limit, places)) * LONGER <= u64::from(limit) * 16
}

/// Returns the depth of which twice is tried, where clients use `places` places.
fn base(limit: u32, places: u32) -> u32 {
    limit.max(places + 1)
}

/// Returns twice the depth, up to the maximum.
fn twice(base: u32) -> u32 {
    (base * 2).min(DEPTH_MAX)
}

impl Measured {
    /// Records the time of a piece at half the depth. Returns whether the trial continues.
    fn half(&mut self, class: usize, ns: u64) -> bool {
        let mean = &mut self.among_half[class];
        *mean = if *mean == 0 { ns } else { *mean - *mean / 8 + ns / 8 }.max(1);
        self.trial = self.trial.saturating_sub(1);
        self.trial > 0
    }

    /// Records the time of a piece at the full depth, of which clients use `places` places. Returns
    /// the next step.
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
            // The pieces that queue are too many (J. Little, "A Proof for the Queuing Formula",
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

    /// Records the time of a piece at twice the depth. Returns the limit when it is decided.
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
            has_lone_read: AtomicBool::new(false),
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

    /// Returns the number of pieces that may be in flight beside these reads of clients: together
    /// with the reads, and one more, at most the parallelism of the backing.
    fn room(&self, reads: u32) -> u32 {
        let (limit, places) = (self.limit.load(Ordering::Relaxed), places(reads));
        let limit = match self.trial.load(Ordering::Relaxed) {
            HALF => half_of(limit, places),
            DOUBLE => twice(base(limit, places)),
            _ => limit,
        };
        limit.saturating_sub(places).max(1)
    }

    /// Returns the same number where clients read outside streams, and may do so again at any
    /// moment.
    fn room_beside(&self, reads: u32) -> u32 {
        let limit = self.limit.load(Ordering::Relaxed);
        let free = limit.saturating_sub(DEPTH_FIRST) / FREE_ONE_IN;
        (limit - free).saturating_sub(places(reads.max(1))).max(1)
    }

    /// Notes a read outside streams.
    pub(super) fn note_lone_read(&self) {
        self.has_lone_read.store(true, Ordering::Relaxed);
    }

    /// Cancels such notes: those reads were the beginning of streams.
    pub(super) fn cancel_lone_reads(&self) {
        self.has_lone_read.store(false, Ordering::Relaxed);
        self.beside_ns.store(0, Ordering::Relaxed);
    }

    /// Whether a client has recently read outside streams.
    fn is_beside(&self, now_ns: u64) -> bool {
        if self.has_lone_read.swap(false, Ordering::Relaxed) {
            let for_ns = BESIDE * self.took_ns.load(Ordering::Relaxed);
            self.beside_ns.store(now_ns.saturating_add(for_ns), Ordering::Relaxed);
        }
        now_ns < self.beside_ns.load(Ordering::Relaxed)
    }

    /// Whether a piece may begin, where all reads belong to streams.
    pub(super) fn has_room(&self, reads: u32) -> bool {
        self.under_way.load(Ordering::Relaxed) < self.room(reads)
    }

    /// Begins a piece, if allowed. It must be ended with [`Depth::end`] or [`Depth::cancel`].
    pub(super) fn begin(&self, now_ns: u64, reads: u32) -> Option<Begun> {
        let is_beside = self.is_beside(now_ns);
        let room = if is_beside { self.room_beside(reads) } else { self.room(reads) };
        let next = |pieces| (pieces < room).then_some(pieces + 1);
        let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.under_way.fetch_update(done, failed, next).ok()?;
        let reads = places(reads);
        Some(Begun { among: before + 1 + reads, reads, is_beside, at_ns: now_ns })
    }

    /// Ends a piece that was begun and was not requested, or has failed.
    pub(super) fn cancel(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends a piece of `sectors` sectors that has arrived.
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
                // Clients may use more by now than may be tried: then every piece counts, so that
                // the trial ends soon.
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
            // Clients use nearly the full depth by now.
            HALF => self.try_depth(NONE, now_ns),
            _ if begun.among < limit => {}
            _ => match measured.all(class, took_ns, limit, begun.reads) {
                Next::Half => self.try_depth(HALF, now_ns),
                Next::Double => self.try_depth(DOUBLE, now_ns),
                Next::Limit(next) => self.set(next, limit, now_ns),
            },
        });
    }

    /// Begins to try this depth.
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

    /// Returns the mean number of pieces and reads in flight at the end, over a backing of
    /// `servers` servers that each take `ns` for a request, with as many pieces as allowed beside
    /// `reads` reads of clients.
    fn settled(servers: usize, reads: u32, ns: u64) -> u32 {
        settles(&Depth::new(), 0, servers, reads, ns).0
    }

    /// Returns the same for a depth with earlier measurements, from `begin_ns` on, and the time of
    /// the end.
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
        // Where clients alone keep the backing busy, hardly more than one piece at a time is sent.
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
