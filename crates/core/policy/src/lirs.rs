//! LIRS (S. Jiang and X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement
//! Policy to Improve Buffer Cache Performance", SIGMETRICS 2002): most slots are for blocks whose
//! last two reads were close together (LIR). All others (HIR) go through a short queue. A recency
//! stack contains both, and also HIR blocks that are not cached any more. An HIR block that is read
//! while it is in the stack becomes LIR, and the LIR block at the stack's bottom becomes HIR.
//!
//! The paper's parameter: 1 % of the slots, at least one, for HIR blocks. The paper does not limit
//! the number of uncached blocks in the stack. Here, as in libcachesim, the stack's length is at
//! most twice the number of slots; beyond that, the block that was evicted first leaves the stack.
//! A cache of one slot cannot hold both kinds, and is an LRU.
//!
//! libcachesim 0.3.5 differs in one case: on a hit of an HIR block that is not in the stack it
//! makes the LIR block at the stack's bottom HIR, and evicts the HIR block at the queue's front.
//! The paper does neither. With that difference, the two agree miss for miss.
//!
//! For simulations only: the stack needs more memory per slot than a served policy may use.

use crate::packed::Packed;
use crate::table::Table;
use crate::{Hash, Links, List, Reads};

/// State of a number, as bits.
const LIR: u64 = 1;
const HELD: u64 = 2;
const STACKED: u64 = 4;

pub(crate) struct Lirs {
    lir_max: u32,
    hir_max: u32,
    /// Maximum length of the stack.
    stack_max: u32,
    table: Table,
    is: Packed<4>,
    /// The top of the stack is at the end.
    stack: List,
    stack_links: Links,
    /// Cached HIR blocks, and HIR blocks of the stack that are not cached. The next to be removed
    /// is first.
    queue: List,
    ghosts: List,
    /// For both queues: no block is in both.
    queue_links: Links,
    lirs: u32,
    /// Whether a hit of an HIR block that is not in the stack takes an LIR block's slot, as in
    /// libcachesim.
    demotes: bool,
}

impl Lirs {
    /// `demotes`: hits demote as in libcachesim, if the queue has more than one slot.
    ///
    /// # Panics
    /// If there are fewer than two slots.
    pub(crate) fn new(slots: u32, demotes: bool) -> Lirs {
        assert!(slots > 1, "one for each sort");
        let hir_max = (slots / 100).max(1);
        // The stack, the block being added, and the blocks that are only in the queue.
        let numbers = 2 * slots + hir_max + 2;
        Lirs {
            lir_max: slots - hir_max,
            hir_max,
            stack_max: 2 * slots,
            table: Table::new(numbers),
            is: Packed::new(numbers),
            stack: List::EMPTY,
            stack_links: Links::new(numbers),
            queue: List::EMPTY,
            ghosts: List::EMPTY,
            queue_links: Links::new(numbers),
            lirs: 0,
            demotes: demotes && hir_max > 1,
        }
    }

    /// Evicts the HIR block at the queue's front if the queue is full.
    fn make_room(&mut self) {
        if self.queue.length < self.hir_max {
            return;
        }
        let front = self.queue_links.pop_front(&mut self.queue).expect("it is full");
        let is = self.is.get(front);
        if is & STACKED == 0 {
            return self.table.remove(front);
        }
        self.is.set(front, is & !HELD);
        self.queue_links.push_back(&mut self.ghosts, front);
    }

    /// Prunes the stack as in the paper: afterwards the block at the bottom is LIR.
    fn prune(&mut self) {
        while self.stack.length > 0 {
            let bottom = self.stack.head;
            let is = self.is.get(bottom);
            if is & LIR != 0 {
                break;
            }
            self.stack_links.remove(&mut self.stack, bottom);
            self.is.set(bottom, is & !STACKED);
            if is & HELD == 0 {
                self.queue_links.remove(&mut self.ghosts, bottom);
                self.table.remove(bottom);
            }
        }
    }

    /// Makes a block LIR that is in the stack and in neither queue. If there are too many LIR
    /// blocks, the one at the bottom becomes HIR; the queue has room for it.
    fn promote(&mut self, number: u32) {
        self.stack_links.touch(&mut self.stack, number);
        self.is.set(number, LIR | HELD | STACKED);
        self.lirs += 1;
        if self.lirs > self.lir_max {
            self.demote();
        }
        self.prune();
    }

    /// Makes the LIR block at the stack's bottom HIR; the queue has room for it.
    fn demote(&mut self) {
        let bottom = self.stack_links.pop_front(&mut self.stack).expect("LIR blocks are there");
        self.is.set(bottom, HELD);
        self.queue_links.push_back(&mut self.queue, bottom);
        self.lirs -= 1;
    }

    /// Handles a hit of an HIR block that is not in the stack.
    fn hit_in_queue(&mut self, number: u32) {
        self.queue_links.touch(&mut self.queue, number);
        if self.demotes && self.lirs == self.lir_max {
            self.make_room();
            self.demote();
            self.prune();
        }
        self.stack_links.push_back(&mut self.stack, number);
        self.is.set(number, HELD | STACKED);
        self.limit_stack();
    }

