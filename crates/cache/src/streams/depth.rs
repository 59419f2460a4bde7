//! How many pieces the backing is asked for at a time.
//!
//! More are asked for as long as a piece takes about as long among so many as among half as many: then the backing
//! works on all of them at once. Where it takes longer, pieces stand in line, and so would a client's own reads. Now
//! and then only half as many are asked for, to see how long that takes. (The idea of TCP Vegas, Brakmo and Peterson,
//! SIGCOMM 1994; with means, because the least time of a drive says little of its usual one.)

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
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
/// Pieces at the full depth after which half is tried, and at half that are enough.
const TRIED: u32 = 256;
const TRIAL: u32 = 4;
/// How much the depth grows, as a part of it, as long as none was too much.
const STEP_ONE_IN: u32 = 4;
/// Size classes of pieces: 8, 16, 32 ... sectors.
const CLASSES: usize = 10;

/// How many pieces may be under way, and what tells.
#[derive(Debug)]
pub(super) struct Depth {
    limit: AtomicU32,
    under_way: AtomicU32,
    /// Only half as many may be, for a trial.
    halved: AtomicBool,
    /// Since when this has been the limit: what began before tells nothing of it.
    since_ns: AtomicU64,
    measured: Lock<Measured>,
}

/// What pieces take.
#[derive(Debug)]
struct Measured {
    /// Among half as many as may be under way, by size; 0: not measured yet. In nanoseconds.
    among_half: [u64; CLASSES],
    /// Among all, since the limit was judged: of one size, the sum and how many.
    class: usize,
    sum_ns: u64,
    pieces: u64,
    /// Since half was tried, and while that lasts.
    tried: u32,
    trial: u32,
    /// A depth was too much once: from then on it grows by one at a time.
    is_settled: bool,
}

/// A piece under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    among: u32,
    at_ns: u64,
}

fn class_of(sectors: u32) -> usize {
    (sectors.max(8).ilog2() as usize - 3).min(CLASSES - 1)
}

impl Measured {
    /// A piece took so long among half as many as may be under way. Whether a trial goes on.
    fn half(&mut self, class: usize, ns: u64) -> bool {
        let mean = &mut self.among_half[class];
        *mean = if *mean == 0 { ns } else { *mean - *mean / 8 + ns / 8 }.max(1);
        self.trial = self.trial.saturating_sub(1);
        self.trial > 0
    }

    /// A piece took so long among as many as may be under way. The next limit, if that is known; None: half of it is to
    /// be tried.
    fn all(&mut self, class: usize, ns: u64, limit: u32) -> Option<u32> {
        if self.class != class {
            (self.class, self.sum_ns, self.pieces) = (class, 0, 0);
        }
        self.sum_ns += ns;
        self.pieces += 1;
        self.tried += 1;
        let half = self.among_half[class];
        if half == 0 || self.tried >= TRIED {
            (self.tried, self.trial) = (0, TRIAL);
            return None;
        }
        if self.pieces < JUDGED {
            return Some(limit);
        }
        let mean = (self.sum_ns / self.pieces).max(1);
        (self.sum_ns, self.pieces) = (0, 0);
        Some(match mean.saturating_mul(16) {
            // Those that stand in line are too many (J. Little, "A Proof for the Queuing Formula", 1961).
            taken if taken > half.saturating_mul(LONGER) => {
                self.is_settled = true;
                (u64::from(limit) * half / mean) as u32 + 1
            }
            taken if taken > half.saturating_mul(AS_LONG) => limit,
            _ if self.is_settled => limit + 1,
            _ => limit + (limit / STEP_ONE_IN).max(1),
        })
    }
}

impl Depth {
    pub(super) fn new() -> Depth {
        Depth {
            limit: AtomicU32::new(DEPTH_FIRST),
            under_way: AtomicU32::new(0),
            halved: AtomicBool::new(false),
            since_ns: AtomicU64::new(0),
            measured: Lock::new(Measured {
                among_half: [0; CLASSES],
                class: 0,
                sum_ns: 0,
                pieces: 0,
                tried: 0,
                trial: 0,
                is_settled: false,
            }),
        }
    }

