//! A load that follows from a seed, as a source: which block comes next, and whether it is read.

use crate::plan::{Arrival, Load, LoadError, Order};
use crate::source::{Source, Step};
use crate::zipf::{Scramble, Zipf};
use block::Limits;
use lane::Random;
use std::collections::VecDeque;
use trace::Operation;

/// A [`Load`], step by step. It has no end of its own.
pub(crate) struct Generator {
    load: Load,
    random: Random,
    blocks: u64,
    /// Steps so far.
    steps: u64,
    order: Picked,
    /// Steps that come next. Nothing that happens meanwhile changes them.
    drawn: VecDeque<Step>,
}

/// Steps that are drawn before they are asked for: as many as a device can do in the time of a look into
/// memory.
const DRAWN: usize = 16;

enum Picked {
    Sequential { next: u64 },
    Random,
    Zipf { zipf: Zipf, scramble: Scramble },
}

impl Generator {
    pub(crate) fn new(load: &Load) -> Generator {
        let mut random = Random::new(load.seed);
        let blocks = load.blocks();
        let order = match load.order {
            Order::Sequential => Picked::Sequential { next: 0 },
            Order::Random => Picked::Random,
            Order::Zipf { exponent } => Picked::Zipf {
                zipf: Zipf::new(blocks, exponent),
                scramble: Scramble::new(blocks, &mut random),
            },
        };
        let drawn = VecDeque::with_capacity(DRAWN + 1);
        let mut generator =
            Generator { load: load.clone(), random, blocks, steps: 0, order, drawn };
        (0..DRAWN).for_each(|_| generator.draw());
        generator
    }

    fn draw(&mut self) {
        let due_ns = match self.load.arrival {
            Arrival::Closed { .. } => None,
            Arrival::Open { interval_ns, .. } => Some(self.steps.saturating_mul(interval_ns)),
        };
        self.steps += 1;
        let block = self.block();
        let reads = match self.load.reads_percent {
            0 => false,
            100.. => true,
            percent => self.random.below(100) < u64::from(percent),
        };
        let operation = if reads { Operation::Read } else { Operation::Write { fua: false } };
        self.drawn.push_back(Step { due_ns, operation, at: self.load.at(block) });
    }

    /// The next block's number.
    #[inline]
    fn block(&mut self) -> u64 {
        match &mut self.order {
            Picked::Sequential { next } => {
                let block = *next;
                *next = if block + 1 == self.blocks { 0 } else { block + 1 };
                block
            }
            Picked::Random => self.random.below(self.blocks),
            Picked::Zipf { zipf, scramble } => scramble.of(zipf.draw(&mut self.random) - 1),
        }
    }
}

impl Source for Generator {
    fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        self.load.check(limits)
    }

    #[inline]
    fn next(&mut self) -> Option<Step> {
        self.draw();
        self.drawn.pop_front()
    }

    fn ahead(&self) -> Option<&Step> {
        self.drawn.back()
    }
}
