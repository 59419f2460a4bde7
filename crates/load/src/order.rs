//! The next request of a load: which block, and whether it is read.

use crate::plan::{Load, Order};
use crate::zipf::{Scramble, Zipf};
use lane::Random;

/// What a load's choices follow from.
pub(crate) struct Picker {
    random: Random,
    blocks: u64,
    reads_percent: u32,
    order: Picked,
}

enum Picked {
    Sequential { next: u64 },
    Random,
    Zipf { zipf: Zipf, scramble: Scramble },
}

impl Picker {
    pub(crate) fn new(load: &Load) -> Picker {
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
        Picker { random, blocks, reads_percent: load.reads_percent, order }
    }

    /// The next block's number, and whether it is read.
    #[inline]
    pub(crate) fn next(&mut self) -> (u64, bool) {
        let block = match &mut self.order {
            Picked::Sequential { next } => {
                let block = *next;
                *next = if block + 1 == self.blocks { 0 } else { block + 1 };
                block
            }
            Picked::Random => self.random.below(self.blocks),
            Picked::Zipf { zipf, scramble } => scramble.of(zipf.draw(&mut self.random) - 1),
        };
        let read = match self.reads_percent {
            0 => false,
            100.. => true,
            percent => self.random.below(100) < u64::from(percent),
        };
        (block, read)
    }
}
