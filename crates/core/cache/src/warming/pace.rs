//! The number of pieces of the list in flight: below clients' requests.
//!
//! The *window* is the number of requests that the backing seems to serve in parallel. It grows
//! until pieces take longer than they did at first: then some wait in a queue, as clients' requests
//! would. From then on a part of the window stays free for the next request of a client, and the
//! window is tried again only now and then. (The readahead of streams has its own depth,
//! `streams/depth.rs`: a client waits for its pieces, so it may always have one, and may disturb
//! others in order to learn.)

/// The window before any measurement: one piece beside clients.
const WINDOW_FIRST: u32 = 3;
/// Maximum window.
const WINDOW_MAX: u32 = 64;
/// The parallelism that is assumed until a window was too large.
const DEPTH_FIRST: u32 = 32;
/// Places that stay free: one part in this number of the window, but at least these numbers while
/// no client has read for a while, and otherwise.
const FREE_ONE_IN: u32 = 4;
const FREE_QUIET: u32 = 1;
const FREE: u32 = 2;
/// A client's read is recent for this time, and for this number of times of a piece.
const RECENT_NS: u64 = 100_000_000;
const RECENT_PIECES: u64 = 16;
/// Pieces of one size in the full window that are enough for a judgement.
const JUDGED: u32 = 8;
/// Judgements after which a window that was once too large grows again, by one: rarely, because
/// clients wait while it is too large.
const TRIED: u32 = 4096;
/// Pieces queue if their time, in 16ths of the minimum mean, is above this.
const LONGER: u64 = 18;
/// Size classes of pieces: 1, 2, 4 ... 64 blocks.
const CLASSES: usize = 7;

