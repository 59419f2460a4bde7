//! Requests from the events of their steps.
//!
//! Tracepoints do not number requests. Events of one device belong to the same request if the
//! operation and the first sector are the same; of several such requests the oldest one is taken.

use std::collections::BTreeMap;
use std::ops::Range;
use trace::recording::Entry;
use trace::{BlockEvent, Event, Operation, Processes, Step};

/// Maximum number of requests in flight that are followed; beyond it the oldest one is given up.
const PENDING_MAX: usize = 1 << 14;

/// Counts of a [`Matcher`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Matched {
    /// Requests of which no answer was seen: in flight at the end, or the event was lost.
    pub unanswered: u64,
    /// Answers to requests that began before the recording, or whose event was lost.
    pub unknown_answers: u64,
    /// Requests in the scheduler's queue that were not sent: merged into others, or still waiting.
    pub merged: u64,
    /// Events of commands that a recording cannot express.
    pub others: u64,
}

/// Makes requests of events, in the order of the answers.
pub struct Matcher {
    /// The sectors that are recorded; others are skipped. They are numbered from its start.
    range: Range<u64>,
    /// Clock of the trace at the start, in nanoseconds.
    begin_ns: u64,
    pending: BTreeMap<Key, Pending>,
    /// Keys by their age.
    ages: BTreeMap<u64, Key>,
    next: u64,
    processes: Processes,
    matched: Matched,
}

/// Class of the operation, first sector, age.
type Key = (u8, u64, u64);

#[derive(Clone, Copy)]
struct Pending {
    entry: Entry,
    /// Sectors without an answer; they end where the request ends.
    left: u32,
    is_sent: bool,
}

impl Matcher {
    /// Returns a matcher of the requests to these sectors of one device. Its times begin at
    /// `begin_ns` by the clock of the events.
    pub fn new(range: Range<u64>, begin_ns: u64) -> Matcher {
        let (pending, ages, matched) = (BTreeMap::new(), BTreeMap::new(), Matched::default());
        Matcher {
            range,
            begin_ns,
            pending,
            ages,
            next: 0,
            processes: Processes::default(),
            matched,
        }
    }

    /// Returns the names of the processes, by the numbers in the entries.
    pub fn processes(&self) -> &[String] {
        self.processes.names()
    }

    /// Returns the counts.
    pub fn matched(&self) -> Matched {
        self.matched
    }

    /// Takes the next event. Returns a request if it is complete, or was given up.
    pub fn feed(&mut self, event: &BlockEvent<'_>) -> Option<Entry> {
        let Some(operation) = event.operation else {
            self.matched.others += u64::from(event.step == Step::Issue);
            return None;
        };
        let is_flush = operation == Operation::Flush;
        if !is_flush && !self.range.contains(&event.first) {
            return None;
        }
        let found = self.find(operation, event.first);
        match (event.step, found) {
            (Step::Insert, _) => self.begin(event, operation, false),
            (Step::Issue, Some(key)) if self.pending.get(&key).is_some_and(|it| !it.is_sent) => {
                self.send(key, event);
                None
            }
            (Step::Issue, _) => self.begin(event, operation, true),
            (Step::Requeue, Some(key)) => {
                let pending = self.pending.get_mut(&key)?;
                (pending.is_sent, pending.entry.sent_ns) = (false, None);
                None
            }
            (Step::Merge, Some(key)) => {
                self.matched.merged += 1;
                self.remove(key);
                None
            }
            (Step::Complete, Some(key)) => self.answer(key, event),
            (Step::Complete, None) => {
                self.matched.unknown_answers += 1;
                None
            }
            (Step::Requeue | Step::Merge, None) => None,
        }
    }

    /// Returns the requests that are in flight, and forgets all.
    pub fn finish(&mut self) -> Vec<Entry> {
        let mut left = Vec::new();
        while let Some((_, key)) = self.ages.pop_first() {
            left.extend(self.give_up(key));
        }
        left
    }

    /// Returns the request that an event belongs to.
    fn find(&self, operation: Operation, first: u64) -> Option<Key> {
        let class = class(operation);
        let (from, to) = ((class, first, 0), (class, first, u64::MAX));
        self.pending.range(from..=to).next().map(|(key, _)| *key)
    }