    /// Adds a block that is in no list.
    fn enter(&mut self, hash: Hash) {
        let is_lir = self.lirs < self.lir_max;
        if !is_lir {
            self.make_room();
        }
        let number = self.table.insert(hash);
        self.stack_links.push_back(&mut self.stack, number);
        if is_lir {
            self.is.set(number, LIR | HELD | STACKED);
            self.lirs += 1;
        } else {
            self.is.set(number, HELD | STACKED);
            self.queue_links.push_back(&mut self.queue, number);
        }
    }

    fn limit_stack(&mut self) {
        while self.stack.length > self.stack_max {
            let Some(oldest) = self.queue_links.pop_front(&mut self.ghosts) else { break };
            self.stack_links.remove(&mut self.stack, oldest);
            self.table.remove(oldest);
        }
    }
}

impl Reads for Lirs {
    fn read(&mut self, block: u64) -> bool {
        let hash = Hash::of(block);
        let Some(number) = self.table.find(hash) else {
            self.enter(hash);
            self.limit_stack();
            return false;
        };
        let is = self.is.get(number);
        if is & LIR != 0 {
            self.stack_links.touch(&mut self.stack, number);
            self.prune();
        } else if is & HELD == 0 {
            self.queue_links.remove(&mut self.ghosts, number);
            if self.lirs == self.lir_max {
                self.make_room();
            }
            self.promote(number);
        } else if is & STACKED != 0 {
            self.queue_links.remove(&mut self.queue, number);
            self.promote(number);
        } else {
            self.hit_in_queue(number);
        }
        is & HELD != 0
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::brute_force::{Paper, agree};
    use std::vec::Vec;

    #[derive(Clone, Copy, PartialEq)]
    enum Sort {
        Lir,
        HirHeld,
        HirGone,
    }

    /// The cases of the paper's section 3.3. The stack's top and the queue's end are at the end of
    /// the vectors.
    struct Cases {
        stack: Vec<(u64, Sort)>,
        queue: Vec<u64>,
        /// Evicted blocks in order of eviction.
        gone: Vec<u64>,
        size: usize,
    }

    impl Cases {
        fn hirs(&self) -> usize {
            (self.size / 100).max(1)
        }

        fn lirs(&self) -> usize {
            self.stack.iter().filter(|(_, sort)| *sort == Sort::Lir).count()
        }

        fn give_up_front(&mut self) {
            if self.queue.len() == self.hirs() {
                let front = self.queue.remove(0);
                if let Some(entry) = self.stack.iter_mut().find(|entry| entry.0 == front) {
                    entry.1 = Sort::HirGone;
                    self.gone.push(front);
                }
            }
        }

        fn prune(&mut self) {
            while self.stack.first().is_some_and(|(_, sort)| *sort != Sort::Lir) {
                let (bottom, _) = self.stack.remove(0);
                self.gone.retain(|&other| other != bottom);
            }
        }

        fn demote_bottom(&mut self) {
            let (bottom, _) = self.stack.remove(0);
            self.queue.push(bottom);
            self.prune();
        }
    }

    impl Paper for Cases {
        fn new(size: usize) -> Cases {
            Cases { stack: Vec::new(), queue: Vec::new(), gone: Vec::new(), size }
        }

        fn request(&mut self, block: u64) -> bool {
            if self.size == 1 {
                let hit = self.queue == [block];
                self.queue = [block].to_vec();
                return hit;
            }
            let full = self.lirs() == self.size - self.hirs();
            let in_stack = self.stack.iter().position(|&(other, _)| other == block);
            let sort = in_stack.map(|place| self.stack.remove(place).1);
            let in_queue = self.queue.iter().position(|&other| other == block);
            match (sort, in_queue) {
                (Some(Sort::Lir), _) => {
                    self.stack.push((block, Sort::Lir));
                    self.prune();
                }
                (Some(_), Some(place)) => {
                    self.queue.remove(place);
                    self.stack.push((block, Sort::Lir));
                    self.demote_bottom();
                }
                (None, Some(place)) => {
                    self.queue.remove(place);
                    self.queue.push(block);
                    self.stack.push((block, Sort::HirHeld));
                }
                (Some(_), None) => {
                    self.gone.retain(|&other| other != block);
                    self.give_up_front();
                    self.stack.push((block, Sort::Lir));
                    self.demote_bottom();
                }
                (None, None) if !full => self.stack.push((block, Sort::Lir)),
                (None, None) => {
                    self.give_up_front();
                    self.queue.push(block);
                    self.stack.push((block, Sort::HirHeld));
                }
            }
            while self.stack.len() > 2 * self.size && !self.gone.is_empty() {
                let oldest = self.gone.remove(0);
                self.stack.retain(|&(other, _)| other != oldest);
            }
            in_queue.is_some() || sort == Some(Sort::Lir)
        }
    }

    #[test]
    fn each_request_ends_as_in_the_paper() {
        agree::<Cases>(Kind::Lirs);
    }
}
