//! A load that follows from a seed, as a source: the next block, and whether it is read.

use crate::plan::{Arrival, Load, LoadError, Mix, Order};
use crate::source::{Source, Step};
use crate::zipf::{Scramble, Zipf};
use block::{Extent, Limits};
use lane::Random;
use trace::Operation;

/// A [`Load`], step by step. It never ends by itself.
pub(crate) struct Generator {
    load: Load,
    random: Random,
    blocks: u64,
    /// Steps so far.
    steps: u64,
    order: Picked,
    /// The next steps, and how many of them were given out. Later events do not change them.
    drawn: Vec<Step>,
    given: usize,
    /// The steps after those.
    later: Vec<Step>,
}

/// Number of steps drawn at a time, ahead of their use. A lookup in memory takes as long as some
/// steps, and longer if the processor has to find the page first, but it finds several pages in
/// parallel if many lookups are made in a row.
const DRAWN: usize = 16;

enum Picked {
    Sequential { next: u64 },
    Random,
    Zipf { zipf: Zipf, scramble: Scramble },
    Mixed { mix: &'static Mix, next: u64 },
}

impl Generator {
    pub(crate) fn new(load: &Load) -> Generator {
        let mut random = Random::new(load.seed);
        let blocks = load.blocks();
        let order = match load.order {
            Order::Sequential => Picked::Sequential { next: 0 },
            Order::Random => Picked::Random,
            Order::Mixed(mix) => Picked::Mixed { mix, next: 0 },
            Order::Zipf { exponent } => Picked::Zipf {
                zipf: Zipf::new(blocks, exponent),
                scramble: Scramble::new(blocks, &mut random),
            },
        };
        let [drawn, later] = [Vec::with_capacity(DRAWN), Vec::with_capacity(DRAWN)];
        let load = load.clone();
        let mut generator =
            Generator { load, random, blocks, steps: 0, order, drawn, given: 0, later };
        generator.draw_many();
        generator
    }

    fn draw_many(&mut self) {
        std::mem::swap(&mut self.drawn, &mut self.later);
        self.given = 0;
        self.later.clear();
        (0..DRAWN).for_each(|_| self.draw());
    }

    fn draw(&mut self) {
        let due_ns = match self.load.arrival {
            Arrival::Closed { .. } => None,
            Arrival::Open { interval_ns, .. } => Some(self.steps.saturating_mul(interval_ns)),
        };
        self.steps += 1;
        let at = self.place();
        let reads = match self.load.reads_percent {
            0 => false,
            100.. => true,
            percent => self.random.below(100) < u64::from(percent),
        };
        let operation = if reads { Operation::Read } else { Operation::Write { fua: false } };
        self.later.push(Step { due_ns, operation, at });
    }

    /// Draws the extent of the next request.
    #[inline]
    fn place(&mut self) -> Extent {
        let block = match &mut self.order {
            Picked::Sequential { next } => {
                let block = *next;
                *next = if block + 1 == self.blocks { 0 } else { block + 1 };
                block
            }
            Picked::Random => self.random.below(self.blocks),
            Picked::Zipf { zipf, scramble } => scramble.of(zipf.draw(&mut self.random) - 1),
            Picked::Mixed { mix, next } => {
                let (at, end) = mixed(mix, *next, &self.load, &mut self.random);
                *next = end;
                return at;
            }
        };
        self.load.at(block)
    }
}

/// Draws a request of a mix, and returns it with its end in sectors from the start of the span.
/// `next` is the end of the previous one.
fn mixed(mix: &Mix, next: u64, load: &Load, random: &mut Random) -> (Extent, u64) {
    let all: u32 = mix.sizes.iter().map(|(_, share)| share).sum();
    let mut left = random.below(u64::from(all.max(1))) as u32;
    let drawn = mix.sizes.iter().find(|(_, share)| {
        let is_it = left < *share;
        left = left.saturating_sub(*share);
        is_it
    });
    let sectors = Mix::sectors(drawn.map_or(0, |(bytes, _)| *bytes), load.block_sectors);
    let is_random = random.below(100) < u64::from(mix.random_percent);
    let first = match is_random {
        true => random.below(load.sectors / u64::from(sectors)) * u64::from(sectors),
        false if next + u64::from(sectors) > load.sectors => 0,
        false => next,
    };
    (Extent::new(load.first + first, sectors), first + u64::from(sectors))
}

impl Source for Generator {
    fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        self.load.check(limits)
    }

    #[inline]
    fn next(&mut self) -> Option<Step> {
        if self.given == self.drawn.len() {
            self.draw_many();
        }
        self.given += 1;
        self.drawn.get(self.given - 1).copied()
    }

    fn ahead(&self) -> &[Step] {
        // Given once, with the first of the steps before them.
        if self.given == 1 { &self.later } else { &[] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_its_shares_and_stays_in_its_span() {
        static MIX: Mix = Mix { random_percent: 75, sizes: &[(512, 20), (4096, 70), (65536, 10)] };
        let load = Load::new(Order::Mixed(&MIX), 1024, 1 << 20);
        let load = Load { first: 64, ..load };
        assert_eq!(load.check(&Limits::plain(1 << 20, 0)), Ok(()));
        let mut generator = Generator::new(&load);
        let (mut next, mut follow, mut seen) = (0, 0, [0i32; 3]);
        for _ in 0..10_000 {
            let at = generator.next().expect("it has no end").at;
            assert!(at.first >= 64 && at.end() <= 64 + 2048);
            seen[[2, 8, 128].iter().position(|size| *size == at.count).expect("a size")] += 1;
            follow += u32::from(at.first == next);
            next = at.end();
        }
        for (count, share) in seen.iter().zip([2000, 7000, 1000]) {
            assert!((count - share).abs() < 200, "{seen:?}");
        }
        assert!((2200..2900).contains(&follow), "{follow} follow the one before");
    }
}