    fn begin(
        &mut self,
        event: &BlockEvent<'_>,
        operation: Operation,
        is_sent: bool,
    ) -> Option<Entry> {
        let oldest = (self.pending.len() >= PENDING_MAX).then(|| self.ages.pop_first()).flatten();
        let given_up = oldest.and_then(|(_, key)| self.give_up(key));
        let time_ns = event.time_ns.saturating_sub(self.begin_ns);
        let offset = if operation == Operation::Flush { 0 } else { self.range.start };
        let request = Event {
            time_ns,
            took_ns: None,
            operation,
            device: 0,
            first: event.first - offset,
            sectors: event.sectors,
            failed: None,
        };
        let process = Some(self.processes.named(event.process));
        let sent_ns = is_sent.then_some(0);
        let entry = Entry { event: request, sent_ns, process, marks: event.marks };
        let key = (class(operation), event.first, self.next);
        self.pending.insert(key, Pending { entry, left: event.sectors, is_sent });
        self.ages.insert(self.next, key);
        self.next += 1;
        given_up
    }

    /// Notes that a request was sent. Requests in a queue grow by merges.
    fn send(&mut self, key: Key, event: &BlockEvent<'_>) {
        let Some(pending) = self.pending.get_mut(&key) else { return };
        let begin_ns = self.begin_ns + pending.entry.event.time_ns;
        pending.entry.sent_ns = Some(event.time_ns.saturating_sub(begin_ns));
        pending.entry.event.sectors = event.sectors;
        (pending.left, pending.is_sent) = (event.sectors, true);
    }

    /// Ends a request, or a part of it: the rest is then answered from a later sector.
    fn answer(&mut self, key: Key, event: &BlockEvent<'_>) -> Option<Entry> {
        let mut pending = self.remove(key)?;
        let request = &mut pending.entry.event;
        request.failed = request.failed.or(event.failed);
        pending.left = pending.left.saturating_sub(event.sectors);
        if pending.left > 0 && event.failed.is_none() {
            let (class, first, age) = key;
            let key = (class, first + u64::from(event.sectors), age);
            self.pending.insert(key, pending);
            self.ages.insert(age, key);
            return None;
        }
        let arrival_ns = self.begin_ns + request.time_ns;
        request.took_ns = Some(event.time_ns.saturating_sub(arrival_ns));
        Some(pending.entry)
    }

    fn remove(&mut self, key: Key) -> Option<Pending> {
        self.ages.remove(&key.2);
        self.pending.remove(&key)
    }

    fn give_up(&mut self, key: Key) -> Option<Entry> {
        let pending = self.remove(key)?;
        let count =
            if pending.is_sent { &mut self.matched.unanswered } else { &mut self.matched.merged };
        *count += 1;
        pending.is_sent.then_some(pending.entry)
    }
}

