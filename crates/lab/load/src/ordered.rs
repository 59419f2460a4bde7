//! Keeps the order of conflicting requests.

use crate::plan::LoadError;
use crate::source::{Source, Step};
use block::Limits;
use std::collections::{BTreeMap, VecDeque};
use trace::Operation;

/// A source whose conflicting steps are answered in their order: two steps conflict if they overlap
/// and at least one of them changes data. A step waits for the answers of all earlier steps that it
/// conflicts with. Flushes conflict with nothing.
pub struct Ordered<S> {
    source: S,
    /// The given steps from the oldest one without an answer on. None: answered.
    given: VecDeque<Option<Step>>,
    /// The number of the first of these.
    first: u64,
    /// The unanswered steps in each region of the device, by a hash of the region.
    regions: Vec<Vec<u64>>,
    /// The unanswered steps that cover many regions.
    wide: Vec<u64>,
    /// The number of steps that a step waits for, if there are any.
    waits: BTreeMap<u64, u32>,
    /// The steps that wait for a step.
    followers: BTreeMap<u64, Vec<u64>>,
}

/// Sectors of a region, as a power of two: 128 KiB, the most that most hosts read ahead.
const REGION_SHIFT: u32 = 8;
/// Number of lists of steps; a power of two.
const LISTS: u64 = 1 << 12;
/// Maximum number of regions of a step that is listed in each of them.
const WIDE: u64 = 64;

fn changes_data(step: &Step) -> bool {
    !matches!(step.operation, Operation::Read | Operation::Advise | Operation::Flush)
}

fn conflict(one: &Step, other: &Step) -> bool {
    let overlap = one.at.first < other.at.end() && other.at.first < one.at.end();
    overlap && (changes_data(one) || changes_data(other))
}

/// Returns the lists of a step. None: it covers too many regions.
fn lists(step: &Step) -> Option<impl Iterator<Item = usize> + use<>> {
    let (first, last) = (step.at.first >> REGION_SHIFT, (step.at.end() - 1) >> REGION_SHIFT);
    (last - first < WIDE).then(|| (first..=last).map(|region| (region & (LISTS - 1)) as usize))
}

impl<S: Source> Ordered<S> {
    /// Returns this source in order.
    pub fn new(source: S) -> Ordered<S> {
        Ordered {
            source,
            given: VecDeque::new(),
            first: 0,
            regions: vec![Vec::new(); LISTS as usize],
            wide: Vec::new(),
            waits: BTreeMap::new(),
            followers: BTreeMap::new(),
        }
    }

    fn unanswered(&self, number: u64) -> Option<&Step> {
        self.given.get(number.checked_sub(self.first)? as usize)?.as_ref()
    }

    /// Returns the unanswered steps that a new step conflicts with.
    fn earlier(&self, step: &Step) -> Vec<u64> {
        let is_earlier =
            |number: &&u64| self.unanswered(**number).is_some_and(|other| conflict(other, step));
        let mut earlier: Vec<u64> = self.wide.iter().filter(is_earlier).copied().collect();
        match lists(step) {
            Some(lists) => {
                for list in lists {
                    earlier.extend(self.regions[list].iter().filter(is_earlier));
                }
            }
            None => {
                let all = (self.first..).zip(&self.given);
                let all = all.filter_map(|(number, other)| Some((number, other.as_ref()?)));
                let all = all.filter(|(_, other)| conflict(other, step));
                earlier.extend(all.map(|(number, _)| number));
            }
        }
        // A step of several regions is in several lists.
        earlier.sort_unstable();
        earlier.dedup();
        earlier
    }

    fn give(&mut self, step: Step) {
        let number = self.first + self.given.len() as u64;
        // A flush has no extent.
        let earlier = if step.at.count == 0 { Vec::new() } else { self.earlier(&step) };
        self.given.push_back(Some(step));
        if step.at.count == 0 {
            return;
        }
        if !earlier.is_empty() {
            self.waits.insert(number, earlier.len() as u32);
        }
        for other in earlier {
            self.followers.entry(other).or_default().push(number);
        }
        match lists(&step) {
            Some(lists) => lists.for_each(|list| self.regions[list].push(number)),
            None => self.wide.push(number),
        }
    }

