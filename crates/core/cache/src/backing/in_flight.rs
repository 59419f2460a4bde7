//! Detection of a backing that does not answer (C8).
//!
//! A request is counted in the generation in which it is sent. A generation ends with a tick, and
//! the next one is any empty generation. One that is still not empty [`TICKS`] ticks after its end
//! has a request that hangs. This costs two additions per request and no memory, under any load.
//!
//! ```text
//! tick        0     1     2     3     4     5
//! generation  |--0--|--1--|--2--|--3--|--4--|      requests sent in 0 and not answered at tick 5
//!                   '----- 4 ticks = time -----'   have waited for at least four ticks
//! ```
//!
//! Ticks are counted instead of the clock: for a process that was stopped for a minute, the backing
//! has not hung for a minute.

use lane::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The number of ticks in the time that a request may take.
pub(crate) const TICKS: u8 = 4;
const GENERATIONS: usize = TICKS as usize + 1;

/// The purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestKind {
    Read = 0,
    Change = 1,
    /// A read ahead of a stream.
    Readahead = 2,
    Flush = 3,
}

const KINDS: usize = 4;

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    generation: u8,
    kind: RequestKind,
}

/// The requests that the backing has not answered, by generation.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    current: AtomicUsize,
    waiting: [[AtomicU32; KINDS]; GENERATIONS],
}

/// The number of ticks since each generation ended. The ticking task owns it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ages([u8; GENERATIONS]);

/// The kinds of requests that were not answered in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overdue {
    pub(crate) reads: bool,
    pub(crate) changes: bool,
}

impl InFlight {
    /// Counts a request that is sent.
    #[inline]
    pub(crate) fn note_sent(&self, kind: RequestKind) -> Sent {
        let current = self.current.load(Ordering::Relaxed);
        self.waiting[current][kind as usize].fetch_add(1, Ordering::Relaxed);
        Sent { generation: current as u8, kind }
    }

    /// Counts its answer.
    #[inline]
    pub(crate) fn note_answered(&self, sent: Sent) {
        let waiting = &self.waiting[usize::from(sent.generation)];
        waiting[sent.kind as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of requests of a kind that were sent and are not answered.
    pub(crate) fn waiting(&self, kind: RequestKind) -> u32 {
        let counts =
            self.waiting.iter().map(|waiting| waiting[kind as usize].load(Ordering::Relaxed));
        counts.sum()
    }

    fn waits(&self, generation: usize, kind: RequestKind) -> bool {
        self.waiting[generation][kind as usize].load(Ordering::Relaxed) > 0
    }

    fn is_empty(&self, generation: usize) -> bool {
        self.waiting[generation].iter().all(|waiting| waiting.load(Ordering::Relaxed) == 0)
    }

    /// Ends a quarter of the time that a request may take. Returns the overdue requests.
    pub(crate) fn tick(&self, ages: &mut Ages) -> Overdue {
        let current = self.current.load(Ordering::Relaxed);
        let mut overdue = Overdue::default();
        for (generation, age) in ages.0.iter_mut().enumerate() {
            if generation == current || self.is_empty(generation) {
                *age = 0;
                continue;
            }
            *age = age.saturating_add(1);
            if *age >= TICKS {
                // Reads of clients may have joined a readahead.
                overdue.reads |= self.waits(generation, RequestKind::Read)
                    || self.waits(generation, RequestKind::Readahead);
                overdue.changes |= self.waits(generation, RequestKind::Change)
                    || self.waits(generation, RequestKind::Flush);
            }
        }
        // If all are in use, each has a request that hangs: the current one stays until one is
        // empty.
        let next = (1..GENERATIONS).map(|step| (current + step) % GENERATIONS);
        if let Some(next) = next.into_iter().find(|&next| self.is_empty(next)) {
            self.current.store(next, Ordering::Relaxed);
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Overdue = Overdue { reads: false, changes: false };

    #[test]
    fn what_is_answered_in_time_is_never_overdue() {
        let (in_flight, mut ages) = (InFlight::default(), Ages::default());
        let mut open = [None; 4];
        for tick in 0..100 {
            if let Some(sent) = open[tick % 4].replace(in_flight.note_sent(RequestKind::Change)) {
                in_flight.note_answered(sent);
            }
            assert_eq!(in_flight.tick(&mut ages), NONE, "tick {tick}");
        }
    }

    #[test]
    fn a_hang_is_noticed_after_the_time_and_not_before_and_ends_with_its_answer() {
        for earlier in 0..7 {
            let (in_flight, mut ages) = (InFlight::default(), Ages::default());
            (0..earlier).for_each(|_| _ = in_flight.tick(&mut ages));
            let sent = in_flight.note_sent(RequestKind::Read);
            for tick in 0..5 {
                // Other requests are sent and answered in between.
                in_flight.note_answered(in_flight.note_sent(RequestKind::Change));
                let expected = Overdue { reads: tick == 4, ..NONE };
                assert_eq!(in_flight.tick(&mut ages), expected, "{earlier} before, tick {tick}");
            }
            for _ in 0..20 {
                assert!(in_flight.tick(&mut ages).reads);
            }
            in_flight.note_answered(sent);
            assert_eq!(in_flight.tick(&mut ages), NONE);
        }
    }

    #[test]
    fn reads_and_changes_are_distinguished_and_all_generations_may_hang() {
        let (in_flight, mut ages) = (InFlight::default(), Ages::default());
        let mut open = alloc::vec::Vec::new();
        for _ in 0..20 {
            open.push(in_flight.note_sent(RequestKind::Read));
            let overdue = in_flight.tick(&mut ages);
            assert!(!overdue.changes);
        }
        assert!(in_flight.tick(&mut ages).reads);
        open.push(in_flight.note_sent(RequestKind::Change));
        open.drain(..).for_each(|sent| in_flight.note_answered(sent));
        assert_eq!(in_flight.tick(&mut ages), NONE);
        let sent = in_flight.note_sent(RequestKind::Change);
        (0..4).for_each(|_| assert_eq!(in_flight.tick(&mut ages), NONE));
        assert_eq!(in_flight.tick(&mut ages), Overdue { changes: true, reads: false });
        in_flight.note_answered(sent);
    }
}