fn class_of(blocks: u32) -> usize {
    (blocks.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// The window, and the pieces in flight.
#[derive(Debug)]
pub(super) struct Pace {
    window: u32,
    in_flight: u32,
    /// Minimum mean time of pieces, by size, in nanoseconds; 0: not measured yet.
    least_ns: [u64; CLASSES],
    /// Pieces in the full window since the last judgement, and the sum of their times, by size.
    pieces: [u32; CLASSES],
    sum_ns: [u64; CLASSES],
    took_ns: u64,
    /// Number of judgements, modulo 2^32: pieces that began before the last one do not count.
    round: u32,
    /// A window was once too large.
    is_settled: bool,
    /// Judgements since then.
    judged: u32,
    /// The backing serves one request after the other: a client would wait for each piece.
    is_serial: bool,
}

/// A piece in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    at_ns: u64,
    /// The judgements before it.
    round: u32,
    /// Requests in flight, with this one, if it took the last place that was allowed.
    among: Option<u32>,
}

impl Pace {
    pub(super) const FIRST: Pace = Pace {
        window: WINDOW_FIRST,
        in_flight: 0,
        least_ns: [0; CLASSES],
        pieces: [0; CLASSES],
        sum_ns: [0; CLASSES],
        took_ns: 0,
        round: 0,
        is_settled: false,
        judged: 0,
        is_serial: false,
    };

    /// Returns the number of requests that the backing may serve in parallel, as far as is known.
    pub(super) fn depth(&self) -> u32 {
        if self.is_settled { self.window } else { self.window.max(DEPTH_FIRST) }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Returns the number of pieces that may be in flight beside `others` other requests, where a
    /// client has last read `since_read_ns` ago.
    fn allowed(&self, others: u32, since_read_ns: u64) -> u32 {
        let recent_ns = RECENT_NS.max(self.took_ns.saturating_mul(RECENT_PIECES));
        let is_quiet = others == 0 && since_read_ns > recent_ns;
        if is_quiet {
            return self.window - (self.window / FREE_ONE_IN).max(FREE_QUIET);
        }
        if self.is_serial {
            return 0;
        }
        self.window.saturating_sub((self.window / FREE_ONE_IN).max(FREE).max(others + 1))
    }

    /// Whether a piece may begin.
    pub(super) fn has_room(&self, others: u32, since_read_ns: u64) -> bool {
        self.in_flight < self.allowed(others, since_read_ns)
    }

    /// Begins a piece, if allowed. It must be ended.
    pub(super) fn begin(&mut self, now_ns: u64, others: u32, since_read_ns: u64) -> Option<Begun> {
        let allowed = self.allowed(others, since_read_ns);
        if self.in_flight >= allowed {
            return None;
        }
        self.in_flight += 1;
        let among = (self.in_flight == allowed).then_some(self.in_flight + others);
        Some(Begun { at_ns: now_ns, round: self.round, among })
    }

    /// Ends a piece that was not requested, or has failed.
    pub(super) fn cancel(&mut self) {
        self.in_flight -= 1;
    }

    /// Ends a piece that has arrived. `block_ns`: the time that one more block takes, so that
    /// pieces of one class but of different lengths are comparable.
    pub(super) fn end(&mut self, begun: Begun, now_ns: u64, blocks: u32, block_ns: u64) {
        self.cancel();
        self.took_ns = now_ns.saturating_sub(begun.at_ns).max(1);
        let Some(among) = begun.among.filter(|_| begun.round == self.round) else { return };
        let class = class_of(blocks);
        let more_ns = block_ns.saturating_mul(u64::from(blocks.max(1) - (1 << class)));
        self.pieces[class] += 1;
        self.sum_ns[class] += self.took_ns - more_ns.min(self.took_ns / 2);
        if self.pieces[class] == JUDGED {
            let mean_ns = (self.sum_ns[class] / u64::from(JUDGED)).max(1);
            (self.pieces, self.sum_ns) = ([0; CLASSES], [0; CLASSES]);
            self.round = self.round.wrapping_add(1);
            self.judge(class, mean_ns, among);
        }
    }

    fn judge(&mut self, class: usize, mean_ns: u64, among: u32) {
        let least_ns = &mut self.least_ns[class];
        if *least_ns == 0 || mean_ns < *least_ns {
            *least_ns = mean_ns;
        }
        let window = if mean_ns.saturating_mul(16) > least_ns.saturating_mul(LONGER) {
            (self.is_settled, self.is_serial, self.judged) = (true, among <= 2, 0);
            (u64::from(among) * *least_ns / mean_ns) as u32
        } else if !self.is_settled {
            self.window + (self.window / FREE_ONE_IN).max(1)
        } else {
            self.judged += 1;
            self.window + u32::from(self.judged.is_multiple_of(TRIED))
        };
        self.window = window.clamp(WINDOW_FIRST, WINDOW_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: u64 = u64::MAX;
    const PIECE_NS: u64 = 500_000;

    /// Ends pieces over a backing of this number of servers, of which clients use none.
    fn learn(pace: &mut Pace, servers: u32, rounds: u32) {
        let mut now_ns = 0;
        for _ in 0..rounds {
            let begun: alloc::vec::Vec<_> =
                core::iter::from_fn(|| pace.begin(now_ns, 0, 0)).collect();
            if begun.is_empty() {
                return;
            }
            let took_ns = PIECE_NS * (begun.len() as u64).max(servers.into()) / u64::from(servers);
            now_ns += took_ns;
            begun.iter().for_each(|begun| pace.end(*begun, now_ns, 1, 0));
        }
    }

    #[test]
    fn it_finds_the_servers_and_leaves_some_free() {
        for servers in [4, 16, 40] {
            let mut pace = Pace::FIRST;
            learn(&mut pace, servers, 2000);
            let allowed = pace.allowed(0, 0);
            assert!(allowed >= servers / 2 && allowed < servers, "{servers}: {allowed}");
        }
    }

    /// Ends pieces one by one over a backing of this number of servers, each of which takes the
    /// piece that has waited longest; each end makes room for new ones.
    fn serve(pace: &mut Pace, servers: usize, pieces: u32) {
        let (mut free_at, mut now_ns) = (alloc::vec![0; servers], 0);
        let mut in_flight = alloc::collections::VecDeque::new();
        for _ in 0..pieces {
            while let Some(begun) = pace.begin(now_ns, 0, 0) {
                let server = free_at.iter_mut().min().expect("there is one");
                *server = now_ns.max(*server) + PIECE_NS;
                in_flight.push_back((begun, *server));
            }
            let (begun, until_ns) = in_flight.pop_front().expect("there is room for one");
            now_ns = until_ns;
            pace.end(begun, now_ns, 1, 0);
        }
    }

    #[test]
    fn pieces_of_a_window_that_was_too_large_do_not_make_it_smaller_twice() {
        for servers in [4, 16, 40] {
            let mut pace = Pace::FIRST;
            serve(&mut pace, servers, 2000);
            let (allowed, servers) = (pace.allowed(0, 0), servers as u32);
            assert!(pace.is_settled || servers > WINDOW_MAX / 2, "{servers}: {pace:?}");
            assert!(allowed >= servers / 2 && allowed < servers, "{servers}: {allowed}");
        }
    }

    #[test]
    fn over_a_backing_without_parallelism_it_waits_for_quiet_times() {
        let mut pace = Pace::FIRST;
        assert_eq!(pace.allowed(0, 0), 1);
        learn(&mut pace, 1, 2000);
        assert_eq!((pace.allowed(0, 0), pace.allowed(1, NEVER)), (0, 0));
        assert!(pace.allowed(0, NEVER) >= 1);
    }

    #[test]
    fn requests_of_clients_take_its_places() {
        let pace = Pace { window: 16, ..Pace::FIRST };
        assert_eq!(
            [0, 1, 4, 8, 14, 15, 90].map(|reads| pace.allowed(reads, 0)),
            [12, 12, 11, 7, 1, 0, 0]
        );
        assert_eq!(pace.allowed(0, NEVER), 12);
        assert_eq!(Pace { window: 4, ..Pace::FIRST }.allowed(0, 0), 2);
    }
}
