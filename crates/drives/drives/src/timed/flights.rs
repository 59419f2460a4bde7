//! Units on the way to the flash, the first to end first.
//!
//! The units of a die end in the order in which they began, so each die has a queue, and only the
//! first one of each competes, in a tournament tree. A heap of all units would need a branch for
//! each of its levels, of which the processor mispredicts half.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// A unit on the way to the flash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Flight {
    /// The time of its end.
    pub(super) end: u64,
    /// Its superblock.
    pub(super) superblock: u32,
    /// Its number in the superblock.
    pub(super) unit: u32,
    /// Its slots of the buffer.
    pub(super) slots: u32,
    /// The number of erases of its superblock.
    pub(super) erases: u32,
}

/// The first unit of a die to end: its end, and the die.
#[derive(Clone, Copy)]
struct First {
    end: u64,
    die: u32,
}

/// No unit: later than any other.
const NONE: First = First { end: u64::MAX, die: u32::MAX };

/// The units on the way.
pub(super) struct Flights {
    queues: Vec<VecDeque<Flight>>,
    /// The root has the number 1, the children of `n` have `2 n` and `2 n + 1`, and the dies come
    /// last.
    winners: Vec<First>,
}

impl Flights {
    pub(super) fn new(dies: u32) -> Flights {
        let leaves = dies.max(1).next_power_of_two() as usize;
        Flights {
            queues: vec![VecDeque::with_capacity(16); dies as usize],
            winners: vec![NONE; 2 * leaves],
        }
    }

    /// Adds a unit, which ends after all others of its die.
    #[inline]
    pub(super) fn push(&mut self, flight: Flight) {
        let die = flight.unit % self.queues.len() as u32;
        let queue = &mut self.queues[die as usize];
        queue.push_back(flight);
        if queue.len() == 1 {
            self.play(die, First { end: flight.end, die });
        }
    }

    /// Removes the first unit to end.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Flight> {
        let die = self.winners[1].die;
        let queue = self.queues.get_mut(die as usize)?;
        let first = queue.pop_front();
        let next = queue.front().map_or(NONE, |next| First { end: next.end, die });
        self.play(die, next);
        first
    }

    /// Removes all units; returns them, the last to end first.
    pub(super) fn take_all(&mut self) -> Vec<Flight> {
        self.winners.fill(NONE);
        let mut all: Vec<Flight> =
            self.queues.iter_mut().flat_map(|queue| queue.drain(..)).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all
    }

    #[inline]
    fn play(&mut self, die: u32, first: First) {
        let mut node = self.winners.len() / 2 + die as usize;
        let mut winner = first;
        self.winners[node] = first;
        while node > 1 {
            let other = self.winners[node ^ 1];
            let is_first = winner.end <= other.end;
            winner = First {
                end: select_unpredictable(is_first, winner.end, other.end),
                die: select_unpredictable(is_first, winner.die, other.die),
            };
            node /= 2;
            self.winners[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn units_leave_in_the_order_of_their_ends() {
        for dies in [1, 3, 8, 20] {
            let (mut flights, mut random) = (Flights::new(dies), Random::new(u64::from(dies)));
            let (mut free, mut waiting) = (vec![0; dies as usize], Vec::new());
            let mut popped = 0;
            for number in 0..5_000 {
                if random.below(100) < 52 {
                    let unit = random.below(1000);
                    let free = &mut free[(unit % dies) as usize];
                    *free += 1 + u64::from(random.below(900));
                    let (superblock, slots, erases) = (number, 4, 0);
                    let flight = Flight { end: *free, superblock, unit, slots, erases };
                    flights.push(flight);
                    waiting.push(flight);
                } else if let Some(first) = flights.pop() {
                    let least = waiting.iter().map(|flight| flight.end).min();
                    assert_eq!(Some(first.end), least);
                    waiting.retain(|flight| *flight != first);
                    popped += 1;
                }
            }
            assert!(popped > 1_000);
            waiting.sort_unstable_by(|one, other| other.cmp(one));
            assert_eq!(flights.take_all(), waiting);
            assert_eq!(flights.pop(), None);
        }
    }
}
