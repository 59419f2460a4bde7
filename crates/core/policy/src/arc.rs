//! ARC (N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
//! 2003): recent blocks that were read once (`T1`) or more often (`T2`), each list with the ghosts
//! of its evicted blocks (`B1`, `B2`). A hit on a ghost changes the target length of `T1`.
//!
//! It has no parameter. The target is a real number, as in the paper.
//!
//! For simulations only: its ghosts need more memory per slot than a served policy may use.

use crate::packed::Packed;
use crate::table::Table;
use crate::{Hash, Links, List, Reads};

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

pub(crate) struct Arc {
    slots: u32,
    table: Table,
    links: Links,
    /// Least recently used first in each list.
    lists: [List; 4],
    /// The list that contains a number.
    place: Packed<2>,
    /// Target length of `T1`: the paper's p.
    target: f64,
}

impl Arc {
    pub(crate) fn new(slots: u32) -> Arc {
        let numbers = slots * 2;
        Arc {
            slots,
            table: Table::new(numbers),
            links: Links::new(numbers),
            lists: [List::EMPTY; 4],
            place: Packed::new(numbers),
            target: 0.0,
        }
    }

    fn length(&self, list: usize) -> u32 {
        self.lists[list].length
    }

    fn shift(&mut self, number: u32, from: usize, to: usize) {
        self.links.remove(&mut self.lists[from], number);
        self.links.push_back(&mut self.lists[to], number);
        self.place.set(number, to as u64);
    }

    /// Removes the oldest block of a list.
    fn drop_oldest(&mut self, list: usize) {
        let oldest = self.links.pop_front(&mut self.lists[list]).expect("the paper's case says so");
        self.table.remove(oldest);
    }

    /// The paper's REPLACE.
    fn replace(&mut self, is_in_b2: bool) {
        let length = f64::from(self.length(T1));
        let t1 = length >= 1.0 && (length > self.target || is_in_b2 && length == self.target);
        let (from, to) = if t1 { (T1, B1) } else { (T2, B2) };
        self.shift(self.lists[from].head, from, to);
    }

    /// Cases II and III: a hit on a ghost.
    fn ghost_returns(&mut self, number: u32, from: usize) {
        let (b1, b2) = (f64::from(self.length(B1)), f64::from(self.length(B2)));
        if from == B1 {
            let step = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.target = f64::from(self.slots).min(self.target + step);
        } else {
            let step = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.target = (self.target - step).max(0.0);
        }
        self.replace(from == B2);
        self.shift(number, from, T2);
    }

    /// Case IV: a block that is in none of the lists.
    fn enter(&mut self, hash: Hash) {
        if self.length(T1) + self.length(B1) == self.slots {
            if self.length(T1) < self.slots {
                self.drop_oldest(B1);
                self.replace(false);
            } else {
                self.drop_oldest(T1);
            }
        } else {
            let total: u32 = self.lists.iter().map(|list| list.length).sum();
            if total >= self.slots {
                if total == 2 * self.slots {
                    self.drop_oldest(B2);
                }
                self.replace(false);
            }
        }
        let number = self.table.insert(hash);
        self.links.push_back(&mut self.lists[T1], number);
        self.place.set(number, T1 as u64);
    }
}

impl Reads for Arc {
    fn read(&mut self, block: u64) -> bool {
        let hash = Hash::of(block);
        let Some(number) = self.table.find(hash) else {
            self.enter(hash);
            return false;
        };
        let from = self.place.get(number) as usize;
        let hit = from == T1 || from == T2;
        if from == T2 {
            self.links.touch(&mut self.lists[T2], number);
        } else if from == T1 {
            self.shift(number, T1, T2);
        } else {
            self.ghost_returns(number, from);
        }
        hit
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::brute_force::{Paper, agree};
    use std::vec::Vec;

    /// Figure 4 of the paper, line by line. The most recently used of each list is at 0.
    #[derive(Default)]
    struct Figure {
        t1: Vec<u64>,
        t2: Vec<u64>,
        b1: Vec<u64>,
        b2: Vec<u64>,
        p: f64,
        c: usize,
    }

    impl Figure {
        fn replace(&mut self, in_b2: bool) {
            let t1 = self.t1.len() as f64;
            if !self.t1.is_empty() && (t1 > self.p || in_b2 && t1 == self.p) {
                self.b1.insert(0, self.t1.pop().expect("is not empty"));
            } else {
                self.b2.insert(0, self.t2.pop().expect("is not empty"));
            }
        }
    }

    impl Paper for Figure {
        fn new(c: usize) -> Figure {
            Figure { c, ..Figure::default() }
        }

        fn request(&mut self, x: u64) -> bool {
            let place = |list: &[u64]| list.iter().position(|&other| other == x);
            let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
            if let Some(at) = place(&self.t1) {
                self.t1.remove(at);
                self.t2.insert(0, x);
                return true;
            }
            if let Some(at) = place(&self.t2) {
                self.t2.remove(at);
                self.t2.insert(0, x);
                return true;
            }
            if place(&self.b1).is_some() {
                self.p = (self.p + if b1 >= b2 { 1.0 } else { b2 / b1 }).min(self.c as f64);
                self.replace(false);
                self.b1.remove(place(&self.b1).expect("is still there"));
                self.t2.insert(0, x);
            } else if place(&self.b2).is_some() {
                self.p = (self.p - if b2 >= b1 { 1.0 } else { b1 / b2 }).max(0.0);
                self.replace(true);
                self.b2.remove(place(&self.b2).expect("is still there"));
                self.t2.insert(0, x);
            } else {
                let l1 = self.t1.len() + self.b1.len();
                let all = l1 + self.t2.len() + self.b2.len();
                if l1 == self.c {
                    if self.t1.len() < self.c {
                        self.b1.pop();
                        self.replace(false);
                    } else {
                        self.t1.pop();
                    }
                } else if l1 < self.c && all >= self.c {
                    if all == 2 * self.c {
                        self.b2.pop();
                    }
                    self.replace(false);
                }
                self.t1.insert(0, x);
            }
            false
        }
    }

    #[test]
    fn each_request_ends_as_in_the_paper() {
        agree::<Figure>(Kind::Arc);
    }
}