/// Returns a number of the operation that is the same in all events of a request. The letters of
/// FUA can differ.
fn class(operation: Operation) -> u8 {
    match operation {
        Operation::Read => 0,
        Operation::Write { .. } => 1,
        Operation::Flush => 2,
        Operation::Discard => 3,
        Operation::Zero { .. } => 4,
        Operation::Advise => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Marks;

    fn at(us: u64, step: Step, operation: Operation, extent: (u64, u32)) -> BlockEvent<'static> {
        BlockEvent {
            time_ns: us * 1000,
            step,
            operation: Some(operation),
            marks: Marks::default(),
            first: extent.0,
            sectors: extent.1,
            failed: None,
            process: b"dd",
        }
    }

    const READ: Operation = Operation::Read;

    fn all(events: &[BlockEvent<'_>]) -> (Vec<Entry>, Matched) {
        let mut matcher = Matcher::new(0..1 << 20, 1_000_000);
        let mut entries: Vec<Entry> =
            events.iter().filter_map(|event| matcher.feed(event)).collect();
        entries.extend(matcher.finish());
        assert!(matcher.pending.is_empty() && matcher.ages.is_empty());
        (entries, matcher.matched())
    }

    #[test]
    fn steps_become_a_request() {
        let (entries, matched) = all(&[
            at(1100, Step::Insert, READ, (8, 8)),
            at(1130, Step::Issue, READ, (8, 16)),
            at(1200, Step::Complete, READ, (8, 16)),
        ]);
        let [entry] = entries[..] else { panic!("{entries:?}") };
        let event = entry.event;
        assert_eq!((event.time_ns, entry.sent_ns), (100_000, Some(30_000)));
        assert_eq!((event.took_ns, event.first, event.sectors), (Some(100_000), 8, 16));
        assert_eq!(matched, Matched::default());
    }

    #[test]
    fn requests_of_the_same_sector_are_answered_oldest_first() {
        let write = Operation::Write { fua: false };
        let (entries, _) = all(&[
            at(1000, Step::Issue, READ, (8, 8)),
            at(1010, Step::Issue, write, (8, 8)),
            at(1020, Step::Issue, READ, (8, 8)),
            at(1100, Step::Complete, READ, (8, 8)),
            at(1200, Step::Complete, READ, (8, 8)),
            at(1300, Step::Complete, Operation::Write { fua: true }, (8, 8)),
        ]);
        let times: Vec<(u64, Option<u64>)> =
            entries.iter().map(|entry| (entry.event.time_ns, entry.event.took_ns)).collect();
        let expected = [(0, Some(100_000)), (20_000, Some(180_000)), (10_000, Some(290_000))];
        assert_eq!(times, expected);
    }

    #[test]
    fn parts_end_a_request_with_the_last_one() {
        let (entries, _) = all(&[
            at(1000, Step::Issue, READ, (8, 24)),
            at(1100, Step::Complete, READ, (8, 16)),
            at(1200, Step::Complete, READ, (24, 8)),
        ]);
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].event.took_ns, Some(200_000));
        assert_eq!((entries[0].event.first, entries[0].event.sectors), (8, 24));
    }

    #[test]
    fn a_request_that_is_sent_again_is_one_request() {
        let (entries, _) = all(&[
            at(1000, Step::Issue, READ, (8, 8)),
            at(1010, Step::Requeue, READ, (8, 8)),
            at(1050, Step::Issue, READ, (8, 8)),
            at(1100, Step::Complete, READ, (8, 8)),
        ]);
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].sent_ns, entries[0].event.took_ns), (Some(50_000), Some(100_000)));
    }

    #[test]
    fn requests_without_a_partner_are_counted() {
        let (entries, matched) = all(&[
            at(1000, Step::Complete, READ, (8, 8)),
            at(1010, Step::Insert, READ, (80, 8)),
            at(1020, Step::Insert, READ, (88, 8)),
            at(1030, Step::Merge, READ, (88, 8)),
            at(1040, Step::Issue, READ, (800, 8)),
            BlockEvent { operation: None, ..at(1050, Step::Issue, READ, (0, 0)) },
        ]);
        assert_eq!((entries.len(), entries[0].event.took_ns), (1, None));
        let expected = Matched { unanswered: 1, unknown_answers: 1, merged: 2, others: 1 };
        assert_eq!(matched, expected);
    }

    #[test]
    fn the_number_of_requests_in_flight_is_bounded() {
        let mut matcher = Matcher::new(0..1 << 20, 0);
        let ended: Vec<Entry> = (0..PENDING_MAX as u64 + 9)
            .filter_map(|number| matcher.feed(&at(number, Step::Issue, READ, (number * 8, 8))))
            .collect();
        let firsts: Vec<u64> = ended.iter().map(|entry| entry.event.first / 8).collect();
        assert_eq!(firsts, (0..9).collect::<Vec<u64>>());
        assert_eq!((matcher.pending.len(), matcher.matched().unanswered), (PENDING_MAX, 9));
    }

    #[test]
    fn only_sectors_of_the_partition_are_recorded() {
        let mut matcher = Matcher::new(100..200, 0);
        let read = |step, first| at(1, step, READ, (first, 8));
        let flush = |step| at(1, step, Operation::Flush, (0, 0));
        for first in [92, 200] {
            assert!(matcher.feed(&read(Step::Issue, first)).is_none());
            assert!(matcher.feed(&read(Step::Complete, first)).is_none());
        }
        assert!(matcher.feed(&read(Step::Issue, 108)).is_none());
        assert_eq!(matcher.feed(&read(Step::Complete, 108)).expect("one").event.first, 8);
        assert!(matcher.feed(&flush(Step::Issue)).is_none());
        assert!(matcher.feed(&flush(Step::Complete)).expect("one").event.is_sound());
        assert_eq!(matcher.matched(), Matched::default());
    }
}
