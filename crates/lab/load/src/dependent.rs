//! A recorded trace as a source in which requests wait for one another as they did in the
//! recording.

use crate::plan::LoadError;
use crate::source::{Source, Step};
use block::{Extent, Limits};
use trace::{Event, Operation, Trace};

/// A trace as a source that runs as fast as the device answers: a step starts as soon as the steps
/// that it waited for are answered.
///
/// The recording does not contain what a request waited for, but it can only be requests that were
/// answered before it was sent. So a read waits for the reads that had been answered by then, and
/// any other request for all requests that had been: a write follows the reads that it depends on
/// and keeps the queue depth of the writes, and a flush follows the writes. Reads do not wait for
/// writes, since a host writes from its memory at the same time.
///
/// ```text
///   recorded   read 1 |----|   read 2 |---|        write 1 |--------|      flush |--|
///   waits for                  read 1      reads 1, 2                  all three
/// ```
///
/// The time in which the host itself worked between two requests is left out. Addresses do not
/// change.
#[derive(Clone, Debug)]
pub struct Dependent {
    steps: Vec<Waiting>,
    next: usize,
    reads: Answered,
    all: Answered,
}

/// A step, and the answers that it waits for.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    step: Step,
    /// The number of first answers that it waits for: of reads for a read, of all requests for any
    /// other.
    for_first: usize,
}

/// The answered steps, in the order of the recording's answers.
#[derive(Clone, Debug)]
struct Answered {
    /// The position of each step in that order.
    place: Vec<usize>,
    is_answered: Vec<bool>,
    /// The number of first steps that are all answered.
    first: usize,
}

impl Answered {
    /// Returns the steps with an answer. `ends_ns` has the end of each step. None: the step is not
    /// part of this order.
    fn new(ends_ns: &[Option<u64>]) -> Answered {
        let among = |number: &usize| ends_ns[*number].is_some();
        let mut order: Vec<usize> = (0..ends_ns.len()).filter(among).collect();
        order.sort_by_key(|number| ends_ns[*number]);
        let mut place = vec![usize::MAX; ends_ns.len()];
        (0..).zip(&order).for_each(|(rank, number)| place[*number] = rank);
        Answered { place, is_answered: vec![false; order.len()], first: 0 }
    }

    /// Records an answer. True: the number of first answered steps has grown.
    fn record_answer(&mut self, number: usize) -> bool {
        let before = self.first;
        if let Some(is_answered) = self.is_answered.get_mut(self.place[number]) {
            *is_answered = true;
        }
        while self.is_answered.get(self.first) == Some(&true) {
            self.first += 1;
        }
        self.first > before
    }
}

/// Returns the number of these sorted times that are not after `ns`.
fn until(sorted: &[u64], ns: u64) -> usize {
    sorted.partition_point(|end| *end <= ns)
}

fn step(event: &Event) -> Step {
    let at = Extent { first: event.first, count: event.sectors };
    Step { due_ns: None, operation: event.operation, at }
}

impl Dependent {
    /// Returns the whole trace. An event without a duration counts as answered immediately.
    pub fn new(trace: &Trace) -> Dependent {
        let events = trace.events();
        // An answer comes after its request, so that no two requests wait for each other.
        let end = |event: &Event| event.time_ns.saturating_add(event.took_ns.unwrap_or(0).max(1));
        let ends: Vec<Option<u64>> = events.iter().map(|event| Some(end(event))).collect();
        let of_reads: Vec<Option<u64>> =
            events.iter().map(|event| event.is_read().then(|| end(event))).collect();
        let sorted = |ends: &[Option<u64>]| {
            let mut ends: Vec<u64> = ends.iter().copied().flatten().collect();
            ends.sort_unstable();
            ends
        };
        let (all, reads) = (sorted(&ends), sorted(&of_reads));
        let waiting = |event: &Event| Waiting {
            step: step(event),
            for_first: until(if event.is_read() { &reads } else { &all }, event.time_ns),
        };
        let steps = events.iter().map(waiting).collect();
        let (reads, all) = (Answered::new(&of_reads), Answered::new(&ends));
        Dependent { steps, next: 0, reads, all }
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> u64 {
        self.steps.len() as u64
    }
}

impl Source for Dependent {
    fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        self.steps.iter().try_for_each(|waiting| waiting.step.check(limits))
    }

    fn next(&mut self) -> Option<Step> {
        let waiting = self.steps.get(self.next)?;
        self.next += 1;
        Some(waiting.step)
    }

    fn may_start(&self, number: u64) -> bool {
        let waiting = &self.steps[number as usize];
        let answered =
            if waiting.step.operation == Operation::Read { &self.reads } else { &self.all };
        answered.first >= waiting.for_first
    }

    fn answered(&mut self, number: u64) -> bool {
        let (reads, all) =
            (self.reads.record_answer(number as usize), self.all.record_answer(number as usize));
        reads || all
    }
}