    /// Removes an answered step. True: another step may start.
    fn remove(&mut self, number: u64) -> bool {
        let index = (number - self.first) as usize;
        let Some(step) = self.given.get_mut(index).and_then(Option::take) else { return false };
        while self.given.front() == Some(&None) {
            self.given.pop_front();
            self.first += 1;
        }
        if step.at.count == 0 {
            return false;
        }
        let drop_from = |list: &mut Vec<u64>| {
            if let Some(index) = list.iter().position(|other| *other == number) {
                list.swap_remove(index);
            }
        };
        match lists(&step) {
            Some(lists) => lists.for_each(|list| drop_from(&mut self.regions[list])),
            None => drop_from(&mut self.wide),
        }
        let mut frees = false;
        for follower in self.followers.remove(&number).unwrap_or_default() {
            if let Some(waits) = self.waits.get_mut(&follower) {
                *waits -= 1;
                if *waits == 0 {
                    self.waits.remove(&follower);
                    frees = true;
                }
            }
        }
        frees
    }
}

impl<S: Source> Source for Ordered<S> {
    fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        self.source.check(limits)
    }

    fn next(&mut self) -> Option<Step> {
        let step = self.source.next()?;
        self.give(step);
        Some(step)
    }

    fn may_start(&self, number: u64) -> bool {
        !self.waits.contains_key(&number) && self.source.may_start(number)
    }

    fn answered(&mut self, number: u64) -> bool {
        let frees = self.remove(number);
        self.source.answered(number) || frees
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Extent;

    struct Steps(VecDeque<Step>);

    impl Source for Steps {
        fn check(&self, _: &Limits) -> Result<(), LoadError> {
            Ok(())
        }

        fn next(&mut self) -> Option<Step> {
            self.0.pop_front()
        }
    }

    const READ: Operation = Operation::Read;
    const WRITE: Operation = Operation::Write { fua: false };

    fn ordered(steps: &[(Operation, u64, u32)]) -> Ordered<Steps> {
        let step = |(operation, first, count): &(Operation, u64, u32)| Step {
            due_ns: None,
            operation: *operation,
            at: Extent { first: *first, count: *count },
        };
        let mut ordered = Ordered::new(Steps(steps.iter().map(step).collect()));
        while ordered.next().is_some() {}
        ordered
    }

    fn may_start(ordered: &Ordered<Steps>, steps: u64) -> Vec<u64> {
        (0..steps).filter(|number| ordered.may_start(*number)).collect()
    }

    #[test]
    fn a_step_waits_for_each_earlier_step_that_it_conflicts_with() {
        let steps = [
            (WRITE, 0, 8),
            (READ, 4, 8),
            (READ, 8, 8),
            (WRITE, 8, 2048),
            (READ, 0, 8),
            (Operation::Flush, 0, 0),
            (Operation::Discard, 0, 1 << 20),
            (READ, 1 << 19, 8),
        ];
        let mut ordered = ordered(&steps);
        assert_eq!(may_start(&ordered, 8), [0, 2, 5]);
        assert!(!ordered.answered(2) && !ordered.answered(5));
        assert!(ordered.answered(0), "both reads of its data");
        assert_eq!(may_start(&ordered, 8), [0, 1, 2, 4, 5]);
        assert!(ordered.answered(1), "the write over the end of the read");
        assert_eq!(may_start(&ordered, 5), [0, 1, 2, 3, 4]);
        assert!(!ordered.answered(4));
        assert!(ordered.answered(3), "the discard has waited for all before it");
        assert!(ordered.may_start(6) && !ordered.may_start(7));
        assert!(ordered.answered(6) && ordered.may_start(7));
        assert!(!ordered.answered(7));
        let lists = ordered.regions.iter().all(Vec::is_empty) && ordered.wide.is_empty();
        assert!(lists && ordered.given.is_empty() && ordered.followers.is_empty());
    }

    #[test]
    fn requests_elsewhere_and_two_reads_do_not_wait() {
        let ordered = ordered(&[(WRITE, 0, 8), (WRITE, 8, 8), (READ, 16, 8), (READ, 16, 8)]);
        assert_eq!(may_start(&ordered, 4), [0, 1, 2, 3]);
    }
}