    /// Pieces that may be under way beside so many reads of clients: with them, and one more, no more than what the
    /// backing works on at once.
    fn room(&self, reads: u32) -> u32 {
        let limit = self.limit.load(Ordering::Relaxed);
        let limit = if self.halved.load(Ordering::Relaxed) { limit / 2 } else { limit };
        if reads == 0 { limit } else { limit.saturating_sub(reads + 1).max(1) }
    }

    /// Whether a piece may begin.
    pub(super) fn has_room(&self, reads: u32) -> bool {
        self.under_way.load(Ordering::Relaxed) < self.room(reads)
    }

    /// A piece begins, if it may. It must be told of with [`Depth::end`] or [`Depth::cancel`].
    pub(super) fn begin(&self, now_ns: u64, reads: u32) -> Option<Begun> {
        let room = self.room(reads);
        let next = |pieces| (pieces < room).then_some(pieces + 1);
        let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.under_way.fetch_update(done, failed, next).ok()?;
        Some(Begun { among: before + 1, at_ns: now_ns })
    }

    /// A piece that was begun was not asked for, or has failed.
    pub(super) fn cancel(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// A piece of so many sectors has come. `is_alone`: no client's read is under way.
    pub(super) fn end(&self, begun: Begun, now_ns: u64, sectors: u32, is_alone: bool) {
        self.cancel();
        let limit = self.limit.load(Ordering::Relaxed);
        let is_of_now = begun.at_ns >= self.since_ns.load(Ordering::Relaxed);
        if !is_alone || !is_of_now || begun.among > limit / 2 && begun.among < limit {
            return;
        }
        let (class, took_ns) = (class_of(sectors), now_ns.saturating_sub(begun.at_ns).max(1));
        self.measured.peek(|measured| {
            if begun.among <= limit / 2 {
                let goes_on = measured.half(class, took_ns);
                return self.halved.store(goes_on, Ordering::Relaxed);
            }
            match measured.all(class, took_ns, limit) {
                None => self.halved.store(true, Ordering::Relaxed),
                Some(next) => self.set(next.clamp(DEPTH_MIN, DEPTH_MAX), limit, now_ns),
            }
        });
    }

    fn set(&self, next: u32, limit: u32, now_ns: u64) {
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

    /// The mean depth in the end over a backing of so many servers, each of which takes `ns` for a piece, with as many
    /// pieces as may be.
    fn settled(servers: usize, ns: u64) -> u32 {
        let depth = Depth::new();
        let (mut free, mut pieces) = (alloc::vec![0; servers], VecDeque::new());
        let (mut now, mut sum) = (0, 0);
        for piece in 0..20_000 {
            while let Some(begun) = depth.begin(now, 0) {
                let server = free.iter_mut().min().expect("one server at least");
                *server = now.max(*server) + ns + piece % 7 * ns / 50;
                pieces.push_back((*server, begun));
            }
            let (end, begun) = pieces.pop_front().expect("one may always begin");
            now = now.max(end);
            depth.end(begun, now, 256, true);
            sum += if piece >= 10_000 { depth.limit.load(Ordering::Relaxed) } else { 0 };
        }
        sum / 10_000
    }

    #[test]
    fn as_many_pieces_as_the_backing_works_on_at_once_are_asked_for() {
        for servers in [2, 4, 8, 16, 32] {
            let depth = settled(servers, 1_000_000);
            let servers = servers as u32;
            let around = servers - servers / 8..=servers + servers / 4 + 2;
            assert!(around.contains(&depth), "{servers} servers: {depth}");
        }
        assert!(settled(1, 1_000_000) <= 3);
    }

    #[test]
    fn clients_reads_leave_less_for_pieces() {
        let depth = Depth::new();
        depth.limit.store(16, Ordering::Relaxed);
        assert_eq!([0, 1, 8, 15, 100].map(|reads| depth.room(reads)), [16, 14, 7, 1, 1]);
    }
}
